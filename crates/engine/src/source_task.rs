//! A task whose root reads a table: polls its splits, computes columns, makes watermarks.

use std::{collections::BTreeSet, sync::Arc, sync::mpsc, thread};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions},
    compute::cast,
    datatypes::{DataType, SchemaRef, TimeUnit, TimestampMillisecondType},
};
use millrace_connectors::source::{ConnectorError, Polled, Source, SplitReader, SplitState, Waker};
use millrace_dataflow::{ScalarExpr, StateId, WatermarkSpec};

use crate::{
    Batch, Clock, Event, OperatorError, OperatorSnapshot, RestoredState,
    batch::MAX_BATCH_ROWS,
    chain::{Chain, TaskError},
    channel::{BarrierInfo, SlotWaker},
    dead_letter::DeadLetters,
    splits::{SplitRecord, subtask_of},
    task::Step,
    watermark::{CombinedWatermark, WatermarkChange},
    watermark_split::segments,
};

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

struct OpenSplit {
    record: SplitRecord,
    reader: Option<Box<dyn SplitReader>>,
    /// Number in the combined watermark.
    input: usize,
    /// Not before this time, when the reader paces itself.
    not_before: Option<i64>,
    /// Wall-clock time of the last poll that found nothing, for idleness.
    last_empty_poll: Option<i64>,
    /// How long the split has been polled in vain, in ms.
    empty_ms: i64,
    idle: bool,
}

/// Finds splits that appear later, off the slot's thread.
struct Discovery {
    found: mpsc::Receiver<Result<Vec<SplitState>, ConnectorError>>,
    /// Dropping it ends the thread.
    _stop: mpsc::Sender<()>,
}

/// A source task.
pub struct SourceTask {
    config: SourceTaskConfig,
    splits: Vec<OpenSplit>,
    known: BTreeSet<String>,
    discovery: Option<Discovery>,
    watermarks: CombinedWatermark,
    pub chain: Chain,
    pending_barrier: Option<BarrierInfo>,
    /// The stop-after barrier that the source waits behind.
    paused_for: Option<BarrierInfo>,
    drain: bool,
    ended: bool,
    announced_idle: bool,
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
            known: BTreeSet::new(),
            discovery: None,
            watermarks: CombinedWatermark::default(),
            chain,
            pending_barrier: None,
            paused_for: None,
            drain: false,
            ended: false,
            announced_idle: false,
            next: 0,
            poll_waker: Arc::new(move || slot_waker.wake()),
            config,
        };
        let state_id = task.config.state_id.clone();
        let mut records = Vec::new();
        for item in restored.list(&state_id, SPLITS) {
            records.push(SplitRecord::decode(item)?);
        }
        let has_restored = !records.is_empty();
        for record in records {
            task.add(record)?;
        }
        if !(has_restored && task.config.source.restored_splits_win()) {
            for split in task
                .config
                .source
                .splits(task.config.parallelism)
                .map_err(connector)?
            {
                task.add(SplitRecord::new(split))?;
            }
        }
        if let Some(interval) = task.config.source.discovery_interval_ms() {
            task.discovery = Some(Discovery::start(&task.config, interval));
        }
        Ok(task)
    }

    fn add(&mut self, record: SplitRecord) -> Result<(), OperatorError> {
        let mine = subtask_of(&record.split.id, self.config.parallelism) == self.config.subtask;
        if !mine || !self.known.insert(record.split.id.0.clone()) {
            return Ok(());
        }
        let reader = if record.ended {
            None
        } else {
            Some(
                self.config
                    .source
                    .open(&record.split, self.poll_waker.clone())
                    .map_err(connector)?,
            )
        };
        let input = self.watermarks.add_input();
        if record.ended {
            self.watermarks.set_idle(input);
        } else if record.watermark > i64::MIN {
            self.watermarks.advance(input, record.watermark);
        }
        self.splits.push(OpenSplit {
            record,
            reader,
            input,
            not_before: None,
            last_empty_poll: None,
            empty_ms: 0,
            idle: false,
        });
        Ok(())
    }

    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// The barrier is taken at the next step.
    pub fn trigger(&mut self, barrier: BarrierInfo) {
        self.pending_barrier = Some(barrier);
    }

    /// A checkpoint was given up: go on if the source waits behind its barrier.
    pub fn aborted(&mut self, checkpoint: millrace_types::CheckpointId) {
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
        if let Some(barrier) = self.pending_barrier.take() {
            return self.take_barrier(barrier);
        }
        if self.ended || self.paused_for.is_some() {
            return Ok(Step::Idle);
        }
        if !room {
            // The idleness clock stands still: rows may be there, nobody looks.
            for split in &mut self.splits {
                split.last_empty_poll = None;
            }
            return Ok(Step::Idle);
        }
        self.discover()?;
        if self.drain || self.all_ended() {
            self.finish()?;
            return Ok(Step::Worked);
        }
        let count = self.splits.len();
        for offset in 0..count {
            let index = (self.next + offset) % count;
            if self.poll(index, now_ms)? {
                self.next = (index + 1) % count;
                return Ok(Step::Worked);
            }
        }
        if count == 0 && !self.announced_idle {
            self.announced_idle = true;
            self.chain.emit_from_root(Event::Idle)?;
        }
        Ok(Step::Idle)
    }

    /// When a paced split wants to be polled, or idleness has to be looked at.
    pub fn next_poll(&self) -> Option<i64> {
        if self.ended || self.paused_for.is_some() {
            return None;
        }
        self.splits
            .iter()
            .filter(|split| split.reader.is_some())
            .filter_map(|split| split.not_before)
            .min()
    }

    fn all_ended(&self) -> bool {
        self.discovery.is_none() && self.splits.iter().all(|split| split.reader.is_none())
    }

    fn discover(&mut self) -> Result<(), TaskError> {
        let Some(discovery) = &self.discovery else {
            return Ok(());
        };
        let listings: Vec<_> = discovery.found.try_iter().collect();
        for listing in listings {
            let splits = listing.map_err(|error| self.fault(connector(error)))?;
            for split in splits {
                self.add(SplitRecord::new(split))
                    .map_err(|error| self.fault(error))?;
            }
        }
        Ok(())
    }

    /// Polls one split; true when it yielded something.
    fn poll(&mut self, index: usize, now_ms: i64) -> Result<bool, TaskError> {
        let split = &mut self.splits[index];
        let Some(reader) = split.reader.as_mut() else {
            return Ok(false);
        };
        if split.not_before.is_some_and(|at| now_ms < at) {
            return Ok(false);
        }
        split.not_before = None;
        let started = self.config.clock.monotonic_nanos();
        let polled = reader.poll(MAX_BATCH_ROWS, now_ms);
        let (bad, letters) = reader.take_bad_records();
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
                let metrics = &mut self.chain.root().metrics;
                metrics.busy_nanos += spent;
                metrics.rows_in += rows.num_rows() as u64;
                let split = &mut self.splits[index];
                split.empty_ms = 0;
                split.last_empty_poll = None;
                split.idle = false;
                self.announced_idle = false;
                self.rows(index, rows)?;
                Ok(true)
            }
            Polled::Pending => self.empty_poll(index, now_ms),
            Polled::PendingUntil(at) => {
                self.splits[index].not_before = Some(at);
                self.empty_poll(index, now_ms)
            }
            Polled::Ended => {
                self.close(index)?;
                Ok(true)
            }
        }
    }

    fn empty_poll(&mut self, index: usize, now_ms: i64) -> Result<bool, TaskError> {
        let timeout = self
            .config
            .watermark
            .as_ref()
            .map_or(0, |spec| spec.idle_timeout_ms) as i64;
        let split = &mut self.splits[index];
        if let Some(last) = split.last_empty_poll {
            split.empty_ms += (now_ms - last).max(0);
        }
        split.last_empty_poll = Some(now_ms);
        if timeout > 0 && !split.idle && split.empty_ms >= timeout {
            split.idle = true;
            let change = self.watermarks.set_idle(split.input);
            self.report(change)?;
        }
        Ok(false)
    }

    fn rows(&mut self, index: usize, rows: RecordBatch) -> Result<(), TaskError> {
        let started = self.config.clock.monotonic_nanos();
        let rows = self.compute(rows).map_err(|error| self.fault(error))?;
        let Some(spec) = &self.config.watermark else {
            return self.emit(rows, started);
        };
        let (times, implied) = event_times(spec, &rows).map_err(|error| self.fault(error))?;
        let before = self.splits[index].record.watermark;
        let input = self.splits[index].input;
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
            self.chain.emit_from_root(Event::Idle)?;
        }
        Ok(())
    }

    /// The split has ended: it no longer holds the watermark back.
    fn close(&mut self, index: usize) -> Result<(), TaskError> {
        let split = &mut self.splits[index];
        if let Some(reader) = split.reader.take() {
            split.record.split.position = reader.position();
        }
        split.record.ended = true;
        let input = split.input;
        // Not the end of time: other splits are idle, or discovery may bring more.
        if !self.all_ended() {
            let change = self.watermarks.set_idle(input);
            self.report(change)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TaskError> {
        self.ended = true;
        self.discovery = None;
        if self.watermarks.current() != Some(i64::MAX) {
            self.chain.emit_from_root(Event::Watermark(i64::MAX))?;
        }
        self.chain.end()
    }

    fn take_barrier(&mut self, barrier: BarrierInfo) -> Result<Step, TaskError> {
        let mut snapshot = OperatorSnapshot::default();
        let mut items = Vec::new();
        for split in &mut self.splits {
            if let Some(reader) = &split.reader {
                split.record.split.position = reader.position();
            }
            items.push(split.record.encode());
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

    pub fn checkpoint_complete(
        &mut self,
        checkpoint: millrace_types::CheckpointId,
    ) -> Result<(), TaskError> {
        if let Some(dead) = &mut self.config.dead_letters {
            dead.commit(checkpoint).map_err(|error| self.fault(error))?;
        }
        self.chain.checkpoint_complete(checkpoint)
    }

    fn fault(&self, error: OperatorError) -> TaskError {
        TaskError {
            operator: self.chain.nodes()[0].name.clone(),
            error,
        }
    }
}

impl Discovery {
    fn start(config: &SourceTaskConfig, interval_ms: u64) -> Self {
        let (found_sender, found) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let source = config.source.clone();
        let parallelism = config.parallelism;
        let waker = config.waker.clone();
        thread::spawn(move || {
            let interval = std::time::Duration::from_millis(interval_ms.max(1));
            // Ends when the task is dropped, which closes `stopped`.
            while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(interval) {
                if found_sender.send(source.splits(parallelism)).is_err() {
                    return;
                }
                waker.wake();
            }
        });
        Discovery { found, _stop: stop }
    }
}

fn connector(error: ConnectorError) -> OperatorError {
    OperatorError::Connector(error.0)
}

type Millis = arrow::array::PrimitiveArray<TimestampMillisecondType>;

/// The rows' times and the watermarks they imply.
fn event_times(
    spec: &WatermarkSpec,
    rows: &RecordBatch,
) -> Result<(Millis, Millis), OperatorError> {
    let name = rows.schema().field(spec.column).name().clone();
    let times = millis(rows.column(spec.column))?;
    if let Some(row) = (0..times.len()).find(|row| times.is_null(*row)) {
        return Err(OperatorError::Data(format!(
            "the event-time column `{name}` is null in row {row} of a batch: filter such rows out before the watermark, \
             or give the column a value with COALESCE in a computed column"
        )));
    }
    let implied = millis(&spec.expr.expr.evaluate(rows)?.into_array(rows.num_rows())?)?;
    if implied.null_count() > 0 {
        return Err(OperatorError::Data(format!(
            "the WATERMARK expression `{}` is null for a row: it must have a value wherever `{name}` has one",
            spec.expr.text
        )));
    }
    Ok((times, implied))
}

fn millis(column: &ArrayRef) -> Result<Millis, OperatorError> {
    // The zone is only a label: values are UTC or local milliseconds either way.
    let plain = match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => column.clone(),
        _ => cast(column, &DataType::Timestamp(TimeUnit::Millisecond, None))?,
    };
    Ok(plain.as_primitive::<TimestampMillisecondType>().clone())
}
