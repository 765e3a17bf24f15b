//! The operators between sources and sinks, one per file.

mod calc;
mod columns;
mod expand;
mod group_aggregate;
mod group_changes;
mod group_state;
mod late;
mod local_group_aggregate;
mod local_window_aggregate;
mod session_aggregate;
mod session_cold;
mod session_due;
mod session_entries;
mod session_persistence;
mod session_state;
mod sessions;
mod slice_assignment;
mod state_layout;
#[cfg(test)]
mod tests;
mod union;
mod watermark_state;
mod window_aggregate;
mod window_assign;
mod window_firing;
mod window_input;
mod window_parts;
mod window_persistence;
mod window_runs;
mod window_slices;
mod window_store;
mod window_time;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use millrace_dataflow::{Node, NodeKind, WindowKind, WindowSource};

pub use group_aggregate::ROW_COUNT_COLUMN;

use self::{
    calc::Calc, expand::Expand, group_aggregate::GroupAggregate,
    local_group_aggregate::LocalGroupAggregate, local_window_aggregate::LocalWindowAggregate,
    session_aggregate::SessionAggregate, union::Union, window_aggregate::WindowAggregate,
    window_assign::WindowAssign,
};
use crate::{Operator, OperatorError};

/// The operator of a node; `inputs` are the schemas of its inputs. Sources (`VALUES` included)
/// and sinks are not made here.
pub fn build(node: &Node, inputs: &[SchemaRef]) -> Result<Box<dyn Operator>, OperatorError> {
    let schema = Arc::clone(&node.schema);
    let input = || {
        inputs.first().ok_or_else(|| {
            OperatorError::Internal(format!("node {} ({}) has no input", node.id, node.name))
        })
    };
    Ok(match &node.kind {
        NodeKind::Calc(calc) => Box::new(Calc::new(Arc::clone(calc), schema)),
        NodeKind::Union => Box::new(Union::new(schema)),
        NodeKind::Expand(expand) => Box::new(Expand::new(Arc::clone(expand), schema)),
        NodeKind::WindowAssign(assign) => Box::new(WindowAssign::new(assign, schema)?),
        NodeKind::WindowAggregate(aggregate) => match aggregate.window {
            WindowSource::Time {
                kind: WindowKind::Session { .. },
                ..
            } => Box::new(SessionAggregate::new(Arc::clone(aggregate), schema)?),
            _ => Box::new(WindowAggregate::single(Arc::clone(aggregate), schema)?),
        },
        NodeKind::LocalWindowAggregate(aggregate) => {
            Box::new(LocalWindowAggregate::new(Arc::clone(aggregate), schema)?)
        }
        NodeKind::GlobalWindowAggregate(aggregate) => {
            Box::new(WindowAggregate::global(Arc::clone(aggregate), schema)?)
        }
        NodeKind::GroupAggregate(aggregate) => {
            Box::new(GroupAggregate::single(Arc::clone(aggregate), schema)?)
        }
        NodeKind::LocalGroupAggregate(aggregate) => {
            Box::new(LocalGroupAggregate::new(Arc::clone(aggregate), schema)?)
        }
        NodeKind::GlobalGroupAggregate(aggregate) => Box::new(GroupAggregate::global(
            Arc::clone(aggregate),
            schema,
            input()?,
        )?),
        NodeKind::Source(_) | NodeKind::Values(_) | NodeKind::Sink(_) => {
            return Err(OperatorError::Internal(format!(
                "node {} ({}) is at the edge and has no operator",
                node.id, node.name
            )));
        }
    })
}
