//! The same batches for every way to cut the input, and the same rest from every position.

use arrow::datatypes::DataType;
use proptest::prelude::*;

use crate::{OnError, Position};

use super::*;

struct Case {
    spec: FormatSpec,
    input: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let ab = schema(&[("a", DataType::Int32), ("b", DataType::Utf8)]);
    let line = schema(&[("line", DataType::Utf8)]);
    vec![
        Case {
            spec: spec(&[("format", "json"), ("on-error", "dead-letter")], &ab),
            input: "\u{feff}{\"a\":1,\"b\":\"é😀\"}\r\n\n{\"a\":2,\"b\":\"\\u00e9\"}\nbad\n\
                    {\"a\":3}\n{\"a\":\"x\",\"b\":\"y\"}\n{\"b\":\"z\",\"a\":5}\n{\"a\":6}"
                .as_bytes()
                .to_vec(),
        },
        Case {
            spec: spec(
                &[
                    ("format", "csv"),
                    ("on-error", "dead-letter"),
                    ("csv.allow-comments", "true"),
                    ("csv.max-record-bytes", "30"),
                ],
                &ab,
            ),
            input: "\u{feff}\"b\",a\n\"x\r\ny\",1\r\n#no \"\n,2\n\n\"\"\"\",3\nz,bad\n\
                    \"0123456789\n0123456789\n0123456789\n4,4\n5,5\",5\n6,6\n\"un\nclosed"
                .as_bytes()
                .to_vec(),
        },
        Case {
            spec: spec(
                &[
                    ("format", "csv"),
                    ("on-error", "dead-letter"),
                    ("csv.header", "false"),
                    ("csv.max-record-bytes", "10"),
                ],
                &ab,
            ),
            input: b"1,a\n2,b\n3,\"c\n\"\nx,\n4,\n5,\"never closed,\"\"\n and too long".to_vec(),
        },
        Case {
            spec: spec(
                &[
                    ("format", "raw"),
                    ("on-error", "dead-letter"),
                    ("raw.max-record-bytes", "8"),
                ],
                &line,
            ),
            input: b"one\r\n\ntwo\n\xff\xfe\nmuch too long\nthree\n\nlast\n".to_vec(),
        },
    ]
}

/// Everything a caller sees: rows, boundaries, dead letters.
fn seen(rows: &DecodedRows) -> Vec<String> {
    let mut seen = Vec::new();
    for batch in &rows.batches {
        seen.push(format!(
            "{:?} {:?}..{:?} line {}",
            shown(&batch.batch),
            batch.start,
            batch.end,
            batch.first_line
        ));
    }
    for letter in &rows.dead_letters {
        seen.push(format!("{letter:?}"));
    }
    seen.push(format!("{:?}", rows.counters));
    seen
}

#[test]
fn every_chunk_size_and_every_split_gives_the_same() {
    for Case { spec, input } in cases() {
        let mut config = spec.decoder_config();
        config.max_rows = 2;
        let whole = seen(&decode(&spec, &config, &input, usize::MAX).unwrap());
        assert!(whole.len() > 5, "{whole:#?}");
        for chunk in 1..input.len() {
            let cut = seen(&decode(&spec, &config, &input, chunk).unwrap());
            assert_eq!(cut, whole, "{:?} in chunks of {chunk}", spec.kind());
        }
        for split in 0..=input.len() {
            let mut out = DecodedRows::default();
            let mut decoder = spec.decoder(&config).unwrap();
            decoder.decode(&input[..split], false, &mut out).unwrap();
            decoder.decode(&[], false, &mut out).unwrap();
            decoder.decode(&input[split..], false, &mut out).unwrap();
            decoder.decode(&[], true, &mut out).unwrap();
            assert_eq!(seen(&out), whole, "{:?} split at {split}", spec.kind());
        }
    }
}

#[test]
fn batches_have_exactly_max_rows_but_for_the_last() {
    for Case { spec, input } in cases() {
        for max_rows in 1..6 {
            let mut config = spec.decoder_config();
            config.max_rows = max_rows;
            let rows = decode(&spec, &config, &input, 7).unwrap();
            let sizes: Vec<usize> = rows.batches.iter().map(|b| b.batch.num_rows()).collect();
            let (last, full) = sizes.split_last().unwrap();
            assert!(full.iter().all(|size| *size == max_rows), "{sizes:?}");
            assert!((1..=max_rows).contains(last));
            assert_eq!(sizes.iter().sum::<usize>() as u64, rows.counters.rows);
        }
    }
}

#[test]
fn resuming_at_every_batch_end_gives_the_remaining_batches_and_dead_letters() {
    for Case { spec, input } in cases() {
        for max_rows in [1, 2, 3] {
            let mut config = spec.decoder_config();
            config.max_rows = max_rows;
            let mut out = DecodedRows::default();
            let mut decoder = spec.decoder(&config).unwrap();
            decoder.decode(&input, true, &mut out).unwrap();
            let header = decoder.header().map(<[u8]>::to_vec);
            assert_eq!(header.is_some(), spec.has_header());
            for (index, batch) in out.batches.iter().enumerate() {
                config.start = batch.end;
                config.header = header.clone();
                let rest = &input[batch.end.offset as usize..];
                let resumed = decode(&spec, &config, rest, 3).unwrap();
                let remaining = DecodedRows {
                    batches: out.batches[index + 1..].to_vec(),
                    dead_letters: out
                        .dead_letters
                        .iter()
                        .filter(|letter| letter.start >= batch.end)
                        .cloned()
                        .collect(),
                    counters: resumed.counters,
                    last_skipped: None,
                };
                assert_eq!(seen(&resumed), seen(&remaining), "{:?}", spec.kind());
            }
            config.start = Position::default();
        }
    }
}

#[test]
fn flush_gives_what_is_ready() {
    let spec = spec(&[("format", "raw")], &schema(&[("line", DataType::Utf8)]));
    let mut decoder = spec.decoder(&spec.decoder_config()).unwrap();
    let mut out = DecodedRows::default();
    decoder.flush(&mut out).unwrap();
    decoder.decode(b"one\ntwo\nthr", false, &mut out).unwrap();
    assert!(out.batches.is_empty());
    assert_eq!(decoder.pending_rows(), 2);
    decoder.flush(&mut out).unwrap();
    decoder.flush(&mut out).unwrap();
    decoder.decode(b"ee\n", true, &mut out).unwrap();
    assert_eq!(all_shown(&out), ["one", "two", "three"]);
    let ends: Vec<Position> = out.batches.iter().map(|batch| batch.end).collect();
    let at = |offset, line| Position { offset, line };
    assert_eq!(ends, [at(8, 2), at(14, 3)]);
}

fn text_of_json_parts() -> impl Strategy<Value = Vec<u8>> {
    // Pieces of records, so that random input gets beyond the first byte.
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\",
        "\n",
        "\r\n",
        "\"a\"",
        "\"b\"",
        "\"l\"",
        "{\"a\":1}",
        "null",
        "true",
        "-1.5e3",
        "\\u12",
        "\\ud83d",
        "é",
        "#",
        " ",
        "0",
        "\u{feff}",
        "{\"l\":[{\"x\":1},null]}",
        "\"2020-12-30\"",
        "{\"m\":{\"k\":1",
    ]);
    let bytes = prop::collection::vec(any::<u8>(), 0..4);
    let part = prop_oneof![8 => piece.prop_map(|s| s.as_bytes().to_vec()), 1 => bytes];
    prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_input_panics_and_all_chunks_agree(
        input in text_of_json_parts(),
        chunk in 1usize..40,
        max_rows in 1usize..4,
    ) {
        use super::json::nested_schema;
        for (format, schema) in [
            ("json", nested_schema()),
            ("csv", schema(&[("a", DataType::Int32), ("b", DataType::Utf8)])),
            ("raw", schema(&[("a", DataType::Binary)])),
        ] {
            for header in ["false", "true"] {
                let mut options = vec![("format", format), ("on-error", "dead-letter")];
                if format == "csv" {
                    options.push(("csv.header", header));
                    options.push(("csv.max-record-bytes", "50"));
                }
                let spec = spec(&options, &schema);
                let mut config = spec.decoder_config();
                config.max_rows = max_rows;
                let whole = decode(&spec, &config, &input, usize::MAX);
                let cut = decode(&spec, &config, &input, chunk);
                match (whole, cut) {
                    (Ok(whole), Ok(cut)) => prop_assert_eq!(seen(&whole), seen(&cut)),
                    (Err(whole), Err(cut)) => {
                        prop_assert_eq!(whole.to_string(), cut.to_string());
                        prop_assert_eq!(format, "csv");
                    }
                    (whole, cut) => prop_assert!(false, "{:?} {:?}", whole, cut),
                }
                config.on_error = OnError::Fail;
                let _ = decode(&spec, &config, &input, chunk);
            }
        }
    }
}
