//! Names that survive a power cut: a file or directory is only found again once the directory
//! that holds its name has been synchronized too.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Creates a directory with all above it; each new name is durable when this returns.
pub(super) fn create_directories(path: &Path) -> io::Result<()> {
    let mut missing: Vec<PathBuf> = Vec::new();
    for directory in path.ancestors() {
        if directory.as_os_str().is_empty() || directory.is_dir() {
            break;
        }
        missing.push(directory.to_owned());
    }
    for directory in missing.iter().rev() {
        match fs::create_dir(directory) {
            Ok(()) => {}
            // Another subtask was quicker; its name may not be durable yet.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(error) => return Err(error),
        }
        sync_directory(directory)?;
    }
    Ok(())
}

/// Makes the name of `path` durable: what was created, renamed or removed there.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_created_on_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        create_directories(&deep).unwrap();
        create_directories(&deep).unwrap();
        assert!(deep.is_dir());
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(create_directories(&dir.path().join("file")).is_err());
        assert!(create_directories(&dir.path().join("file/below")).is_err());
        sync_directory(Path::new("/")).unwrap();
        sync_directory(Path::new("Cargo.toml")).unwrap();
    }
}
