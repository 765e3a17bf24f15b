//! What each command does.

mod checkpoints;
mod control_plane;
mod jobs;
mod run;
mod savepoints;
mod spec;
mod sql;
mod up;
mod worker;

use millrace_types::{JobId, JobState};

use crate::{
    args::{Args, Command, Global, OutputFormat},
    client::{CallError, Client},
    service::LOOK_AGAIN,
};

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let Args { global, command } = args;
    match command {
        Command::Up(args) => up::run(args).await,
        Command::Run(args) => run::run(args, global.output.unwrap_or(OutputFormat::Json)).await,
        Command::ControlPlane(args) => control_plane::run(args).await,
        Command::Worker(args) => worker::run(args).await,
        Command::Sql(command) => sql::run(command, format(&global)).await,
        Command::Jobs(command) => jobs::run(command, &client(&global)?, format(&global)).await,
        Command::Savepoints(command) => {
            savepoints::run(command, &client(&global)?, format(&global)).await
        }
        Command::Checkpoints(command) => {
            checkpoints::run(command, &client(&global)?, format(&global)).await
        }
    }
}

fn client(global: &Global) -> anyhow::Result<Client> {
    Client::new(&global.server, global.tenant.clone())
}

fn format(global: &Global) -> OutputFormat {
    global.output.unwrap_or(OutputFormat::Table)
}

/// Waits until a job's state satisfies `done`.
async fn wait_for(
    client: &Client,
    job: JobId,
    mut done: impl FnMut(&millrace_control_plane::api::view::JobView) -> bool,
) -> anyhow::Result<millrace_control_plane::api::view::JobView> {
    let path = client.job_path(&job.to_string(), "")?;
    loop {
        match client
            .get::<millrace_control_plane::api::view::JobView>(&path, &[])
            .await
        {
            Ok(reply) if done(&reply.value) => return Ok(reply.value),
            Ok(_) => {}
            // The database may be away for a moment.
            Err(CallError::Problem(problem)) if problem.status == 503 => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Whether a job that was asked to start has come as far as it will for now.
fn has_started(state: JobState) -> bool {
    match state {
        JobState::Created | JobState::Starting | JobState::Upgrading | JobState::Rescaling => false,
        JobState::Running
        | JobState::Restarting
        | JobState::Stopping
        | JobState::Stopped
        | JobState::Finished
        | JobState::Failed
        | JobState::Canceled => true,
    }
}
