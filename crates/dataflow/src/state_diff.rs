//! Which state a job keeps when it moves from one dataflow to another.
//!
//! State follows its id, and within an aggregation each call follows its meaning: what neither
//! dataflow nor call has in the other starts empty or is dropped. Sinks are left out: their state
//! is writes that are on their way, which decide no result.

use std::fmt;

use crate::{AggregateCall, Dataflow, Node, NodeKind, StateId};

/// What becomes of one piece of state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateFate {
    Kept,
    /// It starts empty.
    Added,
    Dropped,
}

impl StateFate {
    pub fn as_str(self) -> &'static str {
        match self {
            StateFate::Kept => "kept",
            StateFate::Added => "added",
            StateFate::Dropped => "dropped",
        }
    }
}

impl fmt::Display for StateFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One piece of state: an aggregate call, the keys of a `SELECT DISTINCT`, or how far a source
/// has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// Name of the node that has it.
    pub node: String,
    pub fate: StateFate,
    /// In words: `MIN(id) starts empty and covers only rows from now on`.
    pub detail: String,
}

/// All pieces of state, and a sentence about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDiff {
    /// What the new dataflow has, in its order, then what only the old one had.
    pub changes: Vec<StateChange>,
    calls_kept: usize,
    calls: usize,
}

impl StateDiff {
    /// Whether nothing is dropped and nothing starts empty.
    pub fn keeps_everything(&self) -> bool {
        self.changes
            .iter()
            .all(|change| change.fate == StateFate::Kept)
    }
}

impl fmt::Display for StateDiff {
    /// `keeps the state of 1 of 2 aggregates: COUNT(*) kept; …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.calls, self.keeps_everything()) {
            (_, true) => return f.write_str("keeps all state"),
            (0, false) => f.write_str("changes what state there is")?,
            (1, false) => write!(f, "keeps the state of {} of 1 aggregate", self.calls_kept)?,
            (calls, false) => {
                write!(
                    f,
                    "keeps the state of {} of {calls} aggregates",
                    self.calls_kept
                )?;
            }
        }
        for (position, change) in self.changes.iter().enumerate() {
            let separator = if position == 0 { ": " } else { "; " };
            write!(f, "{separator}{}", change.detail)?;
        }
        Ok(())
    }
}

/// What a node keeps.
enum Stateful<'a> {
    Source(&'a str),
    Values,
    /// Without calls: the keys of a `SELECT DISTINCT`.
    Aggregate(&'a [AggregateCall]),
}

fn stateful(node: &Node) -> Option<(&StateId, Stateful<'_>)> {
    match &node.kind {
        NodeKind::Source(source) => Some((&source.state_id, Stateful::Source(&source.table))),
        NodeKind::Values(values) => Some((&values.state_id, Stateful::Values)),
        NodeKind::WindowAggregate(aggregate) | NodeKind::GlobalWindowAggregate(aggregate) => {
            Some((
                &aggregate.state_id,
                Stateful::Aggregate(&aggregate.aggregates),
            ))
        }
        NodeKind::GroupAggregate(aggregate) | NodeKind::GlobalGroupAggregate(aggregate) => Some((
            &aggregate.state_id,
            Stateful::Aggregate(&aggregate.aggregates),
        )),
        // The local half of a pair holds nothing over a barrier.
        NodeKind::LocalWindowAggregate(_)
        | NodeKind::LocalGroupAggregate(_)
        | NodeKind::Calc(_)
        | NodeKind::Union
        | NodeKind::Expand(_)
        | NodeKind::WindowAssign(_)
        | NodeKind::Sink(_) => None,
    }
}

fn find<'a>(dataflow: &'a Dataflow, id: &StateId) -> Option<Stateful<'a>> {
    dataflow
        .nodes
        .iter()
        .filter_map(stateful)
        .find(|(known, _)| *known == id)
        .map(|(_, state)| state)
}

/// Compares the state of two dataflows of one job.
pub fn state_diff(old: &Dataflow, new: &Dataflow) -> StateDiff {
    let mut diff = StateDiff {
        changes: Vec::new(),
        calls_kept: 0,
        calls: 0,
    };
    for node in &new.nodes {
        let Some((id, state)) = stateful(node) else {
            continue;
        };
        let before = find(old, id);
        match state {
            Stateful::Source(_) | Stateful::Values => {
                let fate = match before {
                    Some(_) => StateFate::Kept,
                    None => StateFate::Added,
                };
                diff.push(node, fate, input_detail(&state, fate));
            }
            Stateful::Aggregate(calls) => {
                let mut left = match &before {
                    Some(Stateful::Aggregate(calls)) => Some(meanings(calls)),
                    Some(Stateful::Source(_) | Stateful::Values) | None => None,
                };
                if calls.is_empty() {
                    let fate = match left {
                        Some(_) => StateFate::Kept,
                        None => StateFate::Added,
                    };
                    diff.push(node, fate, call_detail(&node.name, fate));
                }
                for call in calls {
                    let kept = left.as_mut().is_some_and(|left| take(left, &call.meaning));
                    let fate = match kept {
                        true => StateFate::Kept,
                        false => StateFate::Added,
                    };
                    diff.calls += 1;
                    diff.calls_kept += usize::from(fate == StateFate::Kept);
                    diff.push(node, fate, call_detail(&call.meaning, fate));
                }
            }
        }
    }
    for node in &old.nodes {
        let Some((id, state)) = stateful(node) else {
            continue;
        };
        let after = find(new, id);
        let fate = StateFate::Dropped;
        match (state, after) {
            (state @ (Stateful::Source(_) | Stateful::Values), None) => {
                diff.push(node, fate, input_detail(&state, fate));
            }
            (Stateful::Aggregate([]), None) => {
                diff.push(node, fate, call_detail(&node.name, fate));
            }
            (Stateful::Aggregate(calls), after) => {
                let mut left = match &after {
                    Some(Stateful::Aggregate(calls)) => meanings(calls),
                    Some(Stateful::Source(_) | Stateful::Values) | None => Vec::new(),
                };
                for call in calls {
                    if !take(&mut left, &call.meaning) {
                        diff.push(node, fate, call_detail(&call.meaning, fate));
                    }
                }
            }
            (Stateful::Source(_) | Stateful::Values, Some(_)) => {}
        }
    }
    diff
}

impl StateDiff {
    fn push(&mut self, node: &Node, fate: StateFate, detail: String) {
        self.changes.push(StateChange {
            node: node.name.clone(),
            fate,
            detail,
        });
    }
}

fn meanings(calls: &[AggregateCall]) -> Vec<&str> {
    calls.iter().map(|call| call.meaning.as_str()).collect()
}

/// Removes one of this meaning: of the same call twice, the first goes to the first.
fn take(left: &mut Vec<&str>, meaning: &str) -> bool {
    match left.iter().position(|known| *known == meaning) {
        Some(position) => {
            left.remove(position);
            true
        }
        None => false,
    }
}

fn call_detail(what: &str, fate: StateFate) -> String {
    match fate {
        StateFate::Kept => format!("{what} kept"),
        StateFate::Added => format!("{what} starts empty and covers only rows from now on"),
        StateFate::Dropped => format!("{what} dropped"),
    }
}

fn input_detail(state: &Stateful<'_>, fate: StateFate) -> String {
    let what = match state {
        Stateful::Source(table) => format!("the position in table `{table}`"),
        Stateful::Values | Stateful::Aggregate(_) => "the position in VALUES".to_owned(),
    };
    match fate {
        StateFate::Kept => format!("{what} kept"),
        StateFate::Added => format!("{what} is new: it is read from its start"),
        StateFate::Dropped => format!("{what} dropped"),
    }
}

#[cfg(test)]
mod tests;
