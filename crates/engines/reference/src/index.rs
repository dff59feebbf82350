//! The index: takes events, keeps the join of section 2 up to date, and hands views to readers.
//!
//! ```text
//!   events ──► Index (one writer) ──► changes its own view ──► publish ──► readers
//!                                          ▲                                  │
//!                                          └── the view they have left ◄──────┘
//! ```
//!
//! Two views, used in turn: readers never wait, and all events between two publications become visible
//! at once (R175). A view that a reader still holds is left to the reader, and a copy is made.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

use crate::counts::Counts;
use crate::event::{Event, Kind, Outputs, Synced, TargetId};
use crate::extract::{Expressions, NoExpressions};
use crate::grant::KeptGrant;
use crate::intern::{Interner, NONE};
use crate::model::{Obj, ServedType};
use crate::origin::KeptOrigin;
use crate::source::{KeptStrategy, OriginType, Source};
use crate::subject::KeptConsumer;
use crate::target::{Fact, Known};
use crate::view::{Attributes, Capability, Decision, NO_CAPABILITIES, Step, View};
use crate::words::Words;

/// How many of the latest steps are looked through for a target's first one.
const RECENT: usize = 8;

/// The index; see the head of this file.
pub struct Index {
    pub(crate) expressions: Arc<dyn Expressions + Send + Sync>,
    /// The view changes are made in. INVARIANT: only the index has it until it is published.
    current: Arc<View>,
    /// The view readers had before; it lacks `steps`.
    spare: Option<Arc<View>>,
    published: bool,
    steps: Vec<Step>,
    step_names: String,

    pub(crate) hasher: FixedState,
    pub(crate) words: Words,
    /// The sets of capabilities that targets have.
    pub(crate) sets: Interner<Box<[Capability]>>,

    pub(crate) served: BTreeMap<crate::Resource, ServedType>,
    pub(crate) strategies: BTreeMap<String, KeptStrategy>,
    pub(crate) sources: Vec<Option<Source>>,
    pub(crate) types: HashMap<u32, OriginType, FixedState>,

    pub(crate) consumers: BTreeMap<String, KeptConsumer>,
    /// The consumers of each user (false) and group (true).
    pub(crate) subjects: BTreeMap<(bool, String), BTreeSet<String>>,

    pub(crate) grants: Vec<Option<KeptGrant>>,
    pub(crate) grants_free: Vec<u32>,
    pub(crate) grants_by_name: BTreeMap<(String, String), u32>,

    pub(crate) origins: Vec<Option<KeptOrigin>>,
    pub(crate) origins_free: Vec<u32>,
    pub(crate) origins_by_name: HashTable<u32>,
    pub(crate) edges: usize,
    /// The names that were just found in an object; empty between events.
    pub(crate) found_names: String,

    /// What is known of each target, and the numbers that stand for none at the moment.
    pub(crate) known: Vec<Known>,
    pub(crate) targets_free: Vec<u32>,
    /// What is counted at targets with several origins or a grant.
    pub(crate) facts: Vec<Counts<Fact>>,
    pub(crate) facts_free: Vec<u32>,
    /// Targets that nothing speaks of any more; their names are good until the next publication.
    pub(crate) leaving: Vec<u32>,

    pub(crate) synced: BTreeSet<Kind>,
    pub(crate) unusable: BTreeSet<(Kind, String, String)>,
    pub(crate) dropped: [u64; 6],
    pub(crate) overflows: u64,
    pub(crate) follows_references: bool,
}

impl Index {
    /// An index that knows nothing and allows nothing.
    ///
    /// The seed spreads hashes; a host takes a random one, so that nobody can choose names that collide.
    #[must_use]
    pub fn new(seed: u64) -> Index {
        let hasher = FixedState::with_seed(seed);
        Index {
            expressions: Arc::new(NoExpressions),
            current: Arc::new(View::new(&hasher)),
            spare: None,
            published: false,
            steps: Vec::new(),
            step_names: String::new(),
            words: Words::new(&hasher),
            sets: Interner::new(&hasher),
            served: BTreeMap::new(),
            strategies: BTreeMap::new(),
            sources: Vec::new(),
            types: HashMap::with_hasher(hasher.clone()),
            consumers: BTreeMap::new(),
            subjects: BTreeMap::new(),
            grants: Vec::new(),
            grants_free: Vec::new(),
            grants_by_name: BTreeMap::new(),
            origins: Vec::new(),
            origins_free: Vec::new(),
            origins_by_name: HashTable::new(),
            edges: 0,
            found_names: String::new(),
            known: Vec::new(),
            targets_free: Vec::new(),
            facts: Vec::new(),
            facts_free: Vec::new(),
            leaving: Vec::new(),
            synced: BTreeSet::new(),
            unusable: BTreeSet::new(),
            dropped: [0; 6],
            overflows: 0,
            follows_references: false,
            hasher,
        }
    }

    /// The same, with a host that evaluates expressions (R79).
    #[must_use]
    pub fn with_expressions(mut self, expressions: Arc<dyn Expressions + Send + Sync>) -> Index {
        self.expressions = expressions;
        self
    }

    /// From now on every reference that becomes allowed or denied is told (R112).
    pub fn follow_references(&mut self) {
        self.follows_references = true;
    }

    /// Takes an event. Readers see nothing of it before [`Index::publish`].
    pub fn apply(&mut self, event: Event<'_>, out: &mut Outputs) {
        match event {
            Event::PutOrigin(origin) => return self.put_origin(&origin, out),
            Event::DropOrigin(name) => return self.drop_origin(&name, out),
            Event::PutGrant(grant) => return self.put_grant(grant, out),
            Event::DropGrant(namespace, name) => return self.drop_grant(namespace, name, out),
            Event::PutConsumer(consumer) => return self.put_consumer(consumer, out),
            Event::DropConsumer(name) => return self.drop_consumer(name, out),
            Event::PutStrategy(strategy) => self.put_strategy(strategy, out),
            Event::DropStrategy(name) => self.drop_strategy(name, out),
            Event::Unusable(kind, namespace, name) => self.set_aside(kind, namespace, name, out),
            Event::Served(types) => self.put_served(types, out),
            Event::Synced(Synced::Kind(kind)) => {
                if self.synced.insert(kind) {
                    self.refresh_all_rights(out);
                }
            }
            Event::Synced(Synced::Origins { group, resource, version }) => {
                self.origins_synced(group, resource, version, out);
            }
        }
        // What was not returned above may change what is waited for.
        self.refresh_ready();
    }

    /// What cannot be understood grants nothing, and what it granted before is taken back (R83).
    fn set_aside(&mut self, kind: Kind, namespace: &str, name: &str, out: &mut Outputs) {
        match kind {
            Kind::Consumer => self.drop_consumer(name, out),
            Kind::Strategy => self.drop_strategy(name, out),
            Kind::Grant => self.drop_grant(namespace, name, out),
        }
        self.unusable.insert((kind, namespace.into(), name.into()));
    }

    pub(crate) fn forget_unusable(&mut self, kind: Kind, namespace: &str, name: &str) {
        if !self.unusable.is_empty() {
            self.unusable.remove(&(kind, namespace.into(), name.into()));
        }
    }

    /// Whether the three kinds have been seen to the end (R125).
    pub(crate) fn has_kinds(&self) -> bool {
        self.synced.len() == 3
    }

    fn refresh_ready(&mut self) {
        let ready = self.has_kinds() && self.types.values().all(OriginType::is_seen);
        if ready != self.current.is_ready() {
            self.step(Step::Ready(ready));
        }
    }

    /// The state after all events so far, for readers.
    ///
    /// The host puts it in the place of the one before, from where readers take it.
    pub fn publish(&mut self) -> Arc<View> {
        self.sweep();
        if self.spare.is_none() {
            self.spare = Some(Arc::new(View::clone(&self.current)));
        }
        self.published = true;
        Arc::clone(&self.current)
    }

    /// Whether readers have left the view that the next change is made in. A host that waits a moment for
    /// this saves a copy.
    #[must_use]
    pub fn is_free(&self) -> bool {
        !self.published || self.spare.as_ref().is_none_or(|spare| Arc::strong_count(spare) == 1)
    }

    /// Makes the current view one that nobody reads.
    fn turn(&mut self) {
        let mut steps = core::mem::take(&mut self.steps);
        let mut back = self.spare.take();
        let fresh = match back.as_mut().and_then(Arc::get_mut) {
            Some(view) => {
                steps.drain(..).for_each(|step| view.take(step, &self.step_names));
                None
            }
            None => Some(Arc::new(View::clone(&self.current))),
        };
        steps.clear();
        self.steps = steps;
        self.step_names.clear();
        if let Some(view) = fresh.or(back) {
            self.spare = Some(core::mem::replace(&mut self.current, view));
        }
        self.published = false;
    }

    /// Asks both views for the memory that new targets of these hashes take.
    ///
    /// At a million targets each of them misses the caches several times. Asked for together they are waited
    /// for once; asked for one after the other, as changes are made, each is waited for alone.
    pub(crate) fn bring_near(&self, hashes: impl Iterator<Item = u32> + Clone) {
        let views = || core::iter::once(&self.current).chain(&self.spare);
        let near = |sum: u8, hash| views().fold(sum, |sum, view| sum ^ view.near_marks(hash));
        core::hint::black_box(hashes.clone().fold(0, near));
        let near = |sum: u8, hash| views().fold(sum, |sum, view| sum ^ view.near_slot(hash));
        core::hint::black_box(hashes.fold(0, near));
    }

    /// Makes a change in the current view, and keeps it for the other one.
    pub(crate) fn step(&mut self, step: Step) {
        if self.published {
            self.turn();
        }
        if self.spare.is_some() {
            self.keep_step(&step);
        }
        if let Some(view) = Arc::get_mut(&mut self.current) {
            view.take(step, &self.step_names);
        }
    }

    /// Keeps a step for the other view. A new target mostly gets its capabilities at once: that is one step.
    fn keep_step(&mut self, step: &Step) {
        if let Step::Set { target: of, capabilities: now, .. } = step {
            for kept in self.steps.iter_mut().rev().take(RECENT) {
                if let Step::Insert { target, capabilities, .. } = kept
                    && target == of
                {
                    *capabilities = *now;
                    return;
                }
            }
        }
        self.steps.push(step.clone());
    }

    /// As [`Index::step`] for a new target.
    pub(crate) fn step_insert(&mut self, target: u32, place: u32, hash: u32, name: &str) {
        if self.published {
            self.turn();
        }
        // The names of steps that need not be repeated need not be kept.
        if self.spare.is_none() {
            self.step_names.clear();
        }
        let at = u32::try_from(self.step_names.len()).unwrap_or(NONE);
        self.step_names.push_str(name);
        let length = u32::try_from(name.len()).unwrap_or(NONE);
        let capabilities = NO_CAPABILITIES;
        self.step(Step::Insert { target, place, hash, at, length, capabilities });
    }

    /// The view as it is after all events so far; for the one writer only.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.current
    }

    /// As [`View::decide`], on the state after all events so far.
    #[must_use]
    pub fn decide(&self, asked: &Attributes<'_>) -> Decision {
        self.view().decide(asked)
    }

    /// The name of a target.
    #[must_use]
    pub fn target(&self, target: TargetId) -> Option<Obj<'_>> {
        let (place, name) = self.target_name(target.0)?;
        Some(self.words.object(place, name))
    }
}
