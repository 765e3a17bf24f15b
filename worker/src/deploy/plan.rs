//! A Deploy request, read and checked: what runs, and who runs which part.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use millrace_dataflow::Dataflow;
use millrace_engine::plan;
use millrace_protocol::v1;
use millrace_types::{ExecutionId, JobSpec, TenantName, VersionNumber, WorkerId};

use crate::{
    deploy::{Deployer, blocking},
    deploy_error::DeployError,
};

/// A request that has been read and checked against itself.
pub(super) struct Plan {
    pub(super) execution: ExecutionId,
    pub(super) version: VersionNumber,
    pub(super) tenant: TenantName,
    pub(super) spec: JobSpec,
    pub(super) dataflow: Arc<Dataflow>,
    pub(super) fingerprint: String,
    /// Subtasks of this worker.
    pub(super) local: BTreeSet<u32>,
    /// Who runs each subtask.
    pub(super) owners: BTreeMap<u32, WorkerId>,
    pub(super) addresses: BTreeMap<WorkerId, String>,
}

impl Plan {
    /// Reads the request, compiles the job, and checks that this worker can take its part.
    pub(super) async fn read(
        deployer: &Deployer,
        request: &v1::DeployRequest,
    ) -> Result<Plan, DeployError> {
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
        let (compile, compiled) = (Arc::clone(&deployer.compile), spec.clone());
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
        plan.assign(deployer, &request.workers)?;
        Ok(plan)
    }

    /// Who runs what.
    fn assign(&mut self, deployer: &Deployer, workers: &[v1::Peer]) -> Result<(), DeployError> {
        let wrong = |reason: String| Err(DeployError::request("workers", reason));
        let parallelism = self.dataflow.parallelism;
        for peer in workers {
            let worker: WorkerId = peer
                .worker_id
                .parse()
                .map_err(|error| DeployError::request("workers", error))?;
            if self
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
                if self.owners.insert(*subtask, worker).is_some() {
                    return wrong(format!("subtask {subtask} is given to two workers"));
                }
                if worker == deployer.worker {
                    self.local.insert(*subtask);
                }
            }
        }
        if self.owners.len() != parallelism as usize {
            return wrong(format!(
                "{} of {parallelism} subtasks are given to a worker",
                self.owners.len()
            ));
        }
        if self.local.is_empty() {
            return wrong(format!(
                "none of the subtasks is for this worker, {}",
                deployer.worker
            ));
        }
        if self.local.len() > deployer.slots as usize {
            return wrong(format!(
                "{} subtasks for this worker, which has {} slots",
                self.local.len(),
                deployer.slots
            ));
        }
        Ok(())
    }

    /// Channels that end in this worker, and those that leave it.
    pub(super) fn channel_count(&self) -> usize {
        let dataflow = &self.dataflow;
        let remote = dataflow.parallelism as usize - self.local.len();
        let mut count = 0;
        for node in &dataflow.nodes {
            for input in
                (0..node.inputs.len()).filter(|input| plan::is_channel(dataflow, node.id, *input))
            {
                for subtask in &self.local {
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
}
