//! What one owner reference is worth: solid, waiting, dangling, unresolvable or unknown.
//!
//! Verdicts are a function of what was seen; nothing here changes or wants anything.

use crate::OwnershipEngine;
use crate::graph::{Edge, NodeId, flag};
use crate::object::ChangeOrder;

/// What one reference is worth (R84 and the table of 19.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerState {
    /// The owner lives under that uid, kind, name and namespace.
    Solid,
    /// The owner is being deleted in the foreground.
    Waiting,
    /// There is no such owner.
    Dangling(Dangling),
    /// Nothing may be concluded from the reference.
    Unresolvable(Unresolvable),
    /// Not known yet.
    Unknown,
}

/// Why there is no such owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dangling {
    /// Nobody has that uid.
    Absent,
    /// The object with that uid lives in another namespace.
    OtherNamespace,
    /// The object with that uid is of another kind.
    OtherKind,
    /// The object with that uid has another name.
    OtherName,
}

/// Why nothing may be concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unresolvable {
    /// The kind is not served in that version.
    UnknownKind,
    /// The dependent lives in no namespace, the owner's kind does (R16).
    Scope,
}

impl OwnershipEngine {
    /// The verdict on one reference.
    pub(crate) fn verdict(&self, edge: &Edge) -> OwnerState {
        let Some((resource, stored)) = self.kinds.resolve(edge.kind) else {
            return OwnerState::Unresolvable(Unresolvable::UnknownKind);
        };
        let dependent = self.graph.node(edge.dependent);
        if stored.namespaced && !self.namespaced(edge.dependent) {
            return OwnerState::Unresolvable(Unresolvable::Scope);
        }
        let owner = self.graph.node(edge.owner);
        if !owner.seen() {
            return self.verdict_unseen(edge);
        }
        // The lookup namespace of an owner that lives in none is empty, whoever asks.
        if self.namespaced(edge.owner) && owner.namespace != dependent.namespace {
            return OwnerState::Dangling(Dangling::OtherNamespace);
        }
        if owner.resource != resource {
            // Another group may serve the same storage; only a host with the log knows.
            return match self.order {
                ChangeOrder::Total => OwnerState::Dangling(Dangling::OtherKind),
                ChangeOrder::PerResource => self.asks.verdict(self.coordinates(edge)),
            };
        }
        if owner.name != edge.name {
            return OwnerState::Dangling(Dangling::OtherName);
        }
        if owner.waiting() { OwnerState::Waiting } else { OwnerState::Solid }
    }

    /// The verdict on a reference to a uid that is not there.
    fn verdict_unseen(&self, edge: &Edge) -> OwnerState {
        // A uid that was seen to go never comes back, whatever the coordinates say.
        if self.graph.node(edge.owner).is(flag::GONE) {
            return OwnerState::Dangling(Dangling::Absent);
        }
        match self.order {
            ChangeOrder::Total if self.synced => OwnerState::Dangling(Dangling::Absent),
            ChangeOrder::Total => OwnerState::Unknown,
            ChangeOrder::PerResource => self.asks.verdict(self.coordinates(edge)),
        }
    }

    /// Whether a reference is valid for its owner, as the owner is seen.
    pub(crate) fn valid(&self, edge: &Edge) -> bool {
        let owner = self.graph.node(edge.owner);
        owner.seen()
            && owner.name == edge.name
            && self.kinds.get(edge.kind).resource == owner.resource
            && (!self.namespaced(edge.owner)
                || owner.namespace == self.graph.node(edge.dependent).namespace)
    }

    /// Whether an object lives in a namespace.
    pub(crate) fn namespaced(&self, id: NodeId) -> bool {
        !self.graph.names.text(self.graph.node(id).namespace).is_empty()
    }
}
