//! `millrace worker`.

use std::{os::unix::process::parent_id, time::Duration};

use millrace_worker::WorkerConfig;

use crate::args::WorkerArgs;

/// Between two looks at the parent.
const WATCH: Duration = Duration::from_millis(100);

pub(super) async fn run(args: WorkerArgs) -> anyhow::Result<()> {
    // Before anything else: a parent that ends from now on is noticed.
    let parent = parent_id();
    let worker = millrace_worker::run(WorkerConfig {
        control_plane: args.control_plane,
        job_id: args.job,
        worker_id: args.worker_id,
        slots: args.slots,
        memory_mib: args.memory_mib,
        data_dir: args.data_dir,
        listen: args.listen,
    });
    if !args.end_with_parent {
        return worker.await;
    }
    tokio::select! {
        ended = worker => ended,
        () = end_of(parent) => anyhow::bail!("the process that started this worker is gone"),
    }
}

/// Ends when another process has become the parent, which happens when the old one ends.
async fn end_of(parent: u32) {
    while parent_id() == parent {
        tokio::time::sleep(WATCH).await;
    }
}
