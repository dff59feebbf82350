//! Histories and runs from seeds; a failure is shrunk to the few steps that matter.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tenure_ownership::DeletionPropagation;

use crate::attach::Attach;
use crate::model::{self, SimulatedOwnerState};
use crate::ops::{self, OwnershipOperation, SimulatedWorld};
use crate::random::Random;
use crate::store::Ref;
use crate::up::UpHost;

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// A history in one order, compared with the model after every step.
    History,
    /// The host of `tenure up` with crashes, late outcomes and failures.
    Up,
    /// The host of `tenure attach` with lag, repetition and loss as well.
    Attach,
    /// Two schedules of the same work end in the same state (S13).
    Schedules,
}

/// A property did not hold.
#[derive(Clone, Debug)]
pub struct TrialFailure {
    /// What was tried.
    pub trial: Trial,
    /// With which seed.
    pub seed: u64,
    /// What went wrong.
    pub what: String,
    /// The steps that are needed for it.
    pub trace: Vec<OwnershipOperation>,
}

/// The steps of a trial.
#[must_use]
pub fn steps(trial: Trial, seed: u64) -> Vec<OwnershipOperation> {
    let mut random = Random::new(seed);
    let count = 12 + random.below(40);
    let mut ops = Vec::new();
    for _ in 0..count {
        ops.push(ops::client(&mut random));
        let moves = match trial {
            Trial::History => random.below(4),
            Trial::Up | Trial::Attach => random.below(5),
            Trial::Schedules => 0,
        };
        for _ in 0..moves {
            ops.push(ops::host(&mut random, trial != Trial::History));
        }
    }
    ops
}

/// Runs steps; a panic is a failure like any other.
///
/// # Errors
/// What went wrong.
pub fn run(trial: Trial, seed: u64, ops: &[OwnershipOperation]) -> Result<(), String> {
    let caught = catch_unwind(AssertUnwindSafe(|| run_steps(trial, seed, ops)));
    caught.unwrap_or_else(|_| Err("panic".into()))
}

fn run_steps(trial: Trial, seed: u64, ops: &[OwnershipOperation]) -> Result<(), String> {
    let mut random = Random::new(seed ^ 77);
    match trial {
        Trial::History => {
            let mut up = UpHost::new(SimulatedWorld::default(), seed);
            for op in ops {
                // Most histories are fed at once, so that every step is compared.
                up.step(op)?;
                if !seed.is_multiple_of(4) {
                    up.step(&OwnershipOperation::Feed(0, usize::MAX))?;
                }
            }
            let policy = [
                DeletionPropagation::Background,
                DeletionPropagation::Foreground,
                DeletionPropagation::Orphan,
            ];
            let policy =
                policy.get(random.below(3)).copied().unwrap_or(DeletionPropagation::Background);
            up.plan(random.below(1 << 20), policy)?;
            up.finish()?;
            if seed.is_multiple_of(8) {
                replayed(seed, ops)?;
            }
            Ok(())
        }
        Trial::Up => {
            let mut up = UpHost::new(SimulatedWorld::default(), seed);
            ops.iter().try_for_each(|op| up.step(op))?;
            up.finish()
        }
        Trial::Attach => {
            let mut attach = Attach::new(SimulatedWorld::default(), seed);
            ops.iter().try_for_each(|op| attach.step(op))?;
            attach.finish()
        }
        Trial::Schedules => schedules(seed, ops),
    }
}

/// The same inputs give the same intents, whatever the seed of the tables (S14).
fn replayed(seed: u64, ops: &[OwnershipOperation]) -> Result<(), String> {
    let said = |seed: u64| -> Result<Vec<String>, String> {
        let mut up = UpHost::new(SimulatedWorld::default(), seed);
        ops.iter().try_for_each(|op| up.step(op))?;
        up.finish()?;
        Ok(up.said)
    };
    if said(seed)? == said(!seed)? {
        return Ok(());
    }
    Err("S14: the same inputs gave other intents".into())
}

fn schedules(seed: u64, ops: &[OwnershipOperation]) -> Result<(), String> {
    let mut world = SimulatedWorld::default();
    for op in ops {
        // With `orphan` set in advance the outcome depends on what was seen first: R91 deletes in the
        // foreground while a dependent is known, R92 leaves dependents behind.
        let op = match op {
            OwnershipOperation::Create(row, place, picks, 0) => {
                OwnershipOperation::Create(*row, *place, picks.clone(), 11)
            }
            op => op.clone(),
        };
        world.client(&op);
    }
    // The moment also decides what becomes of others beside two kinds of reference, so an object keeps
    // one kind: beside an unresolvable one others go only while a solid one is there (G14); beside an
    // orphaning one they go with it if they dangle by then (R90, R117), and else remain.
    let store = world.store.clone();
    for old in store.things.values() {
        let store = &store;
        let is = |worth: SimulatedOwnerState| {
            move |owner: &Ref| model::worth(store, old, owner) == worth
        };
        let mut thing = old.clone();
        if old.owners.iter().any(is(SimulatedOwnerState::Orphaning)) {
            thing.owners.retain(is(SimulatedOwnerState::Orphaning));
        } else if !old.owners.iter().all(is(SimulatedOwnerState::Unresolvable)) {
            thing.owners.retain(|owner| !is(SimulatedOwnerState::Unresolvable)(owner));
        }
        if thing != *old {
            world.store.write(thing);
        }
    }
    let end = |seed: u64| -> Result<Vec<String>, String> {
        let mut attach = Attach::new(world.clone(), seed);
        let mut random = Random::new(seed);
        for _ in 0..60 {
            let op = match ops::host(&mut random, true) {
                // Both see the same streams: an echo of what was before the list is not in them.
                OwnershipOperation::Crash(_) | OwnershipOperation::Replay(..) => continue,
                op => op,
            };
            attach.step(&op)?;
        }
        attach.finish()?;
        let things = attach.world.store.things.values();
        Ok(things.map(|t| format!("{} {:?} {:?}", t.uid, t.owners, t.finalizers)).collect())
    };
    let (a, b) = (end(seed)?, end(seed.wrapping_add(1))?);
    if a == b { Ok(()) } else { Err(format!("S13: {a:#?} is not {b:#?}")) }
}

/// Tries one seed.
///
/// # Errors
/// The failure, shrunk.
pub fn try_seed(trial: Trial, seed: u64) -> Result<(), Box<TrialFailure>> {
    let ops = steps(trial, seed);
    match run(trial, seed, &ops) {
        Ok(()) => Ok(()),
        Err(_) => Err(Box::new(shrink(trial, seed, ops))),
    }
}

/// Leaves out what is not needed for the failure.
fn shrink(trial: Trial, seed: u64, mut ops: Vec<OwnershipOperation>) -> TrialFailure {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut size = ops.len() / 2;
    while size > 0 {
        let (mut at, mut removed) = (0, false);
        while at < ops.len() {
            let mut fewer = ops.clone();
            fewer.drain(at..(at + size).min(ops.len()));
            if run(trial, seed, &fewer).is_err() {
                ops = fewer;
                removed = true;
            } else {
                at += size;
            }
        }
        if !removed || size > 1 {
            size /= 2;
        }
    }
    std::panic::set_hook(quiet);
    let what = run(trial, seed, &ops).err().unwrap_or_default();
    TrialFailure { trial, seed, what, trace: ops }
}
