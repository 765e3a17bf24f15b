//! [`FormatSpec`]: the format of a table, from its `WITH` options and schema.
//!
//! Everything that can be wrong with the options or that the format cannot hold is found
//! here, when a statement is checked, not when the job runs.

mod message;
mod options;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, SchemaRef, TimeUnit};

use crate::decode::{
    Column, CsvDecoder, CsvDialect, DEFAULT_MAX_RECORD_BYTES, Decoder, DecoderConfig, JsonDecoder,
    MAX_RECORD_LIMIT, OnError, RawDecoder,
};
use crate::encode::{CsvEncoder, DebeziumEncoder, Encoder, JsonEncoder, JsonStyle, RawEncoder};
use crate::error::FormatError;
use crate::parquet::ParquetCompression;
use crate::sql_type::{check_text_type, sql_type_name};

pub use message::MessageSpec;
use options::Options;

/// The formats there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FormatKind {
    /// Newline-delimited JSON objects.
    Json,
    /// Comma-separated values.
    Csv,
    /// Lines as they are.
    Raw,
    /// JSON objects that say what they change.
    DebeziumJson,
    /// Parquet files.
    Parquet,
}

impl FormatKind {
    pub(crate) const ALL: [FormatKind; 5] = [
        FormatKind::Json,
        FormatKind::Csv,
        FormatKind::Raw,
        FormatKind::DebeziumJson,
        FormatKind::Parquet,
    ];

    /// The value of option `format`.
    pub fn name(self) -> &'static str {
        match self {
            FormatKind::Json => "json",
            FormatKind::Csv => "csv",
            FormatKind::Raw => "raw",
            FormatKind::DebeziumJson => "debezium-json",
            FormatKind::Parquet => "parquet",
        }
    }
}

/// How the bytes of a table are read and written.
#[derive(Debug, Clone, PartialEq)]
pub struct FormatSpec {
    schema: SchemaRef,
    on_error: OnError,
    max_record_bytes: usize,
    format: Format,
}

#[derive(Debug, Clone, PartialEq)]
enum Format {
    Json {
        fail_on_missing_field: bool,
        style: JsonStyle,
    },
    Csv {
        dialect: CsvDialect,
        null_literal: String,
        header: bool,
    },
    Raw,
    DebeziumJson {
        style: JsonStyle,
    },
    Parquet {
        compression: ParquetCompression,
    },
}

impl FormatSpec {
    /// Whether `key` of a table's `WITH` options belongs to the format: everything else is
    /// the connector's to check.
    pub fn owns_option(key: &str) -> bool {
        options::owns(key)
    }

    /// The options of all formats, with their prefixes: what [`FormatSpec::owns_option`] lets
    /// through and `from_options` takes.
    pub fn option_names() -> Vec<String> {
        options::all()
    }

    /// The format that `options` (all of the table's `WITH` options) describe for rows of
    /// `schema` (the table's physical columns).
    ///
    /// # Errors
    /// For an unknown format, an unknown option of a format's prefix (naming the nearest
    /// valid one), a bad value, or a column that the format cannot hold.
    pub fn from_options(
        options: &BTreeMap<String, String>,
        schema: &SchemaRef,
    ) -> Result<FormatSpec, FormatError> {
        let options = Options::new(options)?;
        let max_record_bytes = match options.kind {
            FormatKind::Parquet => DEFAULT_MAX_RECORD_BYTES,
            _ => options.number(
                "max-record-bytes",
                DEFAULT_MAX_RECORD_BYTES,
                1,
                MAX_RECORD_LIMIT,
            )?,
        };
        let format = match options.kind {
            FormatKind::Json => {
                options.refuse_ignore_parse_errors()?;
                options.require_plain_decimals()?;
                Format::Json {
                    fail_on_missing_field: options.boolean("fail-on-missing-field", false)?,
                    style: json_style(&options)?,
                }
            }
            FormatKind::DebeziumJson => {
                options.require_plain_decimals()?;
                Format::DebeziumJson {
                    style: json_style(&options)?,
                }
            }
            FormatKind::Csv => {
                options.refuse_ignore_parse_errors()?;
                csv_format(&options)?
            }
            FormatKind::Raw => Format::Raw,
            FormatKind::Parquet => Format::Parquet {
                compression: options.choice(
                    "compression",
                    &[
                        ("snappy", ParquetCompression::Snappy),
                        ("zstd", ParquetCompression::Zstd),
                        ("lz4", ParquetCompression::Lz4),
                        ("none", ParquetCompression::None),
                    ],
                )?,
            },
        };
        let on_error = options.on_error()?;
        check_columns(options.kind, schema)?;
        Ok(FormatSpec {
            schema: SchemaRef::clone(schema),
            on_error,
            max_record_bytes,
            format,
        })
    }

    /// Which format it is.
    pub fn kind(&self) -> FormatKind {
        match self.format {
            Format::Json { .. } => FormatKind::Json,
            Format::Csv { .. } => FormatKind::Csv,
            Format::Raw => FormatKind::Raw,
            Format::DebeziumJson { .. } => FormatKind::DebeziumJson,
            Format::Parquet { .. } => FormatKind::Parquet,
        }
    }

    /// The rows it is for.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What becomes of malformed records.
    pub fn on_error(&self) -> OnError {
        self.on_error
    }

    /// Whether files hold columns rather than records: they are read with
    /// [`ParquetReader`](crate::ParquetReader) and written with
    /// [`ParquetFileWriter`](crate::ParquetFileWriter) instead of decoder and encoder.
    pub fn is_columnar_file(&self) -> bool {
        matches!(self.format, Format::Parquet { .. })
    }

    /// Whether rows other than insertions can be written.
    pub fn accepts_changelog(&self) -> bool {
        matches!(self.format, Format::DebeziumJson { .. })
    }

    /// Whether a decoder that starts within a file needs the file's header: see
    /// [`DecoderConfig::header`].
    pub fn has_header(&self) -> bool {
        matches!(self.format, Format::Csv { header: true, .. })
    }

    /// The usual extension of file names, without the dot.
    pub fn file_extension(&self) -> &'static str {
        match self.format {
            Format::Json { .. } | Format::DebeziumJson { .. } => "json",
            Format::Csv { .. } => "csv",
            Format::Raw => "txt",
            Format::Parquet { .. } => "parquet",
        }
    }

    /// The compression for [`ParquetFileWriter`](crate::ParquetFileWriter), if this is Parquet.
    pub fn parquet_compression(&self) -> Option<ParquetCompression> {
        match self.format {
            Format::Parquet { compression } => Some(compression),
            _ => None,
        }
    }

    /// A configuration with this table's error handling and record limit, starting at the
    /// beginning.
    pub fn decoder_config(&self) -> DecoderConfig {
        DecoderConfig {
            on_error: self.on_error,
            max_record_bytes: self.max_record_bytes,
            ..DecoderConfig::default()
        }
    }

    /// A decoder; see [`decoder_config`](Self::decoder_config) for a configuration to start
    /// from.
    ///
    /// # Errors
    /// For Parquet and `debezium-json`, which have none, and when a CSV header that is needed
    /// is missing or does not fit.
    pub fn decoder(&self, config: &DecoderConfig) -> Result<Box<dyn Decoder>, FormatError> {
        let mut config = config.clone();
        config.max_record_bytes = config.max_record_bytes.clamp(1, MAX_RECORD_LIMIT);
        let schema = SchemaRef::clone(&self.schema);
        let columns = || columns(self.kind(), &self.schema);
        Ok(match &self.format {
            Format::Json {
                fail_on_missing_field,
                ..
            } => Box::new(JsonDecoder::new(
                schema,
                columns()?,
                *fail_on_missing_field,
                &config,
            )),
            Format::Csv {
                dialect,
                null_literal,
                header,
            } => Box::new(CsvDecoder::new(
                schema,
                columns()?,
                *dialect,
                null_literal.clone(),
                *header,
                &config,
            )?),
            Format::Raw => {
                let mut columns = columns()?;
                match (columns.pop(), columns.is_empty()) {
                    (Some(column), true) => Box::new(RawDecoder::new(schema, column, &config)),
                    _ => return Err(raw_needs_one_column()),
                }
            }
            Format::DebeziumJson { .. } => {
                return Err(FormatError::Unsupported {
                    format: "debezium-json",
                    problem: "can be written but not read yet; read the changes as 'json'",
                });
            }
            Format::Parquet { .. } => return Err(parquet_is_columnar()),
        })
    }

    /// An encoder.
    ///
    /// # Errors
    /// For Parquet, which has none.
    pub fn encoder(&self) -> Result<Box<dyn Encoder>, FormatError> {
        let schema = SchemaRef::clone(&self.schema);
        Ok(match &self.format {
            Format::Json { style, .. } => Box::new(JsonEncoder::new(schema, *style)),
            Format::DebeziumJson { style } => Box::new(DebeziumEncoder::new(schema, *style)),
            Format::Csv {
                dialect,
                null_literal,
                header,
            } => Box::new(CsvEncoder::new(
                schema,
                *dialect,
                null_literal.clone(),
                *header,
            )),
            Format::Raw => Box::new(RawEncoder::new(schema)),
            Format::Parquet { .. } => return Err(parquet_is_columnar()),
        })
    }
}

/// Columns to collect rows of `schema` in.
fn columns(kind: FormatKind, schema: &SchemaRef) -> Result<Vec<Column>, FormatError> {
    let fields = schema.fields().iter();
    fields
        .map(|field| {
            Column::new(field)
                .ok_or_else(|| unsupported(kind, field.name().clone(), field.data_type()))
        })
        .collect()
}

fn json_style(options: &Options<'_>) -> Result<JsonStyle, FormatError> {
    Ok(JsonStyle {
        separator: options.choice(
            "timestamp-format.standard",
            &[("SQL", b' '), ("ISO-8601", b'T')],
        )?,
        ignore_null_fields: options.boolean("encode.ignore-null-fields", false)?,
    })
}

fn csv_format(options: &Options<'_>) -> Result<Format, FormatError> {
    let delimiter = options.byte("field-delimiter", Some(b','))?.unwrap_or(b',');
    let quote = options.byte("quote-character", Some(b'"'))?;
    let escape = options.byte("escape-character", None)?;
    let disabled = options.boolean("disable-quote-character", false)?;
    if disabled {
        options.refuse_beside("quote-character", "'csv.disable-quote-character' = 'true'")?;
    }
    let quote = quote.filter(|_| !disabled);
    for (name, byte) in [("quote-character", quote), ("escape-character", escape)] {
        if byte == Some(delimiter)
            || (byte.is_some() && name == "escape-character" && byte == quote)
        {
            return Err(options.bad_value(
                name,
                "a character that is not the delimiter or the quote character already",
            ));
        }
    }
    let null_literal = options.text("null-literal").unwrap_or("").to_owned();
    let dialect = CsvDialect {
        delimiter,
        quote,
        escape,
        comments: options.boolean("allow-comments", false)?,
    };
    let special =
        |byte: u8| byte == delimiter || Some(byte) == quote || byte == b'\n' || byte == b'\r';
    if null_literal.bytes().any(special) {
        return Err(options.bad_value(
            "null-literal",
            "text without the delimiter, the quote character and line ends",
        ));
    }
    if dialect.is_comment(null_literal.as_bytes()) {
        return Err(options.bad_value(
            "null-literal",
            "text that does not begin with '#', as comments do under 'csv.allow-comments'",
        ));
    }
    Ok(Format::Csv {
        dialect,
        null_literal,
        header: options.boolean("header", true)?,
    })
}

fn unsupported(kind: FormatKind, column: String, data_type: &DataType) -> FormatError {
    FormatError::UnsupportedColumn {
        format: kind.name(),
        column,
        sql_type: sql_type_name(data_type),
        hint: match kind {
            FormatKind::Csv => "CSV has no nested values; use 'json', or a STRING column",
            FormatKind::Raw => "declare one column of type STRING or BYTES",
            FormatKind::Parquet => "declare it with precision 3, 6 or 9",
            FormatKind::Json | FormatKind::DebeziumJson => "CAST it to a type that is",
        },
    }
}

fn raw_needs_one_column() -> FormatError {
    FormatError::Unsupported {
        format: "raw",
        problem: "needs a table of exactly one physical column, a STRING or BYTES",
    }
}

fn parquet_is_columnar() -> FormatError {
    FormatError::Unsupported {
        format: "parquet",
        problem: "is read and written by whole files, not as a stream of records; use it with \
                  a connector for files",
    }
}

/// Checks that the format can hold every column.
fn check_columns(kind: FormatKind, schema: &SchemaRef) -> Result<(), FormatError> {
    if kind == FormatKind::Raw {
        let [field] = schema.fields().as_ref() else {
            return Err(raw_needs_one_column());
        };
        if !matches!(field.data_type(), DataType::Utf8 | DataType::Binary) {
            return Err(unsupported(kind, field.name().clone(), field.data_type()));
        }
    }
    for field in schema.fields() {
        let nested = kind != FormatKind::Csv;
        check_text_type(field.name(), field.data_type(), nested)
            .map_err(|(path, data_type)| unsupported(kind, path, &data_type))?;
        // Parquet has no unit of seconds: such a column would come back as a number.
        if kind == FormatKind::Parquet
            && matches!(
                field.data_type(),
                DataType::Timestamp(TimeUnit::Second, _) | DataType::Time32(TimeUnit::Second)
            )
        {
            return Err(unsupported(kind, field.name().clone(), field.data_type()));
        }
    }
    Ok(())
}
