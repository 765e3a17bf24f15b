//! Connects the slots of this worker with each other and with those of other workers.

use std::{collections::BTreeMap, sync::Arc};

use futures::future;
use millrace_engine::{
    channel::{ChannelId, ChannelQueue, ChannelSender},
    slot::Slot,
    slot_builder::SlotBuilder,
};
use millrace_types::WorkerId;

use crate::{
    deploy::{blocking, plan::Plan},
    deploy_error::DeployError,
    exchange::{EdgeSchema, InboundChannel, InboundExecution, LinkTarget, OutboundLink},
    progress::Progress,
};

/// What wiring goes by.
pub(super) struct Wiring<'a> {
    pub(super) plan: &'a Plan,
    /// This worker.
    pub(super) this: WorkerId,
    /// Bytes that a channel to another worker may have under way.
    pub(super) window: usize,
    pub(super) progress: &'a Arc<Progress>,
}

impl Wiring<'_> {
    /// What the other workers will send here.
    pub(super) fn inbound(
        &self,
        builders: &[SlotBuilder],
    ) -> Result<Arc<InboundExecution>, DeployError> {
        let mut by_worker: BTreeMap<WorkerId, Vec<(ChannelId, InboundChannel)>> = BTreeMap::new();
        for (id, queue) in builders.iter().flat_map(|builder| builder.queues()) {
            let Some(owner) = self
                .plan
                .owners
                .get(&id.from)
                .filter(|owner| **owner != self.this)
            else {
                continue;
            };
            let channel = InboundChannel {
                queue: Arc::clone(queue),
                edge: self.edge(*id)?,
            };
            by_worker.entry(*owner).or_default().push((*id, channel));
        }
        let progress = Arc::clone(self.progress);
        let on_failure = Arc::new(move |reason| progress.lost_peer(reason));
        Ok(InboundExecution::new(
            self.plan.execution,
            by_worker,
            on_failure,
        ))
    }

    /// A link to every worker that something is sent to.
    pub(super) fn links(
        &self,
        builders: &[SlotBuilder],
    ) -> Result<BTreeMap<WorkerId, OutboundLink>, DeployError> {
        let mut by_worker: BTreeMap<WorkerId, Vec<(ChannelId, EdgeSchema)>> = BTreeMap::new();
        for id in builders.iter().flat_map(SlotBuilder::outputs) {
            if let Some(owner) = self
                .plan
                .owners
                .get(&id.to)
                .filter(|owner| **owner != self.this)
            {
                by_worker
                    .entry(*owner)
                    .or_default()
                    .push((id, self.edge(id)?));
            }
        }
        let mut links = BTreeMap::new();
        for (worker, channels) in by_worker {
            let target = LinkTarget {
                execution: self.plan.execution,
                from: self.this,
                to: worker,
                address: self
                    .plan
                    .addresses
                    .get(&worker)
                    .cloned()
                    .unwrap_or_default(),
            };
            let progress = Arc::clone(self.progress);
            let on_failure = Arc::new(move |reason| progress.lost_peer(reason));
            links.insert(
                worker,
                OutboundLink::new(target, channels, self.window, on_failure),
            );
        }
        Ok(links)
    }

    fn edge(&self, id: ChannelId) -> Result<EdgeSchema, DeployError> {
        EdgeSchema::of(&self.plan.dataflow, id.node, id.input)
            .ok_or_else(|| DeployError::Internal(format!("no edge belongs to channel {id:?}")))
    }

    /// Connects and opens the slots, each on a thread of its own since connectors may block.
    pub(super) async fn build(
        &self,
        builders: Vec<SlotBuilder>,
        links: &BTreeMap<WorkerId, OutboundLink>,
    ) -> Result<Vec<Slot>, DeployError> {
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
                let link = self
                    .plan
                    .owners
                    .get(&id.to)
                    .and_then(|owner| links.get(owner));
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
}
