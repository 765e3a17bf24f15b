//! `millrace savepoints`.

use millrace_control_plane::api::view::SavepointView;
use millrace_types::SavepointStatus;
use reqwest::Method;

use crate::{
    args::{OutputFormat, SavepointsCommand},
    client::{CallError, Client},
    exit::{self, Failure},
    out,
    service::LOOK_AGAIN,
    table,
};

pub(super) async fn run(
    command: SavepointsCommand,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    match command {
        SavepointsCommand::Create { job, no_wait } => {
            let path = client.job_path(&job, "savepoints")?;
            let reply = client
                .call::<(), SavepointView>(Method::POST, &path, &[], &[], None)
                .await?;
            let mut savepoint = reply.value;
            if !no_wait {
                savepoint = wait(client, &job, savepoint).await?;
            }
            show(std::slice::from_ref(&savepoint), format)?;
            if savepoint.status == SavepointStatus::Failed {
                let reason = savepoint.failure.as_deref().unwrap_or("no reason is known");
                return Err(Failure::error(
                    exit::FAILED,
                    format!("error: savepoint {} failed: {reason}", savepoint.id),
                ));
            }
            Ok(())
        }
        SavepointsCommand::List { job, limit } => {
            let path = client.job_path(&job, "savepoints")?;
            let savepoints: Vec<SavepointView> = client.list(&path, &[], limit).await?;
            show(&savepoints, format)
        }
        SavepointsCommand::Delete { job, savepoint } => {
            let path = client.job_path(&job, &format!("savepoints/{savepoint}"))?;
            client
                .call::<(), ()>(Method::DELETE, &path, &[], &[], None)
                .await?;
            Ok(())
        }
    }
}

async fn wait(
    client: &Client,
    job: &str,
    savepoint: SavepointView,
) -> anyhow::Result<SavepointView> {
    let path = client.job_path(job, &format!("savepoints/{}", savepoint.id))?;
    let mut savepoint = savepoint;
    while savepoint.status == SavepointStatus::InProgress {
        tokio::time::sleep(LOOK_AGAIN).await;
        match client.get::<SavepointView>(&path, &[]).await {
            Ok(reply) => savepoint = reply.value,
            // The database may be away for a moment.
            Err(CallError::Problem(problem)) if problem.status == 503 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(savepoint)
}

fn show(savepoints: &[SavepointView], format: OutputFormat) -> anyhow::Result<()> {
    match format {
        OutputFormat::Json => out::json(&savepoints)?,
        OutputFormat::Table => {
            let rows: Vec<Vec<String>> = savepoints
                .iter()
                .map(|savepoint| {
                    vec![
                        savepoint.id.to_string(),
                        savepoint.status.to_string(),
                        savepoint.created_at.format("%Y-%m-%d %H:%M:%S").to_string(),
                        table::bytes(savepoint.bytes),
                        savepoint
                            .failure
                            .clone()
                            .or_else(|| savepoint.manifest.clone())
                            .unwrap_or_default(),
                    ]
                })
                .collect();
            let headers = [
                "SAVEPOINT",
                "STATUS",
                "CREATED",
                "SIZE",
                "MANIFEST OR FAILURE",
            ];
            out::line(table::layout(&headers, &rows).trim_end())?;
        }
    }
    Ok(())
}
