//! Drops columns and aggregate calls that nothing reads.

use datafusion_expr::Expr;

use crate::rel::{Rel, RelKind};

/// What became of a relation: itself, and where each former column is now.
struct Pruned {
    rel: Rel,
    now: Vec<Option<usize>>,
}

/// Prunes below a relation all of whose columns are needed.
pub(super) fn prune_root(rel: Rel) -> Rel {
    let all = vec![true; rel.columns.len()];
    exact(rel, &all)
}

/// Prunes to exactly the needed columns, in order; to one if none is needed.
fn exact(rel: Rel, needed: &[bool]) -> Rel {
    exact_with_places(rel, needed).rel
}

fn exact_with_places(rel: Rel, needed: &[bool]) -> Pruned {
    let Pruned { rel, now } = prune(rel, needed);
    let wanted: Vec<usize> = needed
        .iter()
        .zip(&now)
        .filter(|(needed, _)| **needed)
        .filter_map(|(_, now)| *now)
        .collect();
    if wanted.is_empty() || wanted.iter().copied().eq(0..rel.columns.len()) {
        return Pruned { rel, now };
    }
    let now = now
        .iter()
        .map(|now| wanted.iter().position(|wanted| Some(*wanted) == *now))
        .collect();
    Pruned {
        rel: rel.select(&wanted),
        now,
    }
}

fn mark(expr: &Expr, rel: &Rel, needed: &mut [bool]) {
    for column in expr.column_refs() {
        if let Some(position) = rel.position(&column.name) {
            needed[position] = true;
        }
    }
}

/// Prunes; columns that are needed inside may stay although the caller does not need them.
fn prune(rel: Rel, needed: &[bool]) -> Pruned {
    let Rel {
        kind,
        columns,
        updating,
    } = rel;
    match kind {
        RelKind::Scan(table) => {
            let keep = keep_some(needed, || {
                let event_time = columns.iter().position(|column| column.time.is_some());
                let plain = columns
                    .iter()
                    .position(|column| !column.data_type.is_nested());
                event_time.or(plain).unwrap_or(0)
            });
            let now = positions(&keep);
            let columns = retain(columns, &keep);
            Pruned {
                rel: Rel {
                    kind: RelKind::Scan(table),
                    columns,
                    updating,
                },
                now,
            }
        }
        RelKind::Values(rows) => {
            let keep = keep_some(needed, || 0);
            let kept: Vec<usize> = (0..keep.len()).filter(|i| keep[*i]).collect();
            match rows.project(&kept) {
                Ok(rows) => Pruned {
                    now: positions(&keep),
                    rel: Rel {
                        kind: RelKind::Values(rows),
                        columns: retain(columns, &keep),
                        updating,
                    },
                },
                // Cannot be: the positions come from the same schema.
                Err(_) => identity(Rel {
                    kind: RelKind::Values(rows),
                    columns,
                    updating,
                }),
            }
        }
        RelKind::Filter { input, predicate } => {
            let mut inner = needed.to_vec();
            mark(&predicate, &input, &mut inner);
            let Pruned { rel, now } = prune(*input, &inner);
            Pruned {
                rel: rel.filter(predicate),
                now,
            }
        }
        RelKind::Project { input, exprs } => {
            let keep = keep_some(needed, || {
                let cheap = exprs
                    .iter()
                    .position(|expr| matches!(expr, Expr::Column(_)));
                cheap.unwrap_or(0)
            });
            let exprs: Vec<Expr> = exprs
                .into_iter()
                .zip(&keep)
                .filter(|(_, keep)| **keep)
                .map(|(expr, _)| expr)
                .collect();
            let mut inner = vec![false; input.columns.len()];
            for expr in &exprs {
                mark(expr, &input, &mut inner);
            }
            let input = prune(*input, &inner).rel;
            Pruned {
                now: positions(&keep),
                rel: Rel {
                    kind: RelKind::Project {
                        input: Box::new(input),
                        exprs,
                    },
                    columns: retain(columns, &keep),
                    updating,
                },
            }
        }
        RelKind::Union(inputs) => {
            let keep = keep_some(needed, || 0);
            let inputs = inputs
                .into_iter()
                .map(|input| exact(input, &keep))
                .collect();
            Pruned {
                now: positions(&keep),
                rel: Rel {
                    kind: RelKind::Union(inputs),
                    columns: retain(columns, &keep),
                    updating,
                },
            }
        }
        RelKind::Window { input, mut window } => {
            let width = input.columns.len();
            let mut inner = needed[..width].to_vec();
            inner[window.column] = true;
            for key in &window.partition_by {
                inner[*key] = true;
            }
            let input = exact_with_places(*input, &inner);
            let place = |column: usize| input.now[column].unwrap_or(0);
            window.column = place(window.column);
            window.partition_by = window.partition_by.iter().map(|key| place(*key)).collect();
            let kept = input.rel.columns.len();
            let mut now = input.now.clone();
            now.extend((0..3).map(|i| Some(kept + i)));
            let columns = place_all(columns, &now, kept + 3);
            Pruned {
                now,
                rel: Rel {
                    kind: RelKind::Window {
                        input: Box::new(input.rel),
                        window,
                    },
                    columns,
                    updating,
                },
            }
        }
        RelKind::Expand { input, sets } => {
            let width = input.columns.len();
            let input = exact_with_places(*input, &needed[..width]);
            let sets = sets
                .into_iter()
                .map(|(nulled, id)| {
                    (
                        nulled
                            .iter()
                            .filter_map(|column| input.now[*column])
                            .collect(),
                        id,
                    )
                })
                .collect();
            let kept = input.rel.columns.len();
            let mut now = input.now.clone();
            now.push(Some(kept));
            let columns = place_all(columns, &now, kept + 1);
            Pruned {
                now,
                rel: Rel {
                    kind: RelKind::Expand {
                        input: Box::new(input.rel),
                        sets,
                    },
                    columns,
                    updating,
                },
            }
        }
        RelKind::Aggregate(mut aggregate) => {
            let keys = aggregate.keys.len();
            let keep: Vec<bool> = (0..columns.len())
                .map(|i| i < keys || i >= keys + aggregate.calls.len() || needed[i])
                .collect();
            let calls = std::mem::take(&mut aggregate.calls);
            aggregate.calls = calls
                .into_iter()
                .enumerate()
                .filter(|(i, _)| keep[keys + i])
                .map(|(_, call)| call)
                .collect();
            let mut inner = vec![false; aggregate.input.columns.len()];
            for key in &aggregate.keys {
                inner[*key] = true;
            }
            for call in &aggregate.calls {
                for column in call.argument.iter().chain(&call.filter) {
                    inner[*column] = true;
                }
            }
            if let Some((start, end)) = aggregate.window {
                inner[start] = true;
                inner[end] = true;
            }
            let input = exact_with_places(aggregate.input, &inner);
            let place = |column: usize| input.now[column].unwrap_or(0);
            aggregate.keys = aggregate.keys.iter().map(|key| place(*key)).collect();
            for call in &mut aggregate.calls {
                call.argument = call.argument.map(place);
                call.filter = call.filter.map(place);
            }
            aggregate.window = aggregate
                .window
                .map(|(start, end)| (place(start), place(end)));
            aggregate.input = input.rel;
            Pruned {
                now: positions(&keep),
                rel: Rel {
                    kind: RelKind::Aggregate(aggregate),
                    columns: retain(columns, &keep),
                    updating,
                },
            }
        }
    }
}

fn identity(rel: Rel) -> Pruned {
    Pruned {
        now: (0..rel.columns.len()).map(Some).collect(),
        rel,
    }
}

/// A relation needs a column to have rows.
fn keep_some(needed: &[bool], choose: impl Fn() -> usize) -> Vec<bool> {
    let mut keep = needed.to_vec();
    if !keep.contains(&true)
        && let Some(chosen) = keep.get_mut(choose())
    {
        *chosen = true;
    }
    keep
}

fn positions(keep: &[bool]) -> Vec<Option<usize>> {
    let mut next = 0;
    keep.iter()
        .map(|keep| {
            keep.then(|| {
                next += 1;
                next - 1
            })
        })
        .collect()
}

fn retain(columns: Vec<crate::rel::Column>, keep: &[bool]) -> Vec<crate::rel::Column> {
    columns
        .into_iter()
        .zip(keep)
        .filter(|(_, keep)| **keep)
        .map(|(column, _)| column)
        .collect()
}

/// Columns at their new positions.
fn place_all(
    columns: Vec<crate::rel::Column>,
    now: &[Option<usize>],
    width: usize,
) -> Vec<crate::rel::Column> {
    let mut placed: Vec<Option<crate::rel::Column>> = vec![None; width];
    for (column, now) in columns.into_iter().zip(now) {
        if let Some(now) = now {
            placed[*now] = Some(column);
        }
    }
    placed.into_iter().flatten().collect()
}
