//! Compiles a job's script exactly as the control plane does.

use std::sync::Arc;

use millrace_connectors::catalog::Connectors;
use millrace_sql::{CompileOptions, compile};

use crate::deploy::Compile;

/// The compiler for SQL.
pub(crate) fn sql() -> Compile {
    Arc::new(|spec| {
        let options = CompileOptions {
            parallelism: spec.parallelism,
            max_parallelism: spec.max_parallelism,
            state_ttl_ms: spec.state.ttl.0,
            ..CompileOptions::new(Connectors::shared())
        };
        match compile(&spec.sql, &options) {
            Ok(compiled) => Ok(compiled.dataflow),
            Err(diagnostics) => {
                let texts: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
                Err(texts.join("\n"))
            }
        }
    })
}
