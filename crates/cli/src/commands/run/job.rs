//! Submits the script as a job, or finds the one that an earlier run has left.

use millrace_control_plane::api::view::{EventView, JobView, StartRequest};
use millrace_types::{JobId, JobSpec, JobState, StartFrom};
use reqwest::Method;

use crate::client::{CallError, Client};

/// What became of the script.
pub(super) enum Submitted {
    Runs {
        job: JobId,
        /// Number of the last event of earlier runs.
        seen: u64,
    },
    /// An earlier run has read all inputs to their end.
    HadFinished,
}

pub(super) async fn submit(client: &Client, spec: &JobSpec) -> anyhow::Result<Submitted> {
    let path = client.job_path(spec.name.as_str(), "")?;
    let found = match client.get::<JobView>(&path, &[]).await {
        Ok(found) => found,
        Err(CallError::Problem(problem)) if problem.code == "job-not-found" => {
            let jobs = client.tenant_path("jobs");
            let reply = client
                .call::<_, JobView>(Method::POST, &jobs, &[], &[], Some(spec))
                .await?;
            return Ok(Submitted::Runs {
                job: reply.value.id,
                seen: 0,
            });
        }
        Err(error) => return Err(error.into()),
    };
    let mut job = found.value;
    let events = client.job_path(spec.name.as_str(), "events")?;
    let events: Vec<EventView> = client.list(&events, &[], usize::MAX).await?;
    let seen = events.last().map_or(0, |event| event.sequence);
    let changed = job.spec != *spec;
    if changed {
        let headers: Vec<(&'static str, String)> = found
            .etag
            .map(|etag| ("if-match", etag))
            .into_iter()
            .collect();
        let mut spec = spec.clone();
        // Fixed when the job was created.
        spec.max_parallelism = job.spec.max_parallelism;
        job = client
            .call::<_, JobView>(Method::PUT, &path, &[], &headers, Some(&spec))
            .await?
            .value;
    }
    if job.state == JobState::Finished && !changed {
        return Ok(Submitted::HadFinished);
    }
    if !job.state.is_active() {
        let start = client.job_path(spec.name.as_str(), "start")?;
        let request = StartRequest {
            from: StartFrom::Latest,
        };
        client
            .call::<_, JobView>(Method::POST, &start, &[], &[], Some(&request))
            .await?;
    }
    Ok(Submitted::Runs { job: job.id, seen })
}
