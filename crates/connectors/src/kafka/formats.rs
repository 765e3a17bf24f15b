//! Which columns of a table are in the key and which in the value of a record, and the formats
//! of both.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{Field, Schema, SchemaRef};
use millrace_dataflow::TableOptions;
use millrace_formats::MessageSpec;

use crate::source::{ConnectorError, with_causes};

/// One side of a record.
#[derive(Debug, Clone)]
pub(super) struct Side {
    /// Its columns, by their place among those of the table.
    pub(super) columns: Vec<usize>,
    /// Its format, over these columns under the names that they have in it.
    pub(super) spec: MessageSpec,
}

/// Both sides of a table's records.
#[derive(Debug, Clone)]
pub(super) struct RecordFormats {
    pub(super) key: Option<Side>,
    pub(super) value: Side,
}

/// What the key consists of.
pub(super) enum KeyColumns<'a> {
    /// What `key.fields` names.
    Option,
    /// The primary key.
    Primary(&'a [usize]),
}

impl RecordFormats {
    /// From the options, over the table's columns.
    pub(super) fn new(
        table: &str,
        options: &TableOptions,
        schema: &SchemaRef,
        key_columns: KeyColumns<'_>,
    ) -> Result<Self, ConnectorError> {
        let fault = |text: String| ConnectorError(format!("table `{table}`: {text}"));
        let prefix = options.get("key.fields-prefix").map_or("", String::as_str);
        let (key, named_by) = match key_columns {
            KeyColumns::Option => (named(options, schema).map_err(fault)?, "'key.fields'"),
            KeyColumns::Primary(columns) => (columns.to_vec(), "the primary key"),
        };
        let all = match options.get("value.fields-include").map(String::as_str) {
            None | Some("ALL") => true,
            Some("EXCEPT_KEY") => false,
            Some(other) => {
                return Err(fault(format!(
                    "option 'value.fields-include' = '{other}': expected 'ALL' or 'EXCEPT_KEY'"
                )));
            }
        };
        if !prefix.is_empty() && all {
            return Err(fault(
                "'key.fields-prefix' goes with 'value.fields-include' = 'EXCEPT_KEY', or the value would have the prefixed names too".to_owned(),
            ));
        }
        let key_side = match (options.get("key.format"), key.is_empty()) {
            (None, true) => None,
            (None, false) => {
                return Err(fault(format!(
                    "'key.format' is missing, the format of {named_by}"
                )));
            }
            (Some(_), true) => {
                return Err(fault(format!(
                    "'key.format' needs 'key.fields', the columns of the key{}",
                    if prefix.is_empty() {
                        ""
                    } else {
                        " (with their prefix)"
                    }
                )));
            }
            (Some(_), false) => {
                let mut fields = Vec::with_capacity(key.len());
                for index in &key {
                    let field = schema.field(*index);
                    let name = field.name().strip_prefix(prefix).ok_or_else(|| {
                        fault(format!(
                            "column `{}` of {named_by} does not begin with 'key.fields-prefix' = '{prefix}'",
                            field.name()
                        ))
                    })?;
                    fields.push(field.clone().with_name(name));
                }
                Some(
                    side("key.", options, key.clone(), fields)
                        .map_err(|why| fault(format!("key: {why}")))?,
                )
            }
        };
        let columns: Vec<usize> = (0..schema.fields().len())
            .filter(|index| all || !key.contains(index))
            .collect();
        if columns.is_empty() {
            return Err(fault(
                "all columns are in the key: set 'value.fields-include' = 'ALL', or declare one more".to_owned(),
            ));
        }
        let fields = columns
            .iter()
            .map(|index| schema.field(*index).clone())
            .collect();
        let value = side("value.", options, columns, fields).map_err(fault)?;
        Ok(RecordFormats {
            key: key_side,
            value,
        })
    }
}

impl Side {
    /// Only those of its columns, if its format finds columns by name. A side without any of them
    /// keeps one, since a decoder counts rows by columns.
    pub(super) fn pruned(
        &self,
        table: &str,
        options: &TableOptions,
        prefix: &str,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Side, ConnectorError> {
        if !self.spec.is_by_name() {
            return Ok(self.clone());
        }
        let mut kept: Vec<usize> = (0..self.columns.len())
            .filter(|place| wanted(self.columns[*place]))
            .collect();
        if kept.is_empty() {
            kept.push(0);
        }
        let fields = kept
            .iter()
            .map(|place| self.spec.schema().field(*place).clone())
            .collect();
        let columns = kept.iter().map(|place| self.columns[*place]).collect();
        side(prefix, options, columns, fields)
            .map_err(|why| ConnectorError(format!("table `{table}`: {why}")))
    }
}

/// The columns that `key.fields` names.
fn named(options: &TableOptions, schema: &SchemaRef) -> Result<Vec<usize>, String> {
    let names = options.get("key.fields").map_or("", String::as_str);
    let mut columns = Vec::new();
    for name in names
        .split(';')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        let index = schema.index_of(name).map_err(|_| {
            let all: Vec<&str> = schema
                .fields()
                .iter()
                .map(|field| field.name().as_str())
                .collect();
            format!(
                "'key.fields' names '{name}', which is not among the physical columns {}",
                all.join(", ")
            )
        })?;
        if columns.contains(&index) {
            return Err(format!("'key.fields' names '{name}' twice"));
        }
        columns.push(index);
    }
    Ok(columns)
}

/// `prefix` is `key.` or `value.`; options of the value's format may do without.
fn side(
    prefix: &str,
    options: &TableOptions,
    columns: Vec<usize>,
    fields: Vec<Field>,
) -> Result<Side, String> {
    let is_value = prefix == "value.";
    let prefixed = options.get(&format!("{prefix}format"));
    let format = match (prefixed, options.get("format").filter(|_| is_value)) {
        (Some(_), Some(_)) => {
            return Err("'format' and 'value.format' are the same: give one".to_owned());
        }
        (Some(format), None) | (None, Some(format)) => format,
        (None, None) => {
            return Err("option 'format' is missing; give 'json', 'csv' or 'raw'".to_owned());
        }
    };
    let mut own = BTreeMap::from([("format".to_owned(), format.clone())]);
    for (key, value) in options {
        let name = match key.strip_prefix(prefix) {
            Some(name) => name,
            None if is_value => key,
            None => continue,
        };
        if name
            .strip_prefix(format.as_str())
            .is_some_and(|rest| rest.starts_with('.'))
        {
            own.insert(name.to_owned(), value.clone());
        }
    }
    let schema = Arc::new(Schema::new(fields));
    let spec = MessageSpec::from_options(&own, &schema).map_err(|error| with_causes(&error))?;
    Ok(Side { columns, spec })
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    fn formats(options: &[(&str, &str)]) -> Result<RecordFormats, String> {
        let options = options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let fields = [
            ("k_id", DataType::Int64),
            ("id", DataType::Int64),
            ("v", DataType::Utf8),
        ]
        .map(|(name, data_type)| Field::new(name, data_type, true));
        let schema = Arc::new(Schema::new(fields.to_vec()));
        RecordFormats::new("t", &options, &schema, KeyColumns::Option).map_err(|error| error.0)
    }

    #[test]
    fn columns_are_shared_out() {
        let plain = formats(&[("format", "json")]).unwrap();
        assert!(plain.key.is_none());
        assert_eq!(plain.value.columns, [0, 1, 2]);

        let both = formats(&[
            ("value.format", "csv"),
            ("key.format", "json"),
            ("key.fields", "v;id"),
        ])
        .unwrap();
        assert_eq!(both.key.unwrap().columns, [2, 1]);
        assert_eq!(both.value.columns, [0, 1, 2]);

        let apart = formats(&[
            ("format", "json"),
            ("key.format", "raw"),
            ("key.raw.endianness", "little-endian"),
            ("key.fields", "k_id"),
            ("key.fields-prefix", "k_"),
            ("value.fields-include", "EXCEPT_KEY"),
        ])
        .unwrap();
        let key = apart.key.unwrap();
        assert_eq!(key.spec.schema().field(0).name(), "id");
        assert_eq!(apart.value.columns, [1, 2]);

        let options = TableOptions::from([("format".to_owned(), "json".to_owned())]);
        let pruned = apart
            .value
            .pruned("t", &options, "value.", |column| column == 2)
            .unwrap();
        assert_eq!(pruned.columns, [2]);
        let counted = apart
            .value
            .pruned("t", &options, "value.", |_| false)
            .unwrap();
        assert_eq!(counted.columns, [1]);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (options, part) in [
            (vec![], "'format' is missing"),
            (
                vec![("format", "json"), ("value.format", "json")],
                "give one",
            ),
            (
                vec![("format", "json"), ("key.format", "raw")],
                "needs 'key.fields'",
            ),
            (
                vec![("format", "json"), ("key.fields", "id")],
                "'key.format' is missing",
            ),
            (
                vec![
                    ("format", "json"),
                    ("key.format", "raw"),
                    ("key.fields", "x"),
                ],
                "not among",
            ),
            (
                vec![
                    ("format", "json"),
                    ("key.format", "raw"),
                    ("key.fields", "id;v"),
                ],
                "key: format 'raw'",
            ),
            (
                vec![
                    ("format", "json"),
                    ("key.format", "raw"),
                    ("key.fields", "v"),
                    ("key.fields-prefix", "k_"),
                ],
                "EXCEPT_KEY",
            ),
            (
                vec![("format", "json"), ("value.fields-include", "SOME")],
                "'EXCEPT_KEY'",
            ),
            (vec![("format", "jsonn")], "json"),
        ] {
            let error = formats(&options).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
