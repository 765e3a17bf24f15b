//! A file of records: NDJSON, CSV, lines.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
};

use millrace_formats::{Compression, DecodedBatch, DecodedRows, Decoder, FormatSpec, Position};

use super::row_file::{FilePosition, FileRead, Letter, Place, RowFile};
use crate::source::with_causes;

const CHUNK_BYTES: usize = 128 << 10;
/// Input that one read works through at most without a full batch, so that a slot that reads
/// malformed or very long records still gets to its barriers.
const MAX_CHUNKS: usize = 16;
/// Malformed records after which a read ends, give or take a chunk.
const MAX_LETTERS: usize = 1_000;

/// Reads records.
pub(super) struct RecordFile {
    reader: Box<dyn Read + Send>,
    decoder: Box<dyn Decoder>,
    decoded: DecodedRows,
    ready: VecDeque<DecodedBatch>,
    chunk: Vec<u8>,
    at_end: bool,
    counted_bad: u64,
    /// Why the file cannot be read on; told after the rows before it.
    failure: Option<String>,
}

impl RecordFile {
    pub(super) fn open(
        path: &Path,
        format: &FormatSpec,
        from: &FilePosition,
        max_rows: usize,
    ) -> Result<Self, String> {
        let mut config = format.decoder_config();
        config.start = Position {
            offset: from.offset,
            line: from.line,
        };
        config.header = from
            .header
            .as_ref()
            .map(|header| header.clone().into_bytes());
        config.max_rows = max_rows;
        let decoder = format
            .decoder(&config)
            .map_err(|error| with_causes(&error))?;
        Ok(RecordFile {
            reader: open_at(path, from.offset)?,
            decoder,
            decoded: DecodedRows::default(),
            ready: VecDeque::new(),
            chunk: Vec::new(),
            at_end: false,
            counted_bad: 0,
            failure: None,
        })
    }

    /// Reads until a batch is ready, the file ends, or it has been enough for once.
    fn fill(&mut self) {
        for chunks in 0..=MAX_CHUNKS {
            if !self.ready.is_empty() || self.at_end || self.failure.is_some() {
                return;
            }
            let enough = chunks == MAX_CHUNKS || self.decoded.dead_letters.len() >= MAX_LETTERS;
            let step = if enough {
                let flushed = self.decoder.flush(&mut self.decoded);
                flushed.map_err(|error| with_causes(&error))
            } else {
                self.read_chunk()
            };
            self.failure = step.err();
            self.ready.extend(self.decoded.batches.drain(..));
            if enough {
                return;
            }
        }
    }

    fn read_chunk(&mut self) -> Result<(), String> {
        self.chunk.resize(CHUNK_BYTES, 0);
        let read = match self.reader.read(&mut self.chunk) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(damaged(&error)),
        };
        self.at_end = read == 0;
        self.decoder
            .decode(&self.chunk[..read], self.at_end, &mut self.decoded)
            .map_err(|error| with_causes(&error))
    }
}

impl RowFile for RecordFile {
    fn next(&mut self) -> Result<FileRead, String> {
        self.fill();
        let batch = self.ready.pop_front();
        let ended = batch.is_none() && self.at_end;
        let end = match &batch {
            Some(batch) => batch.end,
            None => match self.failure.take() {
                Some(failure) => return Err(failure),
                None => self.decoder.consumed(),
            },
        };
        // Letters from there on are read again by whoever resumes there.
        let behind = self
            .decoded
            .dead_letters
            .iter()
            .position(|letter| !ended && letter.start.offset >= end.offset)
            .unwrap_or(self.decoded.dead_letters.len());
        let letters = self
            .decoded
            .dead_letters
            .drain(..behind)
            .map(|letter| Letter {
                line: letter.error.line,
                reason: letter.error.to_string(),
                raw: letter.record,
            })
            .collect();
        let bad_records = self.decoded.counters.bad_records - self.counted_bad;
        self.counted_bad = self.decoded.counters.bad_records;
        let header = self
            .decoder
            .header()
            .filter(|_| end.offset > 0)
            .map(|header| String::from_utf8_lossy(header).into_owned());
        let first = batch.as_ref().map_or(end.line, |batch| batch.first_line);
        Ok(FileRead {
            first: Place::Line(first),
            rows: batch.map(|batch| batch.batch),
            position: FilePosition {
                offset: end.offset,
                line: end.line,
                header,
                ..FilePosition::default()
            },
            at_end: ended,
            bad_records,
            letters,
        })
    }
}

fn open_at(path: &Path, offset: u64) -> Result<Box<dyn Read + Send>, String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let shorter = |length: u64| {
        format!(
            "it has only {length} bytes, but {offset} were already read before the restart; files must not change once they are listed"
        )
    };
    match Compression::of_path(&path.to_string_lossy()) {
        Compression::None => {
            let length = file.metadata().map_err(|error| error.to_string())?.len();
            if length < offset {
                return Err(shorter(length));
            }
            file.seek(SeekFrom::Start(offset))
                .map_err(|error| error.to_string())?;
            Ok(Box::new(file))
        }
        compressed @ Compression::Gzip => {
            let mut reader = compressed.reader(BufReader::with_capacity(CHUNK_BYTES, file));
            // A compressed stream can only be read from its beginning.
            let skipped = io::copy(&mut reader.by_ref().take(offset), &mut io::sink())
                .map_err(|error| damaged(&error))?;
            if skipped < offset {
                return Err(shorter(skipped));
            }
            Ok(reader)
        }
    }
}

/// Decompression fails with texts that do not say what they are about.
fn damaged(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            format!("cannot decompress it: {error}; is the file complete, and is it gzip?")
        }
        _ => format!("cannot read on: {error}"),
    }
}
