//! Tables and views of a script, and what it asks of the connectors.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_expr::sqlparser::{
    ast::{Expr as Ast, Ident},
    tokenizer::Span,
};
use millrace_dataflow::{ChangelogMode, TableOptions};

use crate::{
    diagnostic::{Diagnostic, Outcome, did_you_mean, fail},
    flink_type::type_name,
    statement::{ColumnDefinitionKind, CreateTable, CreateView, WatermarkDefinition},
};

/// Why a sink refuses a query's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkRefusal {
    /// It takes new rows only. The text says what it can do instead, if anything:
    /// `use format 'debezium-json'`.
    NoUpdates(Option<String>),
    /// Anything else, ready for the user.
    Other(String),
}

/// What the compiler asks about connectors and formats. Answers depend on the arguments
/// alone, so that every compilation of a script gives the same dataflow.
pub trait ConnectorCatalog: Send + Sync {
    /// Checks that the table can be read with these options. `metadata` are the keys of the
    /// connector's metadata that the table declares, with their columns.
    fn check_source(
        &self,
        table: &str,
        options: &TableOptions,
        schema: &SchemaRef,
        metadata: &[(String, Field)],
    ) -> Result<(), String>;

    /// Checks that the table can be written with these options in this changelog mode.
    fn check_sink(
        &self,
        table: &str,
        options: &TableOptions,
        schema: &SchemaRef,
        primary_key: &[usize],
        mode: ChangelogMode,
    ) -> Result<(), SinkRefusal>;

    /// The schema of connectors that have a fixed one, for tables declared without physical columns.
    fn provided_schema(&self, options: &TableOptions) -> Option<SchemaRef>;

    /// Keys of the connector's metadata that can be written too. Their columns are then columns of
    /// the sink, with the key under [`METADATA_KEY`] in the field's metadata.
    fn writable_metadata(&self, _options: &TableOptions) -> &'static [&'static str] {
        &[]
    }
}

/// Where a sink's field says which metadata of the connector it is.
pub const METADATA_KEY: &str = "millrace.metadata";

/// Accepts everything, for tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnyConnector;

impl ConnectorCatalog for AnyConnector {
    fn check_source(
        &self,
        _table: &str,
        _options: &TableOptions,
        _schema: &SchemaRef,
        _metadata: &[(String, Field)],
    ) -> Result<(), String> {
        Ok(())
    }

    fn check_sink(
        &self,
        _table: &str,
        _options: &TableOptions,
        _schema: &SchemaRef,
        _primary_key: &[usize],
        _mode: ChangelogMode,
    ) -> Result<(), SinkRefusal> {
        Ok(())
    }

    fn provided_schema(&self, _options: &TableOptions) -> Option<SchemaRef> {
        None
    }
}

/// A table of the script.
#[derive(Debug)]
pub(crate) struct Table {
    /// Tells tables of the same name apart: one may be dropped and declared anew.
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) watermark: Option<WatermarkDefinition>,
    pub(crate) primary_key: Vec<String>,
    pub(crate) partition_by: Vec<String>,
    pub(crate) options: TableOptions,
    /// Keys of metadata that can be written.
    pub(crate) writable_metadata: &'static [&'static str],
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) kind: TableColumnKind,
    pub(crate) span: Span,
}

#[derive(Debug, Clone)]
pub(crate) enum TableColumnKind {
    Physical(Field),
    Metadata {
        field: Field,
        key: String,
        is_virtual: bool,
    },
    Computed(Ast),
}

impl Table {
    /// Builds a table from its definition.
    pub(crate) fn new(
        definition: &CreateTable,
        id: u32,
        connectors: &dyn ConnectorCatalog,
    ) -> Outcome<Self> {
        let mut columns = vec![];
        let declares_physical = definition
            .columns
            .iter()
            .any(|column| matches!(column.kind, ColumnDefinitionKind::Physical { .. }));
        if !declares_physical && let Some(schema) = connectors.provided_schema(&definition.options)
        {
            columns.extend(schema.fields().iter().map(|field| TableColumn {
                name: field.name().clone(),
                kind: TableColumnKind::Physical(field.as_ref().clone()),
                span: definition.name.span,
            }));
        }
        for column in &definition.columns {
            let name = column.name.value.clone();
            if columns.iter().any(|other: &TableColumn| other.name == name) {
                let message = format!("the column `{name}` is declared twice");
                return fail("duplicate-column", column.name.span, message);
            }
            let kind = match &column.kind {
                ColumnDefinitionKind::Physical {
                    flink_type,
                    nullable,
                } => {
                    let nullable = *nullable && !is_key(definition, &name);
                    TableColumnKind::Physical(Field::new(&name, flink_type.arrow(), nullable))
                }
                ColumnDefinitionKind::Metadata {
                    flink_type,
                    nullable,
                    key,
                    is_virtual,
                } => TableColumnKind::Metadata {
                    field: Field::new(&name, flink_type.arrow(), *nullable),
                    key: key.clone(),
                    is_virtual: *is_virtual,
                },
                ColumnDefinitionKind::Computed(expr) => {
                    TableColumnKind::Computed(expr.as_ref().clone())
                }
            };
            columns.push(TableColumn {
                name,
                kind,
                span: column.name.span,
            });
        }
        if columns.is_empty() {
            return fail(
                "no-columns",
                definition.name.span,
                format!("the table `{}` has no columns", definition.name.value),
            );
        }
        let table = Table {
            id,
            name: definition.name.value.clone(),
            columns,
            watermark: definition.watermark.clone(),
            primary_key: definition
                .primary_key
                .iter()
                .map(|key| key.value.clone())
                .collect(),
            partition_by: definition
                .partition_by
                .iter()
                .map(|key| key.value.clone())
                .collect(),
            options: definition.options.clone(),
            writable_metadata: connectors.writable_metadata(&definition.options),
            span: definition.name.span,
        };
        table.check_names(&definition.primary_key, "PRIMARY KEY")?;
        table.check_names(&definition.partition_by, "PARTITIONED BY")?;
        if let Some(watermark) = &table.watermark {
            table.check_names(std::slice::from_ref(&watermark.column), "WATERMARK FOR")?;
        }
        Ok(table)
    }

    fn check_names(&self, names: &[Ident], clause: &str) -> Outcome<()> {
        for (i, name) in names.iter().enumerate() {
            let Some(column) = self.columns.iter().find(|column| column.name == name.value) else {
                let names = self.columns.iter().map(|column| column.name.as_str());
                return Err(Box::new(
                    Diagnostic::error(
                        "unknown-column",
                        name.span,
                        format!(
                            "{clause} names `{}`, which the table does not have",
                            name.value
                        ),
                    )
                    .with_optional_hint(did_you_mean(&name.value, names)),
                ));
            };
            let computed = matches!(column.kind, TableColumnKind::Computed(_));
            if computed && clause != "WATERMARK FOR" {
                let message = format!("{clause} cannot name the computed column `{}`", name.value);
                return fail("invalid-definition", name.span, message);
            }
            if names[..i].iter().any(|other| other.value == name.value) {
                let message = format!("{clause} names `{}` twice", name.value);
                return fail("duplicate-column", name.span, message);
            }
        }
        Ok(())
    }

    /// The columns that the format reads.
    pub(crate) fn physical(&self) -> Vec<Field> {
        self.columns
            .iter()
            .filter_map(|column| match &column.kind {
                TableColumnKind::Physical(field) => Some(field.clone()),
                _ => None,
            })
            .collect()
    }

    /// The columns that the connector fills, with their keys.
    pub(crate) fn metadata(&self) -> Vec<(String, Field)> {
        self.columns
            .iter()
            .filter_map(|column| match &column.kind {
                TableColumnKind::Metadata { field, key, .. } => Some((key.clone(), field.clone())),
                _ => None,
            })
            .collect()
    }

    /// The columns of the table as a sink: the physical ones, and metadata that can be written.
    pub(crate) fn sink_schema(&self) -> SchemaRef {
        let columns = self.columns.iter();
        let fields: Vec<Field> = columns
            .filter_map(|column| match &column.kind {
                TableColumnKind::Physical(field) => Some(field.clone()),
                TableColumnKind::Metadata {
                    field,
                    key,
                    is_virtual: false,
                } if self.can_write(key) => {
                    let noted = [(METADATA_KEY.to_owned(), key.clone())];
                    Some(field.clone().with_metadata(noted.into()))
                }
                TableColumnKind::Metadata { .. } | TableColumnKind::Computed(_) => None,
            })
            .collect();
        Arc::new(Schema::new(fields))
    }

    /// Whether the connector writes this metadata.
    pub(crate) fn can_write(&self, key: &str) -> bool {
        self.writable_metadata.contains(&key)
    }

    /// `(connector 'filesystem', format 'json')`.
    pub(crate) fn connector_text(&self) -> String {
        let connector = self.options.get("connector").map_or("", String::as_str);
        match self.options.get("format") {
            Some(format) => format!("(connector '{connector}', format '{format}')"),
            None => format!("(connector '{connector}')"),
        }
    }
}

fn is_key(definition: &CreateTable, name: &str) -> bool {
    definition.primary_key.iter().any(|key| key.value == name)
}

/// Checks the type of an event-time column.
pub(crate) fn check_event_time(data_type: &DataType, span: Span) -> Outcome<()> {
    match data_type {
        DataType::Timestamp(TimeUnit::Millisecond, _) => Ok(()),
        DataType::Timestamp(_, _) => Err(Box::new(
            Diagnostic::error(
                "invalid-watermark",
                span,
                format!(
                    "event time has at most millisecond precision, but the column is {}",
                    type_name(data_type)
                ),
            )
            .with_hint("declare it as TIMESTAMP(3) or TIMESTAMP_LTZ(3), or add a computed column CAST(ts AS TIMESTAMP(3))"),
        )),
        other => Err(Box::new(
            Diagnostic::error(
                "invalid-watermark",
                span,
                format!(
                    "the event-time column must be TIMESTAMP(3) or TIMESTAMP_LTZ(3), not {}",
                    type_name(other)
                ),
            )
            .with_hint("add a computed column such as TO_TIMESTAMP(text) or TO_TIMESTAMP_LTZ(millis, 3)"),
        )),
    }
}

/// Everything a script has declared so far.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    entries: BTreeMap<String, Entry>,
    /// Names whose definition failed: using them is no further error.
    broken: BTreeMap<String, ()>,
}

/// A table or a view.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Table(Arc<Table>),
    View(Arc<CreateView>),
}

impl Catalog {
    pub(crate) fn insert(&mut self, name: &str, entry: Entry) {
        self.broken.remove(name);
        self.entries.insert(name.to_string(), entry);
    }

    pub(crate) fn insert_broken(&mut self, name: &str) {
        self.broken.insert(name.to_string(), ());
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Entry> {
        self.broken.remove(name);
        self.entries.remove(name)
    }

    /// Whether the name was declared, well or not.
    pub(crate) fn is_declared(&self, name: &str) -> bool {
        self.entries.contains_key(name) || self.broken.contains_key(name)
    }

    /// The table or view, or the error of its absence.
    pub(crate) fn resolve(&self, name: &Ident) -> Outcome<&Entry> {
        if let Some(entry) = self.entries.get(&name.value) {
            return Ok(entry);
        }
        if self.broken.contains_key(&name.value) {
            // Reported at its definition; this one is dropped by the caller.
            return fail(
                "broken-reference",
                name.span,
                format!("`{}` has errors", name.value),
            );
        }
        let same_but_case = self
            .entries
            .keys()
            .find(|other| other.eq_ignore_ascii_case(&name.value));
        let hint = match same_but_case {
            Some(other) => Some(format!("names are case-sensitive: did you mean `{other}`?")),
            None => did_you_mean(&name.value, self.entries.keys().map(String::as_str)),
        };
        Err(Box::new(
            Diagnostic::error(
                "unknown-table",
                name.span,
                format!("unknown table or view `{}`", name.value),
            )
            .with_optional_hint(hint.or_else(|| {
                self.entries
                    .is_empty()
                    .then(|| "declare it with CREATE TABLE or CREATE VIEW".to_string())
            })),
        ))
    }
}
