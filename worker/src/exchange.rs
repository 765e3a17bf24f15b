//! Moves batches between the workers of an execution: one gRPC call per ordered pair of
//! workers, Arrow IPC record batches in its frames, and credit in bytes per channel.
//!
//! Invariants:
//! - Messages of a channel arrive in the order they were sent, each once. A call that breaks is
//!   never resumed: messages may be lost with it, so the execution fails and restarts.
//! - What a sender holds back and what a receiver has queued together stay under the channel's
//!   window plus one step of the producer, since a sender out of credit has no room.
//! - Frames of any other execution are refused.

mod edge;
mod frame;
mod inbound;
mod outbound;
mod validate;

#[cfg(test)]
mod tests;

pub(crate) use edge::EdgeSchema;
pub(crate) use frame::FrameError;
pub(crate) use inbound::{ExchangeHub, ExchangeService, InboundChannel, InboundExecution};
pub(crate) use outbound::{LinkTarget, OutboundLink};

/// Told when a link can no longer deliver; called at most once per link.
pub(crate) type OnLinkFailure = std::sync::Arc<dyn Fn(String) + Send + Sync>;
