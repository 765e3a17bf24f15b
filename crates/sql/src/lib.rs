//! Flink-dialect SQL to a dataflow.
//!
//! A script goes through four stages, one module each: `statement` reads text, `bind` types
//! expressions, `query` plans relations, `lower` makes the graph; `optimize` rewrites
//! relations in between. Everything is a pure function of the script, the options and the
//! connectors' answers: no IO, and no clock but the one handed in for run time.

mod bind;
mod catalog;
mod compile;
mod diagnostic;
mod explain;
mod flink_type;
mod functions;
mod lower;
mod optimize;
mod query;
mod rel;
mod settings;
mod sink_cast;
mod source;
mod statement;
#[cfg(test)]
mod tests;

pub use catalog::{AnyConnector, ConnectorCatalog, METADATA_KEY, SinkRefusal};
pub use compile::{CompileOptions, Compiled, StatementInfo, compile};
pub use diagnostic::{Diagnostic, Severity};
pub use explain::{Explanation, explain};
pub use flink_type::type_name;
pub use functions::Clock;
