//! Aggregates per key and session: rows of a key closer than the gap belong together. Single
//! phase, since sessions merge as rows come; event and processing time.
//!
//! A session fires when the watermark reaches its end − 1 ms; sessions fire in the order of
//! their ends, except that a bucket of cold keys that is too large for memory fires in parts (see
//! `session_due`). A row is late if it would start a session that has ended already; a row that
//! still joins a live one never is.
//!
//! A watermark or tick may fire more than goes out at once, or more than fits into memory: the
//! rest waits for `resume`, and the watermark goes out after it.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::SchemaRef,
};
use millrace_dataflow::{TimeDomain, WindowAggregateNode, WindowKind, WindowSource};
use millrace_state::Delta;
use millrace_types::CheckpointId;

use super::{
    columns::batch_of,
    late::note_late,
    session_persistence::{Pieces, SessionPersistence},
    session_state::SessionState,
    slice_assignment::check_times,
    window_aggregate::key_types,
    window_slices::TIME_LIMIT,
    window_time::WindowTime,
};
use crate::{
    Batch, Clock, LateRows, OpenContext, Operator, OperatorError, OperatorSnapshot, Output,
    StateSize,
    aggregate::{AggregatePlan, Rows, UpdateScratch},
    batch::MAX_BATCH_ROWS,
    key_table::{KeyTable, int_array, int_values},
};

pub(crate) struct SessionAggregate {
    node: Arc<WindowAggregateNode>,
    schema: SchemaRef,
    gap: i64,
    /// `None`: processing time.
    time_column: Option<usize>,
    time: WindowTime,
    state: SessionState,
    persistence: Option<SessionPersistence>,
    pieces: Pieces,
    firing: Option<Firing>,
    /// Sessions per batch of results, by how large their rows have been.
    batch_rows: usize,
    clock: Option<Arc<dyn Clock>>,
    now: i64,
    late: LateRows,
    scratch: UpdateScratch,
    groups: Vec<u32>,
    created: Vec<u32>,
}

/// What is being fired.
#[derive(Debug, Clone, Copy)]
struct Firing {
    up_to: i64,
    /// To be forwarded when it is out.
    watermark: Option<i64>,
}

impl SessionAggregate {
    pub(crate) fn new(
        node: Arc<WindowAggregateNode>,
        schema: SchemaRef,
    ) -> Result<Self, OperatorError> {
        let WindowSource::Time {
            column,
            kind: WindowKind::Session { gap },
            domain,
            zone,
        } = &node.window
        else {
            return Err(OperatorError::Internal(
                "a session aggregate without a session window".into(),
            ));
        };
        if !(1..=TIME_LIMIT).contains(gap) {
            return Err(OperatorError::Internal(format!(
                "a session gap of {gap} ms"
            )));
        }
        let plan = AggregatePlan::new(&node.aggregates, &node.raw_input, false, 0)?;
        Ok(SessionAggregate {
            time_column: (*domain == TimeDomain::Event).then_some(*column),
            time: WindowTime::new(zone.as_deref())?,
            state: SessionState::new(
                *gap,
                KeyTable::new(key_types(&node.raw_input, &node.keys))?,
                &plan,
            )?,
            persistence: None,
            pieces: Pieces::default(),
            firing: None,
            batch_rows: 256,
            clock: None,
            now: i64::MIN,
            late: LateRows::default(),
            gap: *gap,
            scratch: UpdateScratch::default(),
            groups: Vec::new(),
            created: Vec::new(),
            schema,
            node,
        })
    }

    /// One that reads little and fires few sessions at a time.
    #[cfg(test)]
    pub(super) fn in_pieces(mut self, pieces: Pieces) -> Self {
        self.pieces = pieces;
        self.batch_rows = 1;
        self
    }

    /// Times by which rows are put into sessions.
    fn local_times(&mut self, rows: &RecordBatch) -> Result<Vec<i64>, OperatorError> {
        let Some(column) = self.time_column else {
            if let Some(clock) = &self.clock {
                self.now = self.now.max(clock.now_ms());
            }
            return Ok(vec![self.time.local_of(self.now); rows.num_rows()]);
        };
        let column = rows.column(column);
        check_times(column, "the time attribute")?;
        let moments = int_values(column.as_ref());
        if self.time.is_shifted() {
            let time = &mut self.time;
            Ok(moments
                .iter()
                .map(|moment| time.local_of(*moment))
                .collect())
        } else {
            Ok(moments.into_owned())
        }
    }

    fn fire(
        &mut self,
        up_to: i64,
        watermark: Option<i64>,
        out: &mut Output,
    ) -> Result<(), OperatorError> {
        self.read_all()?;
        // Nothing is asked of an operator that is still firing, but if it were, both must fire.
        let before = self.firing.map_or(i64::MIN, |firing| firing.up_to);
        self.firing = Some(Firing {
            up_to: up_to.max(before),
            watermark,
        });
        self.go_on_firing(out)
    }

    /// Fires until the output is full or memory may be.
    fn go_on_firing(&mut self, out: &mut Output) -> Result<(), OperatorError> {
        let Some(Firing { up_to, watermark }) = self.firing else {
            return Ok(());
        };
        let mut taken = 0;
        while !out.is_full() {
            let (time, cold) = (&self.time, self.persistence.as_ref().map(|p| &p.cold));
            let horizon = cold.and_then(|cold| cold.horizon());
            let is_due =
                |end| horizon.is_none_or(|horizon| end < horizon) && time.trigger(end) <= up_to;
            let mut due = Vec::new();
            while due.len() < self.batch_rows {
                match self.state.sessions.pop_due(is_due) {
                    Some(session) => due.push(session),
                    None => break,
                }
            }
            if !due.is_empty() {
                self.emit(&due, out)?;
                self.forget(due);
                continue;
            }
            let next = cold.and_then(|cold| cold.next_due());
            match &mut self.persistence {
                Some(persistence) if next.is_some_and(|bucket| time.trigger(bucket) <= up_to) => {
                    if taken >= self.pieces.bytes {
                        return Ok(());
                    }
                    taken += persistence.take_due(&mut self.state)?;
                }
                _ => {
                    self.firing = None;
                    if let Some(watermark) = watermark {
                        out.watermark(watermark);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn emit(&mut self, due: &[u32], out: &mut Output) -> Result<(), OperatorError> {
        let sessions = || due.iter().map(|session| self.state.sessions.get(*session));
        let keys: Vec<u32> = sessions().map(|session| session.key).collect();
        let mut columns = self.state.keys.columns(&keys)?;
        columns.extend(self.state.set.emit(due)?);
        let starts = sessions().map(|session| session.start).collect();
        let ends = sessions().map(|session| session.end).collect();
        let times = sessions()
            .map(|session| {
                if self.time.is_shifted() {
                    self.time.trigger(session.end)
                } else {
                    session.end.saturating_sub(1)
                }
            })
            .collect();
        for values in [starts, ends, times] {
            let field = self.schema.fields().get(columns.len()).ok_or_else(|| {
                OperatorError::Internal("a window aggregate without its window columns".into())
            })?;
            columns.push(int_array(field.data_type(), values, None));
        }
        let batch = Batch::inserts(batch_of(&self.schema, columns, due.len())?);
        let per_row = batch.bytes() / due.len() + 1;
        self.batch_rows = (self.pieces.result_bytes / per_row).clamp(1, MAX_BATCH_ROWS);
        out.emit(batch);
        Ok(())
    }

    fn forget(&mut self, fired: Vec<u32>) {
        let mut keys = Vec::with_capacity(fired.len());
        for number in fired {
            keys.push(self.state.sessions.get(number).key);
            self.release(number);
        }
        // Several sessions of one key may have fired: its number goes once, after all of them.
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            self.state.release_key_if_idle(key);
        }
    }

    fn release(&mut self, number: u32) {
        if let Some(persistence) = &mut self.persistence {
            persistence.delete(&self.state.keys, self.state.sessions.get(number));
        }
        self.state.release(number);
    }

    /// Brings all that a restore found into memory.
    fn read_all(&mut self) -> Result<(), OperatorError> {
        if let Some(persistence) = &mut self.persistence {
            while persistence.has_unread() {
                persistence.read_piece(&mut self.state)?;
            }
        }
        Ok(())
    }

    /// Assigns rows to sessions: positions and sessions of those that are not late, in order.
    fn assign(&mut self, times: &[i64]) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
        let mut positions = Vec::with_capacity(times.len());
        let mut sessions = Vec::with_capacity(times.len());
        let mut late = Vec::new();
        let watermark = self.state.watermark;
        let time_of = &self.time;
        for (position, (key, time)) in self.groups.iter().zip(times).enumerate() {
            let assigned = self
                .state
                .sessions
                .assign(*key, *time, |end| time_of.trigger(end) <= watermark);
            match assigned {
                Some(session) => {
                    positions.push(position as u32);
                    sessions.push(session);
                }
                None => late.push(position as u32),
            }
        }
        (positions, sessions, late)
    }

    fn merge(&mut self, assigned: &mut [u32]) -> Result<(), OperatorError> {
        if !self.state.sessions.has_merges() {
            return Ok(());
        }
        for session in assigned {
            *session = self.state.sessions.resolve(*session);
        }
        for (from, to) in self.state.sessions.take_merges() {
            self.state.set.merge_within(from, to)?;
            self.release(from);
        }
        Ok(())
    }
}

impl Operator for SessionAggregate {
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        self.clock = Some(Arc::clone(&context.clock));
        let mut persistence = SessionPersistence::open(
            &self.node.state_id,
            self.gap,
            self.pieces,
            &mut self.state,
            context,
        )?;
        persistence.read_piece(&mut self.state)?;
        self.persistence = Some(persistence);
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<(), OperatorError> {
        let rows = batch.rows;
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.read_all()?;
        let times = self.local_times(&rows)?;
        let keys: Vec<ArrayRef> = self
            .node
            .keys
            .iter()
            .map(|column| Arc::clone(rows.column(*column)))
            .collect();
        self.created.clear();
        self.state
            .keys
            .intern(&keys, rows.num_rows(), &mut self.groups, &mut self.created);
        self.state.resize_keys();
        self.state.note_use(&self.groups);
        if let Some(persistence) = &mut self.persistence {
            persistence.take_back(&mut self.state, &self.created)?;
        }
        let (positions, mut sessions, late) = self.assign(&times);
        self.state.set.resize(self.state.sessions.bound());
        self.merge(&mut sessions)?;
        if !late.is_empty() {
            note_late(&mut self.late, &rows, &late, late.len() as u64);
            for key in &self.created {
                self.state.release_key_if_idle(*key);
            }
        }
        self.state.set.update(
            rows.columns(),
            Rows {
                positions: (!late.is_empty()).then_some(&positions[..]),
                groups: &sessions,
                retract: None,
            },
            &mut self.scratch,
        )
    }

    fn watermark(&mut self, watermark: i64, out: &mut Output) -> Result<(), OperatorError> {
        if self.time_column.is_some() {
            // Sources may begin behind what was restored here; what fired stays fired.
            self.state.watermark = self.state.watermark.max(watermark);
        } else if watermark != i64::MAX {
            out.watermark(watermark);
            return Ok(());
        }
        self.fire(watermark, Some(watermark), out)
    }

    fn next_tick(&self) -> Option<i64> {
        if self.time_column.is_some() {
            return None;
        }
        let hot = self.state.sessions.next_end();
        let cold = self.persistence.as_ref().and_then(|p| p.cold.next_due());
        let end = hot.into_iter().chain(cold).min()?;
        Some(self.time.trigger(end).saturating_add(1))
    }

    fn tick(&mut self, now_ms: i64, out: &mut Output) -> Result<(), OperatorError> {
        if self.time_column.is_none() {
            self.now = self.now.max(now_ms);
            self.fire(self.now.saturating_sub(1), None, out)?;
        }
        Ok(())
    }

    fn has_more(&self) -> bool {
        let persistence = self.persistence.as_ref();
        self.firing.is_some() || persistence.is_some_and(SessionPersistence::has_unread)
    }

    fn resume(&mut self, out: &mut Output) -> Result<(), OperatorError> {
        match &mut self.persistence {
            Some(persistence) if persistence.has_unread() => {
                persistence.read_piece(&mut self.state)
            }
            _ => self.go_on_firing(out),
        }
    }

    fn relieve(&mut self, bytes: u64, deltas: &mut Vec<Delta>) -> Result<(), OperatorError> {
        let Some(persistence) = &mut self.persistence else {
            return Ok(());
        };
        let (time, watermark) = (&self.time, self.state.watermark);
        // Without a watermark all is equally near.
        let ahead = |end: i64| match watermark {
            i64::MIN => 0,
            _ => time.trigger(end).saturating_sub(watermark),
        };
        persistence.relieve(&mut self.state, bytes, ahead, deltas)
    }

    fn snapshot(
        &mut self,
        checkpoint: CheckpointId,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        match &mut self.persistence {
            Some(persistence) => persistence.snapshot(checkpoint, &mut self.state, snapshot),
            None => return Err(OperatorError::Internal("a snapshot before open".into())),
        }
        Ok(())
    }

    fn checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<(), OperatorError> {
        if let Some(persistence) = &mut self.persistence {
            persistence.cold.complete(checkpoint);
        }
        Ok(())
    }

    fn state_size(&self) -> StateSize {
        let persistence = self.persistence.as_ref().map_or(0, |p| p.bytes());
        StateSize {
            entries: self.state.sessions.len() as u64,
            bytes: (self.state.bytes() + persistence) as u64,
        }
    }

    fn late_rows(&self) -> LateRows {
        self.late.clone()
    }
}
