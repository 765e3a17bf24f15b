//! `millrace sql`: checking scripts without a service.

use millrace_control_plane::{
    api::view::{ExplainView, ValidationView},
    offline,
};
use millrace_types::JobSpec;

use crate::{
    args::{OutputFormat, SqlArgs, SqlCommand},
    exit::{self, Failure},
    out, problem_text,
    script::Script,
    service::compiler,
};

pub(super) async fn run(command: SqlCommand, format: OutputFormat) -> anyhow::Result<()> {
    match command {
        SqlCommand::Validate(args) => validate(&args, format).await,
        SqlCommand::Explain(args) => explain(&args, format).await,
    }
}

fn read(args: &SqlArgs) -> anyhow::Result<(Script, JobSpec)> {
    let script = Script::read(&args.file)?;
    let mut spec = JobSpec::new(script.job_name(), script.sql());
    spec.parallelism = args.parallelism;
    spec.validate().map_err(|error| {
        Failure::error(exit::BAD_INPUT, format!("error: {}: {error}", script.file))
    })?;
    Ok((script, spec))
}

async fn validate(args: &SqlArgs, format: OutputFormat) -> anyhow::Result<()> {
    let (script, spec) = read(args)?;
    let ValidationView { valid, diagnostics } = offline::validate(&compiler(), spec)
        .await
        .map_err(anyhow::Error::new)?;
    match format {
        OutputFormat::Json => out::json(&ValidationView {
            valid,
            diagnostics: diagnostics.clone(),
        })?,
        OutputFormat::Table => {
            eprint!(
                "{}",
                problem_text::findings(&diagnostics, &script.file, &script.text)
            );
            if valid {
                out::line(&format!("{} is valid", script.file))?;
            }
        }
    }
    if valid {
        Ok(())
    } else {
        Err(Failure::error(exit::BAD_INPUT, ""))
    }
}

async fn explain(args: &SqlArgs, format: OutputFormat) -> anyhow::Result<()> {
    let (script, spec) = read(args)?;
    let explained: ExplainView = match offline::explain(&compiler(), spec).await {
        Ok(explained) => explained,
        Err(problem) => {
            let text = problem_text::of_script(&problem, &script.file, &script.text);
            return Err(Failure::error(exit::BAD_INPUT, text.trim_end()));
        }
    };
    match format {
        OutputFormat::Json => out::json(&explained)?,
        OutputFormat::Table => {
            eprint!(
                "{}",
                problem_text::findings(&explained.warnings, &script.file, &script.text)
            );
            out::line(explained.plan.trim_end())?;
        }
    }
    Ok(())
}
