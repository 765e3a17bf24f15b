//! A task whose root reads a table: polls its splits, computes columns, makes watermarks.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};
use millrace_connectors::source::{ConnectorError, Polled, Source, SplitReader, SplitState, Waker};
use millrace_dataflow::{ScalarExpr, StateId, WatermarkSpec};
use millrace_types::CheckpointId;

use crate::{
    Batch, Clock, Event, OperatorError, OperatorSnapshot, RestoredState,
    batch::MAX_BATCH_ROWS,
    chain::{Chain, TaskError},
    channel::{BarrierInfo, SlotWaker},
    dead_letter::DeadLetters,
    discovery::{Discovery, Watch},
    event_time::event_times,
    splits::{SplitRecord, subtask_of},
    task::Step,
    watermark::{CombinedWatermark, WatermarkChange},
    watermark_split::segments,
};

#[cfg(test)]
mod tests;

const SPLITS: &str = "splits";

/// What a source task is made of.
pub struct SourceTaskConfig {
    pub source: Arc<dyn Source>,
    pub state_id: StateId,
    /// Output columns over what the connector yields; `None` passes rows through.
    pub output: Option<(Vec<ScalarExpr>, SchemaRef)>,
    pub watermark: Option<WatermarkSpec>,
    pub subtask: u32,
    pub parallelism: u32,
    pub clock: Arc<dyn Clock>,
    pub waker: SlotWaker,
    pub dead_letters: Option<DeadLetters>,
}

/// A split of this subtask.
struct TrackedSplit {
    record: SplitRecord,
    /// Number in the combined watermark.
    input: usize,
    /// `None` while it waits to be opened and once it has ended.
    open: Option<OpenSplit>,
}

struct OpenSplit {
    reader: Box<dyn SplitReader>,
    /// Not before this time, when the reader paces itself.
    not_before: Option<i64>,
    /// Wall-clock time of the last poll that found nothing, for idleness.
    last_empty_poll: Option<i64>,
    /// How long the split has been polled in vain, in ms.
    empty_ms: i64,
    idle: bool,
}

/// A source task.
pub struct SourceTask {
    config: SourceTaskConfig,
    splits: Vec<TrackedSplit>,
    /// Numbers of the splits that are open, polled in turn.
    open: Vec<usize>,
    /// Those not opened yet. They hold the watermark back as if they were.
    waiting: VecDeque<usize>,
    discovery: Option<Discovery>,
    watermarks: CombinedWatermark,
    pub chain: Chain,
    begun: bool,
    pending_barrier: Option<BarrierInfo>,
    /// The stop-after barrier that the source waits behind.
    paused_for: Option<BarrierInfo>,
    drain: bool,
    /// The first listing is still to come.
    awaiting: bool,
    /// Where the splits stood at barriers whose checkpoints are not decided; oldest first.
    passed: VecDeque<(CheckpointId, Vec<SplitState>)>,
    /// The consumers are to be told that the source is idle.
    idle_next: bool,
    /// The last watermark is out.
    ending: bool,
    ended: bool,
    /// Position in `open` of the split to poll next.
    next: usize,
    poll_waker: Waker,
}

impl SourceTask {
    /// Lists the splits and opens those of this subtask, at their restored positions if there are any.
    pub fn open(
        config: SourceTaskConfig,
        chain: Chain,
        restored: &RestoredState,
    ) -> Result<Self, OperatorError> {
        let slot_waker = config.waker.clone();
        let mut task = SourceTask {
            splits: Vec::new(),
            open: Vec::new(),
            waiting: VecDeque::new(),
            discovery: None,
            watermarks: CombinedWatermark::default(),
            chain,
            begun: false,
            pending_barrier: None,
            paused_for: None,
            drain: false,
            awaiting: false,
            passed: VecDeque::new(),
            idle_next: false,
            ending: false,
            ended: false,
            next: 0,
            poll_waker: Arc::new(move || slot_waker.wake()),
            config,
        };
        let mut records = Vec::new();
        for item in restored.list(&task.config.state_id, SPLITS) {
            records.push(SplitRecord::decode(item)?);
        }
        let source = task.config.source.clone();
        let (subtask, parallelism) = (task.config.subtask, task.config.parallelism);
        let listing = source.listing();
        let was_listed = records.iter().any(|record| record.listing == listing);
        if !was_listed || source.discovery_interval_ms().is_some() {
            let listed = if records.is_empty() {
                source.splits(parallelism)
            } else {
                source.later_splits(parallelism)
            };
            let listed = listed.map_err(connector)?;
            records.extend(
                listed
                    .into_iter()
                    .map(|split| SplitRecord::new(split, &listing)),
            );
        }
        let mut known = BTreeSet::new();
        for record in records {
            let mine = subtask_of(&record.split.id, parallelism) == subtask;
            if mine && known.insert(record.split.id.0.clone()) {
                task.add(record);
            }
        }
        task.awaiting = source.awaits_splits();
        task.open_waiting()?;
        if let Some(interval_ms) = source.discovery_interval_ms() {
            task.discovery = Some(Discovery::start(Watch {
                source,
                interval_ms,
                subtask,
                parallelism,
                waker: task.config.waker.clone(),
                known,
            })?);
        }
        Ok(task)
    }

    fn add(&mut self, record: SplitRecord) {
        let input = self.watermarks.add_input();
        self.watermarks.start(input, record.watermark, record.ended);
        if !record.ended {
            self.waiting.push_back(self.splits.len());
        }
        self.splits.push(TrackedSplit {
            record,
            input,
            open: None,
        });
    }

    fn open_waiting(&mut self) -> Result<(), OperatorError> {
        while self.open.len() < self.config.source.max_open_splits()
            && let Some(index) = self.waiting.pop_front()
        {
            let split = &mut self.splits[index];
            let reader = self
                .config
                .source
                .open(&split.record.split, self.poll_waker.clone())
                .map_err(connector)?;
            split.open = Some(OpenSplit {
                reader,
                not_before: None,
                last_empty_poll: None,
                empty_ms: 0,
                idle: false,
            });
            self.open.push(index);
        }
        Ok(())
    }

    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// The barrier is taken at the next step.
    pub fn trigger(&mut self, barrier: BarrierInfo) {
        self.pending_barrier = Some(barrier);
    }

    /// A checkpoint was given up: go on if the source waits behind its barrier. A barrier that
    /// is not taken yet still goes out, since others may be aligning on it.
    pub fn aborted(&mut self, checkpoint: CheckpointId) {
        if let Some(pending) = &mut self.pending_barrier
            && pending.checkpoint == checkpoint
        {
            pending.stop_after = false;
        }
        if self
            .paused_for
            .is_some_and(|barrier| barrier.checkpoint == checkpoint)
        {
            self.paused_for = None;
        }
    }

    pub fn drain(&mut self) {
        self.drain = true;
    }

    pub fn has_pending_barrier(&self) -> bool {
        self.pending_barrier.is_some()
    }

    /// Takes the pending barrier, or polls splits until one yields rows. `room` is false under
    /// backpressure: barriers still go, rows wait.
    pub fn step(&mut self, now_ms: i64, room: bool) -> Result<Step, TaskError> {
        if !self.begun {
            self.begin()?;
            return Ok(Step::Worked);
        }
        if self.chain.has_more() {
            if room {
                self.chain.resume()?;
                return Ok(Step::Worked);
            }
            return Ok(Step::Idle);
        }
        if std::mem::take(&mut self.idle_next) {
            self.chain.emit_from_root(Event::Idle)?;
            return Ok(Step::Worked);
        }
        if let Some(barrier) = self.pending_barrier.take() {
            return self.take_barrier(barrier);
        }
        if self.ended || self.paused_for.is_some() {
            return Ok(Step::Idle);
        }
        if !room {
            // The idleness clock stands still: rows may be there, nobody looks.
            for index in &self.open {
                if let Some(open) = &mut self.splits[*index].open {
                    open.last_empty_poll = None;
                }
            }
            return Ok(Step::Idle);
        }
        self.discover()?;
        if self.drain || self.all_ended() {
            self.finish()?;
            return Ok(Step::Worked);
        }
        self.open_waiting().map_err(|error| self.fault(error))?;
        let count = self.open.len();
        for offset in 0..count {
            let position = (self.next + offset) % count;
            if self.poll(self.open[position], now_ms)? {
                self.next = position + 1;
                return Ok(Step::Worked);
            }
        }
        Ok(Step::Idle)
    }

    /// When a paced split wants to be polled.
    pub fn next_poll(&self) -> Option<i64> {
        if self.ended || self.paused_for.is_some() {
            return None;
        }
        self.open
            .iter()
            .filter_map(|index| self.splits[*index].open.as_ref()?.not_before)
            .min()
    }

    fn all_ended(&self) -> bool {
        self.discovery.is_none() && self.nothing_to_read()
    }

    fn nothing_to_read(&self) -> bool {
        self.open.is_empty() && self.waiting.is_empty()
    }

    /// Tells the consumers that this task is there, and where its watermark stands after a restore.
    fn begin(&mut self) -> Result<(), TaskError> {
        self.begun = true;
        let idle = self.nothing_to_read() && !self.awaiting;
        self.chain.greet(idle);
        let change = self.watermarks.begin();
        if idle {
            // Also when there is no split at all, which `change` does not tell. What the splits
            // that have ended had reached, the operators know from their own state.
            return self.chain.emit_from_root(Event::Idle);
        }
        self.report(change)
    }

    fn discover(&mut self) -> Result<(), TaskError> {
        let Some(discovery) = &self.discovery else {
            return Ok(());
        };
        let found = discovery.take();
        let found = found.map_err(|error| self.fault(connector(error)))?;
        let listing = self.config.source.listing();
        for split in found.splits {
            self.add(SplitRecord::new(split, &listing));
        }
        if found.listed {
            self.awaiting = false;
            if self.nothing_to_read() {
                self.chain.emit_from_root(Event::Idle)?;
            }
        }
        if found.over {
            self.discovery = None;
        }
        Ok(())
    }

    /// Polls one split; true when it yielded something.
    fn poll(&mut self, index: usize, now_ms: i64) -> Result<bool, TaskError> {
        let Some(split) = &mut self.splits[index].open else {
            return Ok(false);
        };
        if split.not_before.is_some_and(|at| now_ms < at) {
            return self.empty_poll(index, now_ms);
        }
        split.not_before = None;
        let started = self.config.clock.monotonic_nanos();
        let polled = split.reader.poll(MAX_BATCH_ROWS, now_ms);
        let (bad, letters) = split.reader.take_bad_records();
        let spent = self.config.clock.monotonic_nanos().saturating_sub(started);
        let metrics = &mut self.chain.root().metrics;
        metrics.bad_records += bad;
        if let Some(dead) = &mut self.config.dead_letters
            && !letters.is_empty()
        {
            dead.write(&letters).map_err(|error| self.fault(error))?;
        }
        match polled.map_err(|error| self.fault(connector(error)))? {
            Polled::Rows(rows) => {
                self.worked(index, spent);
                self.chain.root().metrics.rows_in += rows.num_rows() as u64;
                self.rows(index, rows)?;
                Ok(true)
            }
            Polled::Progress => {
                self.worked(index, spent);
                Ok(true)
            }
            Polled::Pending => self.empty_poll(index, now_ms),
            Polled::PendingUntil(at) => {
                if let Some(split) = &mut self.splits[index].open {
                    split.not_before = Some(at);
                }
                self.empty_poll(index, now_ms)
            }
            Polled::Ended => {
                self.close(index)?;
                Ok(true)
            }
        }
    }

    /// The split had input.
    fn worked(&mut self, index: usize, nanos: u64) {
        self.chain.root().metrics.busy_nanos += nanos;
        if let Some(split) = &mut self.splits[index].open {
            split.empty_ms = 0;
            split.last_empty_poll = None;
            split.idle = false;
        }
    }

    fn empty_poll(&mut self, index: usize, now_ms: i64) -> Result<bool, TaskError> {
        let timeout = self
            .config
            .watermark
            .as_ref()
            .map_or(0, |spec| spec.idle_timeout_ms) as i64;
        let input = self.splits[index].input;
        let Some(split) = &mut self.splits[index].open else {
            return Ok(false);
        };
        if let Some(last) = split.last_empty_poll {
            split.empty_ms += (now_ms - last).max(0);
        }
        split.last_empty_poll = Some(now_ms);
        if timeout > 0 && !split.idle && split.empty_ms >= timeout {
            split.idle = true;
            let change = self.watermarks.set_idle(input);
            self.report(change)?;
        }
        Ok(false)
    }

    fn rows(&mut self, index: usize, rows: RecordBatch) -> Result<(), TaskError> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let started = self.config.clock.monotonic_nanos();
        let rows = self.compute(rows).map_err(|error| self.fault(error))?;
        let Some(spec) = &self.config.watermark else {
            return self.emit(rows, started);
        };
        let split = &self.splits[index];
        let (before, input) = (split.record.watermark, split.input);
        let id = &split.record.split.id.0;
        let place = |row: usize| {
            let told = split
                .open
                .as_ref()
                .and_then(|open| open.reader.place_of(row));
            told.unwrap_or_else(|| format!("row {row} of a batch of `{id}`"))
        };
        let (times, implied) = event_times(spec, &rows, place)
            .map_err(|reason| {
                let reason = reason.to_string();
                if reason.contains(id.as_str()) {
                    OperatorError::Data(reason)
                } else {
                    OperatorError::Data(format!("{reason} (in `{id}`)"))
                }
            })
            .map_err(|error| self.fault(error))?;
        self.watermarks.active(input);
        for segment in segments(times.values(), implied.values(), before) {
            self.emit(rows.slice(segment.start, segment.length), started)?;
            self.splits[index].record.watermark = segment.watermark;
            let change = self.watermarks.advance(input, segment.watermark);
            self.report(change)?;
        }
        Ok(())
    }

    fn emit(&mut self, rows: RecordBatch, started: u64) -> Result<(), TaskError> {
        let spent = self.config.clock.monotonic_nanos().saturating_sub(started);
        self.chain.root().metrics.busy_nanos += spent;
        self.chain
            .emit_from_root(Event::Batch(Batch::inserts(rows)))
    }

    fn compute(&self, rows: RecordBatch) -> Result<RecordBatch, OperatorError> {
        let Some((output, schema)) = &self.config.output else {
            return Ok(rows);
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(output.len());
        for expr in output {
            columns.push(expr.expr.evaluate(&rows)?.into_array(rows.num_rows())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            schema.clone(),
            columns,
            &options,
        )?)
    }

    fn report(&mut self, change: WatermarkChange) -> Result<(), TaskError> {
        if let Some(watermark) = change.advanced {
            self.chain.emit_from_root(Event::Watermark(watermark))?;
        }
        if change.became_idle {
            // Not before all that the watermark fires is out, which may be more than fits at once.
            self.idle_next = self.chain.has_more();
            if !self.idle_next {
                self.chain.emit_from_root(Event::Idle)?;
            }
        }
        Ok(())
    }

    /// The split has ended: it no longer holds the watermark back.
    fn close(&mut self, index: usize) -> Result<(), TaskError> {
        let kept = self.config.source.wants_completed();
        let split = &mut self.splits[index];
        let open = split.open.take();
        split.record.ended = true;
        // Otherwise where it ended is of no use, and there may be very many of them.
        split.record.split.position = match open {
            Some(open) if kept => open.reader.position(),
            _ => serde_json::Value::Null,
        };
        let input = split.input;
        self.open.retain(|open| *open != index);
        // Not the end of time: other splits are idle, or discovery may bring more.
        if !self.all_ended() {
            let change = self.watermarks.set_idle(input);
            self.report(change)?;
        }
        Ok(())
    }

    /// The last watermark, and once everything that it fires is out, the end.
    fn finish(&mut self) -> Result<(), TaskError> {
        self.discovery = None;
        if !self.ending {
            self.ending = true;
            if self.watermarks.current() != Some(i64::MAX) {
                return self.chain.emit_from_root(Event::Watermark(i64::MAX));
            }
        }
        self.ended = true;
        self.chain.end()
    }

    fn take_barrier(&mut self, barrier: BarrierInfo) -> Result<Step, TaskError> {
        let mut snapshot = OperatorSnapshot::default();
        let mut items = Vec::new();
        for split in &mut self.splits {
            if let Some(open) = &split.open {
                split.record.split.position = open.reader.position();
            }
            items.push(split.record.encode());
        }
        if self.config.source.wants_completed() {
            let splits = self.splits.iter();
            let splits = splits.map(|split| split.record.split.clone()).collect();
            self.passed.push_back((barrier.checkpoint, splits));
        }
        let items: Result<Vec<_>, _> = items.into_iter().collect();
        let items = items.map_err(|error| self.fault(error))?;
        let state_id = self.config.state_id.clone();
        snapshot.list(&state_id, SPLITS, items);
        if let Some(dead) = &mut self.config.dead_letters {
            dead.snapshot(barrier.checkpoint, &state_id, &mut snapshot)
                .map_err(|error| self.fault(error))?;
        }
        self.chain.barrier(barrier, &mut snapshot)?;
        if barrier.stop_after {
            self.paused_for = Some(barrier);
        }
        Ok(Step::Barrier(barrier, snapshot))
    }

    pub fn checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), TaskError> {
        while let Some((_, splits)) = self.passed.pop_front_if(|(of, _)| *of <= checkpoint) {
            // What a later one covers as well is not told twice.
            if self
                .passed
                .front()
                .is_none_or(|(next, _)| *next > checkpoint)
            {
                self.config.source.completed(&splits);
            }
        }
        if let Some(dead) = &mut self.config.dead_letters {
            dead.commit(checkpoint).map_err(|error| self.fault(error))?;
        }
        self.chain.checkpoint_complete(checkpoint)
    }

    fn fault(&self, error: OperatorError) -> TaskError {
        TaskError {
            operator: self.chain.nodes()[0].name.clone(),
            error: Box::new(error),
        }
    }
}

fn connector(error: ConnectorError) -> OperatorError {
    OperatorError::Connector(error.0)
}
