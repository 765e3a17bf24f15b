//! The canonical form of keyed state: independent of RocksDB, complete, and readable at any
//! parallelism. Pure: bytes in, bytes out; decoding never panics, whatever the bytes.
//!
//! A part is one object:
//! ```text
//! "MRSTATE" version(1 byte)
//! block*:  0x01, raw length (u32 LE), compressed length (u32 LE), CRC-32 of the compressed bytes
//!          (u32 LE), zstd frame
//! end:     0x00, number of entries (u64 LE), CRC-32 of these eight bytes (u32 LE)
//! ```
//! A block, raw, holds entries of one table: table name, then key and value of each entry in
//! key order, every one of these texts preceded by its length as a LEB128 varint. Keys and
//! values are the stored forms described in `value`.

use std::io::Read;

use crate::error::{Result, StateError};

const MAGIC: &[u8; 7] = b"MRSTATE";
pub(crate) const CANONICAL_VERSION: u8 = 1;
const TAG_END: u8 = 0;
const TAG_BLOCK: u8 = 1;
const BLOCK_BYTES: usize = 1 << 20;
/// A single entry may make a block larger, but no more than this.
const MAX_BLOCK_BYTES: usize = 1 << 30;
/// A part is closed once it has this many bytes.
const PART_BYTES: usize = 32 << 20;
const ZSTD_LEVEL: i32 = 1;

/// A finished part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) content: Vec<u8>,
    pub(crate) entries: u64,
}

/// Makes parts out of entries that come table by table in key order.
pub(crate) struct PartWriter {
    part: Vec<u8>,
    block: Vec<u8>,
    table: String,
    entries: u64,
    part_bytes: usize,
}

impl PartWriter {
    pub(crate) fn new() -> Self {
        Self::with_part_bytes(PART_BYTES)
    }

    fn with_part_bytes(part_bytes: usize) -> Self {
        PartWriter {
            part_bytes,
            part: header(),
            block: Vec::new(),
            table: String::new(),
            entries: 0,
        }
    }

    /// Adds an entry; returns a part when one is full.
    pub(crate) fn push(&mut self, table: &str, key: &[u8], value: &[u8]) -> Result<Option<Part>> {
        if self.table != table {
            self.close_block()?;
            self.table = table.to_owned();
        }
        if self.block.is_empty() {
            append_text(&mut self.block, table.as_bytes());
        }
        append_text(&mut self.block, key);
        append_text(&mut self.block, value);
        self.entries += 1;
        if self.block.len() >= BLOCK_BYTES.min(self.part_bytes) {
            self.close_block()?;
            if self.part.len() >= self.part_bytes {
                return Ok(Some(self.take_part()));
            }
        }
        Ok(None)
    }

    /// The last part, unless there is nothing in it.
    pub(crate) fn finish(mut self) -> Result<Option<Part>> {
        self.close_block()?;
        Ok((self.entries > 0).then(|| self.take_part()))
    }

    fn close_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        if self.block.len() > MAX_BLOCK_BYTES {
            return Err(StateError::Corrupt {
                object: self.table.clone(),
                reason: format!(
                    "an entry makes a block of {} bytes, the most is {MAX_BLOCK_BYTES}",
                    self.block.len()
                ),
            });
        }
        let compressed =
            zstd::bulk::compress(&self.block, ZSTD_LEVEL).map_err(|source| StateError::Io {
                action: "compress a block of",
                path: self.table.clone().into(),
                source,
            })?;
        self.part.push(TAG_BLOCK);
        self.part
            .extend_from_slice(&(self.block.len() as u32).to_le_bytes());
        self.part
            .extend_from_slice(&(compressed.len() as u32).to_le_bytes());
        self.part
            .extend_from_slice(&crc32fast::hash(&compressed).to_le_bytes());
        self.part.extend_from_slice(&compressed);
        self.block.clear();
        Ok(())
    }

    fn take_part(&mut self) -> Part {
        let entries = std::mem::take(&mut self.entries);
        let mut content = std::mem::replace(&mut self.part, header());
        let count = entries.to_le_bytes();
        content.push(TAG_END);
        content.extend_from_slice(&count);
        content.extend_from_slice(&crc32fast::hash(&count).to_le_bytes());
        Part { content, entries }
    }
}

fn header() -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.push(CANONICAL_VERSION);
    header
}

fn append_text(out: &mut Vec<u8>, text: &[u8]) {
    let mut length = text.len() as u64;
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(text);
}

/// Receives table, stored key and stored value of each entry.
pub(crate) type EntryVisitor<'a> = dyn FnMut(&str, &[u8], &[u8]) -> Result<()> + 'a;

/// Reads a part; returns the number of entries. `object` names it in errors.
pub(crate) fn read_part(object: &str, content: &[u8], visit: &mut EntryVisitor<'_>) -> Result<u64> {
    let mut rest = Cursor {
        object,
        rest: content,
    };
    if rest.take(MAGIC.len())? != MAGIC {
        return Err(rest.damaged("it does not start with MRSTATE"));
    }
    let version = rest.byte()?;
    if version != CANONICAL_VERSION {
        return Err(StateError::UnsupportedFormat {
            object: object.to_owned(),
            what: "canonical format",
            found: version.to_string(),
            expected: CANONICAL_VERSION.to_string(),
        });
    }
    let mut entries = 0;
    loop {
        match rest.byte()? {
            TAG_BLOCK => {
                let raw_length = rest.u32()? as usize;
                let compressed_length = rest.u32()? as usize;
                let crc = rest.u32()?;
                let compressed = rest.take(compressed_length)?;
                if crc32fast::hash(compressed) != crc {
                    return Err(rest.damaged("the checksum of a block is wrong"));
                }
                let block = decompress(object, compressed, raw_length)?;
                entries += read_block(object, &block, visit)?;
            }
            TAG_END => {
                let count = rest.take(8)?;
                let crc = crc32fast::hash(count);
                let declared = count
                    .iter()
                    .rev()
                    .fold(0, |n, byte| n << 8 | u64::from(*byte));
                if rest.u32()? != crc || declared != entries {
                    return Err(rest.damaged("the number of entries is wrong"));
                }
                if !rest.rest.is_empty() {
                    return Err(rest.damaged("bytes follow its end"));
                }
                return Ok(entries);
            }
            _ => return Err(rest.damaged("a block starts with an unknown tag")),
        }
    }
}

fn decompress(object: &str, compressed: &[u8], raw_length: usize) -> Result<Vec<u8>> {
    let damaged = |reason: String| StateError::Corrupt {
        object: object.to_owned(),
        reason,
    };
    if raw_length > MAX_BLOCK_BYTES {
        return Err(damaged(format!("a block claims {raw_length} bytes")));
    }
    // Grows with what really comes out, not with what the header claims.
    let mut block = Vec::new();
    zstd::stream::read::Decoder::new(compressed)
        .and_then(|decoder| decoder.take(raw_length as u64 + 1).read_to_end(&mut block))
        .map_err(|error| damaged(format!("a block cannot be decompressed: {error}")))?;
    if block.len() != raw_length {
        return Err(damaged("a block has another length than it claims".into()));
    }
    Ok(block)
}

fn read_block(object: &str, block: &[u8], visit: &mut EntryVisitor<'_>) -> Result<u64> {
    let mut rest = Cursor {
        object,
        rest: block,
    };
    let table = rest.text()?;
    let table =
        std::str::from_utf8(table).map_err(|_| rest.damaged("a table name is not UTF-8"))?;
    let mut entries = 0;
    while !rest.rest.is_empty() {
        let key = rest.text()?;
        let value = rest.text()?;
        visit(table, key, value)?;
        entries += 1;
    }
    Ok(entries)
}

struct Cursor<'a> {
    object: &'a str,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or_else(|| self.damaged("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A varint and as many bytes as it says.
    fn text(&mut self) -> Result<&'a [u8]> {
        let mut length = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            length |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return self.take(usize::try_from(length).unwrap_or(usize::MAX));
            }
        }
        Err(self.damaged("a length has too many digits"))
    }

    fn damaged(&self, reason: &str) -> StateError {
        StateError::Corrupt {
            object: self.object.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
