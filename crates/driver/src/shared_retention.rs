//! What the retention follower and the collector share: the engine, how far it has read, and the one
//! question whether a subject may be collected.
//!
//! ```text
//!   follower ──► engine ◄── ask ── collector          (one thread: nobody reads a half-told engine)
//!                  └── release ──────► collector
//! ```
//!
//! The answer holds for what the engine has read. That nobody began to mention the subject since is a
//! guard of the deletion itself, so no interleaving loses a subject that is needed (retention R55).

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry as MetricsRegistry, Unit};
use tenure_core::Revision;
use tenure_retention::{
    CollectionVerdict, RetentionEngine, RetentionEngineSettings, RetentionSubject, RetentionUser,
    SubjectKey, SubjectKind, UserKind,
};
use tenure_server::registry::Registry;
use tenure_world::{Change, Precondition, Record, World};
use tokio::sync::mpsc;

use crate::clock;
use crate::collect;
use crate::retention_facts::{self, RetentionKind, RetentionPrefixes};

/// May a subject be collected?
pub(crate) enum CollectionDecision {
    /// It never opted in: nobody asks.
    Free,
    /// It may, if this still holds.
    Clear(Precondition),
    /// It may not now; a release follows.
    Held,
}

/// What happened, for those who measure.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) adds: Counter,
    pub(crate) removes: Counter,
    pub(crate) collections: Counter,
    pub(crate) denials: Counter,
    pub(crate) conflicts: Counter,
    pub(crate) guesses: Counter,
    pub(crate) plans: Histogram,
    states: Family<HolderStateLabels, Gauge>,
}

/// Bounds of plans, in seconds.
const PLAN_BOUNDS: [f64; 7] = [0.000_1, 0.001, 0.005, 0.025, 0.1, 0.5, 2.5];

/// The states of a subject, as the specification numbers them.
const STATES: [&str; 6] = ["S1", "S2", "S3", "S4", "S5", "S6"];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HolderStateLabels {
    state: &'static str,
}

impl Default for Counters {
    fn default() -> Counters {
        let counters = Counters {
            adds: Counter::default(),
            removes: Counter::default(),
            collections: Counter::default(),
            denials: Counter::default(),
            conflicts: Counter::default(),
            guesses: Counter::default(),
            plans: Histogram::new(PLAN_BOUNDS),
            states: Family::default(),
        };
        counters.count_states([0; STATES.len()]);
        counters
    }
}

impl Counters {
    /// Shows everything under the names of the specification.
    pub(crate) fn register(&self, registry: &mut MetricsRegistry) {
        registry.register(
            "tenure_retention_subjects",
            "ConfigMaps and Secrets that opted in, by state",
            self.states.clone(),
        );
        for (name, about, counter) in [
            ("owner_adds", "Owner entries that were added", &self.adds),
            ("owner_removes", "Owner entries that were removed", &self.removes),
            ("collections", "Subjects that were deleted", &self.collections),
            ("guard_denials", "Deletions that were denied", &self.denials),
            ("patch_conflicts", "Owner lists that moved before they were written", &self.conflicts),
            ("guessed_references", "Mentions in volume sources of no known kind", &self.guesses),
        ] {
            registry.register(format!("tenure_retention_{name}"), about, counter.clone());
        }
        registry.register_with_unit(
            "tenure_retention_plan",
            "Time spent on plans",
            Unit::Seconds,
            self.plans.clone(),
        );
    }

    /// Notes how many subjects are in each state.
    pub(crate) fn count_states(&self, counts: [usize; STATES.len()]) {
        for (state, count) in STATES.into_iter().zip(counts) {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.states.get_or_create(&HolderStateLabels { state }).set(count);
        }
    }
}

/// Counts some more.
pub(crate) fn more(counter: &Counter, by: usize) {
    counter.inc_by(by as u64);
}

/// The engine and how far it has read.
pub(crate) struct RetentionState {
    pub(crate) engine: RetentionEngine,
    /// Everything up to here was told to the engine.
    pub(crate) seen: Revision,
    /// The namespaces that are followed, and the state each was first read at.
    active: HashMap<Box<str>, Revision>,
    /// Subjects that were asked about before they were known.
    early: BTreeSet<Box<str>>,
    /// Subjects whose collection was denied and not released.
    denied: BTreeSet<Box<str>>,
}

/// Says that the follower should look again.
pub(crate) struct Nudge;

/// The shared part.
pub(crate) struct SharedRetention {
    known: RefCell<RetentionState>,
    pub(crate) prefixes: RetentionPrefixes,
    settings: RetentionEngineSettings,
    began: Instant,
    /// To the collector.
    released: mpsc::UnboundedSender<collect::CollectorMessage>,
    /// How many releases the collector has not taken yet.
    releasing: Cell<usize>,
    /// To the follower.
    nudges: mpsc::UnboundedSender<Nudge>,
    /// Whether a nudge is on its way.
    nudged: Cell<bool>,
    pub(crate) counters: Arc<Counters>,
}

impl SharedRetention {
    /// A keeper that knows nothing; it speaks to the collector and to the follower.
    pub(crate) fn new(
        kinds: &Registry,
        settings: RetentionEngineSettings,
        counters: Arc<Counters>,
        released: mpsc::UnboundedSender<collect::CollectorMessage>,
        nudges: mpsc::UnboundedSender<Nudge>,
    ) -> SharedRetention {
        let known = RetentionState {
            engine: RetentionEngine::new(settings),
            seen: Revision::ZERO,
            active: HashMap::new(),
            early: BTreeSet::new(),
            denied: BTreeSet::new(),
        };
        SharedRetention {
            known: RefCell::new(known),
            prefixes: RetentionPrefixes::new(kinds),
            settings,
            began: clock::instant(),
            released,
            releasing: Cell::new(0),
            nudges,
            nudged: Cell::new(false),
            counters,
        }
    }

    /// Something was asked, or a release was taken: the follower looks again.
    fn nudge(&self) {
        if !self.nudged.replace(true) {
            // Without a follower nobody needs to look.
            let _ = self.nudges.send(Nudge);
        }
    }

    /// The follower has heard of it.
    pub(crate) fn heard(&self) {
        self.nudged.set(false);
    }

    pub(crate) fn known(&self) -> RefMut<'_, RetentionState> {
        self.known.borrow_mut()
    }

    /// Milliseconds since this keeper began, as the engine is told the time.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(clock::instant().duration_since(self.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// The moment of a time that the engine names.
    pub(crate) fn moment(&self, at: u64) -> Option<Instant> {
        self.began.checked_add(std::time::Duration::from_millis(at))
    }

    /// Forgets everything, to begin anew.
    pub(crate) fn clear(&self) {
        let mut known = self.known();
        known.engine = RetentionEngine::new(self.settings);
        known.active.clear();
        known.seen = Revision::ZERO;
        // What the old engine would have released is asked about again.
        let mut denied = std::mem::take(&mut known.denied);
        known.early.append(&mut denied);
    }

    /// Asks for the collector whether an object as it is stored may be deleted (retention R50).
    pub(crate) fn ask(&self, record: &Record) -> CollectionDecision {
        let Some(RetentionKind::Subject(kind)) = self.prefixes.at(record.key()) else {
            return CollectionDecision::Free;
        };
        if !retention_facts::opted_in(record) {
            return CollectionDecision::Free;
        }
        // Whoever reads the log late is waked: the answer holds for what was read.
        self.nudge();
        let mut known = self.known();
        let key = key(kind, record);
        if known.engine.ask(&key, record.uid(), self.now()) == CollectionVerdict::Clear {
            return CollectionDecision::Clear(self.unmentioned(&key, known.seen));
        }
        if !known.engine.knows(&key, record.uid()) {
            known.early.insert(record.uid().into());
        }
        known.denied.insert(record.uid().into());
        more(&self.counters.denials, 1);
        CollectionDecision::Held
    }

    /// That nobody who was written after a revision mentions a subject.
    pub(crate) fn unmentioned(&self, key: &SubjectKey, seen: Revision) -> Precondition {
        let users = |stored: RetentionKind| matches!(stored, RetentionKind::User(_));
        let prefixes = self.prefixes.within(&key.namespace, users).map(|(prefix, _)| prefix.into());
        Precondition::Unmentioned { prefixes: prefixes.collect(), text: key.name.clone(), seen }
    }

    /// Lets the collector try again.
    pub(crate) fn release(&self, uid: Box<str>) {
        self.known().denied.remove(&uid);
        if self.released.send(collect::CollectorMessage::Released(uid)).is_ok() {
            self.releasing.set(self.releasing.get() + 1);
        }
    }

    /// The collector has taken some releases.
    pub(crate) fn taken(&self, count: usize) {
        if count > 0 {
            self.releasing.set(self.releasing.get().saturating_sub(count));
            self.nudge();
        }
    }

    /// Whether the collector has yet to hear something.
    pub(crate) fn is_releasing(&self) -> bool {
        self.releasing.get() > 0
    }

    /// Lets the collector ask again about what was not known when it asked.
    pub(crate) fn release_early(&self) {
        let early = std::mem::take(&mut self.known().early);
        early.into_iter().for_each(|uid| self.release(uid));
    }

    /// Begins to follow a namespace as it is in a state.
    pub(crate) fn activate(&self, kinds: &Registry, state: &World, namespace: &str) {
        let users = !self.settings.draining;
        let mut known = self.known();
        for (prefix, stored) in self.prefixes.within(namespace, |_| true) {
            for record in state.range(&prefix, None) {
                match stored {
                    RetentionKind::Subject(kind) if retention_facts::opted_in(record) => {
                        put_subject(&mut known.engine, kind, record);
                    }
                    RetentionKind::User(kind) if users => {
                        self.put_user(&mut known, kinds, kind, record)
                    }
                    _ => {}
                }
            }
        }
        known.active.insert(namespace.into(), state.revision());
    }

    /// Takes in a change; gives back true when its namespace has to be followed from now on.
    pub(crate) fn see(&self, kinds: &Registry, change: &Change) -> bool {
        let Some(stored) = self.prefixes.at(&change.key) else { return false };
        let Some(record) = change.after.as_ref().or(change.before.as_ref()) else { return false };
        let mut known = self.known();
        match known.active.get(record.namespace()) {
            Some(since) if change.revision <= *since => return false,
            Some(_) => {}
            None => {
                let opts_in =
                    || change.after.as_ref().is_some_and(|r| retention_facts::opted_in(r));
                return matches!(stored, RetentionKind::Subject(_)) && opts_in();
            }
        }
        match stored {
            RetentionKind::Subject(kind) => see_subject(&mut known, kind, change),
            RetentionKind::User(_) if self.settings.draining => {}
            RetentionKind::User(kind) => self.see_user(&mut known, kinds, kind, change),
        }
        false
    }

    fn see_user(
        &self,
        known: &mut RetentionState,
        kinds: &Registry,
        kind: UserKind,
        change: &Change,
    ) {
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        let stands = |record: &&Arc<Record>| {
            (kind != UserKind::Pod || !retention_facts::has_ended(record))
                && retention_facts::is_holder(kind, record)
        };
        let after = after.filter(stands);
        if let Some(before) = before.filter(|b| after.is_none_or(|a| a.uid() != b.uid())) {
            known.engine.gone_user(before.namespace(), before.uid());
        }
        let Some(after) = after else { return };
        // What is counted has the same content under the same number; revisions never change.
        let same = before.is_some_and(|before| {
            before.uid() == after.uid()
                && before.generation() == after.generation()
                && (after.generation() > 0 || kind == UserKind::ControllerRevision)
        });
        let touched = same
            && known.engine.touch_user(
                after.namespace(),
                after.uid(),
                after.deleting(),
                controller(kind, after),
            );
        if !touched {
            self.put_user(known, kinds, kind, after);
        }
    }

    fn put_user(
        &self,
        known: &mut RetentionState,
        kinds: &Registry,
        kind: UserKind,
        record: &Record,
    ) {
        let ended = kind == UserKind::Pod && retention_facts::has_ended(record);
        if ended || !retention_facts::is_holder(kind, record) {
            return;
        }
        let Some(Ok(object)) = kinds.stored_at(record.key()).map(|kind| kind.read(record)) else {
            return;
        };
        let guessed = retention_facts::with_references(kind, &object, |references, pulls| {
            let user = RetentionUser {
                kind,
                name: record.name(),
                uid: record.uid(),
                terminating: record.deleting(),
                controller: controller(kind, record),
                references,
                pulls,
            };
            known.engine.put_user(record.namespace(), &user);
        });
        more(&self.counters.guesses, guessed);
    }
}

/// The uid of a pod's controller.
fn controller(kind: UserKind, record: &Record) -> Option<&str> {
    let controller = || record.owners().find(|owner| owner.controller);
    (kind == UserKind::Pod).then(controller).flatten().map(|owner| owner.uid)
}

fn see_subject(known: &mut RetentionState, kind: SubjectKind, change: &Change) {
    let after = change.after.as_ref().filter(|record| retention_facts::opted_in(record));
    match (after, &change.before) {
        (Some(after), _) => put_subject(&mut known.engine, kind, after),
        (None, Some(before)) => {
            let namespace = before.namespace();
            known.engine.gone_subject(namespace, kind, before.name(), before.uid());
            known.denied.remove(before.uid());
            if known.engine.subjects_in(namespace) == 0 {
                known.engine.forget(namespace);
                known.active.remove(namespace);
            }
        }
        (None, None) => {}
    }
}

fn put_subject(engine: &mut RetentionEngine, kind: SubjectKind, record: &Record) {
    retention_facts::with_owners(record, |owners| {
        let subject = RetentionSubject {
            kind,
            name: record.name(),
            uid: record.uid(),
            revision: record.revision(),
            terminating: record.deleting(),
            opted_in: true,
            owners,
        };
        engine.put_subject(record.namespace(), &subject);
    });
}

fn key(kind: SubjectKind, record: &Record) -> SubjectKey {
    SubjectKey { namespace: record.namespace().into(), kind, name: record.name().into() }
}

impl RetentionState {
    /// Whether nobody opted in.
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.early.is_empty()
    }
}
