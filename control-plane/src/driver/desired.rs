//! Turns what the owner has asked for into events of the lifecycle.

use millrace_coordination::{
    checkpoint::Input,
    lifecycle::{Change, Event, Policy, Restore, StartAt, Target},
};
use millrace_types::{DesiredState, JobSpec, SavepointStatus, StartFrom, StopMode};

use super::{
    job_task::{Flow, JobTask, Work},
    patience::persist,
};
use crate::store::{DrivenJob, SavepointErrand, StoreError};

/// What the lifecycle obeys of a spec.
pub(super) fn policy(spec: &JobSpec) -> Policy {
    Policy {
        restart: spec.restart.clone(),
        upgrade: spec.upgrade,
        checkpoint_interval_ms: spec.checkpointing.interval.0,
    }
}

/// Whether a new version only changes how many subtasks and workers there are.
fn change(old: &JobSpec, new: &JobSpec) -> Change {
    let mut resized = old.clone();
    resized.parallelism = new.parallelism;
    resized.resources = new.resources.clone();
    // How it gets there is not what it is.
    resized.upgrade = new.upgrade;
    if resized == *new {
        Change::Rescale
    } else {
        Change::Upgrade
    }
}

impl JobTask {
    /// Looks at the job's row and does what is new there.
    pub(super) async fn refresh(&mut self) -> Flow {
        let row = persist("look at the job", || {
            self.shared.store.load_job(&self.lease)
        })
        .await?;
        if row.revision > self.observed_revision {
            self.observe(&row).await?;
        }
        if row.errands {
            self.errands().await?;
        }
        Ok(())
    }

    async fn observe(&mut self, row: &DrivenJob) -> Flow {
        if row.version != self.job.wanted_version() {
            let target = self.target(row).await?;
            let savepoint = persist("number a savepoint", || {
                self.shared.store.next_savepoint(&self.lease)
            })
            .await?;
            self.run_work(Work::Event(Event::NewVersion { target, savepoint }))
                .await?;
        }
        let asked = row.command > self.observed_command;
        self.observed_revision = row.revision;
        self.observed_command = row.command;
        let before = self.step;
        if asked && let Some(event) = self.request(row).await? {
            self.run_work(Work::Event(event)).await?;
        }
        if self.step == before {
            // Nothing came of it, which is to be noted too.
            self.commit(self.job.clone(), &[]).await?;
        }
        Ok(())
    }

    async fn target(&self, row: &DrivenJob) -> Flow<Target> {
        let load = |version| {
            persist("load the job's spec", move || {
                self.shared.store.leased_version(&self.lease, version)
            })
        };
        let new = load(row.version).await?;
        let change = match load(self.job.context.version).await {
            Ok(old) => change(&old.spec, &new.spec),
            Err(StoreError::VersionNotFound { .. }) => Change::Upgrade,
            Err(error) => return Err(error.into()),
        };
        Ok(Target {
            version: row.version,
            policy: policy(&new.spec),
            change,
        })
    }

    async fn request(&mut self, row: &DrivenJob) -> Flow<Option<Event>> {
        Ok(match row.desired {
            DesiredState::Running => match row.start_from {
                StartFrom::Latest => Some(Event::Start {
                    from: StartAt::Latest,
                }),
                StartFrom::Empty => Some(Event::Start {
                    from: StartAt::Exactly(Restore::Empty),
                }),
                StartFrom::Savepoint(savepoint) => {
                    let record = persist("look for a savepoint", || {
                        self.shared.store.get_savepoint(
                            &self.lease.tenant,
                            self.lease.job,
                            savepoint,
                        )
                    })
                    .await;
                    let found = match record {
                        Ok(record) if record.status == SavepointStatus::Completed => {
                            record.checkpoint
                        }
                        Ok(_) | Err(StoreError::SavepointNotFound { .. }) => None,
                        Err(error) => return Err(error.into()),
                    };
                    match found {
                        Some(checkpoint) => Some(Event::Start {
                            from: StartAt::Exactly(Restore::Savepoint {
                                savepoint,
                                checkpoint,
                            }),
                        }),
                        None => {
                            let message =
                                format!("not started: savepoint {savepoint} was deleted meanwhile");
                            self.record("error", "start-failed", message).await?;
                            None
                        }
                    }
                }
            },
            DesiredState::Stopped => {
                let savepoint = match row.stop_mode {
                    StopMode::Now => row.last_savepoint,
                    StopMode::Savepoint | StopMode::Drain => {
                        persist("number a savepoint", || {
                            self.shared.store.next_savepoint(&self.lease)
                        })
                        .await?
                    }
                };
                Some(Event::Stop {
                    mode: row.stop_mode,
                    savepoint,
                })
            }
            DesiredState::Canceled => Some(Event::Cancel),
            DesiredState::Deleted => Some(Event::Delete),
        })
    }

    /// Savepoints that people want taken or deleted.
    async fn errands(&mut self) -> Flow {
        let errands = persist("look for savepoints to take", || {
            self.shared.store.savepoint_errands(&self.lease)
        })
        .await?;
        for errand in errands {
            match errand {
                SavepointErrand::Take(savepoint) => {
                    self.run_work(Work::Input(Input::Savepoint { savepoint }))
                        .await?;
                }
                SavepointErrand::Purge(savepoint) => self.garbage.purge(savepoint),
            }
        }
        persist("note that nothing is left to do", || {
            self.shared.store.clear_errands(&self.lease)
        })
        .await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millrace_types::{JobName, UpgradeMode};

    use super::*;

    #[test]
    fn only_another_size_is_a_rescale() {
        let old = JobSpec::new(JobName::new("j").unwrap(), "INSERT INTO a SELECT 1");
        let mut wider = old.clone();
        wider.parallelism = 4;
        wider.resources.workers = 2;
        wider.upgrade = UpgradeMode::LastState;
        assert_eq!(change(&old, &wider), Change::Rescale);
        wider.sql = "INSERT INTO a SELECT 2".into();
        assert_eq!(change(&old, &wider), Change::Upgrade);
    }
}
