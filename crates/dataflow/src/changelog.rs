//! Row kinds and the changelog modes that nodes declare.

use serde::{Deserialize, Serialize};

/// What a row says about the result it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum RowKind {
    /// `+I`: a new row.
    Insert = 0,
    /// `-U`: takes back the former content of a row that changes.
    UpdateBefore = 1,
    /// `+U`: the new content of a row that changes.
    UpdateAfter = 2,
    /// `-D`: takes a row back for good.
    Delete = 3,
}

impl RowKind {
    /// Whether the row adds (`+I`, `+U`) rather than takes back (`-U`, `-D`).
    pub fn is_addition(self) -> bool {
        match self {
            RowKind::Insert | RowKind::UpdateAfter => true,
            RowKind::UpdateBefore | RowKind::Delete => false,
        }
    }

    /// `+I`, `-U`, `+U` or `-D`.
    pub fn short_name(self) -> &'static str {
        match self {
            RowKind::Insert => "+I",
            RowKind::UpdateBefore => "-U",
            RowKind::UpdateAfter => "+U",
            RowKind::Delete => "-D",
        }
    }

    /// The kind with this wire number.
    pub fn from_u8(number: u8) -> Option<Self> {
        match number {
            0 => Some(RowKind::Insert),
            1 => Some(RowKind::UpdateBefore),
            2 => Some(RowKind::UpdateAfter),
            3 => Some(RowKind::Delete),
            _ => None,
        }
    }
}

/// Which row kinds an edge carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ChangelogMode {
    /// Only `+I`.
    Append,
    /// All four; every change takes the former row back before it gives the new one.
    Retract,
}
