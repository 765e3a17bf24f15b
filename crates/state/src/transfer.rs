//! Moves whole files between the local disk and object storage, in bounded memory and with
//! their CRC-32 taken on the way.

use std::path::Path as FilePath;

use futures::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, path::Path};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::error::{IoContext, Result, StateError, StorageContext};

/// Files moved at once per slot.
pub(crate) const CONCURRENCY: usize = 4;
/// Files up to this go in one request; larger ones in parts of this.
const PART_BYTES: usize = 8 << 20;

/// Size and checksum of what was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) bytes: u64,
    pub(crate) crc32: u32,
}

/// Copies a file to an object. Repeating it is safe: the object appears whole or not at all.
pub(crate) async fn put_file(
    store: &dyn ObjectStore,
    from: &FilePath,
    to: &Path,
) -> Result<Digest> {
    let mut file = tokio::fs::File::open(from).await.at("open", from)?;
    let mut crc = crc32fast::Hasher::new();
    let mut bytes = 0;
    let first = read_part(&mut file, from).await?;
    crc.update(&first);
    bytes += first.len() as u64;
    if first.len() < PART_BYTES {
        store
            .put(to, PutPayload::from(first))
            .await
            .on("write", to)?;
    } else {
        let mut upload = store.put_multipart(to).await.on("write", to)?;
        let mut part = first;
        let outcome = async {
            while !part.is_empty() {
                upload
                    .put_part(PutPayload::from(std::mem::take(&mut part)))
                    .await
                    .on("write", to)?;
                part = read_part(&mut file, from).await?;
                crc.update(&part);
                bytes += part.len() as u64;
            }
            upload.complete().await.on("write", to)
        }
        .await;
        if let Err(error) = outcome {
            if let Err(abort) = upload.abort().await {
                tracing::debug!(object = %to, error = %abort, "an unfinished upload could not be aborted");
            }
            return Err(error);
        }
    }
    Ok(Digest {
        bytes,
        crc32: crc.finalize(),
    })
}

/// Up to [`PART_BYTES`]; shorter only at the end of the file.
async fn read_part(file: &mut tokio::fs::File, path: &FilePath) -> Result<Vec<u8>> {
    let mut part = Vec::new();
    file.take(PART_BYTES as u64)
        .read_to_end(&mut part)
        .await
        .at("read", path)?;
    Ok(part)
}

/// What an object must be, and for whom it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) digest: Digest,
    /// For the message when it is gone: `checkpoint 7 (subtask 2)`.
    pub(crate) needed_by: &'a str,
}

/// Copies an object to a file and checks size and checksum.
pub(crate) async fn get_file(
    store: &dyn ObjectStore,
    from: &Path,
    to: &FilePath,
    expected: Expected<'_>,
) -> Result<()> {
    let object = get(store, from, expected).await?;
    let mut file = tokio::fs::File::create(to).await.at("create", to)?;
    let mut crc = crc32fast::Hasher::new();
    let mut bytes = 0;
    let mut pieces = object.into_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.on("read", from)?;
        crc.update(&piece);
        bytes += piece.len() as u64;
        file.write_all(&piece).await.at("write", to)?;
    }
    file.flush().await.at("write", to)?;
    check(
        from,
        Digest {
            bytes,
            crc32: crc.finalize(),
        },
        expected,
    )
}

/// Reads a whole object and checks size and checksum.
pub(crate) async fn get_bytes(
    store: &dyn ObjectStore,
    from: &Path,
    expected: Expected<'_>,
) -> Result<bytes::Bytes> {
    let object = get(store, from, expected).await?;
    let content = object.bytes().await.on("read", from)?;
    let found = Digest {
        bytes: content.len() as u64,
        crc32: crc32fast::hash(&content),
    };
    check(from, found, expected)?;
    Ok(content)
}

async fn get(
    store: &dyn ObjectStore,
    from: &Path,
    expected: Expected<'_>,
) -> Result<object_store::GetResult> {
    let object = match store.get(from).await {
        Err(object_store::Error::NotFound { .. }) => {
            return Err(StateError::MissingObject {
                object: from.to_string(),
                needed_by: expected.needed_by.to_owned(),
            });
        }
        other => other.on("read", from)?,
    };
    // Before anything of it is read: a wrong size is known from the header.
    if object.meta.size != expected.digest.bytes {
        return Err(wrong_size(from, object.meta.size, expected));
    }
    Ok(object)
}

fn check(object: &Path, found: Digest, expected: Expected<'_>) -> Result<()> {
    if found.bytes != expected.digest.bytes {
        return Err(wrong_size(object, found.bytes, expected));
    }
    if found.crc32 != expected.digest.crc32 {
        return Err(StateError::Corrupt {
            object: object.to_string(),
            reason: format!(
                "its CRC-32 is {:08x}, the manifest of {} says {:08x}",
                found.crc32, expected.needed_by, expected.digest.crc32
            ),
        });
    }
    Ok(())
}

fn wrong_size(object: &Path, bytes: u64, expected: Expected<'_>) -> StateError {
    StateError::Corrupt {
        object: object.to_string(),
        reason: format!(
            "it has {bytes} bytes, the manifest of {} says {}",
            expected.needed_by, expected.digest.bytes
        ),
    }
}
