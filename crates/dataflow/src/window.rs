//! Window shapes, and where a windowed operator takes its windows from.

use serde::{Deserialize, Serialize};

/// Which clock a window follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TimeDomain {
    Event,
    Processing,
}

/// The shape of a window; all lengths in milliseconds. Windows are `[start, end)`, aligned to the
/// epoch plus `offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WindowKind {
    Tumble {
        size: i64,
        offset: i64,
    },
    /// `slide` may exceed `size` (rows between windows belong to none).
    Hop {
        size: i64,
        slide: i64,
        offset: i64,
    },
    /// Windows that share a start and grow by `step` up to `size`, a multiple of it.
    Cumulate {
        size: i64,
        step: i64,
        offset: i64,
    },
    /// Closes after `gap` without a row of the key.
    Session {
        gap: i64,
    },
}

/// Where a windowed operator finds the window of a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WindowSource {
    /// From a time column (`Timestamp(Millisecond)`), or the processing-time clock.
    Time {
        /// The time column; not read in the processing-time domain.
        column: usize,
        kind: WindowKind,
        domain: TimeDomain,
        /// For `TIMESTAMP_LTZ` columns: windows align to local time in this IANA zone, and
        /// `window_start`/`window_end` are local timestamps.
        zone: Option<String>,
    },
    /// The rows carry their window already (an aggregate over an aggregate of the same window).
    /// A window fires when the watermark reaches its `end` − 1 ms, taken in `zone` (an IANA name)
    /// if `end` is a local timestamp of a `TIMESTAMP_LTZ` window.
    Attached {
        start: usize,
        end: usize,
        zone: Option<String>,
    },
}
