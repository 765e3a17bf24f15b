//! Follows a job to its end: progress, events, Ctrl-C, the time limit.

use std::{io, sync::atomic::Ordering, time::Duration};

use millrace_control_plane::api::view::{EventView, JobMetricsView, JobView, StopRequest};
use millrace_types::{Condition, JobId, JobState, StopMode};
use reqwest::Method;
use tokio::time::{Instant, MissedTickBehavior};

use super::output::Printing;
use crate::{
    client::{CallError, Client},
    progress::Progress,
    service::Signals,
};

/// Between two looks at the job.
const LOOK: Duration = Duration::from_millis(250);
/// Between two updates of the progress.
const PROGRESS: Duration = Duration::from_secs(1);
/// After the job has ended, its last rows arrive within this.
const LAST_ROWS: Duration = Duration::from_secs(30);
/// A savepoint of a job that is stopped by its time limit has this long.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// How a run ended.
pub(super) enum Ending {
    Finished,
    /// Nothing was left to do.
    HadFinished,
    /// Nobody reads stdout any more.
    ReaderGone,
    Failed(String),
    /// By Ctrl-C; `saved`: with a final snapshot.
    Interrupted {
        saved: bool,
    },
    TimedOut {
        saved: bool,
    },
}

/// One job and whoever waits for it.
pub(super) struct Follow<'a> {
    pub(super) client: &'a Client,
    pub(super) job: JobId,
    /// Number of the last event that is not of this run.
    pub(super) seen: u64,
    pub(super) timeout: Option<Duration>,
    pub(super) progress: &'a mut Progress,
    pub(super) signals: &'a mut Signals,
}

/// Why the job is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopping {
    Interrupt,
    Timeout,
}

impl Follow<'_> {
    pub(super) async fn until_it_ends(mut self, mut printing: Printing) -> anyhow::Result<Ending> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_progress = Instant::now();
        let mut last_event = self.seen;
        let mut stopping: Option<(Stopping, Instant)> = None;
        let mut all_printed = false;
        let job = loop {
            tokio::select! {
                printed = &mut printing.task, if !all_printed => {
                    if reader_gone(printed)? {
                        self.stop(StopMode::Now).await?;
                        return Ok(Ending::ReaderGone);
                    }
                    // Every row is out: the state follows within moments.
                    all_printed = true;
                }
                () = self.signals.next() => match stopping {
                    None => {
                        self.progress.note("stopping with a final checkpoint; Ctrl-C again stops at once");
                        self.stop(StopMode::Savepoint).await?;
                        stopping = Some((Stopping::Interrupt, Instant::now()));
                    }
                    Some(_) => {
                        self.stop(StopMode::Now).await?;
                        return Ok(Ending::Interrupted { saved: false });
                    }
                },
                () = sleep_until(deadline), if stopping.is_none() => {
                    self.progress.note("--timeout ran out: stopping with a final checkpoint");
                    self.stop(StopMode::Savepoint).await?;
                    stopping = Some((Stopping::Timeout, Instant::now()));
                }
                _ = look.tick() => {
                    last_event = self.show_events(last_event).await?;
                    let Some(job) = self.look().await? else { continue };
                    if !job.state.is_active() {
                        break job;
                    }
                    if job.condition == Condition::Degraded && stopping.is_none() {
                        self.stop(StopMode::Now).await?;
                        let reason = job.reason.unwrap_or_else(|| "it keeps failing".to_owned());
                        return Ok(Ending::Failed(reason));
                    }
                    if let Some((Stopping::Timeout, since)) = stopping
                        && since.elapsed() > STOP_PATIENCE
                    {
                        self.stop(StopMode::Now).await?;
                        return Ok(Ending::TimedOut { saved: false });
                    }
                    if last_progress.elapsed() >= PROGRESS {
                        last_progress = Instant::now();
                        self.show_progress(&printing).await?;
                    }
                }
            }
        };
        if !all_printed {
            match tokio::time::timeout(LAST_ROWS, &mut printing.task).await {
                Ok(printed) => {
                    if reader_gone(printed)? {
                        return Ok(Ending::ReaderGone);
                    }
                }
                Err(_) => self
                    .progress
                    .note("warning: the job has ended, but its last rows did not arrive"),
            }
        }
        self.show_events(last_event).await?;
        let saved = job.state == JobState::Stopped;
        Ok(match (job.state, stopping) {
            (JobState::Finished, _) => Ending::Finished,
            (JobState::Failed, _) => Ending::Failed(
                job.reason
                    .unwrap_or_else(|| "no reason is known".to_owned()),
            ),
            (_, Some((Stopping::Interrupt, _))) => Ending::Interrupted { saved },
            (_, Some((Stopping::Timeout, _))) => Ending::TimedOut { saved },
            (state, None) => {
                Ending::Failed(format!("the job is {state}, though nobody here stopped it"))
            }
        })
    }

    async fn stop(&mut self, mode: StopMode) -> anyhow::Result<()> {
        let path = self.client.job_path(&self.job.to_string(), "stop")?;
        let request = StopRequest { mode };
        match self
            .client
            .call::<_, JobView>(Method::POST, &path, &[], &[], Some(&request))
            .await
        {
            Ok(_) => Ok(()),
            // It has ended by itself in the meantime.
            Err(CallError::Problem(problem)) if problem.code == "invalid-transition" => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The job, unless the database is away for a moment.
    async fn look(&self) -> anyhow::Result<Option<JobView>> {
        let path = self.client.job_path(&self.job.to_string(), "")?;
        optional(self.client.get::<JobView>(&path, &[]).await)
    }

    /// Shows warnings and errors of the job's history.
    async fn show_events(&mut self, after: u64) -> anyhow::Result<u64> {
        let path = self.client.job_path(&self.job.to_string(), "events")?;
        let query = [("after", after.to_string())];
        let events = self.client.list::<EventView>(&path, &query, 500).await;
        let mut last = after;
        for event in optional_list(events)? {
            last = event.sequence;
            if event.severity != "info" {
                self.progress
                    .note(&format!("{}: {}", event.severity, event.message));
            }
        }
        Ok(last)
    }

    async fn show_progress(&mut self, printing: &Printing) -> anyhow::Result<()> {
        let path = self.client.job_path(&self.job.to_string(), "metrics")?;
        if let Some(metrics) = optional(self.client.get::<JobMetricsView>(&path, &[]).await)?
            && !metrics.operators.is_empty()
        {
            self.progress
                .update(&metrics, printing.printed.load(Ordering::Relaxed));
        }
        Ok(())
    }
}

/// Nothing, if the database is away for a moment.
fn optional<T>(reply: Result<crate::client::Reply<T>, CallError>) -> anyhow::Result<Option<T>> {
    match reply {
        Ok(reply) => Ok(Some(reply.value)),
        Err(CallError::Problem(problem)) if problem.status == 503 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn optional_list<T>(reply: Result<Vec<T>, CallError>) -> anyhow::Result<Vec<T>> {
    match reply {
        Ok(items) => Ok(items),
        Err(CallError::Problem(problem)) if problem.status == 503 => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Whether printing ended because nobody reads stdout any more.
fn reader_gone(printed: Result<io::Result<()>, tokio::task::JoinError>) -> anyhow::Result<bool> {
    match printed? {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(anyhow::Error::new(error).context("cannot write rows to stdout")),
    }
}
