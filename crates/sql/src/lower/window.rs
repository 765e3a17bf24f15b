//! Windows: assigned to rows as columns, or pulled into the aggregate above them.

use std::sync::Arc;

use datafusion_expr::Expr;
use millrace_dataflow::{
    ChangelogMode, NodeId, NodeKind, TimeDomain, WindowAssignNode, WindowKind, WindowSource,
};

use super::{Lowering, forward, graph::NodeSpec};
use crate::{
    diagnostic::{Diagnostic, Outcome},
    rel::{Aggregate, Rel, RelKind, Window, column_ref, window_text},
};

impl Lowering<'_> {
    /// Rows with their windows.
    pub(super) fn lower_window(
        &mut self,
        rel: &Rel,
        input: &Rel,
        window: &Window,
    ) -> Outcome<NodeId> {
        if matches!(window.kind, WindowKind::Session { .. }) {
            return Err(Box::new(
                Diagnostic::error(
                    "unsupported",
                    window.span,
                    "a SESSION window that is not aggregated by its PARTITION BY keys, window_start and window_end is not supported yet",
                )
                .with_hint("GROUP BY exactly the columns of PARTITION BY, window_start, window_end"),
            ));
        }
        let node = self.lower_rel(input)?;
        let assign = WindowAssignNode {
            window: window_source(window, window.column),
        };
        let spec = NodeSpec {
            key: format!("{assign:?}"),
            name: format!("Windows: {}", window_text(&window.kind)),
            inputs: vec![forward(node)],
            schema: self.graph.extended_schema(node, rel),
            mode: ChangelogMode::Append,
            time_column: super::time_column(rel),
        };
        Ok(self
            .graph
            .add(spec, NodeKind::WindowAssign(Arc::new(assign))))
    }
}

/// Where an operator takes this window from, with the time in a given column.
pub(super) fn window_source(window: &Window, column: usize) -> WindowSource {
    WindowSource::Time {
        column,
        kind: window.kind,
        domain: window.domain,
        zone: window.zone.clone(),
    }
}

/// An aggregate whose window has moved from its input into itself.
pub(super) struct Fused {
    pub(super) input: Rel,
    pub(super) keys: Vec<usize>,
    /// Arguments and filters of the calls, by call.
    pub(super) calls: Vec<crate::rel::Call>,
    pub(super) window: Window,
    /// The time column of `input`.
    pub(super) time: usize,
    /// What the window means, and the rows below it.
    pub(super) meaning: String,
}

/// The relation below a window, with each former column's place.
struct Pulled {
    rel: Rel,
    /// Nothing for the window's own columns.
    now: Vec<Option<usize>>,
    time: usize,
    window: Window,
    meaning: String,
}

/// Takes the window out from under an aggregate, if nothing between them reads its columns.
pub(super) fn fuse(aggregate: &Aggregate) -> Option<Fused> {
    let (start, _) = aggregate.window?;
    let id = aggregate.input.columns[start].window?.id;
    let Pulled {
        rel,
        now,
        time,
        window,
        meaning,
    } = pull(&aggregate.input, id)?;
    let keys = aggregate
        .keys
        .iter()
        .map(|key| now[*key])
        .collect::<Option<Vec<_>>>()?;
    let calls = aggregate
        .calls
        .iter()
        .map(|call| {
            let place = |column: Option<usize>| match column {
                Some(column) => now[column].map(Some),
                None => Some(None),
            };
            Some(crate::rel::Call {
                argument: place(call.argument)?,
                filter: place(call.filter)?,
                ..call.clone()
            })
        })
        .collect::<Option<Vec<_>>>()?;
    if matches!(window.kind, WindowKind::Session { .. }) {
        // A session belongs to its keys: the aggregate must group by the same ones.
        let mut grouped: Vec<&str> = keys
            .iter()
            .map(|key| rel.columns[*key].lineage.as_ref())
            .collect();
        let mut partitions: Vec<String> = window_keys(&aggregate.input, id)?;
        grouped.sort_unstable();
        grouped.dedup();
        partitions.sort_unstable();
        partitions.dedup();
        if grouped != partitions {
            return None;
        }
    }
    Some(Fused {
        input: rel,
        keys,
        calls,
        window,
        time,
        meaning,
    })
}

/// Lineages of the PARTITION BY columns of a window.
fn window_keys(rel: &Rel, id: u32) -> Option<Vec<String>> {
    if let RelKind::Window { input, window } = &rel.kind
        && window.id == id
    {
        let lineages = window
            .partition_by
            .iter()
            .map(|key| input.columns[*key].lineage.to_string())
            .collect();
        return Some(lineages);
    }
    rel.inputs()
        .into_iter()
        .find_map(|input| window_keys(input, id))
}

fn pull(rel: &Rel, id: u32) -> Option<Pulled> {
    match &rel.kind {
        RelKind::Window { input, window } if window.id == id => {
            let width = input.columns.len();
            Some(Pulled {
                rel: input.as_ref().clone(),
                now: (0..width).map(Some).chain([None; 3]).collect(),
                time: window.column,
                window: window.clone(),
                meaning: format!(
                    "{} of [{}]",
                    window.describe(input),
                    input.description_text()
                ),
            })
        }
        RelKind::Filter { input, predicate } => {
            let pulled = pull(input, id)?;
            let reads_window = predicate.column_refs().iter().any(|column| {
                input
                    .position(&column.name)
                    .is_none_or(|position| pulled.now[position].is_none())
            });
            if reads_window {
                return None;
            }
            let meaning = format!("{} where {}", pulled.meaning, input.lineage_of(predicate));
            Some(Pulled {
                rel: pulled.rel.filter(predicate.clone()),
                meaning,
                ..pulled
            })
        }
        RelKind::Project { input, exprs } => {
            let pulled = pull(input, id)?;
            let mut now = vec![];
            let mut kept = vec![];
            let mut columns = vec![];
            for (expr, column) in exprs.iter().zip(&rel.columns) {
                let window_column = column.window.is_some_and(|window| window.id == id);
                if window_column && matches!(expr, Expr::Column(_)) {
                    now.push(None);
                    continue;
                }
                let reads_window = expr.column_refs().iter().any(|column| {
                    input
                        .position(&column.name)
                        .is_none_or(|position| pulled.now[position].is_none())
                });
                if reads_window {
                    return None;
                }
                now.push(Some(kept.len()));
                kept.push(expr.clone());
                columns.push(column.clone());
            }
            let time_column = pulled.rel.columns[pulled.time].clone();
            let passed = kept.iter().position(
                |expr| matches!(expr, Expr::Column(column) if column.name == time_column.name),
            );
            let time = match (passed, pulled.window.domain) {
                (Some(position), _) => position,
                // The processing-time clock needs no column, only some column to count rows by.
                (None, TimeDomain::Processing) if !kept.is_empty() => 0,
                (None, _) => {
                    let mut names = crate::rel::UniqueNames::default();
                    for column in &columns {
                        names.unique(&column.name);
                    }
                    kept.push(column_ref(&time_column.name));
                    columns.push(crate::rel::Column {
                        name: names.unique(&time_column.name),
                        ..time_column
                    });
                    kept.len() - 1
                }
            };
            let projected = Rel {
                updating: pulled.rel.updating.clone(),
                kind: RelKind::Project {
                    input: Box::new(pulled.rel),
                    exprs: kept,
                },
                columns,
            };
            Some(Pulled {
                rel: projected,
                now,
                time,
                window: pulled.window,
                meaning: pulled.meaning,
            })
        }
        RelKind::Expand { input, sets } => {
            let pulled = pull(input, id)?;
            let nulled_time = sets.iter().any(|(nulled, _)| {
                nulled
                    .iter()
                    .any(|column| pulled.now[*column] == Some(pulled.time))
            });
            if nulled_time {
                return None;
            }
            let moved = sets
                .iter()
                .map(|(nulled, id)| {
                    let nulled = nulled
                        .iter()
                        .map(|column| pulled.now[*column])
                        .collect::<Option<Vec<_>>>()?;
                    Some((nulled, *id))
                })
                .collect::<Option<Vec<_>>>()?;
            let mut columns = pulled.rel.columns.clone();
            for (i, column) in rel.columns.iter().enumerate().take(pulled.now.len()) {
                if let Some(position) = pulled.now[i] {
                    columns[position].nullable = column.nullable;
                }
            }
            columns.push(rel.columns[rel.columns.len() - 1].clone());
            let mut now = pulled.now.clone();
            now.push(Some(columns.len() - 1));
            let meaning = format!("{} in {} grouping sets", pulled.meaning, sets.len());
            let expanded = Rel {
                updating: pulled.rel.updating.clone(),
                kind: RelKind::Expand {
                    input: Box::new(pulled.rel),
                    sets: moved,
                },
                columns,
            };
            Some(Pulled {
                rel: expanded,
                now,
                time: pulled.time,
                window: pulled.window,
                meaning,
            })
        }
        _ => None,
    }
}
