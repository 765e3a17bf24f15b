//! [`MessageSpec`]: the format of records that come and go one by one, such as the messages of
//! a queue. Unlike a line of a file a message may hold line ends, and `raw` takes numbers too.

use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;

use crate::decode::{
    DEFAULT_MAX_RECORD_BYTES, Endianness, Layout, MAX_RECORD_LIMIT, Members, MessageDecoder,
    MessageParser, is_raw_type,
};
use crate::encode::{MessageEncoder, RawEncoder};
use crate::error::FormatError;

use super::{Format, FormatKind, FormatSpec, columns, raw_needs_one_column, unsupported};

/// How messages are read and written.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageSpec {
    schema: SchemaRef,
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    /// What files have too.
    Record(FormatSpec),
    Raw {
        endianness: Endianness,
        max_bytes: usize,
    },
}

impl MessageSpec {
    /// The format that `options` describe for rows of `schema`: `format` and the options with its
    /// prefix.
    ///
    /// # Errors
    /// As those of [`FormatSpec::from_options`]; also for Parquet, and for CSV with a header.
    pub fn from_options(
        options: &BTreeMap<String, String>,
        schema: &SchemaRef,
    ) -> Result<MessageSpec, FormatError> {
        let mut options = options.clone();
        let shape = match options.get("format").map(String::as_str) {
            Some("raw") => raw(&mut options, schema)?,
            Some("csv") => {
                let header = options
                    .entry("csv.header".to_owned())
                    .or_insert_with(|| "false".to_owned());
                if !header.eq_ignore_ascii_case("false") {
                    return Err(FormatError::BadOption {
                        option: "csv.header".to_owned(),
                        value: header.clone(),
                        expected: "'false': messages have no header line".to_owned(),
                    });
                }
                Shape::Record(FormatSpec::from_options(&options, schema)?)
            }
            _ => Shape::Record(FormatSpec::from_options(&options, schema)?),
        };
        if let Shape::Record(spec) = &shape
            && spec.is_columnar_file()
        {
            return Err(FormatError::Unsupported {
                format: "parquet",
                problem: "is for whole files; messages have format 'json', 'csv' or 'raw'",
            });
        }
        Ok(MessageSpec {
            schema: SchemaRef::clone(schema),
            shape,
        })
    }

    /// Which format it is.
    pub fn kind(&self) -> FormatKind {
        match &self.shape {
            Shape::Record(spec) => spec.kind(),
            Shape::Raw { .. } => FormatKind::Raw,
        }
    }

    /// The rows it is for.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether rows other than insertions can be written.
    pub fn accepts_changelog(&self) -> bool {
        matches!(&self.shape, Shape::Record(spec) if spec.accepts_changelog())
    }

    /// Whether a column is found by its name, so that those not needed can be left out.
    pub fn is_by_name(&self) -> bool {
        self.kind() == FormatKind::Json
    }

    /// A decoder.
    ///
    /// # Errors
    /// For `debezium-json`, which can only be written.
    pub fn decoder(&self) -> Result<MessageDecoder, FormatError> {
        let mut columns = columns(self.kind(), &self.schema)?;
        let (parser, max_bytes) = match &self.shape {
            Shape::Raw {
                endianness,
                max_bytes,
            } => (MessageParser::Raw(*endianness), *max_bytes),
            Shape::Record(spec) => {
                let parser = match &spec.format {
                    Format::Json {
                        fail_on_missing_field,
                        ..
                    } => MessageParser::Json(Members::new(
                        &self.schema,
                        &mut columns,
                        *fail_on_missing_field,
                    )),
                    Format::Csv {
                        dialect,
                        null_literal,
                        ..
                    } => MessageParser::Csv(Layout::by_position(
                        *dialect,
                        null_literal.clone(),
                        columns.len(),
                    )),
                    Format::Raw | Format::DebeziumJson { .. } | Format::Parquet { .. } => {
                        return Err(FormatError::Unsupported {
                            format: self.kind().name(),
                            problem: "can be written but not read yet; read the changes as 'json'",
                        });
                    }
                };
                (parser, spec.max_record_bytes)
            }
        };
        let schema = SchemaRef::clone(&self.schema);
        Ok(MessageDecoder::new(schema, columns, parser, max_bytes))
    }

    /// An encoder.
    ///
    /// # Errors
    /// None for the formats there are.
    pub fn encoder(&self) -> Result<MessageEncoder, FormatError> {
        let schema = SchemaRef::clone(&self.schema);
        Ok(match &self.shape {
            Shape::Raw { endianness, .. } => MessageEncoder::raw(schema, *endianness),
            Shape::Record(spec) => match spec.format {
                Format::Csv { .. } => MessageEncoder::rows(spec.encoder()?),
                Format::Raw => MessageEncoder::rows(Box::new(RawEncoder::new(schema))),
                Format::Json { .. } | Format::DebeziumJson { .. } | Format::Parquet { .. } => {
                    MessageEncoder::lines(spec.encoder()?)
                }
            },
        })
    }
}

/// `raw` for messages; its options are taken out of `options`.
fn raw(options: &mut BTreeMap<String, String>, schema: &SchemaRef) -> Result<Shape, FormatError> {
    let [field] = schema.fields().as_ref() else {
        return Err(raw_needs_one_column());
    };
    if !is_raw_type(field.data_type()) {
        let mut error = unsupported(FormatKind::Raw, field.name().clone(), field.data_type());
        if let FormatError::UnsupportedColumn { hint, .. } = &mut error {
            *hint = "declare one column of type STRING, BYTES, BOOLEAN or a number";
        }
        return Err(error);
    }
    let bad = |option: &str, value: String, expected: &str| FormatError::BadOption {
        option: option.to_owned(),
        value,
        expected: expected.to_owned(),
    };
    let endianness = match options.remove("raw.endianness") {
        None => Endianness::Big,
        Some(text) if text == "big-endian" => Endianness::Big,
        Some(text) if text == "little-endian" => Endianness::Little,
        Some(text) => {
            let expected = "'big-endian' or 'little-endian'";
            return Err(bad("raw.endianness", text, expected));
        }
    };
    if let Some(charset) = options.remove("raw.charset")
        && !charset.eq_ignore_ascii_case("utf-8")
    {
        return Err(bad("raw.charset", charset, "'UTF-8'"));
    }
    let max_bytes = match options.remove("raw.max-record-bytes") {
        None => DEFAULT_MAX_RECORD_BYTES,
        Some(text) => match text.parse() {
            Ok(number) if (1..=MAX_RECORD_LIMIT).contains(&number) => number,
            _ => {
                let expected = format!("a whole number from 1 to {MAX_RECORD_LIMIT}");
                return Err(bad("raw.max-record-bytes", text, &expected));
            }
        },
    };
    if let Some(option) = options.keys().find(|key| key.starts_with("raw.")) {
        return Err(FormatError::UnknownOption {
            option: option.clone(),
            format: "raw",
            hint: "valid are 'raw.endianness', 'raw.charset', 'raw.max-record-bytes'".to_owned(),
        });
    }
    Ok(Shape::Raw {
        endianness,
        max_bytes,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{
            ArrayRef, AsArray, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray,
        },
        datatypes::{DataType, Field, Int64Type, Schema},
        record_batch::RecordBatch,
    };
    use millrace_dataflow::RowKind;

    use super::*;
    use crate::EncodedMessages;

    fn spec(options: &[(&str, &str)], fields: &[(&str, DataType)]) -> Result<MessageSpec, String> {
        let options = options
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let fields: Vec<Field> = fields
            .iter()
            .map(|(name, data_type)| Field::new(*name, data_type.clone(), true))
            .collect();
        MessageSpec::from_options(&options, &Arc::new(Schema::new(fields)))
            .map_err(|error| error.to_string())
    }

    fn written(spec: &MessageSpec, columns: Vec<ArrayRef>) -> Vec<Option<Vec<u8>>> {
        let batch = RecordBatch::try_new(spec.schema().clone(), columns).unwrap();
        let mut out = EncodedMessages::default();
        spec.encoder()
            .unwrap()
            .encode(&batch, None, &mut out)
            .unwrap();
        (0..out.len())
            .map(|row| out.get(row).map(<[u8]>::to_vec))
            .collect()
    }

    #[test]
    fn a_message_is_a_record_whatever_it_holds() {
        let fields = [("a", DataType::Int64), ("b", DataType::Utf8)];
        let json = spec(&[("format", "json")], &fields).unwrap();
        let csv = spec(&[("format", "csv")], &fields).unwrap();
        let mut decoder = json.decoder().unwrap();
        decoder
            .decode(Some(b"{\n \"a\": 1,\r\n \"b\": \"x\"\n}"))
            .unwrap();
        let errors: Vec<String> = [
            Some(&b"{\"a\":1}{\"a\":2}"[..]),
            Some(b""),
            None,
            Some(b"{\"b\":\"y\",\"a\":\"z\"}"),
            Some(b"\xff"),
        ]
        .into_iter()
        .map(|message| decoder.decode(message).unwrap_err().to_string())
        .collect();
        assert!(
            errors[3].contains("field `a`: expected BIGINT"),
            "{errors:?}"
        );
        assert!(errors[2].contains("expected content"), "{errors:?}");
        decoder.decode(Some(b"{\"b\":null,\"a\":2}")).unwrap();
        decoder.decode(Some(b"{\"b\":null,\"a\":3}")).unwrap();
        decoder.undo();
        let rows = decoder.finish().unwrap();
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[1, 2]);
        assert_eq!(decoder.finish().unwrap().num_rows(), 0);

        let mut decoder = csv.decoder().unwrap();
        decoder.decode(Some(b"1,\"two\nlines\"\r\n")).unwrap();
        assert!(decoder.decode(Some(b"1,\"open")).is_err());
        assert!(decoder.decode(Some(b"1,2,3")).is_err());
        decoder.decode(Some(b"2,after")).unwrap();
        let rows = decoder.finish().unwrap();
        let texts: Vec<_> = rows.column(1).as_string::<i32>().iter().flatten().collect();
        assert_eq!(texts, ["two\nlines", "after"]);
    }

    #[test]
    fn every_row_is_a_message() {
        let fields = [("a", DataType::Int64), ("b", DataType::Utf8)];
        let columns = || -> Vec<ArrayRef> {
            vec![
                Arc::new(Int64Array::from(vec![Some(1), None])),
                Arc::new(StringArray::from(vec!["x\ny", ""])),
            ]
        };
        let text = |messages: Vec<Option<Vec<u8>>>| -> Vec<String> {
            messages
                .into_iter()
                .map(|message| String::from_utf8(message.unwrap()).unwrap())
                .collect()
        };
        let json = spec(&[("format", "json")], &fields).unwrap();
        assert_eq!(
            text(written(&json, columns())),
            [r#"{"a":1,"b":"x\ny"}"#, r#"{"a":null,"b":""}"#]
        );
        let csv = spec(&[("format", "csv")], &fields).unwrap();
        assert_eq!(text(written(&csv, columns())), ["1,\"x\ny\"", ",\"\""]);

        let debezium = spec(&[("format", "debezium-json")], &fields).unwrap();
        let batch = RecordBatch::try_new(debezium.schema().clone(), columns()).unwrap();
        let mut out = EncodedMessages::default();
        let kinds = [RowKind::Delete, RowKind::Insert];
        debezium
            .encoder()
            .unwrap()
            .encode(&batch, Some(&kinds), &mut out)
            .unwrap();
        assert_eq!(out.len(), 2);
        assert!(out.get(0).unwrap().ends_with(b"\"op\":\"d\"}"));
    }

    #[test]
    fn raw_takes_texts_and_numbers_both_ways() {
        let columns: [(DataType, ArrayRef, &[u8]); 4] = [
            (
                DataType::Utf8,
                Arc::new(StringArray::from(vec![Some("a\nb"), None])),
                b"a\nb",
            ),
            (
                DataType::Int32,
                Arc::new(Int32Array::from(vec![Some(258), None])),
                &[0, 0, 1, 2],
            ),
            (
                DataType::Boolean,
                Arc::new(BooleanArray::from(vec![Some(true), None])),
                &[1],
            ),
            (
                DataType::Float64,
                Arc::new(Float64Array::from(vec![Some(1.0), None])),
                &[63, 240, 0, 0, 0, 0, 0, 0],
            ),
        ];
        for (data_type, column, bytes) in columns {
            for order in ["big-endian", "little-endian"] {
                let options = [("format", "raw"), ("raw.endianness", order)];
                let spec = spec(&options, &[("v", data_type.clone())]).unwrap();
                let mut expected = bytes.to_vec();
                if order == "little-endian" && data_type != DataType::Utf8 {
                    expected.reverse();
                }
                let messages = written(&spec, vec![column.clone()]);
                assert_eq!(messages, [Some(expected), None], "{data_type} {order}");
                let mut decoder = spec.decoder().unwrap();
                for message in &messages {
                    decoder.decode(message.as_deref()).unwrap();
                }
                assert_eq!(decoder.finish().unwrap().column(0), &column);
            }
        }
        let number = spec(&[("format", "raw")], &[("v", DataType::Int64)]).unwrap();
        let error = number.decoder().unwrap().decode(Some(b"12")).unwrap_err();
        assert!(
            error.to_string().contains("expected 8 bytes, found 2"),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_is_told() {
        let one = [("v", DataType::Utf8)];
        let two = [("v", DataType::Utf8), ("w", DataType::Utf8)];
        for (options, fields, parts) in [
            (
                vec![("format", "csv"), ("csv.header", "true")],
                &one[..],
                "no header line",
            ),
            (vec![("format", "raw")], &two[..], "exactly one"),
            (
                vec![("format", "raw"), ("raw.charset", "EBCDIC")],
                &one[..],
                "'UTF-8'",
            ),
            (
                vec![("format", "raw"), ("raw.order", "x")],
                &one[..],
                "raw.endianness",
            ),
            (vec![("format", "parquet")], &one[..], "whole files"),
        ] {
            let error = spec(&options, fields).unwrap_err();
            assert!(error.contains(parts), "{error}");
        }
        let date = spec(&[("format", "raw")], &[("v", DataType::Date32)]).unwrap_err();
        assert!(date.contains("BOOLEAN or a number"), "{date}");
    }
}
