//! Random proposals against an obvious model: every answer, every past state, every watch.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tenure_core::Revision;
use tenure_world::{
    Interest, Precondition, Proposal, ProposalError, RevisionError, WorldOptions, WriteOperation,
};

use crate::support::*;

/// What a proposal does to one of a few keys.
#[derive(Clone, Debug)]
struct Step {
    name: u8,
    delete: bool,
    /// What its guard says: nothing, absent, the right revision or a wrong one.
    guard: u8,
}

fn step() -> impl Strategy<Value = Step> {
    (0..5_u8, prop::bool::weighted(0.3), 0..6_u8).prop_map(|(name, delete, guard)| Step {
        name,
        delete,
        guard,
    })
}

/// Some transactions, and after which of them to compact or open again.
fn history() -> impl Strategy<Value = Vec<(Vec<Step>, u8)>> {
    prop::collection::vec((prop::collection::vec(step(), 1..4), 0..40_u8), 1..60)
}

type State = BTreeMap<String, u64>;

/// The slow and obvious world: every state there ever was, and every change.
#[derive(Default)]
struct Model {
    states: Vec<State>,
    lines: Vec<(u64, String)>,
    compacted: u64,
}

impl Model {
    fn now(&self) -> State {
        self.states.last().cloned().unwrap_or_default()
    }

    fn revision(&self) -> u64 {
        self.states.len() as u64
    }

    /// The state after a proposal, or the place of the guard that refuses it.
    fn propose(&mut self, guards: &[(String, Option<u64>)], steps: &[Step]) -> Result<u64, usize> {
        let now = self.now();
        for (index, (name, revision)) in guards.iter().enumerate() {
            if now.get(name) != revision.as_ref() {
                return Err(index);
            }
        }
        let mut next = now.clone();
        let revision = self.revision() + 1;
        let mut lines = Vec::new();
        for step in steps {
            let name = format!("n{}", step.name);
            if step.delete {
                if next.remove(&name).is_some() {
                    lines.push((revision, format!("{revision}-{name}")));
                }
            } else {
                let sign = if next.insert(name.clone(), revision).is_some() { '~' } else { '+' };
                lines.push((revision, format!("{revision}{sign}{name}")));
            }
        }
        if lines.is_empty() {
            return Ok(self.revision());
        }
        self.states.push(next);
        self.lines.extend(lines);
        Ok(revision)
    }
}

fn guards(model: &Model, steps: &[Step]) -> Vec<(String, Option<u64>)> {
    let now = model.now();
    steps
        .iter()
        .filter_map(|step| {
            let name = format!("n{}", step.name);
            let right = now.get(&name).copied();
            match step.guard {
                0 => Some((name, None)),
                1 => Some((name, Some(9999))),
                2 | 3 => Some((name, right)),
                _ => None,
            }
        })
        .collect()
}

fn proposal(guards: &[(String, Option<u64>)], steps: &[Step]) -> Proposal {
    let write = |step: &Step| {
        let name = format!("n{}", step.name);
        if step.delete { delete(&name) } else { put(&name, "x") }
    };
    Proposal {
        guards: guards
            .iter()
            .map(|(name, revision)| Precondition::At {
                key: key(name),
                revision: revision.map(Revision),
            })
            .collect(),
        writes: steps.iter().map(write).collect::<Vec<WriteOperation>>(),
    }
}

fn check(world: &tenure_world::WorldHandle, model: &Model) {
    for revision in 0..=model.revision() {
        let got = world.at(Revision(revision));
        if revision < model.compacted {
            assert_eq!(got.unwrap_err(), RevisionError::Compacted(Revision(model.compacted)));
            continue;
        }
        let expected =
            revision.checked_sub(1).map_or_else(State::new, |at| model.states[at as usize].clone());
        let got: State =
            got.unwrap().range("", None).map(|r| (r.name().into(), r.revision().0)).collect();
        assert_eq!(got, expected, "at {revision}");
        let mut watch = world.watch(Revision(revision), Interest::Prefix(PREFIX.into())).unwrap();
        let lines: Vec<_> =
            model.lines.iter().filter(|(r, _)| *r > revision).map(|(_, l)| l.clone()).collect();
        assert_eq!(drain(&mut watch).unwrap(), lines, "after {revision}");
        assert_eq!(watch.delivered(), Revision(model.revision()));
        if revision > model.compacted {
            check_cuts(world, model, revision);
        }
    }
    assert_eq!(
        world.at(Revision(model.revision() + 1)).unwrap_err(),
        RevisionError::Future(Revision(model.revision()))
    );
}

/// However a stream is cut inside a revision, who resumes from there has heard everything in the end; nothing is
/// told twice without need.
fn check_cuts(world: &tenure_world::WorldHandle, model: &Model, revision: u64) {
    let lines = |of: &dyn Fn(u64) -> bool| -> Vec<String> {
        model.lines.iter().filter(|(r, _)| of(*r)).map(|(_, line)| line.clone()).collect()
    };
    let (at, later) = (lines(&|r| r == revision), lines(&|r| r > revision));
    let mut watch = world.resume(Revision(revision), Interest::Prefix(PREFIX.into())).unwrap();
    let heard = drain(&mut watch).unwrap();
    for told in 1..=at.len() {
        let missing = at.iter().skip(told).chain(&later);
        assert!(missing.clone().all(|line| heard.contains(line)), "cut after {told} at {revision}");
    }
    let again = if at.len() > 1 { at.as_slice() } else { &[] };
    assert_eq!(heard, [again, &later].concat(), "resumed from {revision}");
}

async fn run(history: Vec<(Vec<Step>, u8)>) {
    let log = TestLog::default();
    let mut world = log.open_with(WorldOptions::default());
    let mut model = Model::default();
    let mut live = world.watch(Revision::ZERO, Interest::Prefix(PREFIX.into())).unwrap();
    let mut heard = Vec::new();
    for (mut steps, then) in history {
        steps.sort_by_key(|step| step.name);
        steps.dedup_by_key(|step| step.name);
        let guards = guards(&model, &steps);
        let expected = model.propose(&guards, &steps);
        match world.propose(proposal(&guards, &steps)).await {
            Ok(committed) => assert_eq!(Ok(committed.revision.0), expected),
            Err(ProposalError::Guard { index, current }) => {
                assert_eq!(Err(index), expected);
                let there = current.map(|r| r.revision().0);
                assert_eq!(there, model.now().get(&guards[index].0).copied());
            }
            Err(other) => panic!("{other}"),
        }
        if then % 3 == 0 {
            heard.extend(drain(&mut live).unwrap());
        }
        if then == 1 && model.revision() > 2 {
            let upto = model.revision() - 2;
            world.compact(Revision(upto)).await.unwrap();
            model.compacted = model.compacted.max(upto);
        }
        if then == 2 {
            heard.extend(drain(&mut live).unwrap());
            world.stop().await.unwrap();
            world = log.open_with(WorldOptions::default());
            let after = Revision(model.revision());
            live = world.watch(after, Interest::Prefix(PREFIX.into())).unwrap();
        }
    }
    heard.extend(drain(&mut live).unwrap());
    let all: Vec<_> = model.lines.iter().map(|(_, line)| line.clone()).collect();
    assert_eq!(heard, all, "a live watch hears everything once");
    check(&world, &model);
    check(&world, &model);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    #[test]
    fn r184_r185_r195_the_world_equals_the_model(history in history()) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(run(history));
    }
}
