//! Tables that are topics: `kafka`, a log to read and to append to, and `upsert-kafka`, the same
//! log written as the newest value of every key.
//!
//! # Reading
//!
//! Every partition is a split, whose position is the next offset. Where reading starts is turned
//! into numbers when partitions are first listed and is part of every snapshot from then on, also
//! of partitions without a record. Partitions found later are read from their beginning. One
//! client per subtask reads all its partitions through a bounded queue each; there is no
//! assignment by a consumer group, whose offsets are only committed for others to watch.
//!
//! # Writing exactly once
//!
//! The rows of an epoch (between two barriers) are encoded and collected; at the barrier they
//! become a committable and so part of the checkpoint. Once that is complete they are written in
//! one transaction, which also commits a **marker**: the checkpoint's number as the offset of a
//! consumer group of the writer's own (one per job, table and subtask). Kafka makes rows and
//! marker visible together or not at all. So after a crash the marker tells which epochs have
//! landed: those up to it. An epoch of the snapshot beyond it has not, and is written again from
//! the snapshot. No transaction has to survive its process.
//!
//! What can end between which steps ([`ledger`] holds the logic, its tests every crash point):
//!
//! 1. Before the checkpoint is complete: nothing was written. The restored job starts from the
//!    checkpoint before and makes the rows again.
//! 2. After it is complete, before or within the transaction: the marker is older than the epoch.
//!    The restored job writes the epoch from the snapshot. What the dead transaction had written
//!    stays invisible: the brokers abort it when the same transactional id is initialized, or at
//!    its timeout.
//! 3. The commit was sent and its answer was lost: initializing the id waits until the brokers have
//!    finished that commit, and the marker is read after that. It tells which of both it was.
//! 4. After the commit: the marker covers the epoch; writing it again is skipped.
//! 5. A zombie (an execution declared dead that still runs) writes to the same id. Whoever
//!    initializes the id fences all before: a transaction of theirs fails at its commit. Whoever
//!    has initialized it reads the marker *after* that and writes only what is beyond it. So of two
//!    who know the same epoch, at most one commits it: the later one to initialize either sees the
//!    marker of the first, or has fenced it before it could commit. A zombie can only know epochs of
//!    complete checkpoints, which the restored job knows as well.
//! 6. Restored at another parallelism: a committable names its writer. The new subtask 0 settles
//!    those of all former writers under their own ids, before any subtask runs.
//! 7. Started from an older snapshot: the marker is beyond its epochs, which are skipped; checkpoint
//!    numbers never repeat over a job's life, so new epochs are beyond the marker.
//!
//! A marker is not for ever: brokers forget offsets that are not renewed
//! (`offsets.retention.minutes`, 7 days). A writer without rows renews its marker; a job that was
//! stopped for longer may find none where the committable says there was one. That cannot be told
//! from an epoch that has not landed, so it is an error until `sink.lost-marker` says what to do.

mod brokers;
mod client;
mod condition;
mod epoch;
mod exactly_once;
mod formats;
mod ledger;
mod metadata;
mod offsets;
mod options;
mod partitioner;
mod producing;
mod properties;
mod reader;
mod reading;
mod records;
mod sink;
mod source;
mod topics;
mod transactions;
mod write;
mod write_layout;

#[cfg(test)]
pub(crate) use options::OPTIONS;
pub use sink::{KafkaSink, UpsertKafkaSink};
pub use source::KafkaSource;
pub(crate) use write_layout::WRITABLE_METADATA;

#[cfg(test)]
mod tests;
