//! Whole scripts through the compiler, and expressions through its result.

mod errors;
mod evaluate;
mod functions;
mod mutation;
mod nexmark;
mod plans;
mod types;
mod values;

use std::sync::Arc;

use millrace_dataflow::ChangelogMode;

use crate::{AnyConnector, CompileOptions, Compiled, SinkRefusal, compile, explain};

/// Takes new rows only.
struct AppendOnly;

impl crate::ConnectorCatalog for AppendOnly {
    fn check_source(
        &self,
        _table: &str,
        _options: &millrace_dataflow::TableOptions,
        _schema: &arrow::datatypes::SchemaRef,
        _metadata: &[(String, arrow::datatypes::Field)],
    ) -> Result<(), String> {
        Ok(())
    }

    fn check_sink(
        &self,
        _table: &str,
        _options: &millrace_dataflow::TableOptions,
        _schema: &arrow::datatypes::SchemaRef,
        _primary_key: &[usize],
        mode: ChangelogMode,
    ) -> Result<(), SinkRefusal> {
        match mode {
            ChangelogMode::Append => Ok(()),
            ChangelogMode::Retract => Err(SinkRefusal::NoUpdates(Some(
                "use format 'debezium-json'".into(),
            ))),
        }
    }

    fn provided_schema(
        &self,
        _options: &millrace_dataflow::TableOptions,
    ) -> Option<arrow::datatypes::SchemaRef> {
        None
    }
}

fn options() -> CompileOptions {
    let mut options = CompileOptions::new(Arc::new(AnyConnector));
    // 2024-05-06 07:08:09.123 UTC.
    options.clock = crate::Clock::new(|| 1_714_979_289_123);
    options
}

fn compiled(script: &str) -> Compiled {
    match compile(script, &options()) {
        Ok(compiled) => compiled,
        Err(diagnostics) => {
            let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            panic!("{}\n{script}", lines.join("\n"))
        }
    }
}

/// The text plan of a script at a parallelism.
fn plan_at(script: &str, parallelism: u32) -> String {
    let options = CompileOptions {
        parallelism,
        ..options()
    };
    match explain(script, &options) {
        Ok(plan) => plan.text,
        Err(diagnostics) => {
            let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            panic!("{}\n{script}", lines.join("\n"))
        }
    }
}

/// The diagnostics of a script that does not compile.
fn errors(script: &str) -> Vec<String> {
    match compile(script, &options()) {
        Ok(_) => panic!("compiles: {script}"),
        Err(diagnostics) => diagnostics.iter().map(ToString::to_string).collect(),
    }
}
