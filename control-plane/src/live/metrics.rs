//! Operators' metrics over all subtasks, with rates and shares over the last interval.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use millrace_types::{ExecutionId, OperatorMetrics, SubtaskMetrics, WorkerId, WorkerMetrics};

use super::JobMetrics;

/// Late rows shown per operator.
const MAX_SAMPLES: usize = 10;

/// What is known of a job's execution.
#[derive(Default)]
pub(super) struct MetricsBoard {
    execution: Option<ExecutionId>,
    /// Nodes and their names.
    operators: Vec<(u32, String)>,
    subtasks: BTreeMap<(u32, u32), Measured>,
    workers: BTreeMap<WorkerId, WorkerMetrics>,
    at: Option<DateTime<Utc>>,
}

/// The last two reports of one operator on one subtask.
struct Measured {
    at: DateTime<Utc>,
    now: SubtaskMetrics,
    rates: Rates,
}

#[derive(Clone, Copy, Default)]
struct Rates {
    rows_in: f64,
    rows_out: f64,
    busy: f64,
    backpressured: f64,
    idle: f64,
}

impl MetricsBoard {
    pub(super) fn begin(&mut self, execution: ExecutionId, operators: Vec<(u32, String)>) {
        *self = MetricsBoard {
            execution: Some(execution),
            operators,
            ..MetricsBoard::default()
        };
    }

    pub(super) fn report(
        &mut self,
        execution: ExecutionId,
        worker: WorkerId,
        at: DateTime<Utc>,
        subtasks: Vec<SubtaskMetrics>,
        usage: WorkerMetrics,
    ) {
        self.workers.insert(worker, usage);
        if self.execution != Some(execution) {
            return;
        }
        self.at = Some(at);
        for now in subtasks {
            let key = (now.node, now.subtask);
            let rates = match self.subtasks.get(&key) {
                Some(before) => rates(before, &now, at),
                None => Rates::default(),
            };
            self.subtasks.insert(key, Measured { at, now, rates });
        }
    }

    pub(super) fn latest(&self) -> Option<JobMetrics> {
        let execution = self.execution?;
        let at = self.at?;
        Some(JobMetrics {
            execution,
            at,
            operators: self
                .operators
                .iter()
                .map(|(node, name)| self.operator(*node, name))
                .collect(),
            workers: self
                .workers
                .iter()
                .map(|(worker, usage)| (*worker, usage.clone()))
                .collect(),
        })
    }

    fn operator(&self, node: u32, name: &str) -> OperatorMetrics {
        let mut total = OperatorMetrics {
            node,
            name: name.to_owned(),
            ..OperatorMetrics::default()
        };
        // A subtask without a watermark holds the operator's back.
        let mut watermark = None;
        let mut all_have_one = true;
        for measured in self
            .subtasks
            .range((node, 0)..=(node, u32::MAX))
            .map(|(_, measured)| measured)
        {
            let (now, rates) = (&measured.now, measured.rates);
            total.rows_in += now.rows_in;
            total.rows_out += now.rows_out;
            total.bytes_in += now.bytes_in;
            total.bytes_out += now.bytes_out;
            total.rows_in_per_second += rates.rows_in;
            total.rows_out_per_second += rates.rows_out;
            if rates.busy >= total.busy {
                total.busy = rates.busy;
                total.backpressured = rates.backpressured;
                total.idle = rates.idle;
            }
            match now.watermark {
                Some(time) => {
                    watermark = Some(watermark.map_or(time, |least: i64| least.min(time)));
                }
                None => all_have_one = false,
            }
            total.late_rows += now.late_rows;
            let room = MAX_SAMPLES.saturating_sub(total.late_samples.len());
            total
                .late_samples
                .extend(now.late_samples.iter().take(room).cloned());
            total.bad_records += now.bad_records;
            total.state_entries += now.state_entries;
            total.state_bytes += now.state_bytes;
            total.subtasks.push(now.clone());
        }
        total.watermark = watermark.filter(|_| all_have_one);
        total
    }
}

fn rates(before: &Measured, now: &SubtaskMetrics, at: DateTime<Utc>) -> Rates {
    let micros = (at - before.at).num_microseconds().unwrap_or(0);
    if micros <= 0 {
        return before.rates;
    }
    let seconds = micros as f64 / 1e6;
    let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
    let then = &before.now;
    let busy = now.busy_nanos.saturating_sub(then.busy_nanos) as f64;
    let backpressured = now
        .backpressured_nanos
        .saturating_sub(then.backpressured_nanos) as f64;
    let idle = now.idle_nanos.saturating_sub(then.idle_nanos) as f64;
    // Shares of the interval; measuring is not exact to the nanosecond.
    let share = |nanos: f64| (nanos / (seconds * 1e9)).clamp(0.0, 1.0);
    Rates {
        rows_in: per_second(now.rows_in, then.rows_in),
        rows_out: per_second(now.rows_out, then.rows_out),
        busy: share(busy),
        backpressured: share(backpressured),
        idle: share(idle),
    }
}
