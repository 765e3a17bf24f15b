//! One file being written, hidden until it is committed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use millrace_dataflow::RowKind;
use millrace_formats::{Encoder, FormatSpec, ParquetFileWriter};
use serde::{Deserialize, Serialize};

/// A staged file and the name it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct StagedFile {
    pub(super) staged: PathBuf,
    pub(super) final_path: PathBuf,
}

impl StagedFile {
    /// Renames; done already is fine.
    pub(super) fn publish(&self) -> io::Result<()> {
        match fs::rename(&self.staged, &self.final_path) {
            Ok(()) => sync_dir(&self.final_path),
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.final_path.exists() => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// Makes a rename in `path`'s directory durable.
fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

enum Body {
    Records {
        writer: BufWriter<File>,
        encoder: Box<dyn Encoder>,
        buffer: Vec<u8>,
        written: u64,
    },
    Columns {
        writer: ParquetFileWriter<BufWriter<File>>,
    },
}

/// An open part file.
pub(super) struct PartFile {
    paths: StagedFile,
    body: Body,
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
            fs::create_dir_all(parent).map_err(|error| {
                format!("cannot create directory {}: {error}", parent.display())
            })?;
        }
        let fault = |error: io::Error| format!("cannot create {}: {error}", paths.staged.display());
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&paths.staged)
            .map_err(fault)?;
        let writer = BufWriter::with_capacity(256 << 10, file);
        let body = match format.parquet_compression() {
            Some(compression) => Body::Columns {
                writer: ParquetFileWriter::new(writer, schema.clone(), compression)
                    .map_err(|error| error.to_string())?,
            },
            None => {
                let mut encoder = format.encoder().map_err(|error| error.to_string())?;
                let mut buffer = Vec::new();
                encoder.begin(&mut buffer);
                Body::Records {
                    writer,
                    encoder,
                    buffer,
                    written: 0,
                }
            }
        };
        Ok(PartFile {
            paths,
            body,
            opened_ms: now_ms,
        })
    }

    pub(super) fn write(
        &mut self,
        rows: &RecordBatch,
        kinds: Option<&[RowKind]>,
    ) -> Result<(), String> {
        match &mut self.body {
            Body::Records {
                writer,
                encoder,
                buffer,
                written,
            } => {
                encoder
                    .encode(rows, kinds, buffer)
                    .map_err(|error| error.to_string())?;
                writer
                    .write_all(buffer)
                    .map_err(|error| disk_fault(&self.paths.staged, &error))?;
                *written += buffer.len() as u64;
                buffer.clear();
            }
            Body::Columns { writer } => writer.write(rows).map_err(|error| error.to_string())?,
        }
        Ok(())
    }

    /// Bytes so far, roughly.
    pub(super) fn bytes(&self) -> u64 {
        match &self.body {
            Body::Records { written, .. } => *written,
            Body::Columns { writer } => writer.bytes_so_far(),
        }
    }

    /// Completes the file on disk; it is still hidden.
    pub(super) fn close(self) -> Result<StagedFile, String> {
        let fault = |error: io::Error| disk_fault(&self.paths.staged, &error);
        let writer = match self.body {
            Body::Records {
                mut writer, buffer, ..
            } => {
                writer.write_all(&buffer).map_err(fault)?;
                writer
            }
            Body::Columns { writer } => writer.finish().map_err(|error| error.to_string())?,
        };
        let file = writer
            .into_inner()
            .map_err(|error| fault(error.into_error()))?;
        file.sync_all().map_err(fault)?;
        Ok(self.paths)
    }
}

fn disk_fault(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}
