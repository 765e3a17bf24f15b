//! What this process uses, as Linux counts it.

use std::fs;

use millrace_types::WorkerMetrics;

/// Fields of `/proc` are in these clock ticks on every Linux that Millrace runs on.
const TICKS_PER_SECOND: u64 = 100;

/// Resident memory and CPU time since the start; zeros where there is no `/proc`.
pub(crate) fn usage() -> WorkerMetrics {
    let status = fs::read_to_string("/proc/self/status");
    let stat = fs::read_to_string("/proc/self/stat");
    WorkerMetrics {
        resident_bytes: status
            .ok()
            .and_then(|text| resident_bytes(&text))
            .unwrap_or(0),
        cpu_millis: stat.ok().and_then(|text| cpu_millis(&text)).unwrap_or(0),
    }
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

fn cpu_millis(stat: &str) -> Option<u64> {
    // The second field is the program's name in parentheses, which may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * 1_000 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_linux_writes() {
        assert_eq!(
            resident_bytes("VmPeak:\t 9 kB\nVmRSS:\t    2048 kB\n"),
            Some(2 << 20)
        );
        // utime and stime are fields 14 and 15.
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0";
        assert_eq!(cpu_millis(stat), Some(3_000));
        assert_eq!(resident_bytes(""), None);
        assert_eq!(cpu_millis("12 (a) S"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let usage = usage();
        assert!(usage.resident_bytes > 1 << 20, "{usage:?}");
    }
}
