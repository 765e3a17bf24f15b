//! SQL names of Arrow types, for messages, and the check that a format can hold a table.

use arrow::datatypes::{DataType, TimeUnit};

/// The SQL name of a column type, as in `TIMESTAMP_LTZ(3)`.
pub fn sql_type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTES".to_owned(),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Time32(unit) | DataType::Time64(unit) => {
            format!("TIME({})", fraction_digits(*unit))
        }
        DataType::Timestamp(unit, None) => format!("TIMESTAMP({})", fraction_digits(*unit)),
        DataType::Timestamp(unit, Some(_)) => {
            format!("TIMESTAMP_LTZ({})", fraction_digits(*unit))
        }
        DataType::List(field) => format!("ARRAY<{}>", sql_type_name(field.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| format!("{} {}", field.name(), sql_type_name(field.data_type())))
                .collect();
            format!("ROW<{}>", fields.join(", "))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => format!(
                "MAP<{}, {}>",
                sql_type_name(fields[0].data_type()),
                sql_type_name(fields[1].data_type())
            ),
            other => format!("MAP of {other}"),
        },
        // Types without an SQL name only come from foreign files.
        other => format!("{other}"),
    }
}

/// Digits after the second that a unit can hold: 0, 3, 6 or 9.
pub(crate) fn fraction_digits(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Whether the text formats read and write this type: every scalar SQL type, and with
/// `nested` also ARRAY, ROW and MAP with string keys over such types. Otherwise the path
/// (below `path`) and type that is in the way.
pub(crate) fn check_text_type(
    path: &str,
    data_type: &DataType,
    nested: bool,
) -> Result<(), (String, DataType)> {
    match data_type {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Binary
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, None) => Ok(()),
        DataType::Decimal128(_, scale) if *scale >= 0 => Ok(()),
        DataType::Timestamp(_, Some(zone)) if is_utc(zone) => Ok(()),
        DataType::List(field) if nested => {
            check_text_type(&format!("{path}[]"), field.data_type(), nested)
        }
        DataType::Struct(fields) if nested => fields.iter().try_for_each(|field| {
            check_text_type(
                &format!("{path}.{}", field.name()),
                field.data_type(),
                nested,
            )
        }),
        DataType::Map(entries, _) if nested => match entries.data_type() {
            DataType::Struct(fields)
                if fields.len() == 2 && *fields[0].data_type() == DataType::Utf8 =>
            {
                check_text_type(&format!("{path}{{}}"), fields[1].data_type(), nested)
            }
            _ => Err((path.to_owned(), data_type.clone())),
        },
        other => Err((path.to_owned(), other.clone())),
    }
}

/// Whether a time zone label means UTC.
pub(crate) fn is_utc(zone: &str) -> bool {
    matches!(
        zone,
        "UTC" | "utc" | "Z" | "+00:00" | "+00" | "Etc/UTC" | "GMT"
    )
}
