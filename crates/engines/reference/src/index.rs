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
use hashbrown::HashTable;

use crate::event::{Event, Kind, Outputs, Synced, TargetId};
use crate::extract::{Expressions, NoExpressions};
use crate::grant::KeptGrant;
use crate::intern::Interner;
use crate::model::{Obj, ServedType};
use crate::origin::KeptOrigin;
use crate::source::{KeptStrategy, OriginType, Source};
use crate::subject::KeptConsumer;
use crate::target::Side;
use crate::view::{Attributes, Capability, Decision, Step, View};
use crate::words::Words;

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
    pub(crate) types: BTreeMap<u32, OriginType>,

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

    /// What is known of each target. INVARIANT: as long as the targets of the current view.
    pub(crate) sides: Vec<Side>,
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
            hasher,
            served: BTreeMap::new(),
            strategies: BTreeMap::new(),
            sources: Vec::new(),
            types: BTreeMap::new(),
            consumers: BTreeMap::new(),
            subjects: BTreeMap::new(),
            grants: Vec::new(),
            grants_free: Vec::new(),
            grants_by_name: BTreeMap::new(),
            origins: Vec::new(),
            origins_free: Vec::new(),
            origins_by_name: HashTable::new(),
            edges: 0,
            sides: Vec::new(),
            leaving: Vec::new(),
            synced: BTreeSet::new(),
            unusable: BTreeSet::new(),
            dropped: [0; 6],
            overflows: 0,
            follows_references: false,
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
            Event::PutConsumer(consumer) => self.put_consumer(consumer, out),
            Event::DropConsumer(name) => self.drop_consumer(name, out),
            Event::PutStrategy(strategy) => self.put_strategy(strategy, out),
            Event::DropStrategy(name) => self.drop_strategy(name, out),
            Event::PutGrant(grant) => self.put_grant(grant, out),
            Event::DropGrant(namespace, name) => self.drop_grant(namespace, name, out),
            Event::Unusable(kind, namespace, name) => self.set_aside(kind, namespace, name, out),
            Event::PutOrigin(origin) => self.put_origin(&origin, out),
            Event::DropOrigin(name) => self.drop_origin(&name, out),
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

    /// Makes a change in the current view, and keeps it for the other one.
    pub(crate) fn step(&mut self, step: Step) {
        if self.published {
            self.turn();
        }
        if self.spare.is_some() {
            self.steps.push(step.clone());
        }
        if let Some(view) = Arc::get_mut(&mut self.current) {
            view.take(step, &self.step_names);
        }
    }

    /// As [`Index::step`] for a new target; its number.
    pub(crate) fn step_insert(&mut self, place: u32, name: &str) -> u32 {
        if self.published {
            self.turn();
        }
        // The names of steps that need not be repeated need not be kept.
        if self.spare.is_none() {
            self.step_names.clear();
        }
        let at = self.step_names.len();
        self.step_names.push_str(name);
        let target = self.current.next_target();
        self.step(Step::Insert { place, at, length: name.len() });
        target
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
        let (place, name) = self.view().target(target.0)?;
        Some(self.words.object(place, name))
    }
}
