//! A job's history.

use chrono::{DateTime, Utc};
use millrace_types::{JobId, TenantName};
use sqlx::PgConnection;

use super::{JobRef, Lease, Result, Store, StoreError, convert, jobs::job_not_found};

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRecord {
    /// From 1, without gaps.
    pub sequence: u64,
    pub at: DateTime<Utc>,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// A stable name for programs.
    pub kind: String,
    pub message: String,
}

/// An entry to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewEvent {
    pub severity: &'static str,
    pub kind: String,
    pub message: String,
}

/// Longest message stored, in characters.
const MAX_MESSAGE: usize = 4_000;

#[derive(sqlx::FromRow)]
struct EventRow {
    sequence: i64,
    at: DateTime<Utc>,
    severity: String,
    kind: String,
    message: String,
}

impl TryFrom<EventRow> for EventRecord {
    type Error = StoreError;

    fn try_from(row: EventRow) -> Result<Self> {
        Ok(EventRecord {
            sequence: convert::to_u64("event number", row.sequence)?,
            at: row.at,
            severity: row.severity,
            kind: row.kind,
            message: row.message,
        })
    }
}

const LIST: &str = "
    SELECT sequence, at, severity, kind, message FROM events
    WHERE tenant = $1 AND job = $2 AND sequence > $3
    ORDER BY sequence LIMIT $4";

const INSERT: &str = "
    WITH number AS (
        UPDATE jobs SET last_event = last_event + 1 WHERE id = $2 RETURNING last_event)
    INSERT INTO events (tenant, job, sequence, severity, kind, message)
    SELECT $1, $2, last_event, $3, $4, $5 FROM number
    RETURNING sequence, at, severity, kind, message";

impl Store {
    /// What came after entry `after` (0: everything), oldest first. An unknown job is an error,
    /// so that a reader who waits for more learns that there will be none.
    pub(crate) async fn list_events(
        &self,
        tenant: &TenantName,
        job: JobId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<EventRecord>> {
        let rows: Vec<EventRow> = sqlx::query_as(LIST)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(convert::to_i64(after))
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await?;
        if rows.is_empty() {
            let known = sqlx::query("SELECT 1 FROM jobs WHERE tenant = $1 AND id = $2")
                .bind(tenant.as_str())
                .bind(job.0)
                .fetch_optional(self.pool())
                .await?;
            if known.is_none() {
                return Err(job_not_found(tenant, &JobRef::Id(job)));
            }
        }
        rows.into_iter().map(EventRecord::try_from).collect()
    }

    /// Adds an entry outside of a lifecycle step.
    pub(crate) async fn record_event(&self, lease: &Lease, event: &NewEvent) -> Result<()> {
        let mut tx = self.begin_fenced(lease).await?;
        insert(&mut tx, lease, event).await?;
        tx.commit().await?;
        Ok(())
    }
}

pub(super) async fn insert(
    connection: &mut PgConnection,
    lease: &Lease,
    event: &NewEvent,
) -> Result<EventRecord> {
    insert_for(connection, &lease.tenant, lease.job, event).await
}

/// Adds an entry in a transaction that no driver makes.
pub(super) async fn insert_for(
    connection: &mut PgConnection,
    tenant: &TenantName,
    job: JobId,
    event: &NewEvent,
) -> Result<EventRecord> {
    // Postgres text holds no NUL.
    let message: String = event
        .message
        .chars()
        .filter(|char| *char != '\0')
        .take(MAX_MESSAGE)
        .collect();
    let row: EventRow = sqlx::query_as(INSERT)
        .bind(tenant.as_str())
        .bind(job.0)
        .bind(event.severity)
        .bind(&event.kind)
        .bind(message)
        .fetch_one(connection)
        .await?;
    row.try_into()
}
