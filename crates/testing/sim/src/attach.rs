//! A host without a total order: each resource has a watch of its own that lags, repeats itself and
//! loses events; owners that were never seen are asked for.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::Revision;
use tenure_ownership::{
    ChangeOrder, OwnerQuery, OwnerQueryResult, OwnershipEngine, OwnershipFinding, OwnershipIntent,
    OwnershipWrite, WriteId, WriteOutcome,
};

use crate::check::{self, ensure};
use crate::ops::{OwnershipOperation, SimulatedWorld};
use crate::store::{self, ROWS, SimulatedObject, SimulatedStore, StoreEvent, same_resource};

const ROUNDS_MAX: usize = 4_000;

/// One watch: the first row of its resource, and how far it has come.
struct ResourceWatch {
    row: usize,
    at: usize,
    /// Where it was when its resource was last listed.
    listed: usize,
    /// Events were lost: it must be listed anew.
    broken: bool,
    /// Its resource is served, as far as discovery has told.
    on: bool,
}

/// The host of `tenure attach`, imitated.
pub struct Attach {
    /// The truth.
    pub world: SimulatedWorld,
    engine: OwnershipEngine,
    seed: u64,
    watches: Vec<ResourceWatch>,
    /// How far discovery has come.
    types_at: usize,
    discovered: BTreeSet<usize>,
    /// What the engine has been told of, in its newest state.
    seen: BTreeMap<String, SimulatedObject>,
    /// Who is known to be gone, and never comes back.
    gone: BTreeSet<String>,
    /// A watch told of what was before its list: the engine copes, but nobody knows what it knows.
    echoes: bool,
    out: Vec<OwnershipIntent>,
    writes: Vec<OwnershipWrite>,
    failed: Vec<OwnershipWrite>,
    reported: Vec<(WriteId, u64)>,
    asks: Vec<OwnerQuery>,
    reports: BTreeSet<(String, String)>,
}

impl Attach {
    /// A new world with a synced engine.
    #[must_use]
    pub fn new(world: SimulatedWorld, seed: u64) -> Attach {
        let mut attach = Attach {
            world,
            engine: OwnershipEngine::new(ChangeOrder::PerResource, seed),
            seed,
            watches: Vec::new(),
            types_at: 0,
            discovered: BTreeSet::new(),
            seen: BTreeMap::new(),
            gone: BTreeSet::new(),
            echoes: false,
            out: Vec::new(),
            writes: Vec::new(),
            failed: Vec::new(),
            reported: Vec::new(),
            asks: Vec::new(),
            reports: BTreeSet::new(),
        };
        attach.start(seed);
        attach
    }

    fn start(&mut self, seed: u64) {
        self.engine = OwnershipEngine::new(ChangeOrder::PerResource, self.seed ^ seed);
        self.writes.clear();
        self.failed.clear();
        self.reported.clear();
        self.asks.clear();
        self.seen.clear();
        self.gone.clear();
        self.echoes = false;
        self.discovered = self.world.store.served.clone();
        self.types_at = self.world.store.log.len();
        for (dependent, owner) in &self.reports {
            self.engine.already_reported(dependent, owner);
        }
        for row in &self.discovered {
            store::feed_type(&mut self.engine, *row, true, 0, &mut self.out);
        }
        // Objects that cannot be listed are never observed, only asked for.
        let first = |row: &usize| {
            ROWS.get(*row).is_some_and(|r| r.collected)
                && !(0..*row).any(|earlier| same_resource(earlier, *row))
        };
        self.watches = (0..ROWS.len())
            .filter(first)
            .map(|row| ResourceWatch { row, at: 0, listed: 0, broken: false, on: false })
            .collect();
        for number in 0..self.watches.len() {
            self.list(number);
        }
        let revision = Revision(self.world.store.revision);
        self.engine.synced(revision, &mut self.out);
    }

    fn served(&self, row: usize) -> bool {
        self.discovered.iter().any(|served| same_resource(*served, row))
    }

    /// Lists a resource: what is there, and what is no longer.
    fn list(&mut self, number: usize) {
        let Some(row) = self.watches.get(number).map(|watch| watch.row) else { return };
        let on = self.served(row);
        if on {
            let resource = store::resource(&mut self.engine, row);
            let there: Vec<_> = self.world.store.things.values().cloned().collect();
            let there = there.into_iter().filter(|thing| same_resource(thing.row, row));
            let there: Vec<_> = there.collect();
            for key in self.engine.keys() {
                let gone = key.resource == resource && !there.iter().any(|t| t.uid == *key.uid);
                if gone {
                    let revision = Revision(self.world.store.revision);
                    self.engine.gone(&key.uid, revision, &mut self.out);
                }
            }
            self.seen.retain(|uid, thing| {
                !same_resource(thing.row, row) || there.iter().any(|there| there.uid == *uid)
            });
            for thing in there {
                let (revision, event) = (thing.revision, StoreEvent::Put(thing));
                self.know(revision, &event);
                store::feed(&mut self.engine, revision, &event, &mut self.out);
            }
        }
        let end = self.world.store.log.len();
        if let Some(watch) = self.watches.get_mut(number) {
            (watch.at, watch.listed, watch.broken, watch.on) = (end, end, false, on);
        }
    }

    /// Lets one thing happen and looks whether all is well.
    ///
    /// # Errors
    /// The property that is broken.
    pub fn step(&mut self, op: &OwnershipOperation) -> Result<(), String> {
        let number = |who: &usize| who.checked_rem(self.watches.len() + 1).unwrap_or(0);
        match op {
            OwnershipOperation::Feed(who, count) => match number(who) {
                last if last == self.watches.len() => self.discover(*count),
                number => self.watch(number, *count),
            },
            OwnershipOperation::Act(who, how) => self.act(*who, *how)?,
            OwnershipOperation::Tell(who) => self.tell(*who),
            OwnershipOperation::Answer(who, how) => self.answer(*who, *how),
            OwnershipOperation::Crash(seed) => self.start(*seed),
            OwnershipOperation::Replay(who, count) => {
                let number = number(who);
                if let Some(watch) = self.watches.get_mut(number) {
                    // A true watch repeats nothing from before its list; every other one here does.
                    let least = if self.seed.is_multiple_of(2) { watch.listed } else { 0 };
                    watch.at = watch.at.saturating_sub(count * 4).max(least.min(watch.at));
                    self.echoes |= watch.at < watch.listed;
                }
            }
            OwnershipOperation::Lose(who, count) => {
                let (number, end) = (number(who), self.world.store.log.len());
                if let Some(watch) = self.watches.get_mut(number) {
                    watch.at = (watch.at + count * 4).min(end);
                    watch.broken = true;
                }
            }
            OwnershipOperation::List(who) => {
                let number = number(who);
                self.list(number);
            }
            op => self.world.client(op),
        }
        self.collect()
    }

    fn discover(&mut self, count: usize) {
        for _ in 0..count {
            let log = &self.world.store.log;
            let Some((revision, event)) = log.get(self.types_at).cloned() else { return };
            self.types_at += 1;
            let StoreEvent::Types(row, serve) = event else { continue };
            if serve {
                self.discovered.insert(row);
            } else {
                self.discovered.remove(&row);
            }
            store::feed_type(&mut self.engine, row, serve, revision, &mut self.out);
            for number in 0..self.watches.len() {
                let Some(watch) = self.watches.get(number) else { continue };
                let on = self.served(watch.row);
                if on && !watch.on {
                    self.list(number);
                } else if let Some(watch) = self.watches.get_mut(number) {
                    watch.on = on;
                }
            }
        }
    }

    fn watch(&mut self, number: usize, count: usize) {
        for _ in 0..count {
            let Some(watch) = self.watches.get_mut(number) else { return };
            let Some((revision, event)) = self.world.store.log.get(watch.at).cloned() else {
                return;
            };
            watch.at += 1;
            let of = match &event {
                StoreEvent::Put(thing) | StoreEvent::Gone(thing) => thing.row,
                StoreEvent::Types(..) => continue,
            };
            if watch.on && same_resource(of, watch.row) {
                self.know(revision, &event);
                store::feed(&mut self.engine, revision, &event, &mut self.out);
            }
        }
    }

    /// Remembers what the engine is told; older news than it has changes nothing.
    fn know(&mut self, revision: u64, event: &StoreEvent) {
        let newer = |thing: &SimulatedObject| {
            self.seen.get(&thing.uid).is_none_or(|old| old.revision <= revision)
        };
        match event {
            // An echo of somebody who is gone.
            StoreEvent::Put(thing) if self.gone.contains(&thing.uid) => {}
            StoreEvent::Put(thing) if newer(thing) => {
                // A new uid under a known name: the old object went unnoticed (R87).
                self.seen.retain(|_, old| !old.is_in_place_of(thing) || old.revision > revision);
                self.seen.insert(thing.uid.clone(), thing.clone());
            }
            StoreEvent::Gone(thing) => {
                self.seen.remove(&thing.uid);
                self.gone.insert(thing.uid.clone());
            }
            _ => {}
        }
    }

    /// The world as the engine has been told of it.
    fn known(&self) -> SimulatedStore {
        let mut known = SimulatedStore::new();
        known.things.clone_from(&self.seen);
        known.served.clone_from(&self.discovered);
        known
    }

    fn collect(&mut self) -> Result<(), String> {
        for intent in std::mem::take(&mut self.out) {
            match intent {
                OwnershipIntent::Write(write) => self.writes.push(write),
                OwnershipIntent::Ask(ask) => self.asks.push(ask),
                OwnershipIntent::Report(OwnershipFinding::InvalidNamespace {
                    dependent,
                    reference,
                    ..
                }) => {
                    // What was purged with its type, or is a stale echo of what is gone, may be told
                    // of again; the host remembers and is silent.
                    let there = self.world.store.things.contains_key(&*dependent.uid);
                    let pair = (dependent.uid.to_string(), reference.uid.to_string());
                    let excused = !there || self.world.store.types_revision > 0;
                    ensure(self.reports.insert(pair) || excused, "L5: reported twice")?;
                }
            }
        }
        Ok(())
    }

    fn act(&mut self, who: usize, how: usize) -> Result<(), String> {
        let Some(at) = who.checked_rem(self.writes.len()) else { return Ok(()) };
        let write = self.writes.remove(at);
        if !self.engine.current(write.id) && how != 14 {
            return Ok(());
        }
        let now = self.world.store.things.get(&*write.key.uid).cloned();
        let Some(now) = now else {
            if self.engine.current(write.id) {
                self.seen.remove(&*write.key.uid);
            }
            self.engine.outcome(write.id, &WriteOutcome::NotFound, &mut self.out);
            return Ok(());
        };
        if how < 2 {
            let outcome = if how == 0 { WriteOutcome::Failed } else { WriteOutcome::Denied };
            if self.engine.current(write.id) {
                self.failed.push(write.clone());
            }
            self.engine.outcome(write.id, &outcome, &mut self.out);
            return Ok(());
        }
        if write.revision.is_some_and(|revision| revision.0 != now.revision) {
            let resource = store::resource(&mut self.engine, now.row);
            if self.engine.current(write.id) {
                self.know(now.revision, &StoreEvent::Put(now.clone()));
            }
            let (engine, out) = (&mut self.engine, &mut self.out);
            store::with_object(&now, resource, now.revision, |object| {
                engine.outcome(write.id, &WriteOutcome::Conflict(Some(object)), out);
            });
            return Ok(());
        }
        let clear = !self.echoes && self.engine.current(write.id);
        let known = clear.then(|| self.known());
        check::lagging(&self.world.store, known.as_ref(), &write)?;
        self.world.store.apply(&write.key.uid, &write.action);
        // The answer shows the object; what changed nothing has left it at the revision it had.
        let left = self.world.store.things.get(&*write.key.uid).map(|thing| thing.revision);
        let revision = Revision(left.unwrap_or(self.world.store.revision));
        if how.is_multiple_of(3) {
            self.reported.push((write.id, revision.0));
        } else {
            self.engine.outcome(write.id, &WriteOutcome::Applied(revision), &mut self.out);
        }
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

    /// Answers a question with a read of the truth.
    fn answer(&mut self, who: usize, how: usize) {
        let Some(at) = who.checked_rem(self.asks.len()) else { return };
        let ask = self.asks.remove(at);
        let reference = &ask.reference;
        let store = &self.world.store;
        let same = |row: &&usize| {
            ROWS.get(**row).is_some_and(|row| {
                row.api_version == &*reference.api_version && row.kind == &*reference.kind
            })
        };
        let found = store.served.iter().find(same);
        let thing =
            found.and_then(|row| store.named(*row, &ask.namespace, &reference.name)).cloned();
        let answer = match (how, found, &thing) {
            (0, _, _) => OwnerQueryResult::Failed,
            (_, None, _) => OwnerQueryResult::Unresolvable,
            (_, Some(_), None) => OwnerQueryResult::Absent,
            (_, Some(_), Some(t)) => {
                OwnerQueryResult::Present { uid: &t.uid, waiting: t.waiting() }
            }
        };
        self.engine.answer(ask.id, &answer, &mut self.out);
    }

    /// Carries everything out, without faults, until nothing but repeated questions is left.
    ///
    /// # Errors
    /// The property that is broken.
    pub fn settle(&mut self) -> Result<(), String> {
        let mut quiet = 0;
        for _ in 0..ROUNDS_MAX {
            self.discover(usize::MAX);
            for number in 0..self.watches.len() {
                if self.watches.get(number).is_some_and(|watch| watch.broken) {
                    self.list(number);
                }
                self.watch(number, usize::MAX);
            }
            self.collect()?;
            let engine = &self.engine;
            self.writes.retain(|write| engine.current(write.id));
            if !self.reported.is_empty() || !self.failed.is_empty() {
                quiet = 0;
                self.step(&OwnershipOperation::Tell(0))?;
            } else if !self.writes.is_empty() {
                quiet = 0;
                self.step(&OwnershipOperation::Act(0, 2))?;
            } else if quiet < 2 {
                // Two rounds of answers that change nothing: the questions would go on for ever.
                quiet += 1;
                for _ in 0..self.asks.len() {
                    self.step(&OwnershipOperation::Answer(0, 1))?;
                }
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
}
