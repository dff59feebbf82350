//! Objects and references, linked in both directions.
//!
//! ```text
//!   dependent ──first_reference──► edge ──next_reference──► edge …      (its owners, in order)
//!   owner     ──first_dependent──► edge ──next_dependent──► edge …      (oldest first)
//! ```
//!
//! An owner that is named but was never observed has a node too: it is unseen.
//! Nothing here decides.

use core::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::name::{NameId, NameInterner, Uid};
use crate::slab::{DefaultingSlab, NONE};

pub(crate) type NodeId = u32;
pub(crate) type EdgeId = u32;
/// The number of a resource.
pub(crate) type ResourceId = u16;
/// A number that stands for no resource.
pub(crate) const NOWHERE: ResourceId = ResourceId::MAX;

/// Facts about a node.
pub(crate) mod flag {
    /// The object was observed and is still there.
    pub(crate) const SEEN: u16 = 1;
    /// The object was observed and has been removed since: its uid never comes back.
    pub(crate) const GONE: u16 = 1 << 1;
    pub(crate) const TERMINATING: u16 = 1 << 2;
    pub(crate) const FOREGROUND: u16 = 1 << 3;
    pub(crate) const ORPHAN: u16 = 1 << 4;
    pub(crate) const OTHER: u16 = 1 << 5;
    /// A write about the object is under way.
    pub(crate) const PENDING: u16 = 1 << 6;
    /// The object waits in the queue to be decided about.
    pub(crate) const DIRTY: u16 = 1 << 7;
    /// Part of what a change can alter.
    pub(crate) const STATE: u16 = TERMINATING | FOREGROUND | ORPHAN | OTHER;
}

/// Facts about an edge.
pub(crate) mod mark {
    pub(crate) const BLOCK: u32 = 1;
    pub(crate) const CONTROLLER: u32 = 1 << 1;
    /// The reference is valid, and its dependent is collected and not the owner itself.
    pub(crate) const COUNTED: u32 = 1 << 2;
    /// The edge was chosen to open a ring.
    pub(crate) const BREAK: u32 = 1 << 3;
}

/// An object, or a uid that somebody names; just one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct GraphNode {
    pub(crate) uid: Uid,
    pub(crate) revision: u64,
    pub(crate) fingerprint: u64,
    pub(crate) namespace: NameId,
    pub(crate) name: NameId,
    pub(crate) first_reference: EdgeId,
    pub(crate) first_dependent: EdgeId,
    pub(crate) last_dependent: EdgeId,
    /// INVARIANT: how many edges to this node are marked `COUNTED`.
    pub(crate) counted: u32,
    /// INVARIANT: how many of those block.
    pub(crate) blocking: u32,
    pub(crate) resource: u16,
    pub(crate) flags: u16,
}

const _: () = assert!(size_of::<GraphNode>() == 64, "a node fits one line of the cache");

impl Default for GraphNode {
    fn default() -> GraphNode {
        GraphNode {
            uid: Uid::default(),
            revision: 0,
            fingerprint: 0,
            resource: NOWHERE,
            namespace: NONE,
            name: NONE,
            first_reference: NONE,
            first_dependent: NONE,
            last_dependent: NONE,
            counted: 0,
            blocking: 0,
            flags: 0,
        }
    }
}

impl GraphNode {
    pub(crate) fn is(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    pub(crate) fn seen(&self) -> bool {
        self.is(flag::SEEN)
    }

    /// Whether it is being deleted in the foreground. The orphan finalizer goes first (R119).
    pub(crate) fn waiting(&self) -> bool {
        self.is(flag::SEEN | flag::TERMINATING | flag::FOREGROUND) && !self.is(flag::ORPHAN)
    }

    /// Whether it is being deleted and leaves its dependents behind.
    pub(crate) fn orphaning(&self) -> bool {
        self.is(flag::SEEN | flag::TERMINATING | flag::ORPHAN)
    }
}

/// One owner reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) dependent: NodeId,
    pub(crate) owner: NodeId,
    pub(crate) next_reference: EdgeId,
    pub(crate) previous_dependent: EdgeId,
    pub(crate) next_dependent: EdgeId,
    /// The group, version and kind it was written with.
    pub(crate) kind: u32,
    pub(crate) name: NameId,
    pub(crate) marks: u32,
}

impl Default for Edge {
    fn default() -> Edge {
        Edge {
            dependent: NONE,
            owner: NONE,
            next_reference: NONE,
            previous_dependent: NONE,
            next_dependent: NONE,
            kind: NONE,
            name: NONE,
            marks: 0,
        }
    }
}

impl Edge {
    pub(crate) fn is(&self, marks: u32) -> bool {
        self.marks & marks == marks
    }
}

/// All nodes and edges.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) names: NameInterner,
    nodes: DefaultingSlab<GraphNode>,
    edges: DefaultingSlab<Edge>,
    by_uid: HashTable<NodeId>,
    by_key: HashTable<NodeId>,
    hasher: FixedState,
}

impl Graph {
    pub(crate) fn new(seed: u64) -> Graph {
        let hasher = FixedState::with_seed(seed);
        Graph {
            names: NameInterner::new(hasher.clone()),
            nodes: DefaultingSlab::new(),
            edges: DefaultingSlab::new(),
            by_uid: HashTable::new(),
            by_key: HashTable::new(),
            hasher,
        }
    }

    /// Makes room for so many more objects with a reference each.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.names.reserve(count);
        self.nodes.reserve(count);
        self.edges.reserve(count);
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.by_uid.reserve(count, |id| nodes.get(*id).uid.hash(hasher));
        self.by_key.reserve(count, |id| {
            let node = nodes.get(*id);
            key_hash(hasher, node.resource, node.namespace, node.name)
        });
    }

    pub(crate) fn hasher(&self) -> &FixedState {
        &self.hasher
    }

    #[inline]
    pub(crate) fn node(&self, id: NodeId) -> &GraphNode {
        self.nodes.get(id)
    }

    #[inline]
    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut GraphNode {
        self.nodes.get_mut(id)
    }

    #[inline]
    pub(crate) fn edge(&self, id: EdgeId) -> &Edge {
        self.edges.get(id)
    }

    pub(crate) fn edge_mut(&mut self, id: EdgeId) -> &mut Edge {
        self.edges.get_mut(id)
    }

    /// Every number a node may have; free ones read as not seen.
    pub(crate) fn node_ids(&self) -> core::ops::Range<NodeId> {
        0..self.nodes.end()
    }

    /// Every number an edge may have; free ones have no owner.
    pub(crate) fn edge_ids(&self) -> core::ops::Range<EdgeId> {
        0..self.edges.end()
    }

    /// How many nodes there are, with the unseen ones.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    #[inline]
    pub(crate) fn find(&self, uid: &str) -> Option<NodeId> {
        let uid = Uid::find(uid, &self.names)?;
        let nodes = &self.nodes;
        self.by_uid.find(uid.hash(&self.hasher), |id| nodes.get(*id).uid == uid).copied()
    }

    /// The node of a uid, made unseen if there is none.
    pub(crate) fn ensure(&mut self, uid: &str) -> NodeId {
        if let Some(id) = self.find(uid) {
            return id;
        }
        let uid = Uid::hold(uid, &mut self.names);
        let id = self.nodes.insert(GraphNode { uid, ..GraphNode::default() });
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        let rehash = |id: &NodeId| nodes.get(*id).uid.hash(hasher);
        self.by_uid.insert_unique(uid.hash(hasher), id, rehash);
        id
    }

    /// The object under a name.
    pub(crate) fn at_key(
        &self,
        resource: ResourceId,
        namespace: &str,
        name: &str,
    ) -> Option<NodeId> {
        let (namespace, name) = (self.names.find(namespace)?, self.names.find(name)?);
        let hash = key_hash(&self.hasher, resource, namespace, name);
        let nodes = &self.nodes;
        let same = |id: &NodeId| {
            let node = nodes.get(*id);
            (node.resource, node.namespace, node.name) == (resource, namespace, name)
        };
        self.by_key.find(hash, same).copied()
    }

    /// Makes a node seen under a name.
    pub(crate) fn seat(&mut self, id: NodeId, resource: ResourceId, namespace: &str, name: &str) {
        let (namespace, name) = (self.names.hold(namespace), self.names.hold(name));
        let node = self.nodes.get_mut(id);
        (node.resource, node.namespace, node.name) = (resource, namespace, name);
        node.flags = (node.flags | flag::SEEN) & !flag::GONE;
        let hash = key_hash(&self.hasher, resource, namespace, name);
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.by_key.insert_unique(hash, id, |id| {
            let node = nodes.get(*id);
            key_hash(hasher, node.resource, node.namespace, node.name)
        });
    }

    /// Makes a node unseen; its references must have been removed.
    pub(crate) fn unseat(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(id);
        let (resource, namespace, name) = (node.resource, node.namespace, node.name);
        (node.resource, node.namespace, node.name) = (NOWHERE, NONE, NONE);
        node.flags &= flag::DIRTY;
        node.fingerprint = 0;
        let hash = key_hash(&self.hasher, resource, namespace, name);
        if let Ok(found) = self.by_key.find_entry(hash, |other| *other == id) {
            found.remove();
        }
        self.names.release(namespace);
        self.names.release(name);
    }

    /// Forgets a node that nobody names.
    pub(crate) fn free_if_idle(&mut self, id: NodeId) -> bool {
        let node = self.nodes.get(id);
        let idle = !node.seen() && node.first_dependent == NONE && node.first_reference == NONE;
        if !idle {
            return false;
        }
        let uid = node.uid;
        if let Ok(found) = self.by_uid.find_entry(uid.hash(&self.hasher), |other| *other == id) {
            found.remove();
            self.nodes.remove(id);
            uid.release(&mut self.names);
            return true;
        }
        false
    }

    /// Adds a reference after `last`, the dependent's last one so far.
    pub(crate) fn link(
        &mut self,
        (dependent, last): (NodeId, EdgeId),
        owner: NodeId,
        (kind, name): (u32, NameId),
        marks: u32,
    ) -> EdgeId {
        let previous_dependent = self.nodes.get(owner).last_dependent;
        let edge =
            Edge { dependent, owner, previous_dependent, kind, name, marks, ..Edge::default() };
        let id = self.edges.insert(edge);
        if last == NONE {
            self.nodes.get_mut(dependent).first_reference = id;
        } else {
            self.edges.get_mut(last).next_reference = id;
        }
        let owner = self.nodes.get_mut(owner);
        owner.last_dependent = id;
        if previous_dependent == NONE {
            owner.first_dependent = id;
        } else {
            self.edges.get_mut(previous_dependent).next_dependent = id;
        }
        id
    }

    /// Takes the first reference of a dependent away and tells what it was.
    pub(crate) fn unlink_first(&mut self, dependent: NodeId) -> Option<(EdgeId, Edge)> {
        let id = self.nodes.get(dependent).first_reference;
        if id == NONE {
            return None;
        }
        let edge = *self.edges.get(id);
        self.nodes.get_mut(dependent).first_reference = edge.next_reference;
        let (before, after) = (edge.previous_dependent, edge.next_dependent);
        match before {
            NONE => self.nodes.get_mut(edge.owner).first_dependent = after,
            _ => self.edges.get_mut(before).next_dependent = after,
        }
        match after {
            NONE => self.nodes.get_mut(edge.owner).last_dependent = before,
            _ => self.edges.get_mut(after).previous_dependent = before,
        }
        let owner = self.nodes.get_mut(edge.owner);
        if edge.is(mark::COUNTED) {
            owner.counted = owner.counted.saturating_sub(1);
            owner.blocking = owner.blocking.saturating_sub(edge.marks & mark::BLOCK);
        }
        self.edges.remove(id);
        Some((id, edge))
    }

    /// The references of a dependent, in their order.
    pub(crate) fn references(&self, id: NodeId) -> impl Iterator<Item = (EdgeId, &Edge)> {
        let first = self.nodes.get(id).first_reference;
        EdgeIterator { graph: self, at: first, next: |edge| edge.next_reference }
    }

    /// The references to an owner, oldest first.
    pub(crate) fn dependents(&self, id: NodeId) -> impl Iterator<Item = (EdgeId, &Edge)> {
        let first = self.nodes.get(id).first_dependent;
        EdgeIterator { graph: self, at: first, next: |edge| edge.next_dependent }
    }
}

struct EdgeIterator<'a> {
    graph: &'a Graph,
    at: EdgeId,
    next: fn(&Edge) -> EdgeId,
}

impl<'a> Iterator for EdgeIterator<'a> {
    type Item = (EdgeId, &'a Edge);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == NONE {
            return None;
        }
        let id = self.at;
        let edge = self.graph.edges.get(id);
        self.at = (self.next)(edge);
        Some((id, edge))
    }
}

fn key_hash(hasher: &FixedState, resource: ResourceId, namespace: NameId, name: NameId) -> u64 {
    let mut state = hasher.build_hasher();
    state.write_u64(u64::from(resource) << 32 | u64::from(namespace));
    state.write_u32(name);
    state.finish()
}
