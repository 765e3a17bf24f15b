//! Sessions of all keys: which session a row falls into, and which sessions it makes one.
//!
//! A row at `t` is by itself a session `[t, t + gap)`; sessions of a key that overlap or touch
//! are one. Sessions have dense numbers, by which their accumulators are indexed. Merges found
//! while a batch is assigned are handed over afterwards, to be done on the accumulators before
//! the batch is added to them.
//!
//! A key is here with all of its live sessions or with none (then they may be in the tables, see
//! `session_persistence`).

use std::{cmp::Reverse, collections::BinaryHeap};

/// Marks that a key has no session.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) start: i64,
    /// Exclusive: the last row's time plus the gap.
    pub(crate) end: i64,
    /// Number of the key.
    pub(crate) key: u32,
    /// The start under which it is persisted, if it is.
    pub(crate) persisted: Option<i64>,
    pub(crate) dirty: bool,
    /// The session that took this one over within the batch.
    merged_into: u32,
    /// Tells the sessions apart that have had this number.
    generation: u32,
}

/// Of one key: the session with the greatest start, where nearly all rows go, and the others in
/// order.
#[derive(Debug, Clone)]
struct OfKey {
    newest: u32,
    older: Vec<u32>,
}

impl Default for OfKey {
    fn default() -> Self {
        OfKey {
            newest: NONE,
            older: Vec::new(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Sessions {
    gap: i64,
    slots: Vec<Session>,
    free: Vec<u32>,
    of_key: Vec<OfKey>,
    /// When to look at a session: its end when it was entered here. If it has grown since, it is
    /// entered again.
    timers: BinaryHeap<Reverse<(i64, u32, u32)>>,
    /// Sessions that changed since the last barrier; freed ones may be among them.
    dirty: Vec<u32>,
    /// (from, to), in order, since the last `take_merges`.
    merges: Vec<(u32, u32)>,
}

impl Sessions {
    pub(crate) fn new(gap: i64) -> Self {
        Sessions {
            gap,
            slots: Vec::new(),
            free: Vec::new(),
            of_key: Vec::new(),
            timers: BinaryHeap::new(),
            dirty: Vec::new(),
            merges: Vec::new(),
        }
    }

    /// All session numbers are below this.
    pub(crate) fn bound(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn get(&self, session: u32) -> &Session {
        &self.slots[session as usize]
    }

    pub(crate) fn get_mut(&mut self, session: u32) -> &mut Session {
        &mut self.slots[session as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Memory that grows with the sessions. Room that new ones will find is not counted.
    pub(crate) fn bytes(&self) -> usize {
        (self.slots.capacity() - self.free.len()) * size_of::<Session>()
            + self.timers.capacity() * size_of::<(i64, u32, u32)>()
            + (self.free.capacity() + self.dirty.capacity()) * size_of::<u32>()
    }

    /// Memory that grows with the keys.
    pub(crate) fn key_bytes(&self) -> usize {
        self.of_key.capacity() * size_of::<OfKey>()
    }

    /// Numbers of keys that have sessions.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u32> {
        let of_key = self.of_key.iter().enumerate();
        of_key.filter_map(|(key, of_key)| (of_key.newest != NONE).then_some(key as u32))
    }

    /// The sessions of a key, in order, which are in no list from now on.
    pub(crate) fn take_key(&mut self, key: u32) -> Vec<u32> {
        let OfKey { newest, older } = std::mem::take(&mut self.of_key[key as usize]);
        let mut all = older;
        if newest != NONE {
            all.push(newest);
        }
        all
    }

    /// Forgets what is still listed of released sessions.
    pub(crate) fn sweep(&mut self) {
        let slots = &self.slots;
        self.timers.retain(|Reverse((_, number, generation))| {
            slots[*number as usize].generation == *generation
        });
        self.timers.shrink_to(self.timers.len() * 2);
        let mut dirty = self.take_dirty();
        dirty.shrink_to_fit();
        self.dirty = dirty;
    }

    /// The sessions that changed since the last call, each once.
    pub(crate) fn take_dirty(&mut self) -> Vec<u32> {
        let mut dirty = std::mem::take(&mut self.dirty);
        // Numbers freed since are clean, numbers given out again are listed twice.
        dirty.sort_unstable();
        dirty.dedup();
        dirty.retain(|session| self.slots[*session as usize].dirty);
        dirty
    }

    /// Makes room for keys `0..keys`.
    pub(crate) fn resize_keys(&mut self, keys: usize) {
        if keys > self.of_key.len() {
            self.of_key.resize(keys, OfKey::default());
        }
    }

    /// The session of a row of a key at `time`; `None` if it would be one of its own and
    /// `is_late(end)` says that it is too late for that.
    #[inline]
    pub(crate) fn assign(
        &mut self,
        key: u32,
        time: i64,
        is_late: impl FnOnce(i64) -> bool,
    ) -> Option<u32> {
        let newest = self.of_key[key as usize].newest;
        if newest != NONE {
            let session = &mut self.slots[newest as usize];
            // At or after the start of the newest session no older one is in reach.
            if session.start <= time && time <= session.end {
                session.end = session.end.max(time.saturating_add(self.gap));
                if !session.dirty {
                    session.dirty = true;
                    self.dirty.push(newest);
                }
                return Some(newest);
            }
        }
        self.assign_slowly(key, time, is_late)
    }

    fn assign_slowly(
        &mut self,
        key: u32,
        time: i64,
        is_late: impl FnOnce(i64) -> bool,
    ) -> Option<u32> {
        let (mut start, mut end) = (time, time.saturating_add(self.gap));
        let of_key = std::mem::take(&mut self.of_key[key as usize]);
        let mut all = of_key.older;
        if of_key.newest != NONE {
            all.push(of_key.newest);
        }
        let reaches = |session: &u32| {
            let session = &self.slots[*session as usize];
            session.start <= end && time <= session.end
        };
        // Sessions in reach are neighbours, as the list is in order and they do not touch.
        let first = all.iter().position(&reaches);
        let session = match first {
            None if is_late(end) => None,
            None => {
                let new = self.create(key, start, end);
                let place = all
                    .iter()
                    .position(|other| self.slots[*other as usize].start > start)
                    .unwrap_or(all.len());
                all.insert(place, new);
                Some(new)
            }
            Some(first) => {
                let count = all[first..]
                    .iter()
                    .take_while(|session| reaches(session))
                    .count();
                let target = all[first];
                for session in &all[first..first + count] {
                    start = start.min(self.slots[*session as usize].start);
                    end = end.max(self.slots[*session as usize].end);
                }
                for merged in all.drain(first + 1..first + count) {
                    self.slots[merged as usize].merged_into = target;
                    self.merges.push((merged, target));
                }
                let session = &mut self.slots[target as usize];
                (session.start, session.end) = (start, end);
                if !session.dirty {
                    session.dirty = true;
                    self.dirty.push(target);
                }
                Some(target)
            }
        };
        self.of_key[key as usize] = OfKey {
            newest: all.pop().unwrap_or(NONE),
            older: all,
        };
        session
    }

    fn create(&mut self, key: u32, start: i64, end: i64) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Session {
                start: 0,
                end: 0,
                key: 0,
                persisted: None,
                dirty: false,
                merged_into: NONE,
                generation: 0,
            });
            self.slots.len() as u32 - 1
        });
        let session = &mut self.slots[number as usize];
        (session.start, session.end, session.key) = (start, end, key);
        session.dirty = true;
        self.dirty.push(number);
        self.timers.push(Reverse((end, number, session.generation)));
        number
    }

    /// Puts a session back, which is dirty unless it is persisted as it is.
    pub(crate) fn restore(&mut self, key: u32, start: i64, end: i64, persisted: bool) -> u32 {
        let number = self.create(key, start, end);
        if persisted {
            self.dirty.pop();
            let session = &mut self.slots[number as usize];
            session.dirty = false;
            session.persisted = Some(start);
        }
        let of_key = &mut self.of_key[key as usize];
        if of_key.newest == NONE {
            of_key.newest = number;
        } else {
            let mut all = std::mem::take(&mut of_key.older);
            all.push(of_key.newest);
            all.push(number);
            all.sort_by_key(|session| self.slots[*session as usize].start);
            of_key.newest = all.pop().unwrap_or(NONE);
            of_key.older = all;
        }
        number
    }

    /// Whether any merge waits for `take_merges`.
    pub(crate) fn has_merges(&self) -> bool {
        !self.merges.is_empty()
    }

    /// The session that a row's session has become part of.
    pub(crate) fn resolve(&self, mut session: u32) -> u32 {
        while self.slots[session as usize].merged_into != NONE {
            session = self.slots[session as usize].merged_into;
        }
        session
    }

    /// Merges to do, in order. Each `from` must be released when it is done.
    pub(crate) fn take_merges(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.merges)
    }

    /// When the next session may be due, by local time.
    pub(crate) fn next_end(&self) -> Option<i64> {
        self.timers.peek().map(|Reverse((end, _, _))| *end)
    }

    /// Takes the next session whose end satisfies `is_due` out of its key's list.
    pub(crate) fn pop_due(&mut self, is_due: impl Fn(i64) -> bool) -> Option<u32> {
        while let Some(Reverse((end, number, generation))) = self.timers.peek().copied() {
            if !is_due(end) {
                return None;
            }
            self.timers.pop();
            let session = &self.slots[number as usize];
            if session.generation != generation {
                continue;
            }
            if session.end > end {
                self.timers.push(Reverse((session.end, number, generation)));
                continue;
            }
            let of_key = &mut self.of_key[session.key as usize];
            if of_key.newest == number {
                of_key.newest = of_key.older.pop().unwrap_or(NONE);
            } else {
                of_key.older.retain(|other| *other != number);
            }
            return Some(number);
        }
        None
    }

    /// Whether the key has no session.
    pub(crate) fn is_idle(&self, key: u32) -> bool {
        self.of_key[key as usize].newest == NONE
    }

    /// Lets the number of a session that is in no list be given out again.
    pub(crate) fn release(&mut self, number: u32) {
        let session = &mut self.slots[number as usize];
        session.generation = session.generation.wrapping_add(1);
        session.merged_into = NONE;
        session.persisted = None;
        session.dirty = false;
        self.free.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds times of one key and lists its sessions, in order.
    fn sessions(gap: i64, times: &[i64]) -> Vec<(i64, i64)> {
        let mut sessions = Sessions::new(gap);
        sessions.resize_keys(1);
        for time in times {
            sessions.assign(0, *time, |_| false);
        }
        for (from, _) in sessions.take_merges() {
            sessions.release(from);
        }
        let mut found = Vec::new();
        while let Some(session) = sessions.pop_due(|_| true) {
            let session = sessions.get(session);
            found.push((session.start, session.end));
        }
        assert!(sessions.is_idle(0));
        found
    }

    #[test]
    fn a_key_leaves_with_all_its_sessions_and_timers() {
        let mut sessions = Sessions::new(10);
        sessions.resize_keys(2);
        for (key, time) in [(0, 40), (1, 7), (0, 0), (0, 20)] {
            sessions.assign(key, time, |_| false);
        }
        assert_eq!(sessions.keys().collect::<Vec<_>>(), [0, 1]);
        let taken = sessions.take_key(0);
        let starts: Vec<i64> = taken.iter().map(|n| sessions.get(*n).start).collect();
        assert_eq!(starts, [0, 20, 40]);
        taken.iter().for_each(|number| sessions.release(*number));
        sessions.sweep();
        assert_eq!((sessions.len(), sessions.timers.len()), (1, 1));
        assert_eq!(sessions.keys().collect::<Vec<_>>(), [1]);
        let back = sessions.restore(0, 5, 15, false);
        assert_eq!(sessions.take_dirty().len(), 2);
        assert_eq!(sessions.pop_due(|end| end <= 15), Some(back));
    }

    #[test]
    fn rows_make_sessions() {
        for (times, expected) in [
            (&[][..], vec![]),
            (&[5], vec![(5, 15)]),
            (&[5, 7, 12], vec![(5, 22)]),
            // Touching is one session, as in Flink.
            (&[0, 10], vec![(0, 20)]),
            (&[0, 11], vec![(0, 10), (11, 21)]),
            (&[11, 0], vec![(0, 10), (11, 21)]),
            // Out of order, extending backwards.
            (&[20, 12], vec![(12, 30)]),
            // Bridging two, then three.
            (&[0, 20, 10], vec![(0, 30)]),
            (&[0, 15, 30, 8, 23], vec![(0, 40)]),
            // A late joiner of an older session.
            (&[0, 50, 3], vec![(0, 13), (50, 60)]),
            (&[0, 25, 50, 26], vec![(0, 10), (25, 36), (50, 60)]),
            (&[-5, -14], vec![(-14, 5)]),
        ] {
            assert_eq!(sessions(10, times), expected, "{times:?}");
        }
    }

    #[test]
    fn only_rows_without_a_live_session_are_late() {
        let mut sessions = Sessions::new(10);
        sessions.resize_keys(1);
        let late = |end: i64| end - 1 <= 20;
        assert_eq!(sessions.assign(0, 5, late), None);
        let live = sessions.assign(0, 14, late).unwrap();
        // Alone it would end at 18, but it joins.
        assert_eq!(sessions.assign(0, 8, late), Some(live));
        assert_eq!((sessions.get(live).start, sessions.get(live).end), (8, 24));
    }
}
