//! Deletes a job for good: what it has staged in its sinks, its objects, its rows.
//!
//! In this order, so that what fails can be repeated while the rows are there. Its workers are
//! gone by then.

use std::{collections::HashSet, sync::Arc};

use millrace_state::{Layout, garbage};
use millrace_types::VersionNumber;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Shared,
    inbox::{Message, Outbox},
    job_task::JobTask,
    patience::persist,
};
use crate::{
    problem::chain,
    store::{Lease, Result},
};

/// Versions that are read at once.
const PAGE: u32 = 20;

struct Forgetting {
    shared: Arc<Shared>,
    lease: Lease,
    layout: Layout,
    outbox: Outbox,
}

impl JobTask {
    pub(super) fn forget(&mut self) {
        let forgetting = Forgetting {
            shared: Arc::clone(&self.shared),
            lease: self.lease.clone(),
            layout: self.layout.clone(),
            outbox: self.outbox.clone(),
        };
        let work = tokio::spawn(forgetting.run());
        self.teardown_work = Some(AbortOnDropHandle::new(work));
    }
}

impl Forgetting {
    async fn run(self) {
        let (shared, job) = (&self.shared, self.lease.job);
        if let Err(error) = self.discard_staged().await {
            return self.failed(&error);
        }
        if let Err(error) = garbage::delete_job(&*shared.storage, &self.layout).await {
            // Asked for again after a while.
            tracing::warn!(%job, error = chain(&error), "the objects of a deleted job could not be deleted");
            return;
        }
        shared.provisioner.forget(job).await;
        match persist("delete a job", || shared.store.forget_job(&self.lease)).await {
            Ok(()) => self.outbox.send(Message::Forgotten),
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &crate::store::StoreError) {
        if error.is_fenced() {
            self.outbox.send(Message::Fenced);
        } else {
            tracing::error!(job = %self.lease.job, error = chain(error), "a job could not be deleted");
        }
    }

    /// Of every version, since each may have had other sinks. A place that cannot be reached, or
    /// a version that does not compile any more, does not keep the job from being deleted.
    async fn discard_staged(&self) -> Result<()> {
        let (shared, job) = (&self.shared, self.lease.job);
        let mut scripts = HashSet::new();
        let mut after: Option<VersionNumber> = None;
        loop {
            let page = persist("read the job's versions", || {
                shared
                    .store
                    .list_versions(&self.lease.tenant, job, after, PAGE)
            })
            .await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = Some(last.number);
            for version in page {
                if !scripts.insert(version.spec.sql.clone()) {
                    continue;
                }
                let compiled = match shared.compiler.compile(version.spec).await {
                    Ok(compiled) => compiled,
                    Err(error) => {
                        tracing::warn!(%job, version = %version.number, error = chain(&error), "what this version of a deleted job may have staged stays where it is");
                        continue;
                    }
                };
                let discard = shared.config.discard_staged.clone();
                let discarded =
                    tokio::task::spawn_blocking(move || discard.discard(&compiled.dataflow, job));
                match discarded.await {
                    Ok(problems) => {
                        for problem in problems {
                            tracing::warn!(%job, problem, "what a deleted job has staged stays where it is");
                        }
                    }
                    Err(error) => tracing::error!(%job, %error, "a clean-up task broke"),
                }
            }
        }
    }
}
