//! `millrace jobs`.

mod change;
mod list;
mod watch;

use crate::{
    args::{JobsCommand, OutputFormat},
    client::Client,
};

pub(super) async fn run(
    command: JobsCommand,
    client: &Client,
    format: OutputFormat,
) -> anyhow::Result<()> {
    match command {
        JobsCommand::Create(args) => change::create(args, client, format).await,
        JobsCommand::List(args) => list::list(args, client, format).await,
        JobsCommand::Get(args) => list::get(&args.job, client, format).await,
        JobsCommand::Update(args) => change::update(args, client, format).await,
        JobsCommand::Start(args) => change::start(args, client, format).await,
        JobsCommand::Stop(args) => change::stop(args, client, format).await,
        JobsCommand::Delete(args) => change::delete(args, client, format).await,
        JobsCommand::Events(args) => watch::events(args, client, format).await,
        JobsCommand::Metrics(args) => watch::metrics(args, client, format).await,
        JobsCommand::Output(args) => watch::output(args, client, format).await,
    }
}
