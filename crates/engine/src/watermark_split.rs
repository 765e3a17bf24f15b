//! Where a batch must be cut so that lateness does not depend on how rows were batched.
//!
//! A row implies a watermark for the rows after it. A row whose time is at or below the
//! watermark implied by rows before it *in the same split* may be late; the watermark has to be
//! announced before such a row, hence the batch is cut there. Rows above it cannot be late, so
//! batches of data in order are never cut.

/// A run of rows to hand on, and the split's watermark after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub start: usize,
    pub length: usize,
    /// The split's watermark once these rows are out.
    pub watermark: i64,
}

/// Cuts rows with these times and implied watermarks, for a split whose watermark was
/// `watermark` before them.
pub fn segments(times: &[i64], implied: &[i64], mut watermark: i64) -> Vec<Segment> {
    debug_assert_eq!(times.len(), implied.len());
    let mut segments = Vec::new();
    let mut start = 0;
    // Largest watermark implied by the rows of the current segment.
    let mut running = watermark;
    for (row, (time, implied)) in times.iter().zip(implied).enumerate() {
        if *time <= running && running > watermark {
            segments.push(Segment {
                start,
                length: row - start,
                watermark: running,
            });
            start = row;
            watermark = running;
        }
        running = running.max(*implied);
    }
    if start < times.len() {
        segments.push(Segment {
            start,
            length: times.len() - start,
            watermark: running,
        });
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(times: &[i64], delay: i64, watermark: i64) -> Vec<(usize, usize, i64)> {
        let implied: Vec<i64> = times.iter().map(|time| time - delay).collect();
        segments(times, &implied, watermark)
            .into_iter()
            .map(|s| (s.start, s.length, s.watermark))
            .collect()
    }

    #[test]
    fn rows_in_order_stay_together() {
        assert_eq!(cut(&[1, 2, 5, 9], 0, i64::MIN), vec![(0, 4, 9)]);
        assert_eq!(cut(&[], 0, 3), vec![]);
    }

    #[test]
    fn a_row_behind_the_watermark_starts_a_segment() {
        // 20 implies 15; 14 is at or below it, 18 is not.
        assert_eq!(
            cut(&[10, 20, 18, 14, 13, 30], 5, i64::MIN),
            vec![(0, 3, 15), (3, 3, 25)]
        );
        // Equal times with no delay: the second is at the watermark.
        assert_eq!(cut(&[7, 7, 7], 0, i64::MIN), vec![(0, 1, 7), (1, 2, 7)]);
    }

    #[test]
    fn cutting_is_the_same_however_rows_are_batched() {
        let times = [5, 9, 3, 12, 12, 2, 20, 1, 8, 21];
        let delay = 4;
        // The watermark each row is judged against.
        let judged = |batches: &[&[i64]]| {
            let mut seen = Vec::new();
            let mut watermark = i64::MIN;
            for batch in batches {
                let implied: Vec<i64> = batch.iter().map(|time| time - delay).collect();
                for segment in segments(batch, &implied, watermark) {
                    for row in segment.start..segment.start + segment.length {
                        seen.push((batch[row], batch[row] <= watermark));
                    }
                    watermark = segment.watermark;
                }
            }
            seen
        };
        let whole = judged(&[&times]);
        for cut in 1..times.len() {
            assert_eq!(
                judged(&[&times[..cut], &times[cut..]]),
                whole,
                "cut at {cut}"
            );
        }
        assert!(
            whole.contains(&(3, true))
                && whole.contains(&(8, true))
                && whole.contains(&(21, false))
        );
    }
}
