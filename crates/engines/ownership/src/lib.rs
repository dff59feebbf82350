//! Ownership: which objects live, go, or wait for one another.
//!
//! ```text
//!   put, gone, types, synced ──► graph ──► verdicts ──► decisions ──► Write, Ask, Report
//!                                                          ▲
//!   answer, outcome, retry ────────────────────────────────┘
//! ```
//!
//! A pure state machine: it never waits, reads no clock, draws no random number, touches no store
//! and cannot fail. The same inputs in the same order give the same intents, byte for byte.
//! Spec, status and labels never enter. Law: `spec/ownership.md`, sections 2 and 6 to 12, and 19.
#![no_std]
extern crate alloc;

mod cascade;
mod classify;
mod explain;
mod graph;
mod intent;
mod journal;
mod name;
mod object;
mod owner_query;
mod plan;
mod rings;
mod rule;
mod scope;
mod served;
mod slab;
mod take;

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tenure_core::Revision;

pub use classify::{Dangling, OwnerState, Unresolvable};
pub use explain::{Dependent, ObjectExplanation, ObjectState, OwnershipProblem, Referenced};
pub use intent::{
    AskId, OwnerQuery, OwnershipFinding, OwnershipIntent, OwnershipPrecondition, OwnershipWrite,
    WriteAction, WriteId,
};
pub use journal::{Cause, CauseId};
pub use object::{
    ChangeOrder, DeletionPropagation, Finalizer, Finalizers, InternedResource, KindVersion, Object,
    ObjectId, OwnerIdentity, OwnerQueryResult, OwnerView, WriteOutcome,
};
pub use plan::{Circumstances, DeletionStep, Done, Release};
pub use rule::OwnershipRule;

use cascade::{NamedOwner, Pending};
use graph::{Edge, EdgeId, Graph, NodeId};
use journal::CauseHistory;
use owner_query::Asks;
use served::KindTable;

/// A map that is looked into and never walked, so that its order shows nowhere.
type Lookup<K, V> = HashMap<K, V, FixedState>;

/// The ownership of all objects, and what should come of it.
#[derive(Clone, Debug)]
pub struct OwnershipEngine {
    order: ChangeOrder,
    graph: Graph,
    kinds: KindTable,
    types_generation: u32,
    asks: Asks,
    synced: bool,
    /// The newest revision that was fed.
    revision: Revision,
    pending: Lookup<NodeId, Pending>,
    by_write: Lookup<WriteId, NodeId>,
    last_write: u64,
    /// Why a Terminating object is being deleted.
    causes: Lookup<NodeId, CauseId>,
    journal: CauseHistory,
    /// Pairs of dependent and owner uids that were reported.
    reported: BTreeSet<(Box<str>, Box<str>)>,
    /// The members of the ring that an edge was chosen to open.
    rings: Lookup<EdgeId, Box<[NodeId]>>,
    /// The same the other way round.
    ring_members: BTreeSet<(NodeId, EdgeId)>,
    queue: VecDeque<(NodeId, CauseId)>,
    suspects: Vec<NodeId>,
}

impl OwnershipEngine {
    /// An engine that has seen nothing.
    ///
    /// The seed guards its tables against names chosen to collide; it changes no intent.
    #[must_use]
    pub fn new(order: ChangeOrder, seed: u64) -> OwnershipEngine {
        let graph = Graph::new(seed);
        let hasher = graph.hasher().clone();
        OwnershipEngine {
            order,
            kinds: KindTable::new(),
            types_generation: 0,
            asks: Asks::default(),
            synced: false,
            revision: Revision::ZERO,
            pending: Lookup::with_hasher(hasher.clone()),
            by_write: Lookup::with_hasher(hasher.clone()),
            last_write: 0,
            causes: Lookup::with_hasher(hasher.clone()),
            journal: CauseHistory::default(),
            reported: BTreeSet::new(),
            rings: Lookup::with_hasher(hasher),
            ring_members: BTreeSet::new(),
            queue: VecDeque::new(),
            suspects: Vec::new(),
            graph,
        }
    }

    /// Makes room for so many more objects, so that loading them is faster.
    pub fn reserve(&mut self, objects: usize) {
        self.graph.reserve(objects);
    }

    /// The resource of a group and plural; groups that serve the same storage should share one.
    pub fn resource(&mut self, group: &str, plural: &str) -> InternedResource {
        self.kinds.resource(group, plural)
    }

    /// The resource of a group and plural, if it was ever named.
    #[must_use]
    pub fn find_resource(&self, group: &str, plural: &str) -> Option<InternedResource> {
        self.kinds.find_resource(group, plural)
    }

    /// The group and plural of a resource.
    #[must_use]
    pub fn resource_text(&self, resource: InternedResource) -> (&str, &str) {
        self.kinds.stored(resource.0).map_or(("", ""), |stored| (&stored.group, &stored.plural))
    }

    /// The group and version, and the kind, that a resource was first served as.
    #[must_use]
    pub fn kind_of(&self, resource: InternedResource) -> (&str, &str) {
        self.kinds.stored(resource.0).map_or(("", ""), |stored| (&stored.api_version, &stored.kind))
    }

    /// The resource that a group, version and kind is served by, and whether it is namespaced.
    #[must_use]
    pub fn resolve(&self, api_version: &str, kind: &str) -> Option<(InternedResource, bool)> {
        let kind = self.kinds.find(&self.graph.names, api_version, kind)?;
        self.kinds
            .resolve(kind)
            .map(|(resource, stored)| (InternedResource(resource), stored.namespaced))
    }

    /// Everything about an object that ownership depends on, as one number.
    ///
    /// Two writes of an object with the same fingerprint mean the same to the engine.
    #[must_use]
    #[inline]
    pub fn fingerprint(&self, object: &Object<'_>) -> u64 {
        let mut state = self.graph.hasher().build_hasher();
        state.write_u16(take::state_flags(object));
        for owner in object.owners {
            state.write(owner.api_version.as_bytes());
            state.write(owner.kind.as_bytes());
            state.write(owner.name.as_bytes());
            state.write(owner.uid.as_bytes());
            state.write_u64((owner.api_version.len() as u64) << 32 | owner.kind.len() as u64);
            let marks = u64::from(take::edge_marks(owner));
            state
                .write_u64((owner.name.len() as u64) << 32 | (owner.uid.len() as u64) << 2 | marks);
        }
        state.finish()
    }

    /// Whether a write is still what the engine wants; an older one need not be sent.
    #[must_use]
    pub fn current(&self, write: WriteId) -> bool {
        self.by_write.contains_key(&write)
    }

    /// How many writes are under way, waiting or failed.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.pending.len()
    }

    /// How many objects are known, with those that are only named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.graph.len()
    }

    /// Whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.graph.len() == 0
    }

    /// The newest revision that was fed.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The generation of the table of types; a write names the one it was decided at.
    #[must_use]
    pub fn types_generation(&self) -> u32 {
        self.types_generation
    }

    /// Why something happens, back to what a client did, newest first, as far as it is remembered.
    #[must_use]
    pub fn chain(&self, from: CauseId) -> Vec<Cause> {
        self.journal.chain(from)
    }

    /// Remembers that a reference across namespaces was reported by an earlier process (B2).
    pub fn already_reported(&mut self, dependent_uid: &str, owner_uid: &str) {
        self.reported.insert((dependent_uid.into(), owner_uid.into()));
    }

    pub(crate) fn uid_text(&self, id: NodeId) -> Box<str> {
        self.graph.node(id).uid.text(&self.graph.names).into_boxed_str()
    }

    pub(crate) fn key(&self, id: NodeId) -> Arc<ObjectId> {
        let node = self.graph.node(id);
        Arc::new(ObjectId {
            resource: InternedResource(node.resource),
            namespace: self.graph.names.text(node.namespace).into(),
            name: self.graph.names.text(node.name).into(),
            uid: self.uid_text(id),
        })
    }

    pub(crate) fn reference(&self, edge: &Edge) -> OwnerIdentity {
        self.owner_reference(&(edge.owner, edge.kind, edge.name))
    }

    pub(crate) fn owner_reference(&self, (owner, kind, name): &NamedOwner) -> OwnerIdentity {
        let kind = self.kinds.get(*kind);
        let text = |id| self.graph.names.text(id).into();
        OwnerIdentity {
            api_version: text(kind.api_version),
            kind: text(kind.kind),
            name: text(*name),
            uid: self.uid_text(*owner),
        }
    }
}
