//! From script text to statements: Flink's statement syntax over the parser's tokens.
//!
//! Queries and expressions are the parser's own AST; everything else is read here. Nothing
//! in this module knows what a name means.

mod create_table;
pub(crate) mod dialect;
mod json_syntax;
mod script;
pub(crate) mod type_syntax;

use std::collections::BTreeMap;

use datafusion_expr::sqlparser::{
    ast::{Expr, Ident, Query},
    tokenizer::Span,
};

use crate::flink_type::FlinkType;

pub(crate) use script::{BYTE_ORDER_MARK, parse_script};

/// A statement with its place in the script.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) kind: StatementKind,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum StatementKind {
    CreateTable(Box<CreateTable>),
    CreateView(Box<CreateView>),
    CreateFunction(CreateFunction),
    Drop(Drop),
    Insert(Box<Insert>),
    /// A query without a sink.
    Query(Box<Query>),
    Set {
        key: String,
        value: String,
    },
    /// Without a key: all settings.
    Reset {
        key: Option<String>,
    },
    /// `EXPLAIN` of a query or an insert.
    Explain(Box<StatementKind>),
}

impl StatementKind {
    /// For people: `CREATE TABLE bids`.
    pub(crate) fn describe(&self) -> String {
        match self {
            StatementKind::CreateTable(table) => format!("CREATE TABLE {}", table.name.value),
            StatementKind::CreateView(view) => format!("CREATE VIEW {}", view.name.value),
            StatementKind::CreateFunction(f) => format!("CREATE FUNCTION {}", f.name.value),
            StatementKind::Drop(drop) => format!("DROP {} {}", drop.what, drop.name.value),
            StatementKind::Insert(insert) => format!("INSERT INTO {}", insert.table.value),
            StatementKind::Query(_) => "SELECT".into(),
            StatementKind::Set { key, .. } => format!("SET '{key}'"),
            StatementKind::Reset { key: Some(key) } => format!("RESET '{key}'"),
            StatementKind::Reset { key: None } => "RESET".into(),
            StatementKind::Explain(inner) => format!("EXPLAIN {}", inner.describe()),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CreateTable {
    pub(crate) name: Ident,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDefinition>,
    pub(crate) watermark: Option<WatermarkDefinition>,
    pub(crate) primary_key: Vec<Ident>,
    pub(crate) partition_by: Vec<Ident>,
    pub(crate) options: BTreeMap<String, String>,
}

#[derive(Debug, Clone)]
pub(crate) struct ColumnDefinition {
    pub(crate) name: Ident,
    pub(crate) kind: ColumnDefinitionKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ColumnDefinitionKind {
    Physical {
        flink_type: FlinkType,
        nullable: bool,
    },
    /// `METADATA [FROM 'key'] [VIRTUAL]`.
    Metadata {
        flink_type: FlinkType,
        nullable: bool,
        key: String,
        is_virtual: bool,
    },
    /// `AS expr`.
    Computed(Box<Expr>),
}

#[derive(Debug, Clone)]
pub(crate) struct WatermarkDefinition {
    pub(crate) column: Ident,
    pub(crate) expr: Expr,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) struct CreateView {
    pub(crate) name: Ident,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<Ident>,
    pub(crate) query: Box<Query>,
}

/// `CREATE FUNCTION name AS 'class'`.
#[derive(Debug, Clone)]
pub(crate) struct CreateFunction {
    pub(crate) name: Ident,
    pub(crate) class: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Drop {
    /// `TABLE`, `VIEW` or `FUNCTION`.
    pub(crate) what: &'static str,
    pub(crate) name: Ident,
    pub(crate) if_exists: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Insert {
    pub(crate) table: Ident,
    pub(crate) columns: Vec<Ident>,
    pub(crate) query: Box<Query>,
}
