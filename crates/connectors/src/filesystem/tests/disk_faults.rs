//! Disks that are full, read-only or taken away.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::{columns, input, input::rows, output::*, table_options};
use crate::sink::Sink;

fn one(id: i64) -> arrow::array::RecordBatch {
    rows(&[(Some(id), None, None)]).project(&[0]).unwrap()
}

/// A file system in memory, mounted while this lives.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// `None` where mounting is not allowed.
    fn new(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Mounted(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_told_and_its_staged_files_give_way() {
    let Some(disk) = Mounted::new("size=256k") else {
        eprintln!("skipped: mounting is not allowed");
        return;
    };
    for format in ["json", "csv", "parquet"] {
        let path = disk.path().join(format);
        let options = table_options(&path, format, &[]);
        let sink = sink(&options, &columns(&["name"]), &[]);
        let mut writer = writer(&sink);
        let mut error = None;
        for number in 0..2_000_u64 {
            // Text that does not compress to nothing.
            let text: String = (0..200)
                .map(|i| {
                    format!(
                        "{:x}",
                        (number * 7_919 + i).wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    )
                })
                .collect();
            let batch = rows(&[(None, Some(text.as_str()), None)])
                .project(&[1])
                .unwrap();
            if let Err(found) = writer.write(&batch, None) {
                error = Some(found.0);
                break;
            }
            if number % 100 == 99
                && let Err(found) = writer.pre_commit()
            {
                error = Some(found.0);
                break;
            }
        }
        let error = error.unwrap();
        for part in [
            "table `t`",
            "cannot write ",
            format,
            "No space left on device",
        ] {
            assert!(error.contains(part), "{format}: {part}: {error}");
        }
        drop(writer);
        fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn a_directory_that_may_not_be_written_is_told() {
    let plain = tempfile::tempdir().unwrap();
    fs::set_permissions(plain.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let disk;
    let (path, reason): (PathBuf, &str) = if fs::write(plain.path().join("probe"), "").is_err() {
        (plain.path().to_owned(), "Permission denied")
    } else {
        // Root writes anywhere but on a file system that is read-only.
        match Mounted::new("ro") {
            Some(mounted) => {
                disk = mounted;
                (disk.path().to_owned(), "Read-only file system")
            }
            None => {
                eprintln!("skipped: neither permissions nor mounts make a directory read-only");
                return;
            }
        }
    };
    let options = table_options(&path, "json", &[]);
    let mut writer = writer(&sink(&options, &columns(&["id"]), &[]));
    let error = writer.write(&one(1), None).unwrap_err().0;
    for part in [
        "table `t`",
        "cannot create",
        &path.display().to_string(),
        reason,
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let below = table_options(&path.join("new"), "json", &[]);
    let error = sink(&below, &columns(&["id"]), &[])
        .open(&context("one", &Hand::default()))
        .err()
        .unwrap()
        .0;
    assert!(
        error.contains("cannot create directory") && error.contains(reason),
        "{error}"
    );
}

#[test]
fn a_path_that_is_a_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = input::write(dir.path(), "file", b"x");
    for path in [path.clone(), path.join("below")] {
        let error = sink(&table_options(&path, "json", &[]), &columns(&["id"]), &[])
            .open(&context("one", &Hand::default()))
            .err()
            .unwrap()
            .0;
        assert!(error.contains("cannot create directory"), "{error}");
    }
}

/// Rows written into a directory that is removed are found missing before their checkpoint is
/// complete, and the next attempt creates the directory anew.
#[test]
fn a_directory_that_is_removed_is_noticed_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let sink = sink(&table_options(&path, "json", &[]), &columns(&["id"]), &[]);
    let mut first = writer(&sink);
    first.write(&one(1), None).unwrap();
    fs::remove_dir_all(&path).unwrap();
    first.write(&one(2), None).unwrap();
    let error = first.pre_commit().unwrap_err().0;
    for part in ["table `t`", ".staged is gone", &path.display().to_string()] {
        assert!(error.contains(part), "{part}: {error}");
    }
    drop(first);
    let mut next = sink.open(&context("two", &Hand::default())).unwrap();
    next.abort_leftovers().unwrap();
    next.write(&one(1), None).unwrap();
    checkpoint(next.as_mut());
    assert_eq!(published(&path), ["{\"id\":1}\n"]);

    // Between the checkpoint and its commit.
    next.write(&one(2), None).unwrap();
    let staged = next.pre_commit().unwrap();
    fs::remove_dir_all(&path).unwrap();
    let error = next.commit(&staged).unwrap_err().0;
    assert!(error.contains("cannot publish"), "{error}");
}
