//! Combines the watermarks of several inputs (channels or splits) into one that never goes
//! back: the minimum over the active inputs. Idle inputs leave the minimum; one that wakes up
//! counts again once it has caught up with the result, so that it cannot hold back what has
//! already passed it by. When the last active input goes idle, the result moves to the maximum
//! over all (as Flink does) and the combination is idle itself. An input that has ended no longer
//! counts; only when all have ended is it the end of time (one ended input beside idle ones must
//! not close every window).

/// The state of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InputWatermark {
    watermark: i64,
    idle: bool,
    /// Counts in the minimum: false from waking up until the result is caught up with.
    aligned: bool,
    ended: bool,
}

/// The combined watermark of a fixed or growing number of inputs.
#[derive(Debug, Clone, Default)]
pub struct CombinedWatermark {
    inputs: Vec<InputWatermark>,
    /// Last result; `i64::MIN` before the first.
    current: Option<i64>,
    idle: bool,
}

/// What a change of one input means for the combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatermarkChange {
    /// The new combined watermark, if it grew.
    pub advanced: Option<i64>,
    /// The combination has just become idle.
    pub became_idle: bool,
}

impl CombinedWatermark {
    pub fn new(inputs: usize) -> Self {
        let mut combined = CombinedWatermark::default();
        for _ in 0..inputs {
            combined.add_input();
        }
        combined
    }

    /// Adds an active input without a watermark and tells its number.
    pub fn add_input(&mut self) -> usize {
        self.inputs.push(InputWatermark {
            watermark: i64::MIN,
            idle: false,
            aligned: true,
            ended: false,
        });
        self.idle = false;
        self.inputs.len() - 1
    }

    /// The combined watermark so far.
    pub fn current(&self) -> Option<i64> {
        self.current
    }

    pub fn input(&self, input: usize) -> i64 {
        self.inputs[input].watermark
    }

    pub fn is_idle(&self, input: usize) -> bool {
        self.inputs[input].idle
    }

    /// The state after inputs were added, [`CombinedWatermark::start`]ed and ended: reported once.
    pub fn begin(&mut self) -> WatermarkChange {
        self.combine()
    }

    /// Sets where a new input begins, without effect on the result until the next change.
    pub fn start(&mut self, input: usize, watermark: i64, ended: bool) {
        let state = &mut self.inputs[input];
        state.watermark = watermark;
        // An ended split is idle only: whether all input has ended is the source's to say.
        state.idle = ended;
    }

    /// Input `input` has reached `watermark` (regressions are ignored) and is active.
    pub fn advance(&mut self, input: usize, watermark: i64) -> WatermarkChange {
        self.active(input);
        let current = self.current.unwrap_or(i64::MIN);
        let state = &mut self.inputs[input];
        state.watermark = state.watermark.max(watermark);
        state.aligned |= state.watermark >= current;
        self.combine()
    }

    /// Input `input` has rows again.
    pub fn active(&mut self, input: usize) {
        let current = self.current.unwrap_or(i64::MIN);
        let state = &mut self.inputs[input];
        if state.idle {
            state.idle = false;
            state.aligned = state.watermark >= current;
        }
        self.idle = false;
    }

    pub fn set_idle(&mut self, input: usize) -> WatermarkChange {
        self.inputs[input].idle = true;
        self.combine()
    }

    /// Input `input` will bring nothing more.
    pub fn end(&mut self, input: usize) -> WatermarkChange {
        self.inputs[input].idle = true;
        self.inputs[input].ended = true;
        self.combine()
    }

    fn combine(&mut self) -> WatermarkChange {
        let all_idle = self.inputs.iter().all(|input| input.idle) && !self.inputs.is_empty();
        let candidate = if all_idle && self.inputs.iter().all(|input| input.ended) {
            Some(i64::MAX)
        } else if all_idle {
            self.inputs.iter().map(|input| input.watermark).max()
        } else {
            self.inputs
                .iter()
                .filter(|input| !input.idle && input.aligned)
                .map(|input| input.watermark)
                .min()
        };
        let mut change = WatermarkChange::default();
        if let Some(candidate) = candidate
            && candidate > self.current.unwrap_or(i64::MIN)
        {
            self.current = Some(candidate);
            change.advanced = Some(candidate);
        }
        change.became_idle = all_idle && !self.idle;
        self.idle = all_idle;
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_of_the_active_inputs_counts() {
        let mut combined = CombinedWatermark::new(2);
        assert_eq!(combined.advance(0, 10).advanced, None);
        assert_eq!(combined.advance(1, 5).advanced, Some(5));
        assert_eq!(combined.advance(1, 3).advanced, None, "no regression");
        assert_eq!(
            combined.set_idle(1),
            WatermarkChange {
                advanced: Some(10),
                became_idle: false
            }
        );
        // Back with an old watermark: it does not count until it has caught up.
        assert_eq!(combined.advance(1, 7).advanced, None);
        assert_eq!(combined.advance(0, 20).advanced, Some(20));
        assert_eq!(combined.advance(1, 20).advanced, None);
        assert_eq!(
            combined.advance(0, 40).advanced,
            None,
            "input 1 counts again, at 20"
        );
    }

    #[test]
    fn when_all_are_idle_the_maximum_counts() {
        let mut combined = CombinedWatermark::new(2);
        combined.advance(0, 10);
        combined.advance(1, 30);
        assert_eq!(
            combined.set_idle(0),
            WatermarkChange {
                advanced: Some(30),
                became_idle: false
            }
        );
        assert_eq!(
            combined.set_idle(1),
            WatermarkChange {
                advanced: None,
                became_idle: true
            }
        );
        assert!(!combined.set_idle(1).became_idle);
    }

    #[test]
    fn only_when_all_have_ended_is_it_the_end_of_time() {
        let mut combined = CombinedWatermark::new(2);
        combined.advance(0, 10);
        combined.advance(1, 30);
        assert_eq!(combined.set_idle(0).advanced, Some(30));
        assert_eq!(
            combined.end(1),
            WatermarkChange {
                advanced: None,
                became_idle: true
            }
        );
        assert_eq!(combined.advance(0, 40).advanced, Some(40));
        assert_eq!(combined.end(0).advanced, Some(i64::MAX));
    }

    #[test]
    fn restored_inputs_begin_together() {
        let mut combined = CombinedWatermark::default();
        for (watermark, ended) in [(100, false), (50, false), (900, true)] {
            let input = combined.add_input();
            combined.start(input, watermark, ended);
        }
        assert_eq!(
            combined.begin(),
            WatermarkChange {
                advanced: Some(50),
                became_idle: false
            }
        );
        assert_eq!(combined.advance(1, 60).advanced, Some(60));
        let mut ended = CombinedWatermark::new(1);
        ended.start(0, 70, true);
        assert_eq!(
            ended.begin(),
            WatermarkChange {
                advanced: Some(70),
                became_idle: true
            }
        );
    }
}
