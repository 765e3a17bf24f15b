//! Which crate may use which: the edges are committed, and a new one is a decision to be seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

const EDGES: &str = "crate-edges.txt";
/// Every crate has it, to unify features; it says nothing.
const IGNORED: &str = "millrace-workspace-hack";
/// Crates that are synchronous and deterministic.
const PURE: [&str; 2] = ["millrace-engine", "millrace-coordination"];
/// What brings IO, clocks and threads of others along.
const IMPURE: [&str; 4] = ["tokio", "sqlx", "kube", "tonic"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn packages() -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()?;
    Ok(metadata
        .packages
        .into_iter()
        .filter(|package| package.name.as_str() != IGNORED)
        .collect())
}

fn normal(package: &Package) -> BTreeSet<&str> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.as_str())
        .collect()
}

#[test]
fn edges_are_the_committed_ones() -> Result<()> {
    let packages = packages()?;
    let ours: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut text = String::new();
    let mut lines = BTreeSet::new();
    for package in &packages {
        for dependency in normal(package) {
            if ours.contains(dependency) {
                lines.insert(format!("{} -> {dependency}", package.name));
            }
        }
    }
    for line in &lines {
        writeln!(text, "{line}")?;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(EDGES);
    if std::env::var_os("MILLRACE_BLESS").is_some() {
        fs::write(&path, &text)?;
    }
    let committed = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let committed: BTreeSet<String> = committed.lines().map(str::to_owned).collect();
    let added: Vec<_> = lines.difference(&committed).collect();
    let gone: Vec<_> = committed.difference(&lines).collect();
    assert!(
        added.is_empty() && gone.is_empty(),
        "new edges {added:?}, gone edges {gone:?}; if this is meant, run this test with MILLRACE_BLESS=1 and say why in ARCHITECTURE.md"
    );
    Ok(())
}

#[test]
fn pure_crates_stay_pure() -> Result<()> {
    let packages = packages()?;
    for name in PURE {
        let package = packages
            .iter()
            .find(|package| package.name.as_str() == name);
        let package = package.with_context(|| format!("there is no crate {name}"))?;
        let found: Vec<_> = normal(package)
            .into_iter()
            .filter(|used| IMPURE.contains(used))
            .collect();
        assert!(found.is_empty(), "{name} must not depend on {found:?}");
    }
    Ok(())
}

#[test]
fn the_control_plane_never_reaches_the_engine() -> Result<()> {
    let packages = packages()?;
    let edges: BTreeMap<&str, BTreeSet<&str>> = packages
        .iter()
        .map(|package| (package.name.as_str(), normal(package)))
        .collect();
    let mut reached = BTreeSet::from(["millrace-control-plane"]);
    let mut open = vec!["millrace-control-plane"];
    while let Some(name) = open.pop() {
        for used in edges.get(name).into_iter().flatten() {
            if edges.contains_key(used) && reached.insert(used) {
                open.push(used);
            }
        }
    }
    for forbidden in ["millrace-engine", "millrace-worker"] {
        assert!(
            edges.contains_key(forbidden),
            "there is no crate {forbidden}"
        );
        assert!(
            !reached.contains(forbidden),
            "the control plane depends on {forbidden}"
        );
    }
    Ok(())
}

#[test]
fn the_architecture_names_every_crate() -> Result<()> {
    let path = root().join("ARCHITECTURE.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for package in packages()? {
        let directory = package
            .manifest_path
            .parent()
            .context("a manifest lies in a directory")?;
        let directory = directory.strip_prefix(root().canonicalize()?)?;
        assert!(
            text.contains(directory.as_str()),
            "ARCHITECTURE.md does not name {directory} ({})",
            package.name
        );
    }
    Ok(())
}
