//! Tests of the decoders, through [`FormatSpec`] as callers use them.

mod chunks;
mod csv;
mod errors;
mod json;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::array_value_to_string;

use crate::{DecodedRows, DecoderConfig, FormatError, FormatSpec};

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    let fields: Vec<Field> = fields
        .iter()
        .map(|(name, data_type)| Field::new(*name, data_type.clone(), true))
        .collect();
    Arc::new(Schema::new(fields))
}

fn spec(options: &[(&str, &str)], schema: &SchemaRef) -> FormatSpec {
    let options: BTreeMap<String, String> = options
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    FormatSpec::from_options(&options, schema).unwrap()
}

/// Decodes `input` in chunks of `chunk` bytes.
fn decode(
    spec: &FormatSpec,
    config: &DecoderConfig,
    input: &[u8],
    chunk: usize,
) -> Result<DecodedRows, FormatError> {
    let mut out = DecodedRows::default();
    let mut decoder = spec.decoder(config)?;
    let mut rest = input;
    loop {
        let (now, later) = rest.split_at(rest.len().min(chunk));
        decoder.decode(now, later.is_empty(), &mut out)?;
        if later.is_empty() {
            return Ok(out);
        }
        rest = later;
    }
}

fn decode_whole(spec: &FormatSpec, input: &str) -> Result<DecodedRows, FormatError> {
    decode(spec, &spec.decoder_config(), input.as_bytes(), usize::MAX)
}

/// Values as Arrow shows them, columns separated by `|`, nulls as `∅`.
fn shown(batch: &RecordBatch) -> Vec<String> {
    (0..batch.num_rows())
        .map(|row| {
            let values: Vec<String> = batch
                .columns()
                .iter()
                .map(|column| {
                    if column.is_null(row) {
                        "∅".to_owned()
                    } else {
                        array_value_to_string(column, row).unwrap()
                    }
                })
                .collect();
            values.join("|")
        })
        .collect()
}

fn all_shown(rows: &DecodedRows) -> Vec<String> {
    rows.batches
        .iter()
        .flat_map(|batch| shown(&batch.batch))
        .collect()
}
