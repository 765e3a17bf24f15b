//! Makes an execution out of a Deploy request: compile and compare, restore, open operators,
//! wire the channels.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt, future, stream};
use millrace_dataflow::{Dataflow, KeyGroupRange};
use millrace_engine::{
    Clock, RestoredState,
    channel::{ChannelId, ChannelQueue, ChannelSender},
    plan,
    slot_builder::{SlotBuilder, SlotConfig},
};
use millrace_protocol::v1;
use millrace_state::{
    Layout, SlotStore, SnapshotManifest, StateBudget, UploadedFiles, manifest, restore, storage,
};
use millrace_types::{
    CheckpointMode, ExecutionId, JobId, JobSpec, SubtaskIndex, TenantName, VersionNumber, WorkerId,
};
use object_store::{ObjectStore, path::Path};

use crate::{
    budget::MemoryBudget,
    checkpoint::{SnapshotPipeline, SnapshotTarget},
    deploy_error::DeployError,
    events::EventHub,
    exchange::{EdgeSchema, InboundChannel, InboundExecution, LinkTarget, OutboundLink},
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

/// A request that has been read and checked against itself.
struct Plan {
    execution: ExecutionId,
    version: VersionNumber,
    tenant: TenantName,
    spec: JobSpec,
    dataflow: Arc<Dataflow>,
    fingerprint: String,
    /// Subtasks of this worker.
    local: BTreeSet<u32>,
    /// Who runs each subtask.
    owners: BTreeMap<u32, WorkerId>,
    addresses: BTreeMap<WorkerId, String>,
}

impl Deployer {
    /// The directory of everything local of an execution.
    pub(crate) fn execution_dir(&self, execution: ExecutionId) -> PathBuf {
        self.data_dir.join(execution.to_string())
    }

    pub(crate) async fn deploy(&self, request: v1::DeployRequest) -> Result<Deployed, DeployError> {
        let plan = self.plan(&request).await?;
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

    async fn plan(&self, request: &v1::DeployRequest) -> Result<Plan, DeployError> {
        let execution: ExecutionId = request
            .execution_id
            .parse()
            .map_err(|error| DeployError::request("execution_id", error))?;
        let tenant = TenantName::new(request.tenant.clone())
            .map_err(|error| DeployError::request("tenant", error))?;
        let spec: JobSpec = serde_json::from_str(&request.spec_json)
            .map_err(|error| DeployError::request("spec_json", error))?;
        spec.validate()
            .map_err(|error| DeployError::request("spec_json", error))?;
        let (compile, compiled) = (Arc::clone(&self.compile), spec.clone());
        let dataflow = blocking(move || compile(&compiled))
            .await?
            .map_err(DeployError::Compile)?;
        dataflow
            .check()
            .map_err(|error| DeployError::Compile(error.to_string()))?;
        let fingerprint = dataflow.fingerprint().0;
        if fingerprint != request.fingerprint {
            return Err(DeployError::Fingerprint {
                control_plane: request.control_plane_version.clone(),
                theirs: request.fingerprint.clone(),
                ours: fingerprint,
            });
        }
        let mut plan = Plan {
            execution,
            version: VersionNumber(request.version),
            tenant,
            spec,
            dataflow: Arc::new(dataflow),
            fingerprint,
            local: BTreeSet::new(),
            owners: BTreeMap::new(),
            addresses: BTreeMap::new(),
        };
        self.assign(&mut plan, &request.workers)?;
        Ok(plan)
    }

    fn assign(&self, plan: &mut Plan, workers: &[v1::Peer]) -> Result<(), DeployError> {
        let wrong = |reason: String| Err(DeployError::request("workers", reason));
        let parallelism = plan.dataflow.parallelism;
        for peer in workers {
            let worker: WorkerId = peer
                .worker_id
                .parse()
                .map_err(|error| DeployError::request("workers", error))?;
            if plan
                .addresses
                .insert(worker, peer.address.clone())
                .is_some()
            {
                return wrong(format!("worker {worker} is named twice"));
            }
            for subtask in &peer.subtasks {
                if *subtask >= parallelism {
                    return wrong(format!(
                        "subtask {subtask} of a parallelism of {parallelism}"
                    ));
                }
                if plan.owners.insert(*subtask, worker).is_some() {
                    return wrong(format!("subtask {subtask} is given to two workers"));
                }
                if worker == self.worker {
                    plan.local.insert(*subtask);
                }
            }
        }
        if plan.owners.len() != parallelism as usize {
            return wrong(format!(
                "{} of {parallelism} subtasks are given to a worker",
                plan.owners.len()
            ));
        }
        if plan.local.is_empty() {
            return wrong(format!(
                "none of the subtasks is for this worker, {}",
                self.worker
            ));
        }
        if plan.local.len() > self.slots as usize {
            return wrong(format!(
                "{} subtasks for this worker, which has {} slots",
                plan.local.len(),
                self.slots
            ));
        }
        Ok(())
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
            pipelines: pipelines
                .iter()
                .map(|(subtask, pipeline)| (*subtask, Arc::downgrade(pipeline)))
                .collect(),
        });
        let channel_bytes = self.memory.channel_bytes(channel_count(&plan));
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
        let inbound = inbound(&plan, self.worker, &builders, &progress)?;
        let links = links(&plan, self.worker, &builders, channel_bytes, &progress)?;
        let slots = build_slots(builders, &plan, &links).await?;
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

/// Channels that end in this worker, and those that leave it.
fn channel_count(plan: &Plan) -> usize {
    let dataflow = &plan.dataflow;
    let remote = dataflow.parallelism as usize - plan.local.len();
    let mut count = 0;
    for node in &dataflow.nodes {
        for input in
            (0..node.inputs.len()).filter(|input| plan::is_channel(dataflow, node.id, *input))
        {
            for subtask in &plan.local {
                let producers = plan::producers(dataflow, node.id, input, *subtask).len();
                count += producers;
                if producers > 1 {
                    count += remote;
                }
            }
        }
    }
    count
}

/// What the other workers will send here.
fn inbound(
    plan: &Plan,
    this: WorkerId,
    builders: &[SlotBuilder],
    progress: &Arc<Progress>,
) -> Result<Arc<InboundExecution>, DeployError> {
    let mut by_worker: BTreeMap<WorkerId, Vec<(ChannelId, InboundChannel)>> = BTreeMap::new();
    for (id, queue) in builders.iter().flat_map(|builder| builder.queues()) {
        let Some(owner) = plan.owners.get(&id.from).filter(|owner| **owner != this) else {
            continue;
        };
        let channel = InboundChannel {
            queue: Arc::clone(queue),
            edge: edge(plan, *id)?,
        };
        by_worker.entry(*owner).or_default().push((*id, channel));
    }
    let progress = Arc::clone(progress);
    let on_failure = Arc::new(move |reason| progress.lost_peer(reason));
    Ok(InboundExecution::new(plan.execution, by_worker, on_failure))
}

/// A link to every worker that something is sent to.
fn links(
    plan: &Plan,
    this: WorkerId,
    builders: &[SlotBuilder],
    window: usize,
    progress: &Arc<Progress>,
) -> Result<BTreeMap<WorkerId, OutboundLink>, DeployError> {
    let mut by_worker: BTreeMap<WorkerId, Vec<(ChannelId, EdgeSchema)>> = BTreeMap::new();
    for id in builders.iter().flat_map(SlotBuilder::outputs) {
        if let Some(owner) = plan.owners.get(&id.to).filter(|owner| **owner != this) {
            by_worker
                .entry(*owner)
                .or_default()
                .push((id, edge(plan, id)?));
        }
    }
    let mut links = BTreeMap::new();
    for (worker, channels) in by_worker {
        let target = LinkTarget {
            execution: plan.execution,
            from: this,
            to: worker,
            address: plan.addresses.get(&worker).cloned().unwrap_or_default(),
        };
        let progress = Arc::clone(progress);
        let on_failure = Arc::new(move |reason| progress.lost_peer(reason));
        links.insert(
            worker,
            OutboundLink::new(target, channels, window, on_failure),
        );
    }
    Ok(links)
}

fn edge(plan: &Plan, id: ChannelId) -> Result<EdgeSchema, DeployError> {
    EdgeSchema::of(&plan.dataflow, id.node, id.input)
        .ok_or_else(|| DeployError::Internal(format!("no edge belongs to channel {id:?}")))
}

/// Connects and opens the slots, each on a thread of its own since connectors may block.
async fn build_slots(
    builders: Vec<SlotBuilder>,
    plan: &Plan,
    links: &BTreeMap<WorkerId, OutboundLink>,
) -> Result<Vec<millrace_engine::slot::Slot>, DeployError> {
    let queues: BTreeMap<ChannelId, Arc<ChannelQueue>> = builders
        .iter()
        .flat_map(|builder| {
            builder
                .queues()
                .iter()
                .map(|(id, queue)| (*id, Arc::clone(queue)))
        })
        .collect();
    let mut building = Vec::with_capacity(builders.len());
    for builder in builders {
        let mut senders = builder.local_senders(&queues);
        for id in builder.outputs() {
            let link = plan.owners.get(&id.to).and_then(|owner| links.get(owner));
            if let Some(sender) = link.and_then(|link| link.sender(id, builder.waker())) {
                senders.insert(id, Box::new(sender) as Box<dyn ChannelSender>);
            }
        }
        building.push(blocking(move || builder.build(senders)));
    }
    let mut slots = Vec::with_capacity(building.len());
    for slot in future::join_all(building).await {
        slots.push(slot??);
    }
    Ok(slots)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DeployError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        DeployError::Internal(format!("a thread of the deployment failed: {error}"))
    })
}
