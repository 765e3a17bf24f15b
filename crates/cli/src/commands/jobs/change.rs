//! Creating, changing, starting, stopping and deleting jobs.

use millrace_control_plane::api::view::{JobView, StartRequest, StopRequest};
use millrace_types::{JobSpec, JobState, SavepointId, StartFrom};
use reqwest::Method;

use super::list::show;
use crate::{
    args::{CreateArgs, DeleteArgs, OutputFormat, StartArgs, StopArgs, UpdateArgs},
    client::{CallError, Client},
    commands::{has_started, spec, wait_for},
    exit::{self, Failure},
    out,
    script::JobFile,
    service::LOOK_AGAIN,
};

pub(super) async fn create(
    args: CreateArgs,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let file = JobFile::read(&args.spec.file)?;
    let mut job_spec = match &file {
        JobFile::Script(script) => JobSpec::new(script.job_name(), script.sql()),
        JobFile::Spec { spec, .. } => (**spec).clone(),
    };
    spec::apply(&args.spec, &mut job_spec);
    if let Some(name) = args.name {
        job_spec.name = name;
    }
    let query = [("start", (!args.no_start).to_string())];
    let headers: Vec<(&'static str, String)> = args
        .idempotency_key
        .map(|key| ("idempotency-key", key))
        .into_iter()
        .collect();
    let path = client.tenant_path("jobs");
    let reply = client
        .call::<_, JobView>(Method::POST, &path, &query, &headers, Some(&job_spec))
        .await
        .map_err(|error| spec::explain_error(error, &file))?;
    let mut job = reply.value;
    if args.wait && !args.no_start {
        job = wait_for(client, job.id, |job| has_started(job.state)).await?;
    }
    show(&job, format)?;
    refuse_failed(&job)
}

pub(super) async fn update(
    args: UpdateArgs,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let file = JobFile::read(&args.spec.file)?;
    let path = client.job_path(&args.job, "")?;
    let current = client.get::<JobView>(&path, &[]).await?;
    let mut job_spec = match &file {
        JobFile::Script(script) => {
            let mut job_spec = current.value.spec;
            job_spec.sql = script.sql();
            job_spec
        }
        JobFile::Spec { spec, .. } => (**spec).clone(),
    };
    spec::apply(&args.spec, &mut job_spec);
    let headers: Vec<(&'static str, String)> = current
        .etag
        .map(|etag| ("if-match", etag))
        .into_iter()
        .collect();
    let reply = client
        .call::<_, JobView>(Method::PUT, &path, &[], &headers, Some(&job_spec))
        .await
        .map_err(|error| spec::explain_error(error, &file))?;
    show(&reply.value, format)?;
    if let OutputFormat::Table = format {
        for change in &reply.value.state_diff {
            out::line(&format!(
                "{:<12} {:<8} {}: {}",
                "state", change.state, change.node, change.detail
            ))?;
        }
    }
    Ok(())
}

pub(super) async fn start(
    args: StartArgs,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let from = match (args.savepoint, args.empty) {
        (Some(number), _) => StartFrom::Savepoint(SavepointId(number)),
        (None, true) => StartFrom::Empty,
        (None, false) => StartFrom::Latest,
    };
    let path = client.job_path(&args.job, "start")?;
    let request = StartRequest { from };
    let reply = client
        .call::<_, JobView>(Method::POST, &path, &[], &[], Some(&request))
        .await?;
    let mut job = reply.value;
    if args.wait {
        job = wait_for(client, job.id, |job| has_started(job.state)).await?;
    }
    show(&job, format)?;
    refuse_failed(&job)
}

pub(super) async fn stop(
    args: StopArgs,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let path = client.job_path(&args.job, "stop")?;
    let request = StopRequest {
        mode: args.mode.into(),
    };
    let reply = client
        .call::<_, JobView>(Method::POST, &path, &[], &[], Some(&request))
        .await?;
    let mut job = reply.value;
    if args.wait {
        job = wait_for(client, job.id, |job| !job.state.is_active()).await?;
    }
    show(&job, format)?;
    refuse_failed(&job)
}

pub(super) async fn delete(
    args: DeleteArgs,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let path = client.job_path(&args.job, "")?;
    let query = [("force", args.force.to_string())];
    let reply = client
        .call::<(), JobView>(Method::DELETE, &path, &query, &[], None)
        .await?;
    if !args.wait {
        return show(&reply.value, format);
    }
    // By its id: another job may take the name at once.
    let path = client.job_path(&reply.value.id.to_string(), "")?;
    loop {
        match client.get::<JobView>(&path, &[]).await {
            Ok(_) => tokio::time::sleep(LOOK_AGAIN).await,
            Err(CallError::Problem(problem)) if problem.code == "job-not-found" => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A job that was waited for and failed is a failure of the command.
fn refuse_failed(job: &JobView) -> anyhow::Result<()> {
    if job.state == JobState::Failed {
        let reason = job.reason.as_deref().unwrap_or("no reason is known");
        return Err(Failure::error(
            exit::FAILED,
            format!("error: job {} failed: {reason}", job.name),
        ));
    }
    Ok(())
}
