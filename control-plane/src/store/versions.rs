//! Versions of a job's spec.

use chrono::{DateTime, Utc};
use millrace_types::{Fingerprint, JobId, JobSpec, TenantName, VersionNumber};
use serde_json::Value;

use super::{Lease, Result, Store, StoreError, convert};

/// One version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VersionRecord {
    pub number: VersionNumber,
    pub spec: JobSpec,
    pub fingerprint: Fingerprint,
    pub created_at: DateTime<Utc>,
    /// Why it was given up, if it was.
    pub rolled_back_reason: Option<String>,
}

#[derive(sqlx::FromRow)]
struct VersionRow {
    version: i64,
    spec: Value,
    fingerprint: String,
    created_at: DateTime<Utc>,
    rolled_back_reason: Option<String>,
}

impl TryFrom<VersionRow> for VersionRecord {
    type Error = StoreError;

    fn try_from(row: VersionRow) -> Result<Self> {
        Ok(VersionRecord {
            number: convert::version(row.version)?,
            spec: convert::from_json("job spec", row.spec)?,
            fingerprint: Fingerprint(row.fingerprint),
            created_at: row.created_at,
            rolled_back_reason: row.rolled_back_reason,
        })
    }
}

const LIST: &str = "
    SELECT version, spec, fingerprint, created_at, rolled_back_reason FROM job_versions
    WHERE tenant = $1 AND job = $2 AND ($3::bigint IS NULL OR version < $3)
    ORDER BY version DESC LIMIT $4";

const ONE: &str = "
    SELECT version, spec, fingerprint, created_at, rolled_back_reason FROM job_versions
    WHERE tenant = $1 AND job = $2 AND version = $3";

impl Store {
    /// Newest first; `after` is the last one of the page before.
    pub(crate) async fn list_versions(
        &self,
        tenant: &TenantName,
        job: JobId,
        after: Option<VersionNumber>,
        limit: u32,
    ) -> Result<Vec<VersionRecord>> {
        let rows: Vec<VersionRow> = sqlx::query_as(LIST)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(after.map(|version| i64::from(version.0)))
            .bind(i64::from(limit))
            .fetch_all(self.pool())
            .await?;
        rows.into_iter().map(VersionRecord::try_from).collect()
    }

    pub(crate) async fn get_version(
        &self,
        tenant: &TenantName,
        job: JobId,
        version: VersionNumber,
    ) -> Result<VersionRecord> {
        let row: Option<VersionRow> = sqlx::query_as(ONE)
            .bind(tenant.as_str())
            .bind(job.0)
            .bind(i64::from(version.0))
            .fetch_optional(self.pool())
            .await?;
        row.ok_or_else(|| StoreError::VersionNotFound {
            job,
            version: version.to_string(),
        })?
        .try_into()
    }

    /// As [`Store::get_version`], for the driver.
    pub(crate) async fn leased_version(
        &self,
        lease: &Lease,
        version: VersionNumber,
    ) -> Result<VersionRecord> {
        self.get_version(&lease.tenant, lease.job, version).await
    }
}
