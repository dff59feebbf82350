//! What the engine wants: writes with what they rely on, questions, and findings.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use tenure_core::Revision;

use crate::journal::CauseId;
use crate::object::{DeletionPropagation, Finalizer, ObjectId, OwnerIdentity};
use crate::rule::OwnershipRule;

/// What a host is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipIntent {
    /// Change or delete one object.
    Write(OwnershipWrite),
    /// Find out whether an owner is truly absent; only where changes have no total order.
    Ask(OwnerQuery),
    /// Tell people about a problem.
    Report(OwnershipFinding),
}

/// The number of a write; an answer to an older one about the same object is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// A change to one object, decided on what the engine had seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnershipWrite {
    /// Names this write in its outcome.
    pub id: WriteId,
    /// The object; its uid is a precondition of every write.
    pub key: Arc<ObjectId>,
    /// The revision the object had; none when it changes so fast that only its uid is required.
    pub revision: Option<Revision>,
    /// The ownership of the object at the decision: see [`OwnershipEngine::fingerprint`](crate::OwnershipEngine::fingerprint).
    pub fingerprint: u64,
    /// What to do.
    pub action: WriteAction,
    /// What else the decision relied on; a host with one order checks it in the same commit.
    pub guards: Vec<OwnershipPrecondition>,
    /// The generation of the table of types at the decision.
    pub types: u32,
    /// The rule that decided.
    pub rule: OwnershipRule,
    /// Why, back to what a client did: see [`OwnershipEngine::chain`](crate::OwnershipEngine::chain).
    pub cause: CauseId,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteAction {
    /// Delete it with this propagation policy and no grace period of ours.
    Delete(DeletionPropagation),
    /// Remove exactly these references; keep the order of the rest.
    DropReferences(Vec<OwnerIdentity>),
    /// Set `blockOwnerDeletion` to false on exactly these references.
    Unblock(Vec<OwnerIdentity>),
    /// Remove this finalizer.
    DropFinalizer(Finalizer),
}

/// A fact that must still hold when the write is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipPrecondition {
    /// This object is still there and its ownership is unchanged.
    Same {
        /// The object.
        key: Arc<ObjectId>,
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
pub struct OwnerQuery {
    /// Names this question in its answer.
    pub id: AskId,
    /// What the reference says.
    pub reference: OwnerIdentity,
    /// Where to look; empty for kinds that live in no namespace.
    pub namespace: Box<str>,
    /// How often this was asked before without a final answer; the host waits longer each time.
    pub attempt: u32,
}

/// A problem stated as data; the host chooses the words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipFinding {
    /// A reference names a namespaced owner from outside its namespace (`OwnerRefInvalidNamespace`).
    InvalidNamespace {
        /// The dependent, which the event is about.
        dependent: Arc<ObjectId>,
        /// The group and version the dependent is served in.
        api_version: Box<str>,
        /// The kind of the dependent.
        kind: Box<str>,
        /// The reference.
        reference: OwnerIdentity,
    },
}
