//! Which part of a persisted aggregate entry belongs to which call.
//!
//! Calls come and go between versions of a job. Every entry names the layout it was written
//! with: a list of call meanings, kept as operator state. An entry of an older layout is read
//! call by call, by meaning; the next change of its key rewrites it in the present one.

use std::collections::BTreeMap;

use millrace_dataflow::StateId;

use crate::{
    OperatorError, OperatorSnapshot, RestoredState,
    aggregate::{AggregatePlan, AggregateSet, codec},
};

const LIST: &str = "layout";
const FORMAT: u8 = 1;

#[derive(Debug)]
pub(crate) struct StateLayouts {
    known: BTreeMap<u64, Layout>,
    current: u64,
}

#[derive(Debug)]
struct Layout {
    meanings: Vec<String>,
    /// By part: the present position of its call.
    order: Vec<Option<usize>>,
}

impl StateLayouts {
    /// The layouts of former versions, and one for this plan.
    pub(crate) fn open(
        state_id: &StateId,
        plan: &AggregatePlan,
        restored: &RestoredState,
    ) -> Result<Self, OperatorError> {
        let present: Vec<&str> = plan.meanings().collect();
        let mut known = BTreeMap::new();
        for item in restored.list(state_id, LIST) {
            let (id, meanings) = decode(item).ok_or_else(|| {
                OperatorError::Internal(format!("a layout in the state of {state_id}"))
            })?;
            let mut taken = vec![false; present.len()];
            let order = meanings
                .iter()
                .map(|meaning| {
                    // The same call twice: first to first, second to second.
                    let position = (0..present.len())
                        .find(|i| !taken[*i] && present[*i] == meaning.as_str())?;
                    taken[position] = true;
                    Some(position)
                })
                .collect();
            known.insert(id, Layout { meanings, order });
        }
        let same = known.iter().find(|(_, layout)| layout.meanings == present);
        let current = match same {
            Some((id, _)) => *id,
            None => {
                let id = known.keys().next_back().map_or(0, |last| last + 1);
                let layout = Layout {
                    meanings: present
                        .iter()
                        .map(|meaning| (*meaning).to_owned())
                        .collect(),
                    order: (0..present.len()).map(Some).collect(),
                };
                known.insert(id, layout);
                id
            }
        };
        Ok(StateLayouts { known, current })
    }

    pub(crate) fn snapshot(&self, state_id: &StateId, snapshot: &mut OperatorSnapshot) {
        let items = self.known.iter().map(|(id, layout)| {
            let mut item = vec![FORMAT];
            codec::put_u64(&mut item, *id);
            codec::put_u64(&mut item, layout.meanings.len() as u64);
            for meaning in &layout.meanings {
                codec::put_bytes(&mut item, meaning.as_bytes());
            }
            item
        });
        snapshot.list(state_id, LIST, items.collect());
    }

    /// Appends a group's entry.
    pub(crate) fn encode(&self, set: &AggregateSet, group: u32, out: &mut Vec<u8>) {
        codec::put_u64(out, self.current);
        set.encode(group, out);
    }

    /// Appends what a value set says of a value: number of calls, then call and number of rows.
    pub(crate) fn encode_value(&self, calls: &[usize], counts: &[(usize, i64)], out: &mut Vec<u8>) {
        codec::put_u64(out, self.current);
        codec::put_u64(out, counts.len() as u64);
        for (call, count) in counts {
            codec::put_u64(out, calls[*call] as u64);
            codec::put_i64(out, *count);
        }
    }

    /// Reads it back: position among `calls`, and number of rows.
    pub(crate) fn decode_value(
        &self,
        calls: &[usize],
        bytes: &mut &[u8],
    ) -> Result<Vec<(usize, i64)>, OperatorError> {
        let mut read = || {
            let layout = self.known.get(&codec::take_u64(bytes)?)?;
            let mut counts = Vec::new();
            for _ in 0..codec::take_u64(bytes)? {
                let part = usize::try_from(codec::take_u64(bytes)?).ok()?;
                let count = codec::take_i64(bytes)?;
                let call = layout.order.get(part).copied().flatten();
                if let Some(call) = call
                    && let Some(position) = calls.iter().position(|other| *other == call)
                {
                    counts.push((position, count));
                }
            }
            Some(counts)
        };
        read().ok_or_else(|| OperatorError::Internal("a value in the state of an aggregate".into()))
    }

    /// Reads a group's entry.
    pub(crate) fn decode(
        &self,
        set: &mut AggregateSet,
        group: u32,
        mut bytes: &[u8],
    ) -> Result<(), OperatorError> {
        let layout = codec::take_u64(&mut bytes)
            .and_then(|id| self.known.get(&id))
            .ok_or_else(|| {
                OperatorError::Internal("an aggregate's state names an unknown layout".into())
            })?;
        set.decode(group, &layout.order, bytes)
    }
}

fn decode(mut item: &[u8]) -> Option<(u64, Vec<String>)> {
    if codec::take_u8(&mut item)? != FORMAT {
        return None;
    }
    let id = codec::take_u64(&mut item)?;
    let meanings = (0..codec::take_u64(&mut item)?)
        .map(|_| String::from_utf8(codec::take_bytes(&mut item)?.to_vec()).ok())
        .collect::<Option<_>>()?;
    Some((id, meanings))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        aggregate::{Rows, UpdateScratch},
        operators::tests::{nodes::call, text},
    };

    fn plan(calls: &[&str]) -> Arc<AggregatePlan> {
        let calls: Vec<_> = calls.iter().map(|text| call(text)).collect();
        AggregatePlan::new(&calls, &text::schema("v:bigint f:bool"), false, 0).unwrap()
    }

    fn snapshot_of(layouts: &StateLayouts, id: &StateId) -> RestoredState {
        let mut snapshot = OperatorSnapshot::default();
        layouts.snapshot(id, &mut snapshot);
        RestoredState {
            restored: true,
            items: snapshot.items,
        }
    }

    #[test]
    fn calls_keep_their_state_when_others_come_and_go() {
        let id = StateId("a".into());
        let old = plan(&["COUNT(*)", "SUM(0)", "MAX(0)"]);
        let layouts = StateLayouts::open(&id, &old, &RestoredState::default()).unwrap();
        let mut set = old.set().unwrap();
        set.resize(1);
        let batch = text::batch(&text::schema("v:bigint f:bool"), "5, true\n7, false");
        let mut scratch = UpdateScratch::default();
        set.update(batch.rows.columns(), Rows::all(&[0, 0]), &mut scratch)
            .unwrap();
        let mut entry = Vec::new();
        layouts.encode(&set, 0, &mut entry);

        let new = plan(&["MAX(0)", "MIN(0)", "COUNT(*)"]);
        let restored = snapshot_of(&layouts, &id);
        let layouts = StateLayouts::open(&id, &new, &restored).unwrap();
        let mut set = new.set().unwrap();
        set.resize(1);
        layouts.decode(&mut set, 0, &entry).unwrap();
        let read = |set: &AggregateSet| -> Vec<String> {
            let results = set.emit(&[0]).unwrap();
            results.iter().map(|column| format!("{column:?}")).collect()
        };
        let results = read(&set);
        assert!(results[0].contains("\n  7,"), "{results:?}");
        assert!(results[1].contains("null"), "MIN is new: {results:?}");
        assert!(results[2].contains("\n  2,"), "{results:?}");

        // Entries of both layouts stay readable from now on.
        let mut newer = Vec::new();
        layouts.encode(&set, 0, &mut newer);
        let again = StateLayouts::open(&id, &old, &snapshot_of(&layouts, &id)).unwrap();
        assert_eq!(again.current, 0, "the old layout is used again");
        for entry in [&entry, &newer] {
            let mut set = old.set().unwrap();
            set.resize(1);
            again.decode(&mut set, 0, entry).unwrap();
            assert!(read(&set)[2].contains("\n  7,"));
        }
    }

    #[test]
    fn values_follow_their_calls() {
        let id = StateId("a".into());
        let old = plan(&["DISTINCT COUNT(0)", "COUNT(*)", "DISTINCT COUNT(0) IF 1"]);
        let layouts = StateLayouts::open(&id, &old, &RestoredState::default()).unwrap();
        let mut bytes = Vec::new();
        layouts.encode_value(&[0, 2], &[(0, 1), (1, 4)], &mut bytes);
        let new = plan(&["COUNT(*)", "DISTINCT COUNT(0) IF 1"]);
        let layouts = StateLayouts::open(&id, &new, &snapshot_of(&layouts, &id)).unwrap();
        let counts = layouts.decode_value(&[1], &mut bytes.as_slice()).unwrap();
        assert_eq!(counts, [(0, 4)], "the unfiltered call is gone");
        assert!(layouts.decode_value(&[1], &mut &bytes[..2]).is_err());
        assert!(layouts.decode_value(&[1], &mut &[9, 0][..]).is_err());
    }
}
