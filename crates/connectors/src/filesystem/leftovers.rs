//! Removes what former executions staged and nobody will publish.

use std::{fs, io, path::Path};

/// Removes every staged file below `directory` whose name starts with `prefix`, but not those
/// that start with `own`, if there are such. What others remove meanwhile, and directories that may not be read
/// (no staged file of ours can be in them), are passed over.
pub(super) fn remove(directory: &Path, prefix: &str, own: Option<&str>) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => return passable(error),
    };
    for entry in entries {
        let entry = entry?;
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) => {
                passable(error)?;
                continue;
            }
        };
        if kind.is_dir() {
            remove(&entry.path(), prefix, own)?;
            continue;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let leftover = name.starts_with(prefix)
            && name.ends_with(".staged")
            && own.is_none_or(|own| !name.starts_with(own));
        if leftover
            && let Err(error) = fs::remove_file(entry.path())
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
    }
    Ok(())
}

fn passable(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Ok(()),
        _ => Err(error),
    }
}
