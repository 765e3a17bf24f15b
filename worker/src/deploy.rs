//! Makes an execution out of a Deploy request: compile and compare, restore, open operators,
//! wire the channels.

mod plan;
mod wiring;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};
use millrace_dataflow::{Dataflow, KeyGroupRange};
use millrace_engine::{
    Clock, RestoredState,
    slot_builder::{SlotBuilder, SlotConfig},
};
use millrace_protocol::v1;
use millrace_state::{
    Layout, SlotStore, SnapshotManifest, StateBudget, UploadedFiles, manifest, restore, storage,
};
use millrace_types::{CheckpointMode, ExecutionId, JobId, JobSpec, SubtaskIndex, WorkerId};
use object_store::{ObjectStore, path::Path};
use tokio::sync::Semaphore;

use crate::{
    budget::MemoryBudget,
    checkpoint::{SnapshotPipeline, SnapshotTarget},
    deploy::{plan::Plan, wiring::Wiring},
    deploy_error::DeployError,
    events::EventHub,
    exchange::InboundExecution,
    execution::{Execution, Parts, SlotReports},
    output::OutputTap,
    progress::Progress,
};

/// Slots restored at once.
const PARALLEL_RESTORES: usize = 4;

/// Compiles a spec; the error is for the owner of the job.
pub(crate) type Compile = Arc<dyn Fn(&JobSpec) -> Result<Dataflow, String> + Send + Sync>;

/// What deployments on this worker share.
#[derive(Clone)]
pub(crate) struct Deployer {
    pub(crate) worker: WorkerId,
    pub(crate) job: JobId,
    pub(crate) slots: u32,
    pub(crate) data_dir: PathBuf,
    pub(crate) memory: MemoryBudget,
    pub(crate) state_budget: StateBudget,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) events: Arc<EventHub>,
    pub(crate) compile: Compile,
}

/// A deployment that is ready to be started.
pub(crate) struct Deployed {
    pub(crate) execution: Arc<Execution>,
    pub(crate) inbound: Arc<InboundExecution>,
    pub(crate) fingerprint: String,
}

impl Deployer {
    /// The directory of everything local of an execution.
    pub(crate) fn execution_dir(&self, execution: ExecutionId) -> PathBuf {
        self.data_dir.join(execution.to_string())
    }

    pub(crate) async fn deploy(&self, request: v1::DeployRequest) -> Result<Deployed, DeployError> {
        let plan = Plan::read(self, &request).await?;
        let url = request.storage_url.clone();
        let (store, root) = blocking(move || storage::open(&url)).await??;
        let snapshot = match request.restore_manifest.as_str() {
            "" => None,
            path => {
                let path = Path::parse(path)
                    .map_err(|error| DeployError::request("restore_manifest", error))?;
                Some(manifest::read(store.as_ref(), &path).await?)
            }
        };
        if let Some(snapshot) = &snapshot
            && snapshot.max_parallelism != plan.dataflow.max_parallelism
        {
            return Err(DeployError::MaxParallelism {
                snapshot: snapshot.max_parallelism,
                job: plan.dataflow.max_parallelism,
            });
        }
        let layout = Layout::new(root.clone(), plan.tenant.clone(), self.job);
        let stores = self
            .open_stores(&plan, &store, &root, snapshot.as_ref())
            .await?;
        self.assemble(
            plan,
            store,
            layout,
            stores,
            snapshot,
            request.lossless_output,
        )
        .await
    }

    /// Restores and opens the store of every local slot.
    async fn open_stores(
        &self,
        plan: &Plan,
        storage: &Arc<dyn ObjectStore>,
        root: &Path,
        snapshot: Option<&SnapshotManifest>,
    ) -> Result<BTreeMap<u32, (SlotStore, UploadedFiles)>, DeployError> {
        let keyed = snapshot.map(SnapshotManifest::keyed);
        let keyed = keyed.as_deref();
        stream::iter(plan.local.iter().copied().map(|subtask| async move {
            let dir = self
                .execution_dir(plan.execution)
                .join(format!("slot-{subtask}"));
            let mut uploads = UploadedFiles::default();
            if let (Some(snapshot), Some(keyed)) = (snapshot, keyed) {
                let made_by = Layout::new(root.clone(), snapshot.tenant.clone(), snapshot.job);
                let range = key_groups(&plan.dataflow, subtask);
                let restored = restore(storage.as_ref(), &made_by, keyed, range, &dir).await?;
                tracing::info!(
                    subtask,
                    checkpoint = %snapshot.checkpoint,
                    bytes = restored.bytes,
                    reused_files = restored.reused_files,
                    "state restored"
                );
                uploads = restored.uploads;
            }
            let budget = self.state_budget.clone();
            let store = blocking(move || SlotStore::create(&dir, &budget)).await??;
            Ok::<_, DeployError>((subtask, (store, uploads)))
        }))
        .buffer_unordered(PARALLEL_RESTORES)
        .try_collect()
        .await
    }

    async fn assemble(
        &self,
        plan: Plan,
        storage: Arc<dyn ObjectStore>,
        layout: Layout,
        stores: BTreeMap<u32, (SlotStore, UploadedFiles)>,
        snapshot: Option<SnapshotManifest>,
        lossless_output: bool,
    ) -> Result<Deployed, DeployError> {
        let dir = self.execution_dir(plan.execution);
        let progress = Progress::new(
            plan.execution,
            plan.version,
            plan.local.iter().copied(),
            Arc::clone(&self.events),
        );
        let target = SnapshotTarget {
            store: storage,
            layout,
            execution: plan.execution,
            scratch: dir.join("snapshots"),
            uploads: Arc::new(Semaphore::new(self.memory.parallel_uploads())),
            events: Arc::clone(&self.events),
        };
        let mut pipelines = BTreeMap::new();
        let mut slot_stores = BTreeMap::new();
        for (subtask, (store, uploads)) in stores {
            let range = key_groups(&plan.dataflow, subtask);
            let pipeline =
                SnapshotPipeline::spawn(target.clone(), SubtaskIndex(subtask), range, uploads);
            pipelines.insert(subtask, Arc::new(pipeline));
            slot_stores.insert(subtask, store);
        }
        let reports = Arc::new(SlotReports {
            progress: Arc::clone(&progress),
            tap: OutputTap::new(Arc::clone(&self.events), plan.execution, lossless_output),
            runtime: tokio::runtime::Handle::current(),
            pipelines: pipelines
                .iter()
                .map(|(subtask, pipeline)| (*subtask, Arc::downgrade(pipeline)))
                .collect(),
        });
        let channel_bytes = self.memory.channel_bytes(plan.channel_count());
        let restored = Arc::new(restored_state(snapshot));
        let builders: Vec<SlotBuilder> = slot_stores
            .into_iter()
            .map(|(subtask, store)| {
                SlotBuilder::new(SlotConfig {
                    subtask,
                    dataflow: Arc::clone(&plan.dataflow),
                    clock: Arc::clone(&self.clock),
                    queue_bytes: channel_bytes,
                    state_budget_bytes: self.memory.slot_bytes(plan.local.len()),
                    job: self.job.to_string(),
                    execution: plan.execution.to_string(),
                    restored: Arc::clone(&restored),
                    store,
                    align: plan.spec.checkpointing.mode == CheckpointMode::ExactlyOnce,
                    events: reports.clone(),
                })
            })
            .collect();
        let wiring = Wiring {
            plan: &plan,
            this: self.worker,
            window: channel_bytes,
            progress: &progress,
        };
        let inbound = wiring.inbound(&builders)?;
        let links = wiring.links(&builders)?;
        let slots = wiring.build(builders, &links).await?;
        let execution = Execution::new(Parts {
            progress,
            slots,
            pipelines,
            links: links.into_values().collect(),
            dir,
        });
        Ok(Deployed {
            execution,
            inbound,
            fingerprint: plan.fingerprint,
        })
    }
}

fn key_groups(dataflow: &Dataflow, subtask: u32) -> KeyGroupRange {
    KeyGroupRange::of_subtask(subtask, dataflow.parallelism, dataflow.max_parallelism)
}

fn restored_state(snapshot: Option<SnapshotManifest>) -> RestoredState {
    match snapshot {
        None => RestoredState::default(),
        Some(snapshot) => RestoredState {
            restored: true,
            items: snapshot
                .slots
                .into_iter()
                .flat_map(|slot| slot.operator_state)
                .collect(),
        },
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DeployError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        DeployError::Internal(format!("a thread of the deployment failed: {error}"))
    })
}
