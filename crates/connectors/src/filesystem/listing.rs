//! Which files a path, directory or glob stands for.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use crate::source::ConnectorError;

/// The files, sorted by path. A path that does not exist is an error, an empty directory or a
/// glob without matches is not.
pub(super) fn files(
    table: &str,
    path: &str,
    max_files: usize,
) -> Result<Vec<PathBuf>, ConnectorError> {
    let mut found = Vec::new();
    if is_glob(path) && !Path::new(path).exists() {
        let matches = glob::glob(path).map_err(|error| {
            ConnectorError(format!(
                "table `{table}`: 'path' = '{path}' is not a valid glob: {error}"
            ))
        })?;
        for entry in matches {
            let entry = entry.map_err(|error| {
                ConnectorError(format!("table `{table}`: cannot list '{path}': {error}"))
            })?;
            collect(table, &entry, &mut found, max_files)?;
        }
    } else {
        collect(table, Path::new(path), &mut found, max_files)?;
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

fn is_hidden(path: &Path) -> bool {
    path.components()
        .next_back()
        .is_some_and(|last| match last {
            Component::Normal(name) => {
                let name = name.to_string_lossy();
                name.starts_with('.') || name.starts_with('_')
            }
            _ => false,
        })
}

fn collect(
    table: &str,
    path: &Path,
    found: &mut Vec<PathBuf>,
    max_files: usize,
) -> Result<(), ConnectorError> {
    let fault = |error: std::io::Error| {
        let hint = if error.kind() == std::io::ErrorKind::NotFound {
            "; relative paths start at the directory the service runs in"
        } else {
            ""
        };
        ConnectorError(format!(
            "table `{table}`: cannot read '{}': {error}{hint}",
            path.display()
        ))
    };
    let metadata = fs::metadata(path).map_err(fault)?;
    if metadata.is_file() {
        if found.len() >= max_files {
            return Err(ConnectorError(format!(
                "table `{table}`: more than {max_files} files; raise 'source.max-files' or narrow 'path'"
            )));
        }
        found.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).map_err(fault)? {
        let entry = entry.map_err(fault)?.path();
        if !is_hidden(&entry) {
            collect(table, &entry, found, max_files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_walked_and_hidden_names_left_out() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "b.json",
            "a/x.json",
            "a/_tmp.json",
            ".part.json",
            "_done/y.json",
        ] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let list = |path: &str| -> Result<Vec<String>, ConnectorError> {
            let found = files("t", &format!("{}{path}", dir.path().display()), 10)?;
            Ok(found
                .iter()
                .map(|p| p.strip_prefix(dir.path()).unwrap().display().to_string())
                .collect())
        };
        assert_eq!(list("").unwrap(), ["a/x.json", "b.json"]);
        assert_eq!(list("/*.json").unwrap(), ["b.json"]);
        assert_eq!(list("/b.json").unwrap(), ["b.json"]);
        assert!(list("/none*").unwrap().is_empty());
        let missing = list("/none").unwrap_err().0;
        assert!(
            missing.contains("none") && missing.contains("table `t`"),
            "{missing}"
        );
        assert!(
            files("t", &dir.path().display().to_string(), 1)
                .unwrap_err()
                .0
                .contains("source.max-files")
        );
    }
}
