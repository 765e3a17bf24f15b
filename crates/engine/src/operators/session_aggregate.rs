//! Aggregates per key and session: rows of a key closer than the gap belong together. Single
//! phase, since sessions merge as rows come; event and processing time.
//!
//! A session fires when the watermark reaches its end − 1 ms; sessions fire in the order of
//! their ends. A row is late if it would start a session that has ended already; a row that
//! still joins a live one never is.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::SchemaRef,
};
use millrace_dataflow::{TimeDomain, WindowAggregateNode, WindowKind, WindowSource};
use millrace_types::CheckpointId;

use super::{
    columns::batch_of, late::note_late, session_persistence::SessionPersistence,
    sessions::Sessions, slice_assignment::check_times, window_aggregate::key_types,
    window_slices::TIME_LIMIT, window_time::WindowTime,
};
use crate::{
    Batch, Clock, LateRows, OpenContext, Operator, OperatorError, OperatorSnapshot, Output,
    StateSize,
    aggregate::{AggregatePlan, AggregateSet, Rows, UpdateScratch},
    batch::MAX_BATCH_ROWS,
    key_table::{KeyTable, int_array, int_values},
};

pub(crate) struct SessionAggregate {
    node: Arc<WindowAggregateNode>,
    schema: SchemaRef,
    /// `None`: processing time.
    time_column: Option<usize>,
    time: WindowTime,
    state: SessionState,
    persistence: Option<SessionPersistence>,
    clock: Option<Arc<dyn Clock>>,
    now: i64,
    late: LateRows,
    scratch: UpdateScratch,
    groups: Vec<u32>,
    created: Vec<u32>,
}

/// What is kept.
pub(crate) struct SessionState {
    pub(crate) keys: KeyTable,
    pub(crate) sessions: Sessions,
    /// By session number.
    pub(crate) set: AggregateSet,
    pub(crate) watermark: i64,
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
            state: SessionState {
                keys: KeyTable::new(key_types(&node.raw_input, &node.keys))?,
                sessions: Sessions::new(*gap),
                set: plan.set()?,
                watermark: i64::MIN,
            },
            persistence: None,
            clock: None,
            now: i64::MIN,
            late: LateRows::default(),
            scratch: UpdateScratch::default(),
            groups: Vec::new(),
            created: Vec::new(),
            schema,
            node,
        })
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

    fn fire(&mut self, up_to: i64, out: &mut Output) -> Result<(), OperatorError> {
        loop {
            let mut due = Vec::new();
            while due.len() < MAX_BATCH_ROWS {
                let time = &self.time;
                let next = self
                    .state
                    .sessions
                    .pop_due(|end| time.trigger(end) <= up_to);
                match next {
                    Some(session) => due.push(session),
                    None => break,
                }
            }
            if due.is_empty() {
                return Ok(());
            }
            self.emit(&due, out)?;
            let mut keys: Vec<u32> = due
                .iter()
                .map(|session| self.state.sessions.get(*session).key)
                .collect();
            for session in due {
                self.forget(session);
            }
            // Several sessions of one key may have fired: its number goes once, after all of them.
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                if self.state.sessions.is_idle(key) {
                    self.state.keys.remove(key);
                    self.state.keys.release(key);
                }
            }
        }
    }

    fn emit(&self, due: &[u32], out: &mut Output) -> Result<(), OperatorError> {
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
        out.emit(Batch::inserts(batch_of(&self.schema, columns, due.len())?));
        Ok(())
    }

    fn forget(&mut self, number: u32) {
        let session = self.state.sessions.get(number);
        if let Some(persistence) = &mut self.persistence {
            persistence.delete(&self.state.keys, session);
        }
        self.state.set.clear(number);
        self.state.sessions.release(number);
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
            if let Some(persistence) = &mut self.persistence {
                persistence.delete(&self.state.keys, self.state.sessions.get(from));
            }
            self.state.set.clear(from);
            self.state.sessions.release(from);
        }
        Ok(())
    }
}

impl Operator for SessionAggregate {
    fn open(&mut self, context: &mut OpenContext<'_>) -> Result<(), OperatorError> {
        self.clock = Some(Arc::clone(&context.clock));
        self.persistence = Some(SessionPersistence::open(
            &self.node.state_id,
            &mut self.state,
            context,
        )?);
        Ok(())
    }

    fn process(&mut self, _: usize, batch: Batch, _: &mut Output) -> Result<(), OperatorError> {
        let rows = batch.rows;
        if rows.num_rows() == 0 {
            return Ok(());
        }
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
        self.state
            .sessions
            .resize_keys(self.state.keys.group_bound());
        let (positions, mut sessions, late) = self.assign(&times);
        self.state.set.resize(self.state.sessions.bound());
        self.merge(&mut sessions)?;
        if !late.is_empty() {
            note_late(&mut self.late, &rows, &late, late.len() as u64);
            for key in &self.created {
                if self.state.sessions.is_idle(*key) {
                    self.state.keys.remove(*key);
                    self.state.keys.release(*key);
                }
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
            self.fire(watermark, out)?;
        } else if watermark == i64::MAX {
            self.fire(watermark, out)?;
        }
        out.watermark(watermark);
        Ok(())
    }

    fn next_tick(&self) -> Option<i64> {
        if self.time_column.is_some() {
            return None;
        }
        let end = self.state.sessions.next_end()?;
        Some(self.time.trigger(end).saturating_add(1))
    }

    fn tick(&mut self, now_ms: i64, out: &mut Output) -> Result<(), OperatorError> {
        if self.time_column.is_none() {
            self.now = self.now.max(now_ms);
            self.fire(self.now.saturating_sub(1), out)?;
        }
        Ok(())
    }

    fn snapshot(
        &mut self,
        _: CheckpointId,
        snapshot: &mut OperatorSnapshot,
    ) -> Result<(), OperatorError> {
        match &mut self.persistence {
            Some(persistence) => persistence.snapshot(&mut self.state, snapshot),
            None => Err(OperatorError::Internal("a snapshot before open".into())),
        }
    }

    fn state_size(&self) -> StateSize {
        StateSize {
            entries: self.state.sessions.len() as u64,
            bytes: (self.state.keys.bytes() + self.state.sessions.bytes() + self.state.set.bytes())
                as u64,
        }
    }

    fn late_rows(&self) -> LateRows {
        self.late.clone()
    }
}
