//! Slices: the pieces that windows of one shape are made of. Every row falls into one slice,
//! whatever the number of windows it belongs to, and a window is a run of slices.
//!
//! A slice is named by its end (exclusive); so is a window. Times are checked to be within
//! [`TIME_LIMIT`] before they get here, so the arithmetic cannot overflow. Slices of TUMBLE are its windows,
//! of HOP pieces of gcd(size, slide), of CUMULATE its steps.

use millrace_dataflow::WindowKind;

use crate::OperatorError;

/// Magnitude (ms) that no time may exceed: some 270,000 years, as in the field's calendars.
pub(crate) const TIME_LIMIT: i64 = 8_640_000_000_000_000;

/// How one window shape is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slicing {
    shape: Shape,
    size: i64,
    /// Distance of window starts (HOP), or of window ends (CUMULATE).
    step: i64,
    offset: i64,
    /// Length of a slice.
    grain: i64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Tumble,
    Hop,
    Cumulate,
}

impl Slicing {
    /// Fails for session windows, which have no slices, and for lengths that are not positive.
    pub(crate) fn new(kind: WindowKind) -> Result<Self, OperatorError> {
        let (shape, size, step, offset) = match kind {
            WindowKind::Tumble { size, offset } => (Shape::Tumble, size, size, offset),
            WindowKind::Hop {
                size,
                slide,
                offset,
            } => (Shape::Hop, size, slide, offset),
            WindowKind::Cumulate { size, step, offset } => (Shape::Cumulate, size, step, offset),
            WindowKind::Session { .. } => {
                return Err(OperatorError::Internal(
                    "a session window in an operator for sliced ones".into(),
                ));
            }
        };
        let lengths = 1..=TIME_LIMIT;
        if !lengths.contains(&size)
            || !lengths.contains(&step)
            || offset.unsigned_abs() > TIME_LIMIT as u64
            || (shape == Shape::Cumulate && size % step != 0)
        {
            return Err(OperatorError::Internal(format!(
                "a window of size {size} and step {step} ms"
            )));
        }
        Ok(Slicing {
            shape,
            size,
            step,
            offset,
            grain: match shape {
                Shape::Hop => gcd(size, step),
                Shape::Tumble | Shape::Cumulate => step,
            },
        })
    }

    /// Length of a slice in ms.
    pub(crate) fn grain(&self) -> i64 {
        self.grain
    }

    pub(crate) fn offset(&self) -> i64 {
        self.offset
    }

    /// Whether later windows contain all that an earlier one of the same start has.
    pub(crate) fn accumulates(&self) -> bool {
        self.shape == Shape::Cumulate
    }

    /// The slice that a time falls into.
    #[inline]
    pub(crate) fn slice_end(&self, time: i64) -> i64 {
        self.floor(time, self.grain) + self.grain
    }

    /// Ends of the windows that contain the slice, ascending; they are [`Slicing::step`] apart.
    pub(crate) fn window_ends(&self, slice_end: i64) -> impl Iterator<Item = i64> + use<> {
        let (first, step) = (self.first_window_end(slice_end), self.step);
        let last = self.last_window_end(slice_end);
        (0..)
            .map(move |i| first + i * step)
            .take_while(move |end| last.is_some_and(|last| *end <= last))
    }

    /// Distance between the ends of windows that share a slice.
    pub(crate) fn step(&self) -> i64 {
        self.step
    }

    /// End of the first window that contains the slice, if any does.
    pub(crate) fn first_window_end(&self, slice_end: i64) -> i64 {
        match self.shape {
            Shape::Tumble | Shape::Cumulate => slice_end,
            Shape::Hop => {
                // The first start at or after slice_end − size.
                let start = slice_end - self.size;
                -self.floor_from(-start, -self.offset, self.step) + self.size
            }
        }
    }

    /// End of the last window that contains the slice; `None` if none does (a HOP whose slide
    /// exceeds its size).
    pub(crate) fn last_window_end(&self, slice_end: i64) -> Option<i64> {
        let end = match self.shape {
            Shape::Tumble => slice_end,
            Shape::Hop => self.floor(slice_end - self.grain, self.step) + self.size,
            Shape::Cumulate => self.floor(slice_end - self.grain, self.size) + self.size,
        };
        (end >= slice_end).then_some(end)
    }

    pub(crate) fn window_start(&self, window_end: i64) -> i64 {
        match self.shape {
            Shape::Tumble | Shape::Hop => window_end - self.size,
            Shape::Cumulate => self.floor(window_end - 1, self.size),
        }
    }

    fn floor(&self, time: i64, unit: i64) -> i64 {
        self.floor_from(time, self.offset, unit)
    }

    fn floor_from(&self, time: i64, offset: i64, unit: i64) -> i64 {
        time - (time - offset).rem_euclid(unit)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(kind: WindowKind, time: i64) -> Vec<(i64, i64)> {
        let slicing = Slicing::new(kind).unwrap();
        let slice = slicing.slice_end(time);
        let ends: Vec<i64> = slicing.window_ends(slice).collect();
        assert_eq!(ends.last().copied(), slicing.last_window_end(slice));
        ends.iter()
            .map(|end| (slicing.window_start(*end), *end))
            .collect()
    }

    #[test]
    fn rows_fall_into_the_windows_flink_gives_them() {
        let tumble = |size, offset| WindowKind::Tumble { size, offset };
        let hop = |size, slide, offset| WindowKind::Hop {
            size,
            slide,
            offset,
        };
        let cumulate = |size, step, offset| WindowKind::Cumulate { size, step, offset };
        for (kind, time, expected) in [
            (tumble(10, 0), 0, vec![(0, 10)]),
            (tumble(10, 0), 9, vec![(0, 10)]),
            (tumble(10, 0), -1, vec![(-10, 0)]),
            (tumble(10, 3), 2, vec![(-7, 3)]),
            (tumble(10, -3), 7, vec![(7, 17)]),
            (hop(10, 5, 0), 12, vec![(5, 15), (10, 20)]),
            (hop(10, 5, 0), 10, vec![(5, 15), (10, 20)]),
            (hop(10, 5, 2), 1, vec![(-8, 2), (-3, 7)]),
            (hop(10, 5, 0), -3, vec![(-10, 0), (-5, 5)]),
            // The slide does not divide the size: 5, 6 and 7 lie in [0,7) or [3,10) and so on.
            (hop(7, 3, 0), 5, vec![(0, 7), (3, 10)]),
            (hop(7, 3, 0), 6, vec![(0, 7), (3, 10), (6, 13)]),
            (hop(7, 3, 0), 7, vec![(3, 10), (6, 13)]),
            // Gaps between the windows.
            (hop(2, 5, 0), 1, vec![(0, 2)]),
            (hop(2, 5, 0), 2, vec![]),
            (hop(2, 5, 0), 4, vec![]),
            (cumulate(6, 2, 0), 0, vec![(0, 2), (0, 4), (0, 6)]),
            (cumulate(6, 2, 0), 5, vec![(0, 6)]),
            (cumulate(6, 2, 1), 0, vec![(-5, 1)]),
            (cumulate(6, 2, 0), -6, vec![(-6, -4), (-6, -2), (-6, 0)]),
        ] {
            assert_eq!(windows(kind, time), expected, "{kind:?} at {time}");
        }
    }
}
