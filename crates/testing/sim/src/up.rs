//! A host with one order: the log is fed as it is, guards are checked in the commit.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::Revision;
use tenure_ownership::{
    ChangeOrder, DeletionPropagation, Done, OwnershipEngine, OwnershipFinding, OwnershipIntent,
    OwnershipPrecondition, OwnershipWrite, WriteAction, WriteId, WriteOutcome,
};

use crate::check::{self, ensure};
use crate::model;
use crate::ops::{OwnershipOperation, SimulatedWorld};
use crate::store::{self, ROWS, StoreEvent};

/// More rounds than any history needs to come to rest.
const ROUNDS_MAX: usize = 2_000;

/// The host of `tenure up`, imitated.
pub struct UpHost {
    /// The truth.
    pub world: SimulatedWorld,
    engine: OwnershipEngine,
    seed: u64,
    fed: usize,
    out: Vec<OwnershipIntent>,
    writes: Vec<OwnershipWrite>,
    failed: Vec<OwnershipWrite>,
    reported: Vec<(WriteId, u64)>,
    reports: BTreeSet<(String, String)>,
    /// Everything the engine said, for comparison.
    pub said: Vec<String>,
}

impl UpHost {
    /// A new world with a synced engine.
    #[must_use]
    pub fn new(world: SimulatedWorld, seed: u64) -> UpHost {
        let mut up = UpHost {
            world,
            engine: OwnershipEngine::new(ChangeOrder::Total, seed),
            seed,
            fed: 0,
            out: Vec::new(),
            writes: Vec::new(),
            failed: Vec::new(),
            reported: Vec::new(),
            reports: BTreeSet::new(),
            said: Vec::new(),
        };
        up.start(seed);
        up
    }

    /// Starts an engine from the truth.
    fn start(&mut self, seed: u64) {
        let mut engine = OwnershipEngine::new(ChangeOrder::Total, self.seed ^ seed);
        let store = &self.world.store;
        for row in 0..ROWS.len() {
            store::feed_type(&mut engine, row, store.served.contains(&row), 0, &mut self.out);
        }
        for (dependent, owner) in &self.reports {
            if store.things.contains_key(dependent) {
                engine.already_reported(dependent, owner);
            }
        }
        for thing in store.things.values() {
            store::feed(
                &mut engine,
                thing.revision,
                &StoreEvent::Put(thing.clone()),
                &mut self.out,
            );
        }
        self.out.clear();
        engine.synced(Revision(store.revision), &mut self.out);
        self.engine = engine;
        self.fed = store.log.len();
        self.writes.clear();
        self.failed.clear();
        self.reported.clear();
    }

    /// Lets one thing happen and looks whether all is well.
    ///
    /// # Errors
    /// The property that is broken.
    pub fn step(&mut self, op: &OwnershipOperation) -> Result<(), String> {
        match op {
            OwnershipOperation::Feed(_, count) => self.feed(*count),
            OwnershipOperation::Act(who, how) => self.act(*who, *how)?,
            OwnershipOperation::Tell(who) => self.tell(*who),
            OwnershipOperation::Crash(seed) => self.start(*seed),
            op => self.world.client(op),
        }
        self.collect()?;
        self.compare()
    }

    fn feed(&mut self, count: usize) {
        for _ in 0..count {
            let Some((revision, event)) = self.world.store.log.get(self.fed).cloned() else {
                return;
            };
            store::feed(&mut self.engine, revision, &event, &mut self.out);
            self.fed += 1;
        }
    }

    fn collect(&mut self) -> Result<(), String> {
        for intent in std::mem::take(&mut self.out) {
            let mut plain = intent.clone();
            if let OwnershipIntent::Write(write) = &mut plain {
                write.fingerprint = 0;
                for guard in &mut write.guards {
                    if let OwnershipPrecondition::Same { fingerprint, .. } = guard {
                        *fingerprint = 0;
                    }
                }
            }
            self.said.push(format!("{plain:?}"));
            match intent {
                OwnershipIntent::Write(write) => self.writes.push(write),
                OwnershipIntent::Report(OwnershipFinding::InvalidNamespace {
                    dependent,
                    reference,
                    ..
                }) => {
                    let pair = (dependent.uid.to_string(), reference.uid.to_string());
                    ensure(self.reports.insert(pair), "L5: reported twice")?;
                }
                OwnershipIntent::Ask(_) => return Err("a host with one order was asked".into()),
            }
        }
        Ok(())
    }

    /// Whether everything the decision relied on still holds.
    fn holds(&self, write: &OwnershipWrite) -> bool {
        let store = &self.world.store;
        let fed = self.fed.checked_sub(1).and_then(|at| store.log.get(at)).map_or(0, |(r, _)| *r);
        let same = |uid: &str, fingerprint: u64| {
            store.things.get(uid).is_some_and(|thing| {
                let resource = tenure_ownership::InternedResource::default();
                store::with_object(thing, resource, 0, |o| self.engine.fingerprint(o))
                    == fingerprint
            })
        };
        let guard = |guard: &OwnershipPrecondition| match guard {
            OwnershipPrecondition::Same { key, fingerprint, .. } => same(&key.uid, *fingerprint),
            OwnershipPrecondition::NoNewDependents { uid, since } => {
                !store.things.values().any(|thing| {
                    thing.revision > since.0 && thing.owners.iter().any(|owner| owner.uid == **uid)
                })
            }
        };
        (store.types_revision <= fed && write.types == self.engine.types_generation())
            && same(&write.key.uid, write.fingerprint)
            && write.guards.iter().all(guard)
    }

    /// The revision that a write was decided at.
    fn decided(&self, write: &OwnershipWrite) -> Revision {
        self.engine.chain(write.cause).first().map_or(Revision::ZERO, |cause| cause.revision)
    }

    fn act(&mut self, who: usize, how: usize) -> Result<(), String> {
        let Some(at) = who.checked_rem(self.writes.len()) else { return Ok(()) };
        let write = self.writes.remove(at);
        let outcome = match how {
            0 => WriteOutcome::Failed,
            1 => WriteOutcome::Denied,
            _ if !self.world.store.things.contains_key(&*write.key.uid) => WriteOutcome::NotFound,
            _ if !self.holds(&write) => WriteOutcome::Conflict(None),
            _ => {
                check::exact(&self.world.store, &write, self.decided(&write))?;
                self.world.store.apply(&write.key.uid, &write.action);
                WriteOutcome::Applied(Revision(self.world.store.revision))
            }
        };
        match outcome {
            WriteOutcome::Failed | WriteOutcome::Denied if self.engine.current(write.id) => {
                self.failed.push(write.clone());
            }
            WriteOutcome::Conflict(_) => self.feed(usize::MAX),
            WriteOutcome::Applied(revision) if how.is_multiple_of(3) => {
                // The outcome comes later, perhaps after the change itself.
                self.reported.push((write.id, revision.0));
                return Ok(());
            }
            _ => {}
        }
        self.engine.outcome(write.id, &outcome, &mut self.out);
        Ok(())
    }

    fn tell(&mut self, who: usize) {
        if let Some(at) = who.checked_rem(self.reported.len()) {
            let (id, revision) = self.reported.remove(at);
            let outcome = WriteOutcome::Applied(Revision(revision));
            self.engine.outcome(id, &outcome, &mut self.out);
        } else if let Some(at) = who.checked_rem(self.failed.len()) {
            let write = self.failed.remove(at);
            self.engine.retry(&write.key.uid, &mut self.out);
        }
    }

    /// When everything is fed and told, the engine wants what the model wants.
    fn compare(&mut self) -> Result<(), String> {
        let engine = &self.engine;
        self.writes.retain(|write| engine.current(write.id));
        self.failed.retain(|write| engine.current(write.id));
        if self.fed < self.world.store.log.len() || !self.reported.is_empty() {
            return Ok(());
        }
        let store = &self.world.store;
        let all = self.writes.iter().chain(&self.failed);
        let mut wants = BTreeMap::new();
        for write in all {
            let twice = wants.insert(write.key.uid.to_string(), write.clone());
            ensure(twice.is_none(), "two writes about one object")?;
        }
        check::same_as_model(store, &wants)?;
        for thing in store.things.values().filter(|thing| model::collected(store, thing.row)) {
            for owner in thing.owners.iter().filter(|owner| model::crosses(store, thing, owner)) {
                let pair = (thing.uid.clone(), owner.uid.clone());
                ensure(self.reports.contains(&pair), "L5: a reference was not reported")?;
            }
        }
        Ok(())
    }

    /// Carries everything out, without faults, until nothing is left to do.
    ///
    /// # Errors
    /// The property that is broken.
    pub fn settle(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            self.step(&OwnershipOperation::Feed(0, usize::MAX))?;
            if !self.reported.is_empty() || !self.failed.is_empty() {
                self.step(&OwnershipOperation::Tell(0))?;
            } else if !self.writes.is_empty() {
                self.step(&OwnershipOperation::Act(0, 2))?;
            } else {
                ensure(self.engine.depth() == 0, "L6: at rest, but writes are under way")?;
                return check::at_rest(&self.world);
            }
        }
        Err("L1-L4: no rest".into())
    }

    /// Comes to rest, then lets all finalizers go and comes to rest again.
    ///
    /// # Errors
    /// The property that is broken.
    pub fn finish(&mut self) -> Result<(), String> {
        self.settle()?;
        while self.world.release() {
            self.settle()?;
        }
        check::all_released(&self.world)
    }

    /// At rest: a plan says exactly what then happens (S16).
    ///
    /// # Errors
    /// Where plan and truth differ.
    pub fn plan(&mut self, who: usize, policy: DeletionPropagation) -> Result<(), String> {
        self.settle()?;
        let Some(thing) = self.world.somebody(who) else { return Ok(()) };
        // A grace period that runs already is not the plan's to end.
        if !self.in_grace().is_empty() {
            return Ok(());
        }
        let planned: Vec<String> = self
            .engine
            .plan(&thing.uid, policy)
            .into_iter()
            .map(|step| describe_outcome(&step.key.uid, &step.done))
            .collect();
        let graces: BTreeSet<String> = self.in_grace();
        self.world.store.delete(&thing.uid, policy);
        let mut real = vec![self.what_became(&thing.uid, Done::Terminating(policy))];
        for _ in 0..ROUNDS_MAX {
            self.feed(usize::MAX);
            self.collect()?;
            let engine = &self.engine;
            self.writes.retain(|write| engine.current(write.id));
            if self.writes.is_empty() {
                let Some(uid) = self.next_grace(&graces) else { break };
                if let Some(mut thing) = self.world.store.things.get(&uid).cloned() {
                    thing.in_grace = false;
                    self.world.store.write(thing);
                    if !self.world.store.things.contains_key(&uid) {
                        real.push(describe_outcome(&uid, &Done::Removed));
                    }
                }
                continue;
            }
            let write = self.writes.remove(0);
            check::exact(&self.world.store, &write, self.decided(&write))?;
            self.world.store.apply(&write.key.uid, &write.action);
            let done = match &write.action {
                WriteAction::Delete(policy) => Done::Terminating(*policy),
                WriteAction::DropReferences(list) => Done::DroppedReferences(list.clone()),
                WriteAction::Unblock(list) => Done::Unblocked(list.clone()),
                WriteAction::DropFinalizer(finalizer) => Done::DroppedFinalizer(*finalizer),
            };
            real.push(self.what_became(&write.key.uid, done));
            self.feed(usize::MAX);
            let outcome = WriteOutcome::Applied(Revision(self.world.store.revision));
            self.engine.outcome(write.id, &outcome, &mut self.out);
        }
        if planned == real {
            return Ok(());
        }
        Err(format!("S16: planned {planned:#?}, but {real:#?}"))
    }

    fn in_grace(&self) -> BTreeSet<String> {
        let things = self.world.store.things.values();
        things.filter(|thing| thing.in_grace).map(|thing| thing.uid.clone()).collect()
    }

    /// The object whose grace period began first, of those that began since.
    fn next_grace(&self, before: &BTreeSet<String>) -> Option<String> {
        let began = |uid: &String| {
            let put = |(_, event): &(u64, StoreEvent)| match event {
                StoreEvent::Put(thing) => thing.uid == *uid && thing.in_grace,
                _ => false,
            };
            self.world.store.log.iter().position(put)
        };
        self.in_grace().into_iter().filter(|uid| !before.contains(uid)).min_by_key(began)
    }

    fn what_became(&self, uid: &str, done: Done) -> String {
        let there = self.world.store.things.contains_key(uid);
        describe_outcome(uid, &if there { done } else { Done::Removed })
    }
}

fn describe_outcome(uid: &str, done: &Done) -> String {
    format!("{uid} {done:?}")
}
