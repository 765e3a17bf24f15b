//! Rewrites of relations that keep their meaning: filters move towards the tables, and
//! columns that nothing needs go.

mod prune;
mod push_filter;

use crate::rel::Rel;

/// Applies all rewrites. The result has the same columns.
pub(crate) fn optimize(rel: Rel) -> Rel {
    prune::prune_root(push_filter::push_filters(rel))
}
