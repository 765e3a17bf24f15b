//! `millrace worker`.

use millrace_worker::WorkerConfig;

use crate::args::WorkerArgs;

pub(super) async fn run(args: WorkerArgs) -> anyhow::Result<()> {
    millrace_worker::run(WorkerConfig {
        control_plane: args.control_plane,
        job_id: args.job,
        worker_id: args.worker_id,
        slots: args.slots,
        memory_mib: args.memory_mib,
        data_dir: args.data_dir,
        listen: args.listen,
    })
    .await
}
