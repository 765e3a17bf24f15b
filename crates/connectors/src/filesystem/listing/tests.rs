//! Listings of a tree with hidden names, links, pipes and more files than allowed.

use std::{fs, os::unix, process::Command};

use super::*;

fn tree(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    dir
}

/// Paths below `dir`, or the error.
fn list(dir: &Path, path: &str, max: usize) -> Result<Vec<String>, String> {
    let found = files("t", &format!("{}{path}", dir.display()), max).map_err(|error| error.0)?;
    Ok(found
        .iter()
        .map(|path| path.strip_prefix(dir).unwrap().display().to_string())
        .collect())
}

#[test]
fn paths_directories_and_globs() {
    let dir = tree(&[
        "b.json",
        "a/x.json",
        "a/y.csv",
        "a/_tmp.json",
        "a/deep/er/z.json",
        ".part.json",
        "_done/y.json",
        "we[i]rd.json",
        "day=1/p.json",
        "day=2/p.json",
    ]);
    let cases: &[(&str, &[&str])] = &[
        (
            "",
            &[
                "a/deep/er/z.json",
                "a/x.json",
                "a/y.csv",
                "b.json",
                "day=1/p.json",
                "day=2/p.json",
                "we[i]rd.json",
            ],
        ),
        ("/*.json", &["b.json", "we[i]rd.json"]),
        ("/b.json", &["b.json"]),
        // Asked for by name, hidden or not.
        ("/.part.json", &[".part.json"]),
        ("/_done", &["_done/y.json"]),
        ("/a/_*.json", &["a/_tmp.json"]),
        ("/_done/*.json", &["_done/y.json"]),
        ("/*/y.*", &["a/y.csv"]),
        ("/we[i]rd.json", &["we[i]rd.json"]),
        ("/day=?/*", &["day=1/p.json", "day=2/p.json"]),
        ("/**/z.json", &["a/deep/er/z.json"]),
        // A directory and what is in it match: each file once.
        ("/a/**", &["a/deep/er/z.json", "a/x.json", "a/y.csv"]),
        ("/none*", &[]),
    ];
    for (path, expected) in cases {
        assert_eq!(list(dir.path(), path, 100).unwrap(), *expected, "{path}");
    }
}

#[test]
fn what_cannot_be_listed_says_why() {
    let dir = tree(&["a.json", "b.json"]);
    for (path, max, parts) in [
        (
            "/none",
            9,
            vec!["table `t`", "none", "No such file", "relative paths"],
        ),
        ("/a.json/x", 9, vec!["table `t`", "Not a directory"]),
        ("", 1, vec!["more than 1 files", "'source.max-files'"]),
        ("/*", 1, vec!["more than 1 files", "'source.max-files'"]),
        ("/***", 9, vec!["not a valid glob"]),
    ] {
        let error = list(dir.path(), path, max).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{path}: {error}");
        }
    }
    assert!(list(dir.path(), "", 2).is_ok());
    let pipe = dir.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let error = list(dir.path(), "/pipe", 9).unwrap_err();
    assert!(error.contains("neither a file nor a directory"), "{error}");
    assert_eq!(list(dir.path(), "", 9).unwrap(), ["a.json", "b.json"]);
}

#[test]
fn links_are_followed_but_not_in_circles() {
    let dir = tree(&["a/x.json", "elsewhere.json"]);
    unix::fs::symlink("..", dir.path().join("a/up")).unwrap();
    unix::fs::symlink(".", dir.path().join("a/self")).unwrap();
    unix::fs::symlink("gone", dir.path().join("a/dangling")).unwrap();
    unix::fs::symlink("../elsewhere.json", dir.path().join("a/link.json")).unwrap();
    assert_eq!(
        list(dir.path(), "", 100).unwrap(),
        ["a/link.json", "a/x.json", "elsewhere.json"]
    );
}
