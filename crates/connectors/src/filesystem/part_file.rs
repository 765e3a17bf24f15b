//! One file being written, hidden until it is committed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::Path,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use millrace_dataflow::RowKind;
use millrace_formats::{Encoder, FormatSpec, ParquetFileWriter};

use super::{durable::create_directories, staged::StagedFile};
use crate::source::with_causes;

const BUFFER_BYTES: usize = 64 << 10;

enum Body {
    Records {
        writer: BufWriter<File>,
        encoder: Box<dyn Encoder>,
        buffer: Vec<u8>,
        written: u64,
    },
    Columns {
        writer: Box<ParquetFileWriter<BufWriter<File>>>,
    },
}

/// An open part file. Dropped without [`PartFile::close`], it is removed: no snapshot knows it.
pub(super) struct PartFile {
    paths: StagedFile,
    /// `None` once closed.
    body: Option<Body>,
    /// When it was opened, epoch ms.
    pub(super) opened_ms: i64,
}

impl PartFile {
    pub(super) fn create(
        paths: StagedFile,
        format: &FormatSpec,
        schema: &SchemaRef,
        now_ms: i64,
    ) -> Result<Self, String> {
        if let Some(parent) = paths.staged.parent() {
            create_directories(parent).map_err(|error| {
                format!("cannot create directory {}: {error}", parent.display())
            })?;
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&paths.staged)
            .map_err(|error| format!("cannot create {}: {error}", paths.staged.display()))?;
        let mut part = PartFile {
            paths,
            body: None,
            opened_ms: now_ms,
        };
        let writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        part.body = Some(match format.parquet_compression() {
            Some(compression) => Body::Columns {
                writer: ParquetFileWriter::new(writer, schema.clone(), compression)
                    .map(Box::new)
                    .map_err(|error| part.fault(&error))?,
            },
            None => {
                let mut encoder = format.encoder().map_err(|error| part.fault(&error))?;
                let mut buffer = Vec::new();
                encoder.begin(&mut buffer);
                Body::Records {
                    writer,
                    encoder,
                    buffer,
                    written: 0,
                }
            }
        });
        Ok(part)
    }

    pub(super) fn write(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), String> {
        let path = &self.paths.staged;
        match &mut self.body {
            Some(Body::Records {
                writer,
                encoder,
                buffer,
                written,
            }) => {
                encoder
                    .encode(rows, kinds, buffer)
                    .map_err(|error| with_causes(&error))?;
                writer
                    .write_all(buffer)
                    .map_err(|error| disk_fault(path, &error))?;
                *written += buffer.len() as u64;
                buffer.clear();
                Ok(())
            }
            Some(Body::Columns { writer }) => {
                writer.write(rows).map_err(|error| disk_fault(path, &error))
            }
            None => Err(closed(path)),
        }
    }

    /// Bytes so far, roughly.
    pub(super) fn bytes(&self) -> u64 {
        match &self.body {
            Some(Body::Records { written, .. }) => *written,
            Some(Body::Columns { writer }) => writer.bytes_so_far(),
            None => 0,
        }
    }

    /// Bytes of rows that are only in memory.
    pub(super) fn buffered_bytes(&self) -> usize {
        match &self.body {
            Some(Body::Columns { writer }) => writer.memory_size(),
            _ => 0,
        }
    }

    /// Completes the file on disk; it is still hidden, and its name not yet durable.
    pub(super) fn close(mut self) -> Result<StagedFile, String> {
        let path = &self.paths.staged;
        let writer = match self.body.take() {
            Some(Body::Records {
                mut writer, buffer, ..
            }) => writer.write_all(&buffer).map(|()| writer),
            Some(Body::Columns { writer }) => match writer.finish() {
                Ok(writer) => Ok(writer),
                Err(error) => return Err(self.fault(&error)),
            },
            None => return Err(closed(path)),
        };
        let synced = writer
            .and_then(|writer| writer.into_inner().map_err(|error| error.into_error()))
            .and_then(|file| file.sync_all());
        if let Err(error) = synced {
            let fault = disk_fault(path, &error);
            remove(path);
            return Err(fault);
        }
        Ok(self.paths.clone())
    }

    fn fault(&self, error: &dyn std::error::Error) -> String {
        remove(&self.paths.staged);
        disk_fault(&self.paths.staged, error)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if self.body.is_some() {
            remove(&self.paths.staged);
        }
    }
}

/// Removes a staged file that no snapshot knows; if it cannot be, the next execution does.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(path = %path.display(), %error, "cannot remove a staged file");
    }
}

fn disk_fault(path: &Path, error: &dyn std::error::Error) -> String {
    format!("cannot write {}: {}", path.display(), with_causes(error))
}

fn closed(path: &Path) -> String {
    format!(
        "internal fault: {} was written after it was closed; please report it",
        path.display()
    )
}
