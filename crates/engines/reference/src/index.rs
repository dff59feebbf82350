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
//!
//! The targets, which are most of all, stand in one table that both views read, each its own column of it
//! (`slots.rs`). That a view may be changed is known from its count of holders, which orders what they read
//! before what is written then.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

use crate::clear::Clearing;
use crate::counts::Multiset;
use crate::event::{IndexEvent, Outputs, ReferenceApiKind, Synced, TargetId};
use crate::extract::{Expressions, NoExpressions};
use crate::grant::KeptGrant;
use crate::intern::Interner;
use crate::model::{ServedType, TargetName};
use crate::origin::{ExtractedReference, KeptOrigin};
use crate::selection::SelectorIndex;
use crate::slots::ViewColumn;
use crate::source::{KeptStrategy, OriginType, PathSource};
use crate::subject::KeptConsumer;
use crate::table::{Grown, SlotIndex, TargetTableWriter};
use crate::target::{Fact, TargetEntry};
use crate::view::{
    Attributes, Capability, CapabilityView, NO_CAPABILITIES, ReferenceDecision, ViewChange,
};
use crate::words::InternerSet;

/// The index; see the head of this file.
pub struct Index {
    pub(crate) expressions: Arc<dyn Expressions + Send + Sync>,
    /// The view changes are made in. INVARIANT: only the index has it until it is published.
    pub(crate) current: Arc<CapabilityView>,
    /// The view readers had before; it lacks `steps`.
    spare: Option<Arc<CapabilityView>>,
    /// Views that were left to their readers.
    left: Vec<Arc<CapabilityView>>,
    published: bool,
    steps: Vec<ViewChange>,
    /// The targets and the shards of which the spare view lacks what is live there.
    touched: Vec<SlotIndex>,
    moved: Vec<usize>,

    pub(crate) hasher: FixedState,
    pub(crate) words: InternerSet,
    /// The sets of capabilities that targets have.
    pub(crate) sets: Interner<Box<[Capability]>>,
    /// The one that a target got last that had none; it may be gone, or another one.
    pub(crate) last_set: u32,

    pub(crate) served: BTreeMap<crate::Resource, ServedType>,
    pub(crate) strategies: BTreeMap<String, KeptStrategy>,
    pub(crate) sources: Vec<Option<PathSource>>,
    /// The sources of each triple.
    pub(crate) by_triple: HashMap<u32, Vec<u32>, FixedState>,
    pub(crate) clearing: Clearing,
    pub(crate) types: HashMap<u32, OriginType, FixedState>,

    pub(crate) consumers: BTreeMap<String, KeptConsumer>,
    /// The consumers of each user (false) and group (true).
    pub(crate) subjects: BTreeMap<(bool, String), BTreeSet<String>>,

    pub(crate) grants: Vec<Option<KeptGrant>>,
    pub(crate) grants_free: Vec<u32>,
    pub(crate) grants_by_name: BTreeMap<(String, String), u32>,
    pub(crate) selection: SelectorIndex,

    pub(crate) origins: Vec<Option<KeptOrigin>>,
    pub(crate) origins_free: Vec<u32>,
    pub(crate) origins_by_name: HashTable<u32>,
    pub(crate) edges: usize,
    /// The references that were just found in an object, and their names; empty between events.
    pub(crate) found: Vec<ExtractedReference>,
    pub(crate) found_names: String,

    pub(crate) table: TargetTableWriter,
    /// What is known of each target, and the numbers that stand for none at the moment.
    pub(crate) known: Vec<TargetEntry>,
    pub(crate) targets_free: Vec<u32>,
    /// What is counted at targets with several origins or a grant.
    pub(crate) facts: Vec<Multiset<Fact>>,
    pub(crate) facts_free: Vec<u32>,
    /// Targets that nothing speaks of any more; their names are good until the next publication.
    pub(crate) leaving: Vec<u32>,
    /// Those of them that the spare view still has: they go with the next publication.
    pub(crate) lingering: Vec<u32>,

    pub(crate) synced: BTreeSet<ReferenceApiKind>,
    pub(crate) unusable: BTreeSet<(ReferenceApiKind, String, String)>,
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
            current: Arc::new(CapabilityView::new(&hasher)),
            spare: None,
            left: Vec::new(),
            published: false,
            steps: Vec::new(),
            touched: Vec::new(),
            moved: Vec::new(),
            words: InternerSet::new(&hasher),
            sets: Interner::new(&hasher),
            last_set: NO_CAPABILITIES,
            served: BTreeMap::new(),
            strategies: BTreeMap::new(),
            sources: Vec::new(),
            by_triple: HashMap::with_hasher(hasher.clone()),
            clearing: Clearing::default(),
            types: HashMap::with_hasher(hasher.clone()),
            consumers: BTreeMap::new(),
            subjects: BTreeMap::new(),
            grants: Vec::new(),
            grants_free: Vec::new(),
            grants_by_name: BTreeMap::new(),
            selection: SelectorIndex::default(),
            origins: Vec::new(),
            origins_free: Vec::new(),
            origins_by_name: HashTable::new(),
            edges: 0,
            found: Vec::new(),
            found_names: String::new(),
            table: TargetTableWriter::new(),
            known: Vec::new(),
            targets_free: Vec::new(),
            facts: Vec::new(),
            facts_free: Vec::new(),
            leaving: Vec::new(),
            lingering: Vec::new(),
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
    pub fn apply(&mut self, event: IndexEvent<'_>, out: &mut Outputs) {
        match event {
            IndexEvent::PutOrigin(origin) => {
                self.see(&origin, out);
                return self.put_origin(&origin, out);
            }
            IndexEvent::DropOrigin(name) => {
                self.lose(&name, out);
                return self.drop_origin(&name, out);
            }
            IndexEvent::PutGrant(grant) => return self.put_grant(grant, out),
            IndexEvent::DropGrant(namespace, name) => return self.drop_grant(namespace, name, out),
            IndexEvent::PutConsumer(consumer) => return self.put_consumer(consumer, out),
            IndexEvent::DropConsumer(name) => return self.drop_consumer(name, out),
            IndexEvent::PutStrategy(strategy) => self.put_strategy(strategy, out),
            IndexEvent::DropStrategy(name) => self.drop_strategy(name, out),
            IndexEvent::Unusable(kind, namespace, name) => {
                self.mark_unusable(kind, namespace, name, out)
            }
            IndexEvent::Served(types) => self.put_served(types, out),
            IndexEvent::Synced(Synced::Kind(kind)) => {
                if self.synced.insert(kind) {
                    self.refresh_all_rights(out);
                }
            }
            IndexEvent::Synced(Synced::Origins { group, resource, version }) => {
                self.origins_synced(group, resource, version, out);
            }
        }
        // What was not returned above may change what is waited for.
        self.refresh_ready();
    }

    /// What cannot be understood grants nothing, and what it granted before is taken back (R83).
    fn mark_unusable(
        &mut self,
        kind: ReferenceApiKind,
        namespace: &str,
        name: &str,
        out: &mut Outputs,
    ) {
        match kind {
            ReferenceApiKind::Consumer => self.drop_consumer(name, out),
            ReferenceApiKind::Strategy => self.drop_strategy(name, out),
            ReferenceApiKind::Grant => self.drop_grant(namespace, name, out),
        }
        self.unusable.insert((kind, namespace.into(), name.into()));
    }

    pub(crate) fn forget_unusable(&mut self, kind: ReferenceApiKind, namespace: &str, name: &str) {
        if !self.unusable.is_empty() {
            self.unusable.remove(&(kind, namespace.into(), name.into()));
        }
    }

    /// Whether the three kinds have been seen to the end (R125).
    pub(crate) fn has_kinds(&self) -> bool {
        self.synced.len() == 3
    }

    fn refresh_ready(&mut self) {
        let ready = self.has_kinds() && self.has_origins();
        if ready != self.current.is_ready() {
            self.step(ViewChange::Ready(ready));
        }
    }

    /// The state after all events so far, for readers.
    ///
    /// The host puts it in the place of the one before, from where readers take it.
    pub fn publish(&mut self) -> Arc<CapabilityView> {
        self.sweep();
        if self.spare.is_none() {
            self.spare = Some(Arc::new(self.current.turned()));
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
        let column = self.current.column();
        let mut back = self.spare.take();
        match back.as_mut().and_then(Arc::get_mut) {
            Some(view) => {
                self.steps.drain(..).for_each(|step| view.take(step));
                self.moved.drain(..).for_each(|shard| self.table.copy_sets(shard, column));
                let touched = self.touched.drain(..).filter_map(|at| self.table.slot(at));
                touched.for_each(|slot| slot.copy_set(column));
            }
            None => {
                // Whoever drops it last frees all of its targets; that must not be a reader.
                self.left.extend(back.take());
                back = Some(Arc::new(self.copied(column)));
            }
        }
        if let Some(view) = back {
            self.spare = Some(core::mem::replace(&mut self.current, view));
        }
        self.left.retain(|view| Arc::strong_count(view) > 1);
        self.published = false;
    }

    /// A third view, because somebody still reads the spare one. It has targets of its own, which the current
    /// one, now with readers, takes over when they have left it.
    fn copied(&mut self, column: ViewColumn) -> CapabilityView {
        self.table.renew(column);
        self.moved.clear();
        self.touched.clear();
        let mut view = self.current.turned();
        view.take(ViewChange::Targets(self.table.slots().clone()));
        self.steps = alloc::vec![ViewChange::Targets(self.table.slots().clone())];
        view
    }

    /// Asks for the memory that a new origin and new targets of these hashes take.
    ///
    /// At a million of them each misses the caches, targets twice. Asked for together they are waited for once;
    /// asked for one after the other, as changes are made, each is waited for alone.
    pub(crate) fn bring_near(&self, origin: u64, targets: impl Iterator<Item = u32> + Clone) {
        core::hint::black_box(self.origins_by_name.find(origin, |_| false));
        let near = |sum: u64, hash| sum ^ self.table.near_marks(hash);
        core::hint::black_box(targets.clone().fold(0, near));
        let near = |sum: u32, hash| sum ^ self.table.near_slot(hash);
        core::hint::black_box(targets.fold(0, near));
    }

    /// Makes a change in the current view, and keeps it for the other one.
    pub(crate) fn step(&mut self, step: ViewChange) {
        if self.published {
            self.turn();
        }
        if self.spare.is_some() {
            self.steps.push(step.clone());
        }
        if let Some(view) = Arc::get_mut(&mut self.current) {
            view.take(step);
        }
    }

    /// As [`Index::step`] for a new target, at which nothing is live.
    pub(crate) fn step_insert(&mut self, target: u32, place: u32, hash: u32, name: &str) {
        if self.published {
            self.turn();
        }
        let view = &self.current;
        let hash_of = |place, name: &str| view.hash_at(place, name).unwrap_or_default();
        let mut news = Vec::new();
        self.table.insert(hash, (target, place, name), hash_of, |grown| news.push(grown));
        for grown in news {
            match grown {
                Grown::Shard(at, shard) => {
                    self.step(ViewChange::Shard(at, shard));
                    if self.spare.is_some() {
                        self.moved.push(at);
                    }
                }
                Grown::Long(chunk) => self.step(ViewChange::Long(chunk)),
            }
        }
    }

    /// As [`Index::step`] for what is live at a target.
    pub(crate) fn step_set(&mut self, at: SlotIndex, set: u32) {
        if self.published {
            self.turn();
        }
        let Some(slot) = self.table.slot(at) else { return };
        slot.put_set(self.current.column(), set);
        match self.spare {
            Some(_) => self.touched.push(at),
            // The spare view begins with what this one has.
            None => slot.copy_set(self.current.column()),
        }
    }

    /// What is live at a target, sorted, and the number of the set.
    pub(crate) fn live_at(&self, at: SlotIndex) -> (&[Capability], u32) {
        let slot = self.table.slot(at);
        let set = slot.map_or(NO_CAPABILITIES, |slot| slot.set(self.current.column()));
        (self.current.set(set), set)
    }

    /// The view as it is after all events so far; for the one writer only.
    #[must_use]
    pub fn view(&self) -> &CapabilityView {
        &self.current
    }

    /// As [`CapabilityView::decide`], on the state after all events so far.
    #[must_use]
    pub fn decide(&self, requested: &Attributes<'_>) -> ReferenceDecision {
        self.view().decide(requested)
    }

    /// The name of a target.
    #[must_use]
    pub fn target(&self, target: TargetId) -> Option<TargetName<'_>> {
        if self.is_lingering(target.0) {
            return None;
        }
        self.target_name(target.0)
    }
}
