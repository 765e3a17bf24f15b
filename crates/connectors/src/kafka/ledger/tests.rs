//! The ledger against a model of the brokers, with a crash or another execution at every point.

use std::{cell::RefCell, rc::Rc};

use proptest::prelude::*;

use super::*;

/// One writer's side of the brokers.
#[derive(Debug, Default)]
struct Brokers {
    /// Grows with every fencing; transactions of older ones fail.
    fence: u32,
    marker: Option<u64>,
    /// Epochs as a reader of committed records sees them.
    log: Vec<u64>,
    /// A commit that was begun and whose outcome is not visible yet.
    prepared: Option<(Vec<u64>, u64)>,
}

impl Brokers {
    fn finish_prepared(&mut self) {
        if let Some((epochs, marker)) = self.prepared.take() {
            self.log.extend(epochs);
            self.marker = Some(marker);
        }
    }
}

/// What happens at a call of an execution to the brokers.
#[derive(Debug, Clone)]
enum Incident {
    /// The request does not arrive; the execution goes on with an error.
    LostRequest,
    /// It is done, but the answer does not arrive.
    LostAnswer,
    /// A commit is begun, and finished only when somebody asks.
    Undecided,
    /// Another execution settles before it, from beginning to end.
    Before(usize, u64),
    /// Or after it.
    After(usize, u64),
}

/// One execution's view.
struct Execution {
    ledger: Ledger,
    fence: Option<u32>,
}

struct World {
    brokers: RefCell<Brokers>,
    executions: Vec<RefCell<Execution>>,
}

struct Call {
    world: Rc<World>,
    execution: usize,
    entries: Vec<Entry>,
    incident: Option<(u32, Incident)>,
    calls: u32,
    fence: Option<u32>,
}

impl Call {
    fn at<T>(
        &mut self,
        act: impl FnOnce(&mut Brokers, &mut Option<u32>, bool) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.calls += 1;
        let incident = match &self.incident {
            Some((at, incident)) if *at == self.calls => Some(incident.clone()),
            _ => None,
        };
        let lost = || Failure {
            kind: FailureKind::Passing,
            text: "lost".into(),
        };
        match incident {
            Some(Incident::LostRequest) => return Err(lost()),
            Some(Incident::Before(other, until)) if other != self.execution => {
                let _ = settle(&self.world, other, until, None);
            }
            _ => {}
        }
        let undecided = matches!(incident, Some(Incident::Undecided));
        let done = act(
            &mut self.world.brokers.borrow_mut(),
            &mut self.fence,
            undecided,
        );
        match incident {
            Some(Incident::LostAnswer | Incident::Undecided) => return Err(lost()),
            Some(Incident::After(other, until)) if other != self.execution => {
                let _ = settle(&self.world, other, until, None);
            }
            _ => {}
        }
        done
    }
}

impl Transactions for Call {
    fn marker(&mut self) -> Result<Option<EpochNumber>, Failure> {
        self.at(|brokers, _, _| match brokers.prepared {
            Some(_) => Err(Failure {
                kind: FailureKind::Passing,
                text: "unstable".into(),
            }),
            None => Ok(brokers.marker.map(EpochNumber)),
        })
    }

    fn fence(&mut self) -> Result<(), Failure> {
        self.at(|brokers, fence, _| {
            brokers.finish_prepared();
            brokers.fence += 1;
            *fence = Some(brokers.fence);
            Ok(())
        })
    }

    fn commit(&mut self, epochs: &[usize], marker: EpochNumber) -> Result<(), Failure> {
        let numbers: Vec<u64> = epochs.iter().map(|at| self.entries[*at].number.0).collect();
        self.at(|brokers, fence, undecided| {
            if *fence != Some(brokers.fence) {
                return Err(Failure {
                    kind: FailureKind::Fenced,
                    text: "fenced".into(),
                });
            }
            brokers.prepared = Some((numbers, marker.0));
            if !undecided {
                brokers.finish_prepared();
            }
            Ok(())
        })
    }
}

/// An execution settles all epochs up to `until` that had not landed when it learnt of them.
fn settle(
    world: &Rc<World>,
    execution: usize,
    until: u64,
    incident: Option<(u32, Incident)>,
) -> Result<(), Unsettled> {
    // Those that landed for sure are in no snapshot any more; some more may be.
    let first = 1;
    let entries: Vec<Entry> = (first..=until)
        .map(|number| Entry {
            number: EpochNumber(number),
            after: None,
            staged_ms: 0,
        })
        .collect();
    let Ok(mut state) = world.executions[execution].try_borrow_mut() else {
        return Err(Unsettled::Failed(Failure {
            kind: FailureKind::Passing,
            text: "busy".into(),
        }));
    };
    let state = &mut *state;
    let mut call = Call {
        world: world.clone(),
        execution,
        entries: entries.clone(),
        incident,
        calls: 0,
        fence: state.fence,
    };
    let outcome = state.ledger.settle(&entries, &mut call, OnLost::Fail, 0);
    state.fence = call.fence;
    if outcome.is_ok() {
        let brokers = world.brokers.borrow();
        for entry in &entries {
            let times = brokers
                .log
                .iter()
                .filter(|epoch| **epoch == entry.number.0)
                .count();
            assert_eq!(
                times, 1,
                "epoch {} after success: {brokers:?}",
                entry.number.0
            );
        }
    }
    outcome
}

fn incident() -> impl Strategy<Value = Incident> {
    prop_oneof![
        Just(Incident::LostRequest),
        Just(Incident::LostAnswer),
        Just(Incident::Undecided),
        (0..4_usize, 1..6_u64).prop_map(|(other, until)| Incident::Before(other, until)),
        (0..4_usize, 1..6_u64).prop_map(|(other, until)| Incident::After(other, until)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Four executions of one writer, three of them declared dead and none of them knowing it,
    /// settle in any order, with an incident at any call: no epoch ever lands twice, and what one
    /// has settled has landed.
    #[test]
    fn every_epoch_lands_once(
        steps in prop::collection::vec((0..4_usize, 1..6_u64, prop::option::of((1..5_u32, incident()))), 1..12),
    ) {
        let executions = (0..5).map(|_| RefCell::new(Execution { ledger: Ledger::default(), fence: None })).collect();
        let world = Rc::new(World { brokers: RefCell::default(), executions });
        for (execution, until, incident) in steps {
            let _ = settle(&world, execution, until, incident);
            let brokers = world.brokers.borrow();
            for epoch in &brokers.log {
                prop_assert_eq!(brokers.log.iter().filter(|other| *other == epoch).count(), 1);
            }
        }
        // A restored execution without incidents always succeeds.
        settle(&world, 4, 6, None).unwrap();
        let mut log = world.brokers.borrow().log.clone();
        log.sort_unstable();
        prop_assert_eq!(log, (1..=6).collect::<Vec<_>>());
    }
}

fn lone(marker: Option<u64>) -> Call {
    let executions = vec![RefCell::new(Execution {
        ledger: Ledger::default(),
        fence: None,
    })];
    let brokers = RefCell::new(Brokers {
        marker,
        ..Brokers::default()
    });
    Call {
        world: Rc::new(World {
            brokers,
            executions,
        }),
        execution: 0,
        entries: vec![],
        incident: None,
        calls: 0,
        fence: None,
    }
}

fn entry(number: u64, after: Option<u64>, staged_ms: i64) -> Entry {
    Entry {
        number: EpochNumber(number),
        after: after.map(EpochNumber),
        staged_ms,
    }
}

#[test]
fn a_marker_that_is_lost_is_not_taken_for_one_that_never_was() {
    let day = SURE_MS;
    for (entries, now_ms, lost) in [
        (vec![entry(3, None, 0)], day, None),
        (vec![entry(3, None, 0)], day + 1, Some(3)),
        (vec![entry(3, Some(2), 0)], 1, Some(3)),
        (
            vec![entry(3, None, day), entry(4, Some(3), day)],
            day,
            Some(4),
        ),
    ] {
        let settle = |on_lost| {
            let mut brokers = lone(None);
            brokers.entries = entries.clone();
            let outcome = Ledger::default().settle(&entries, &mut brokers, on_lost, now_ms);
            (outcome, brokers.world.brokers.borrow().log.len())
        };
        let all = entries.len();
        match lost {
            None => assert_eq!(settle(OnLost::Fail), (Ok(()), all)),
            Some(number) => {
                let error = Unsettled::LostMarker(EpochNumber(number));
                assert_eq!(settle(OnLost::Fail), (Err(error), 0));
                assert_eq!(settle(OnLost::Replay), (Ok(()), all));
                assert_eq!(settle(OnLost::Skip), (Ok(()), 0));
            }
        }
    }
}

#[test]
fn nobody_is_fenced_for_nothing_and_only_once() {
    let mut ledger = Ledger::default();
    let mut brokers = lone(Some(3));
    brokers.entries = vec![entry(3, None, 0)];
    ledger
        .settle(&brokers.entries.clone(), &mut brokers, OnLost::Fail, 0)
        .unwrap();
    assert_eq!(
        (brokers.world.brokers.borrow().fence, brokers.calls),
        (0, 1)
    );
    for number in 4..7 {
        brokers.entries = vec![entry(number, ledger.known().map(|known| known.0), 0)];
        ledger
            .settle(&brokers.entries.clone(), &mut brokers, OnLost::Fail, 0)
            .unwrap();
        assert_eq!(ledger.known(), Some(EpochNumber(number)));
    }
    assert_eq!(brokers.world.brokers.borrow().fence, 1);
    // Marker, fence, marker, commit; then commits only.
    assert_eq!(brokers.calls, 1 + 4 + 2);
}
