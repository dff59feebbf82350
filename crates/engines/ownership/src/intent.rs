//! What the engine wants: writes with what they rely on, questions, and findings.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use tenure_core::Revision;

use crate::journal::CauseId;
use crate::object::{Finalizer, Key, Policy, Reference};
use crate::rule::Rule;

/// What a host is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Change or delete one object.
    Write(Write),
    /// Find out whether an owner is truly absent; only where changes have no total order.
    Ask(Ask),
    /// Tell people about a problem.
    Report(Finding),
}

/// The number of a write; an answer to an older one about the same object is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// A change to one object, decided on what the engine had seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Names this write in its outcome.
    pub id: WriteId,
    /// The object; its uid is a precondition of every write.
    pub key: Arc<Key>,
    /// The revision the object had; none when it changes so fast that only its uid is required.
    pub revision: Option<Revision>,
    /// The ownership of the object at the decision: see [`Engine::fingerprint`](crate::Engine::fingerprint).
    pub fingerprint: u64,
    /// What to do.
    pub action: Action,
    /// What else the decision relied on; a host with one order checks it in the same commit.
    pub guards: Vec<Guard>,
    /// The generation of the table of types at the decision.
    pub types: u32,
    /// The rule that decided.
    pub rule: Rule,
    /// Why, back to what a client did: see [`Engine::chain`](crate::Engine::chain).
    pub cause: CauseId,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Delete it with this propagation policy and no grace period of ours.
    Delete(Policy),
    /// Remove exactly these references; keep the order of the rest.
    DropReferences(Vec<Reference>),
    /// Set `blockOwnerDeletion` to false on exactly these references.
    Unblock(Vec<Reference>),
    /// Remove this finalizer.
    DropFinalizer(Finalizer),
}

/// A fact that must still hold when the write is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// This object is still there and its ownership is unchanged.
    Same {
        /// The object.
        key: Arc<Key>,
        /// Its revision at the decision.
        revision: Revision,
        /// Its ownership at the decision.
        fingerprint: u64,
    },
    /// No object that names this uid as its owner was written after this revision.
    NoNewDependents {
        /// The uid of the owner.
        uid: Box<str>,
        /// The newest revision the decision knew.
        since: Revision,
    },
}

/// The number of a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Is there an owner under this name? To be answered by a linearizable read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Names this question in its answer.
    pub id: AskId,
    /// What the reference says.
    pub reference: Reference,
    /// Where to look; empty for kinds that live in no namespace.
    pub namespace: Box<str>,
    /// How often this was asked before without a final answer; the host waits longer each time.
    pub attempt: u32,
}

/// A problem stated as data; the host chooses the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A reference names a namespaced owner from outside its namespace (`OwnerRefInvalidNamespace`).
    InvalidNamespace {
        /// The dependent, which the event is about.
        dependent: Arc<Key>,
        /// The group and version the dependent is served in.
        api_version: Box<str>,
        /// The kind of the dependent.
        kind: Box<str>,
        /// The reference.
        reference: Reference,
    },
}
