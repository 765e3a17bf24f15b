//! Flink's SQL types, their text, and the Arrow types that carry them.
//!
//! Lengths of CHAR, VARCHAR, BINARY and VARBINARY and the exact timestamp precision matter
//! only to CAST; in a dataflow a column has the Arrow type alone.

use std::{fmt, sync::Arc};

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

/// A type as written in SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FlinkType {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Float,
    Double,
    Decimal(u8, i8),
    /// `CHAR(n)`.
    Char(u32),
    /// `VARCHAR(n)`; `STRING` without a length.
    VarChar(Option<u32>),
    /// `BINARY(n)`.
    Binary(u32),
    /// `VARBINARY(n)`; `BYTES` without a length.
    VarBinary(Option<u32>),
    Date,
    Time(u8),
    Timestamp(u8),
    TimestampLtz(u8),
    Array(Box<FlinkType>),
    Map(Box<FlinkType>, Box<FlinkType>),
    Row(Vec<(String, FlinkType, bool)>),
}

impl FlinkType {
    /// The Arrow type that carries it.
    pub(crate) fn arrow(&self) -> DataType {
        match self {
            FlinkType::Boolean => DataType::Boolean,
            FlinkType::TinyInt => DataType::Int8,
            FlinkType::SmallInt => DataType::Int16,
            FlinkType::Int => DataType::Int32,
            FlinkType::BigInt => DataType::Int64,
            FlinkType::Float => DataType::Float32,
            FlinkType::Double => DataType::Float64,
            FlinkType::Decimal(precision, scale) => DataType::Decimal128(*precision, *scale),
            FlinkType::Char(_) | FlinkType::VarChar(_) => DataType::Utf8,
            FlinkType::Binary(_) | FlinkType::VarBinary(_) => DataType::Binary,
            FlinkType::Date => DataType::Date32,
            FlinkType::Time(_) => DataType::Time32(TimeUnit::Millisecond),
            FlinkType::Timestamp(precision) => DataType::Timestamp(unit(*precision), None),
            FlinkType::TimestampLtz(precision) => {
                DataType::Timestamp(unit(*precision), Some(utc()))
            }
            FlinkType::Array(element) => {
                DataType::List(Arc::new(Field::new("item", element.arrow(), true)))
            }
            FlinkType::Map(key, value) => map_type(key.arrow(), value.arrow()),
            FlinkType::Row(fields) => DataType::Struct(
                fields
                    .iter()
                    .map(|(name, field, nullable)| Field::new(name, field.arrow(), *nullable))
                    .collect::<Fields>(),
            ),
        }
    }
}

impl fmt::Display for FlinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlinkType::Char(length) => write!(f, "CHAR({length})"),
            FlinkType::VarChar(Some(length)) => write!(f, "VARCHAR({length})"),
            FlinkType::Binary(length) => write!(f, "BINARY({length})"),
            FlinkType::VarBinary(Some(length)) => write!(f, "VARBINARY({length})"),
            FlinkType::Time(precision) => write!(f, "TIME({precision})"),
            FlinkType::Timestamp(precision) => write!(f, "TIMESTAMP({precision})"),
            FlinkType::TimestampLtz(precision) => write!(f, "TIMESTAMP_LTZ({precision})"),
            FlinkType::Array(element) => write!(f, "ARRAY<{element}>"),
            FlinkType::Map(key, value) => write!(f, "MAP<{key}, {value}>"),
            FlinkType::Row(fields) => {
                f.write_str("ROW<")?;
                for (i, (name, field, nullable)) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    let not_null = if *nullable { "" } else { " NOT NULL" };
                    write!(f, "{comma}`{}` {field}{not_null}", name.replace('`', "``"))?;
                }
                f.write_str(">")
            }
            other => f.write_str(&type_name(&other.arrow())),
        }
    }
}

/// The zone that all `TIMESTAMP_LTZ` columns carry: instants, shown in the session's zone.
pub(crate) fn utc() -> Arc<str> {
    Arc::from("UTC")
}

/// The Arrow unit that holds timestamps of this precision.
pub(crate) fn unit(precision: u8) -> TimeUnit {
    match precision {
        0..=3 => TimeUnit::Millisecond,
        4..=6 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// `Timestamp(Millisecond)`, with or without zone.
pub(crate) fn timestamp_ms(zoned: bool) -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, zoned.then(utc))
}

/// Arrow's map type with Flink's nullability: keys never null, values may be.
pub(crate) fn map_type(key: DataType, value: DataType) -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", key, false),
        Field::new("value", value, true),
    ]);
    DataType::Map(
        Arc::new(Field::new("entries", DataType::Struct(entries), false)),
        false,
    )
}

/// The SQL name of an Arrow type, for messages and plans.
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "NULL".into(),
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Utf8 => "STRING".into(),
        DataType::Binary => "BYTES".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Time32(_) => "TIME".into(),
        DataType::Timestamp(unit, zone) => {
            let precision = match unit {
                TimeUnit::Second => 0,
                TimeUnit::Millisecond => 3,
                TimeUnit::Microsecond => 6,
                TimeUnit::Nanosecond => 9,
            };
            let ltz = if zone.is_some() { "_LTZ" } else { "" };
            format!("TIMESTAMP{ltz}({precision})")
        }
        DataType::List(element) => format!("ARRAY<{}>", type_name(element.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => format!(
                "MAP<{}, {}>",
                type_name(fields[0].data_type()),
                type_name(fields[1].data_type())
            ),
            other => format!("MAP of {other}"),
        },
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| format!("{} {}", field.name(), type_name(field.data_type())))
                .collect();
            format!("ROW<{}>", fields.join(", "))
        }
        DataType::Interval(_) => "INTERVAL".into(),
        other => other.to_string(),
    }
}

/// Whether two types are equal but for names and nullability inside.
pub(crate) fn same_type(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => same_type(a.data_type(), b.data_type()),
        (DataType::Map(a, _), DataType::Map(b, _)) => same_type(a.data_type(), b.data_type()),
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len()
                && a.iter()
                    .zip(b)
                    .all(|(a, b)| same_type(a.data_type(), b.data_type()))
        }
        _ => a == b,
    }
}
