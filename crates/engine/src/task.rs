//! A task that reads channels: aligns barriers, combines watermarks, feeds its chain.

use std::sync::Arc;

use crate::{
    Event, OperatorSnapshot,
    chain::{Chain, TaskError},
    channel::{BarrierInfo, ChannelQueue, Message},
    watermark::{CombinedWatermark, WatermarkChange},
};

#[cfg(test)]
mod tests;

/// One channel that the task reads.
pub struct InputChannel {
    /// Input position of the root node.
    pub input: usize,
    pub queue: Arc<ChannelQueue>,
    ended: bool,
    /// Has delivered its first message, which tells whether it is idle.
    heard: bool,
    /// Has delivered the barrier that the task is aligning on.
    arrived: bool,
}

impl InputChannel {
    pub fn new(input: usize, queue: Arc<ChannelQueue>) -> Self {
        InputChannel {
            input,
            queue,
            ended: false,
            heard: false,
            arrived: false,
        }
    }
}

/// What a step came to.
#[derive(Debug)]
pub enum Step {
    /// Nothing to do.
    Idle,
    Worked,
    /// The task took a barrier; this is its part of the snapshot.
    Barrier(BarrierInfo, OperatorSnapshot),
}

/// A task over channels.
pub struct ChannelTask {
    channels: Vec<InputChannel>,
    watermarks: CombinedWatermark,
    aligning: Option<BarrierInfo>,
    next: usize,
    /// The chain is to be told that the inputs are idle.
    idle_next: bool,
    /// All channels have ended; the chain is told when it has emitted all there was before.
    ending: bool,
    ended: bool,
    /// Channels that have not delivered anything yet.
    unheard: usize,
    pub chain: Chain,
    /// At-least-once: barriers do not hold their channel back.
    align: bool,
}

impl ChannelTask {
    pub fn new(channels: Vec<InputChannel>, chain: Chain, align: bool) -> Self {
        let watermarks = CombinedWatermark::new(channels.len());
        ChannelTask {
            unheard: channels.len(),
            channels,
            watermarks,
            aligning: None,
            next: 0,
            idle_next: false,
            ending: false,
            ended: false,
            chain,
            align,
        }
    }

    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// The barrier being aligned, if any.
    pub fn aligning(&self) -> Option<BarrierInfo> {
        self.aligning
    }

    pub fn has_input(&self) -> bool {
        if self.ending || self.idle_next || self.chain.has_more() {
            return true;
        }
        self.channels
            .iter()
            .any(|channel| !self.held_back(channel) && !channel.queue.is_empty())
    }

    fn held_back(&self, channel: &InputChannel) -> bool {
        (self.align && channel.arrived) || (self.unheard > 0 && channel.heard)
    }

    /// Goes on with what an operator has left to emit, else processes one message, if there is
    /// one on a channel that is not held back.
    pub fn step(&mut self) -> Result<Step, TaskError> {
        if self.chain.has_more() {
            self.chain.resume()?;
            return Ok(Step::Worked);
        }
        if std::mem::take(&mut self.idle_next) {
            self.chain.deliver(0, Event::Idle)?;
            return Ok(Step::Worked);
        }
        if std::mem::take(&mut self.ending) {
            self.ended = true;
            self.chain.end()?;
            return Ok(Step::Worked);
        }
        let count = self.channels.len();
        for offset in 0..count {
            let index = (self.next + offset) % count;
            if self.held_back(&self.channels[index]) {
                continue;
            }
            if let Some(message) = self.channels[index].queue.pop() {
                // Staying on a channel while it has rows would starve the others.
                self.next = (index + 1) % count;
                if self.unheard > 0 {
                    self.first(index, &message);
                }
                return self.handle(index, message);
            }
        }
        Ok(Step::Idle)
    }

    /// Takes note of a channel's first message. With the last of them it is known whether this
    /// task begins idle, and its consumers are told.
    fn first(&mut self, index: usize, message: &Message) {
        self.channels[index].heard = true;
        self.unheard -= 1;
        if self.unheard == 0 {
            let others_idle = (0..self.channels.len())
                .filter(|channel| *channel != index)
                .all(|channel| self.watermarks.is_idle(channel));
            self.chain
                .greet(others_idle && matches!(message, Message::Idle));
        }
    }

    fn handle(&mut self, index: usize, message: Message) -> Result<Step, TaskError> {
        let input = self.channels[index].input;
        match message {
            Message::Batch(batch) => {
                self.watermarks.active(index);
                self.chain.deliver(input, Event::Batch(batch))?;
            }
            // The end of time is only reached when every channel has ended.
            Message::Watermark(i64::MAX) => {
                let change = self.watermarks.end(index);
                self.report(change)?;
            }
            Message::Watermark(watermark) => {
                let change = self.watermarks.advance(index, watermark);
                self.report(change)?;
            }
            Message::Idle => {
                let change = self.watermarks.set_idle(index);
                self.report(change)?;
            }
            Message::EndOfInput => {
                self.channels[index].ended = true;
                let change = self.watermarks.end(index);
                self.report(change)?;
                self.ending = self.channels.iter().all(|channel| channel.ended) && !self.ended;
            }
            Message::Barrier(barrier) => return self.barrier(index, barrier),
        }
        Ok(Step::Worked)
    }

    fn report(&mut self, change: WatermarkChange) -> Result<(), TaskError> {
        if let Some(watermark) = change.advanced {
            self.chain.deliver(0, Event::Watermark(watermark))?;
        }
        if change.became_idle {
            // Not before all that the watermark fires is out, which may be more than fits at once.
            self.idle_next = self.chain.has_more();
            if !self.idle_next {
                self.chain.deliver(0, Event::Idle)?;
            }
        }
        Ok(())
    }

    fn barrier(&mut self, index: usize, barrier: BarrierInfo) -> Result<Step, TaskError> {
        match self.aligning {
            // A barrier of a checkpoint that was given up after this one had begun.
            Some(current) if barrier.checkpoint < current.checkpoint => return Ok(Step::Worked),
            Some(current) if barrier.checkpoint == current.checkpoint => {}
            // The first barrier of this checkpoint; one that was being aligned is given up.
            Some(_) | None => {
                for channel in &mut self.channels {
                    channel.arrived = false;
                }
                self.aligning = Some(barrier);
            }
        }
        self.channels[index].arrived = true;
        if !self.channels.iter().all(|channel| channel.arrived) {
            return Ok(Step::Worked);
        }
        for channel in &mut self.channels {
            channel.arrived = false;
        }
        self.aligning = None;
        let mut snapshot = OperatorSnapshot::default();
        self.chain.barrier(barrier, &mut snapshot)?;
        Ok(Step::Barrier(barrier, snapshot))
    }
}
