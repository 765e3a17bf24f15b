//! `millrace checkpoints`.

use millrace_control_plane::api::view::CheckpointView;

use crate::{
    args::{CheckpointsCommand, OutputFormat},
    client::Client,
    out, table,
};

pub(super) async fn run(
    command: CheckpointsCommand,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    let CheckpointsCommand::List { job, limit } = command;
    let path = client.job_path(&job, "checkpoints")?;
    let checkpoints: Vec<CheckpointView> = client.list(&path, &[], limit).await?;
    match format {
        OutputFormat::Json => out::json(&checkpoints)?,
        OutputFormat::Table => {
            let rows: Vec<Vec<String>> = checkpoints
                .iter()
                .map(|checkpoint| {
                    let took = checkpoint.completed_at.map_or_else(
                        || "-".to_owned(),
                        |end| format!("{} ms", (end - checkpoint.started_at).num_milliseconds()),
                    );
                    vec![
                        checkpoint.id.to_string(),
                        checkpoint.status.to_string(),
                        checkpoint
                            .started_at
                            .format("%Y-%m-%d %H:%M:%S")
                            .to_string(),
                        took,
                        table::bytes(checkpoint.full_bytes),
                        table::bytes(checkpoint.uploaded_bytes),
                        checkpoint.failure.clone().unwrap_or_default(),
                    ]
                })
                .collect();
            let headers = [
                "CHECKPOINT",
                "STATUS",
                "STARTED",
                "TOOK",
                "STATE",
                "UPLOADED",
                "FAILURE",
            ];
            out::line(table::layout(&headers, &rows).trim_end())?;
        }
    }
    Ok(())
}
