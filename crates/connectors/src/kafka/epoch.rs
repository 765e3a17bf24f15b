//! The rows of an epoch on their way through a checkpoint: records in a compact form,
//! compressed as they come.

use std::io::{self, Read, Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use super::ledger::{EpochNumber, WriterId};
use crate::sink::Committable;

/// Most bytes that a record has as a whole.
const MAX_RECORD_BYTES: u64 = 1 << 30;
const LEVEL: i32 = 1;

/// A record to be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub(super) value: Option<&'a [u8]>,
    /// Epoch milliseconds.
    pub(super) timestamp: Option<i64>,
    pub(super) headers: &'a [(String, Option<Vec<u8>>)],
}

/// An epoch as a snapshot keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Epoch {
    /// 1.
    format: u32,
    pub(super) writer: WriterId,
    pub(super) topic: String,
    pub(super) number: EpochNumber,
    /// The marker that was known at staging.
    pub(super) after: Option<EpochNumber>,
    pub(super) staged_ms: i64,
    pub(super) records: u64,
    /// Base64 of a zstd frame.
    rows: String,
}

/// Where an epoch belongs.
pub(super) struct Stamp {
    pub(super) writer: WriterId,
    pub(super) topic: String,
    pub(super) number: EpochNumber,
    pub(super) after: Option<EpochNumber>,
    pub(super) staged_ms: i64,
}

impl Epoch {
    pub(super) fn committable(&self) -> Result<Committable, String> {
        serde_json::to_value(self)
            .map(Committable)
            .map_err(|error| error.to_string())
    }

    pub(super) fn of(committable: &Committable) -> Result<Self, String> {
        let epoch = Epoch::deserialize(&committable.0).map_err(|error| error.to_string())?;
        if epoch.format != 1 {
            return Err(format!(
                "it has format {}, this version of Millrace reads 1",
                epoch.format
            ));
        }
        Ok(epoch)
    }

    /// Bytes that it takes in a snapshot, about.
    pub(super) fn bytes(&self) -> usize {
        self.rows.len()
    }

    /// Hands over every record, in order.
    pub(super) fn for_each(
        &self,
        mut each: impl FnMut(Record<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let frame = STANDARD
            .decode(&self.rows)
            .map_err(|error| error.to_string())?;
        let mut reader = zstd::stream::read::Decoder::new(frame.as_slice())
            .map_err(|error| error.to_string())?;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for _ in 0..self.records {
            let mut read = || -> io::Result<_> {
                let has_key = read_bytes(&mut reader, &mut key)?;
                let has_value = read_bytes(&mut reader, &mut value)?;
                let timestamp = match read_number(&mut reader)? {
                    0 => None,
                    number => Some(unzigzag(number - 1)),
                };
                let mut headers = Vec::new();
                for _ in 0..read_number(&mut reader)? {
                    let (mut name, mut content) = (Vec::new(), Vec::new());
                    read_bytes(&mut reader, &mut name)?;
                    let has_content = read_bytes(&mut reader, &mut content)?;
                    let name = String::from_utf8(name)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    headers.push((name, has_content.then_some(content)));
                }
                Ok((has_key, has_value, timestamp, headers))
            };
            let (has_key, has_value, timestamp, headers) =
                read().map_err(|error| format!("the rows of an epoch are damaged: {error}"))?;
            each(Record {
                key: has_key.then_some(key.as_slice()),
                value: has_value.then_some(value.as_slice()),
                timestamp,
                headers: &headers,
            })?;
        }
        Ok(())
    }
}

/// Collects the records of the current epoch.
pub(super) struct EpochBuilder {
    encoder: zstd::stream::write::Encoder<'static, Vec<u8>>,
    records: u64,
    scratch: Vec<u8>,
}

impl EpochBuilder {
    pub(super) fn new() -> io::Result<Self> {
        Ok(EpochBuilder {
            encoder: zstd::stream::write::Encoder::new(Vec::new(), LEVEL)?,
            records: 0,
            scratch: Vec::new(),
        })
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// Bytes held, but for what the compressor has not put out yet.
    pub(super) fn bytes(&self) -> usize {
        self.encoder.get_ref().len()
    }

    pub(super) fn push(&mut self, record: Record<'_>) -> io::Result<()> {
        self.scratch.clear();
        let out = &mut self.scratch;
        write_bytes(record.key, out);
        write_bytes(record.value, out);
        // 0 is none: the largest zigzag number is of no time that there is.
        write_number(
            record
                .timestamp
                .map_or(0, |ms| zigzag(ms).saturating_add(1)),
            out,
        );
        write_number(record.headers.len() as u64, out);
        for (name, content) in record.headers {
            write_bytes(Some(name.as_bytes()), out);
            write_bytes(content.as_deref(), out);
        }
        self.encoder.write_all(&self.scratch)?;
        self.records += 1;
        Ok(())
    }

    /// The epoch; the builder begins the next one.
    pub(super) fn finish(&mut self, stamp: Stamp) -> io::Result<Epoch> {
        let built = std::mem::replace(self, EpochBuilder::new()?);
        Ok(Epoch {
            format: 1,
            writer: stamp.writer,
            topic: stamp.topic,
            number: stamp.number,
            after: stamp.after,
            staged_ms: stamp.staged_ms,
            records: built.records,
            rows: STANDARD.encode(built.encoder.finish()?),
        })
    }
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64) ^ -((number & 1) as i64)
}

/// LEB128.
fn write_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn read_number(reader: &mut impl Read) -> io::Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        reader.read_exact(&mut byte)?;
        number |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "a number is too long",
    ))
}

/// The length and one, or 0 for none; then the bytes.
fn write_bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        None => out.push(0),
        Some(bytes) => {
            write_number(bytes.len() as u64 + 1, out);
            out.extend_from_slice(bytes);
        }
    }
}

/// False for none.
fn read_bytes(reader: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    let Some(length) = read_number(reader)?.checked_sub(1) else {
        return Ok(false);
    };
    if length > MAX_RECORD_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a record is too long",
        ));
    }
    let read = reader.take(length).read_to_end(bytes)?;
    if read as u64 == length {
        Ok(true)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Owned = (
        Option<Vec<u8>>,
        Option<Vec<u8>>,
        Option<i64>,
        Vec<(String, Option<Vec<u8>>)>,
    );

    fn stamp() -> Stamp {
        Stamp {
            writer: WriterId("w".into()),
            topic: "t".into(),
            number: EpochNumber(4),
            after: Some(EpochNumber(2)),
            staged_ms: 5,
        }
    }

    fn build(records: &[Owned]) -> Epoch {
        let mut builder = EpochBuilder::new().unwrap();
        for (key, value, timestamp, headers) in records {
            let (key, value) = (key.as_deref(), value.as_deref());
            builder
                .push(Record {
                    key,
                    value,
                    timestamp: *timestamp,
                    headers,
                })
                .unwrap();
        }
        builder.finish(stamp()).unwrap()
    }

    fn read(epoch: &Epoch) -> Result<Vec<Owned>, String> {
        let mut records = Vec::new();
        epoch.for_each(|record| {
            records.push((
                record.key.map(<[u8]>::to_vec),
                record.value.map(<[u8]>::to_vec),
                record.timestamp,
                record.headers.to_vec(),
            ));
            Ok(())
        })?;
        Ok(records)
    }

    proptest! {
        #[test]
        fn records_come_back(records: Vec<Owned>) {
            let records: Vec<Owned> = records
                .into_iter()
                .map(|(key, value, timestamp, headers)| {
                    (key, value, timestamp.map(|ms| ms.clamp(i64::MIN + 1, i64::MAX)), headers)
                })
                .collect();
            let epoch = build(&records);
            let through = Epoch::of(&epoch.committable().unwrap()).unwrap();
            prop_assert_eq!(&through, &epoch);
            prop_assert_eq!(read(&through).unwrap(), records);
        }

        #[test]
        fn damage_is_an_error_and_no_panic(bytes: Vec<u8>, records in 1..5_u64) {
            let mut epoch = build(&[]);
            epoch.records = records;
            epoch.rows = STANDARD.encode(zstd::encode_all(bytes.as_slice(), 1).unwrap());
            let _ = read(&epoch);
            epoch.rows = STANDARD.encode(bytes);
            prop_assert!(read(&epoch).is_err());
        }
    }

    #[test]
    fn the_first_form_is_still_read() {
        let kept = serde_json::json!({
            "format": 1, "writer": "w", "topic": "t", "number": 4, "after": 2, "staged-ms": 5,
            "records": 1, "rows": build(&[(Some(b"k".to_vec()), None, None, vec![])]).rows,
        });
        let epoch = Epoch::of(&Committable(kept.clone())).unwrap();
        assert_eq!(
            read(&epoch).unwrap(),
            [(Some(b"k".to_vec()), None, None, vec![])]
        );
        assert_eq!(epoch.committable().unwrap().0, kept);
        let mut later = kept;
        later["format"] = 2.into();
        assert!(
            Epoch::of(&Committable(later))
                .unwrap_err()
                .contains("format 2")
        );
    }
}
