//! What a job's task makes of the messages it gets.

use std::time::Duration;

use millrace_coordination::{
    checkpoint::Input,
    lifecycle::{Event, Failure, Phase, State},
};
use millrace_protocol::v1;
use millrace_types::WorkerId;
use tokio::time::Instant;

use super::{
    inbox::Message,
    job_task::{End, Flow, JobTask, Work},
    patience::persist,
};
use crate::{
    provision::{WorkerExit, WorkerHandle},
    store::NewEvent,
};

/// A failure waits this long for the news of a worker's end that may be behind it.
const SUSPICION: Duration = Duration::from_millis(300);

impl JobTask {
    pub(super) async fn receive(&mut self, message: Message) -> Flow {
        match message {
            Message::Event(event) => self.run_work(Work::Event(event)).await,
            Message::Input(input) => self.run_work(Work::Input(input)).await,
            Message::Suspect { execution, failure } => {
                if self.job.execution() == Some(execution) && self.suspicion.is_none() {
                    self.suspicion = Some((Instant::now() + SUSPICION, execution, failure));
                }
                Ok(())
            }
            Message::Part(part) => self.part(*part).await,
            Message::Attached { worker, status } => self.attached(worker, *status).await,
            Message::Notice(notice) => self.notice(notice).await,
            // Its process may still be there: the teardown that follows ends it.
            Message::Lost { worker, reason } => self.lost(worker, reason).await,
            Message::Exit(exit) => self.exited(exit).await,
            Message::CrewReady {
                execution,
                plan,
                crew,
            } => {
                // Of an attempt that was given up meanwhile: the workers are ended with it.
                if self.job.execution() == Some(execution) {
                    self.crew = crew;
                    self.plan = Some(*plan);
                    self.run_work(Work::Event(Event::WorkersReady { execution }))
                        .await?;
                }
                Ok(())
            }
            Message::TornDown {
                teardown,
                execution,
                survivors,
            } => {
                if teardown != self.teardown {
                    return Ok(());
                }
                self.teardown_work = None;
                self.crew
                    .retain(|member| survivors.contains(&member.worker));
                self.run_work(Work::Event(Event::TornDown { execution }))
                    .await
            }
            Message::Persisted {
                execution,
                barrier,
                manifest,
            } => {
                if barrier.savepoint.is_none() {
                    self.manifests.insert(barrier.checkpoint, *manifest);
                }
                let ours = self
                    .coordinator
                    .as_ref()
                    .is_some_and(|coordinator| coordinator.execution() == execution);
                if ours {
                    self.run_work(Work::Input(Input::Persisted {
                        checkpoint: barrier.checkpoint,
                    }))
                    .await
                } else {
                    // It became durable just before its execution was closed.
                    self.run_work(Work::Event(Event::CheckpointCompleted {
                        execution,
                        checkpoint: barrier.checkpoint,
                        savepoint: barrier.savepoint,
                    }))
                    .await
                }
            }
            Message::Fenced => Err(End::Fenced),
            Message::Forgotten => {
                self.shared.live.remove(self.lease.job);
                Err(End::Forgotten)
            }
        }
    }

    async fn notice(&mut self, notice: v1::Notice) -> Flow {
        let severity = match notice.severity.as_str() {
            "error" => "error",
            "warning" | "warn" => "warning",
            _ => "info",
        };
        self.record(severity, "worker-notice", notice.message).await
    }

    /// Adds an entry to the job's history.
    pub(super) async fn record(
        &mut self,
        severity: &'static str,
        kind: &str,
        message: String,
    ) -> Flow {
        let event = NewEvent {
            severity,
            kind: kind.to_owned(),
            message,
        };
        persist("record an event", || {
            self.shared.store.record_event(&self.lease, &event)
        })
        .await?;
        Ok(())
    }

    /// A worker's process has ended.
    async fn exited(&mut self, exit: WorkerExit) -> Flow {
        if self.yard.was_dismissed(exit.worker) {
            return Ok(());
        }
        persist("note the end of a worker", || {
            self.shared
                .store
                .worker_gone(&self.lease, exit.worker, &exit.reason)
        })
        .await?;
        let gone = WorkerHandle {
            job: self.lease.job,
            worker: exit.worker,
            pid: None,
        };
        let provisioner = self.shared.provisioner.clone();
        tokio::spawn(async move { provisioner.clean(gone).await });
        self.lost(exit.worker, exit.reason).await
    }

    /// A worker does not work any more.
    async fn lost(&mut self, worker: WorkerId, reason: String) -> Flow {
        let known = self.crew.iter().any(|member| member.worker == worker);
        for lost in self.crew.extract_if(.., |member| member.worker == worker) {
            lost.gone.cancel();
        }
        // One that was never in the crew was being started.
        let matters = known
            || matches!(
                self.job.state,
                State::Starting {
                    phase: Phase::Provisioning,
                    ..
                }
            );
        if matters && let Some(execution) = self.job.execution() {
            // This is the cause of whatever was suspected.
            self.suspicion = None;
            self.run_work(Work::Event(Event::Failed {
                execution,
                failure: Failure::retryable(reason),
            }))
            .await?;
        }
        Ok(())
    }
}
