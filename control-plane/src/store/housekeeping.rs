//! Keeps the history of jobs that run for years bounded.

use super::{Lease, Result, Store, convert};

/// Entries of each kind kept per job.
const KEPT: i64 = 1_000;
/// Idempotency keys are remembered this long, in hours.
const KEY_HOURS: i32 = 24;

const EVENTS: &str = "
    DELETE FROM events WHERE job = $1 AND sequence <= (SELECT last_event - $2 FROM jobs WHERE id = $1)";

const CHECKPOINTS: &str = "
    DELETE FROM checkpoints
    WHERE job = $1 AND status IN ('failed', 'deleted')
      AND id <= (SELECT last_checkpoint - $2 FROM jobs WHERE id = $1)";

const EXECUTIONS: &str = "
    DELETE FROM executions
    WHERE job = $1 AND ended_at IS NOT NULL AND id <= (
        SELECT id FROM executions WHERE job = $1 ORDER BY id DESC OFFSET $2 LIMIT 1)";

const WORKERS: &str = "
    DELETE FROM workers
    WHERE job = $1 AND state = 'gone' AND gone_at < now() - interval '1 day'";

const KEYS: &str = "
    DELETE FROM idempotency_keys WHERE created_at < now() - make_interval(hours => $1)";

const HELD: &str = "SELECT 1 FROM jobs WHERE id = $1 AND lease_epoch = $2";

impl Store {
    /// Deletes what is too old to be of interest.
    pub(crate) async fn prune(&self, lease: &Lease) -> Result<()> {
        let held = sqlx::query(HELD)
            .bind(lease.job.0)
            .bind(convert::to_i64(lease.epoch.0))
            .fetch_optional(self.pool())
            .await?;
        if held.is_none() {
            return Err(lease.fenced());
        }
        for query in [EVENTS, CHECKPOINTS, EXECUTIONS] {
            sqlx::query(query)
                .bind(lease.job.0)
                .bind(KEPT)
                .execute(self.pool())
                .await?;
        }
        sqlx::query(WORKERS)
            .bind(lease.job.0)
            .execute(self.pool())
            .await?;
        Ok(())
    }

    /// Forgets idempotency keys that nobody will repeat any more.
    pub(crate) async fn prune_keys(&self) -> Result<()> {
        sqlx::query(KEYS)
            .bind(KEY_HOURS)
            .execute(self.pool())
            .await?;
        Ok(())
    }
}
