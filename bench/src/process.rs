//! Runs a command and watches what its worker processes use.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

const SAMPLE_EVERY: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(1_800);

/// What the workers used.
#[derive(Debug, Default, Clone)]
pub(crate) struct Usage {
    /// User and system time of all workers.
    pub(crate) cpu_seconds: f64,
    /// Largest resident size of one worker.
    pub(crate) peak_rss_bytes: u64,
    /// From the first sight of a worker to its end.
    pub(crate) worker_seconds: f64,
}

/// Runs the command to its end; an unsuccessful one is an error with the end of its output.
pub(crate) fn run_and_watch(command: &mut Command) -> Result<Usage> {
    let log = tempfile::NamedTempFile::new()?;
    let mut child = command
        .stdout(Stdio::null())
        .stderr(log.reopen()?)
        .spawn()?;
    let started = Instant::now();
    let mut cpu: BTreeMap<u32, f64> = BTreeMap::new();
    let mut usage = Usage::default();
    let mut seen: Option<Instant> = None;
    let status = loop {
        for pid in workers_of(child.id()) {
            if let Some(seconds) = cpu_seconds(pid) {
                let first = *seen.get_or_insert_with(Instant::now);
                usage.worker_seconds = first.elapsed().as_secs_f64();
                cpu.insert(pid, seconds);
                usage.peak_rss_bytes = usage.peak_rss_bytes.max(peak_rss(pid));
            }
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill()?;
            bail!("not done after {} s", LIMIT.as_secs());
        }
        thread::sleep(SAMPLE_EVERY);
    };
    if !status.success() {
        let text = fs::read_to_string(log.path())?;
        let tail: Vec<&str> = text.lines().rev().take(20).collect();
        bail!(
            "{status}\n{}",
            tail.into_iter().rev().collect::<Vec<_>>().join("\n")
        );
    }
    if cpu.is_empty() {
        bail!("no worker process was seen");
    }
    usage.cpu_seconds = cpu.values().sum();
    Ok(usage)
}

/// Children of `parent` that run as workers.
fn workers_of(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| parent_of(*pid) == Some(parent))
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                line.split(|byte| *byte == 0).nth(1) == Some(b"worker".as_slice())
            })
        })
        .collect()
}

/// The fields of `/proc/PID/stat` after the command's name.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

fn cpu_seconds(pid: u32) -> Option<f64> {
    let fields = stat(pid)?;
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    // Linux has reported 100 ticks per second to user space on every architecture for decades.
    Some(ticks / 100.0)
}

fn peak_rss(pid: u32) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return 0;
    };
    text.lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|value| value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}
