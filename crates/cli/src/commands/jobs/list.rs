//! Listing and showing jobs.

use millrace_control_plane::api::view::JobView;
use millrace_types::Condition;

use crate::{
    args::{ListArgs, OutputFormat},
    client::Client,
    out, table,
};

pub(super) async fn list(
    args: ListArgs,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let mut query = Vec::new();
    if let Some(state) = args.state {
        query.push(("state", state));
    }
    if let Some(name) = args.name {
        query.push(("name", name));
    }
    let jobs: Vec<JobView> = client
        .list(&client.tenant_path("jobs"), &query, args.limit)
        .await?;
    match format {
        OutputFormat::Json => out::json(&jobs)?,
        OutputFormat::Table => {
            let rows: Vec<Vec<String>> = jobs
                .iter()
                .map(|job| {
                    vec![
                        job.name.to_string(),
                        state_text(job),
                        job.version.to_string(),
                        job.spec.parallelism.to_string(),
                        job.created_at.format("%Y-%m-%d %H:%M:%S").to_string(),
                        job.id.to_string(),
                    ]
                })
                .collect();
            let headers = ["NAME", "STATE", "VERSION", "PARALLELISM", "CREATED", "ID"];
            out::line(table::layout(&headers, &rows).trim_end())?;
        }
    }
    Ok(())
}

pub(super) async fn get(job: &str, client: &Client, format: OutputFormat) -> anyhow::Result<()> {
    let path = client.job_path(job, "")?;
    let job = client.get::<JobView>(&path, &[]).await?.value;
    show(&job, format)
}

/// Prints one job.
pub(super) fn show(job: &JobView, format: OutputFormat) -> anyhow::Result<()> {
    match format {
        OutputFormat::Json => out::json(job)?,
        OutputFormat::Table => {
            let mut lines = vec![
                ("name", job.name.to_string()),
                ("id", job.id.to_string()),
                ("state", state_text(job)),
                ("desired", job.desired.to_string()),
                ("version", job.version.to_string()),
                ("parallelism", job.spec.parallelism.to_string()),
                ("workers", job.spec.resources.workers.to_string()),
                (
                    "created",
                    job.created_at.format("%Y-%m-%d %H:%M:%S").to_string(),
                ),
            ];
            if let Some(execution) = job.execution {
                lines.push(("execution", execution.to_string()));
            }
            if job.failures > 0 {
                lines.push(("failures", job.failures.to_string()));
            }
            if let Some(reason) = &job.reason {
                lines.push(("reason", reason.clone()));
            }
            for (name, value) in lines {
                out::line(&format!("{name:<12} {value}"))?;
            }
        }
    }
    Ok(())
}

fn state_text(job: &JobView) -> String {
    match job.condition {
        Condition::Healthy => job.state.to_string(),
        Condition::Degraded => format!("{} (degraded)", job.state),
    }
}
