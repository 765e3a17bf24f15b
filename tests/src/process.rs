//! Signals to processes of a test's own service, and to nothing else.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// Signals that tests send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Kill,
    Terminate,
    Stop,
    Continue,
}

/// Sends a signal to one process whose command line contains `mark`, such as a worker's id: a pid
/// that meanwhile belongs to somebody else is left alone.
pub fn signal(pid: u32, mark: &str, signal: Signal) -> Result<()> {
    if !command_line(pid).is_some_and(|line| line.contains(mark)) {
        bail!("process {pid} is not (or no longer) the one marked {mark}");
    }
    let name = match signal {
        Signal::Kill => "KILL",
        Signal::Terminate => "TERM",
        Signal::Stop => "STOP",
        Signal::Continue => "CONT",
    };
    let output = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .output()
        .context("cannot run kill")?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!("cannot send {name} to process {pid}: {}", reason.trim());
    }
    Ok(())
}

/// The command line of a process, its words separated by spaces.
pub fn command_line(pid: u32) -> Option<String> {
    let raw = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = String::from_utf8_lossy(&raw).replace('\0', " ");
    (!line.is_empty()).then_some(line)
}

/// Resident memory that belongs to the process alone, in bytes: what a memory limit counts. Pages
/// of the binary and of mapped files are left out, since a debug build's are many and the kernel
/// takes them back at will.
pub fn private_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The pids of this machine.
pub fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .collect()
}

/// The direct children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    all()
        .into_iter()
        .filter(|child| parent(*child) == Some(pid))
        .collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the state and the parent follow it.
    let rest = &stat[stat.rfind(')')? + 1..];
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Whether the account that runs the tests is root.
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Lets other accounts pass through a directory: the one that runs Postgres for root needs it.
pub fn open_to_all(directory: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
        .with_context(|| directory.display().to_string())
}
