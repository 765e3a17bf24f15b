//! What an execution runs: the version's spec, compiled.

use std::sync::Arc;

use millrace_coordination::lifecycle::Failure;
use millrace_types::{Fingerprint, JobSpec, VersionNumber};

use super::{Shared, patience::persist};
use crate::{
    problem::chain,
    sql::CompileFailure,
    store::{Lease, Result},
};

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct RunPlan {
    pub(super) version: VersionNumber,
    pub(super) spec: Arc<JobSpec>,
    pub(super) fingerprint: Fingerprint,
    /// Numbers and names of the dataflow's nodes.
    pub(super) operators: Vec<(u32, String)>,
}

impl RunPlan {
    /// Loads and compiles a version. The inner error is the version's fault.
    pub(super) async fn load(
        shared: &Shared,
        lease: &Lease,
        version: VersionNumber,
    ) -> Result<std::result::Result<Self, Failure>> {
        let record = persist("load the job's spec", || {
            shared.store.leased_version(lease, version)
        })
        .await?;
        let compiled = match shared.compiler.compile(record.spec.clone()).await {
            Ok(compiled) => compiled,
            Err(error) => {
                let retryable = match &error {
                    CompileFailure::Script(_) => false,
                    CompileFailure::Broken(_) => true,
                };
                return Ok(Err(Failure {
                    reason: format!("version {version} cannot be run: {}", chain(&error)),
                    place: None,
                    retryable,
                }));
            }
        };
        Ok(Ok(RunPlan {
            version,
            fingerprint: compiled.dataflow.fingerprint(),
            operators: compiled
                .dataflow
                .nodes
                .iter()
                .map(|node| (node.id.0, node.name.clone()))
                .collect(),
            spec: Arc::new(record.spec),
        }))
    }
}
