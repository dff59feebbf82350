//! What the engine is told and what it says: identities and names, never the content of an object.

use alloc::boxed::Box;
use alloc::vec::Vec;

use tenure_core::Revision;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubjectKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
}

impl SubjectKind {
    /// The kind as objects name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SubjectKind::ConfigMap => "ConfigMap",
            SubjectKind::Secret => "Secret",
        }
    }
}

/// Who may mention a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UserKind {
    /// A holder: a revision of a StatefulSet or DaemonSet, or one that lost it.
    ControllerRevision,
    /// A holder.
    ReplicaSet,
    /// A holder.
    ReplicationController,
    /// A root.
    DaemonSet,
    /// A root.
    Deployment,
    /// A root.
    StatefulSet,
    /// A pod that has not ended.
    Pod,
}

impl UserKind {
    /// The kind as objects name it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            UserKind::ControllerRevision => "ControllerRevision",
            UserKind::ReplicaSet => "ReplicaSet",
            UserKind::ReplicationController => "ReplicationController",
            UserKind::DaemonSet => "DaemonSet",
            UserKind::Deployment => "Deployment",
            UserKind::StatefulSet => "StatefulSet",
            UserKind::Pod => "Pod",
        }
    }

    /// The group and version that references name it with.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            UserKind::ReplicationController | UserKind::Pod => "v1",
            _ => "apps/v1",
        }
    }

    /// Whether it becomes an owner.
    #[must_use]
    pub fn is_holder(self) -> bool {
        matches!(
            self,
            UserKind::ControllerRevision | UserKind::ReplicaSet | UserKind::ReplicationController
        )
    }

    /// Whether it may be changed under its pods, which then go on with what they had.
    pub(crate) fn outlived_by_pods(self) -> bool {
        matches!(self, UserKind::ReplicaSet | UserKind::ReplicationController)
    }
}

/// A holder, a root or a pod as it is now.
#[derive(Clone, Copy, Debug)]
pub struct RetentionUser<'a> {
    /// What it is.
    pub kind: UserKind,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// The uid of its controller, if it is a pod and has one.
    pub controller: Option<&'a str>,
    /// What its template, or the pod itself, mentions.
    pub references: &'a [(SubjectKind, &'a str)],
    /// What of that it only pulls images with: a pod may have that from its account, so it makes no
    /// owner (R16), though it keeps one.
    pub pulls: &'a [(SubjectKind, &'a str)],
}

/// A ConfigMap or Secret as it is now.
#[derive(Clone, Copy, Debug)]
pub struct RetentionSubject<'a> {
    /// What it is.
    pub kind: SubjectKind,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// The revision it was written at.
    pub revision: Revision,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether its creator asked for owners.
    pub opted_in: bool,
    /// Its owner list.
    pub owners: &'a [OwnerEntry<'a>],
}

/// One entry of an owner list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerEntry<'a> {
    /// The uid of the owner.
    pub uid: &'a str,
    /// Whether this engine added it; all others are never touched.
    pub managed: bool,
}

/// Where a subject is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubjectKey {
    /// Its namespace.
    pub namespace: Box<str>,
    /// What it is.
    pub kind: SubjectKind,
    /// Its name.
    pub name: Box<str>,
}

/// Somebody who mentions a subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubjectHolder {
    /// What it is.
    pub kind: UserKind,
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
}

/// What should be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetentionIntent {
    /// Change the owner list of a subject as it stood at a revision.
    Edit {
        /// Which subject.
        key: SubjectKey,
        /// Its uid.
        uid: Box<str>,
        /// The revision the decision was made on.
        revision: Revision,
        /// Who is added at the end, in this order.
        add: Vec<SubjectHolder>,
        /// The uids of managed entries that go.
        remove: Vec<Box<str>>,
    },
    /// Delete a subject as it stood at a revision: its last holder let go and nobody uses it.
    Delete {
        /// Which subject.
        key: SubjectKey,
        /// Its uid.
        uid: Box<str>,
        /// The revision the decision was made on.
        revision: Revision,
    },
    /// A collection that was denied may be tried again.
    Release {
        /// The uid of the subject.
        uid: Box<str>,
    },
    /// Something worth telling.
    Report(RetentionFinding),
}

/// Something worth telling about a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionFinding {
    /// Which subject.
    pub key: SubjectKey,
    /// Its uid.
    pub uid: Box<str>,
    /// What there is to tell.
    pub about: RetentionIssue,
}

/// What there is to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RetentionIssue {
    /// A collection was denied because of these, of so many.
    Held {
        /// Three of them at most.
        users: Vec<SubjectHolder>,
        /// How many there are.
        count: usize,
    },
    /// Its last holder was deleted with `orphan`: nothing will collect it.
    Orphaned,
    /// The owner list has grown past 100 or 1,000.
    ManyOwners(usize),
    /// So many holders found no room in the owner list.
    OwnerListFull(usize),
}

/// What came of an intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntentOutcome {
    /// It was done, and is in the log at this revision.
    Applied(Revision),
    /// The object, or something the decision relied on, has moved or is gone.
    Moved,
    /// It could not be done now.
    Failed,
}

/// Whether a subject may be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionVerdict {
    /// Nobody uses it.
    Clear,
    /// Somebody does.
    Hold {
        /// Three of them at most.
        users: Vec<SubjectHolder>,
        /// How many there are.
        count: usize,
    },
}

/// The states of a subject (section 6 of the law); S0 and S7 are not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectState {
    /// No owners.
    S1,
    /// A living entry and no dead one.
    S2,
    /// Living and dead entries.
    S3,
    /// Only dead entries, and nobody uses it.
    S4,
    /// Only dead entries, and somebody uses it.
    S5,
    /// Being deleted.
    S6,
}

/// What may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionEngineSettings {
    /// Whether managed entries are taken off instead of kept right (R70).
    pub draining: bool,
    /// Whether collections are guarded (R58).
    pub guarded: bool,
    /// How many managed entries a subject may have (R66).
    pub entries_max: usize,
    /// How much time lies between two edits of one subject (R67).
    pub edit_every_ms: u64,
}

impl Default for RetentionEngineSettings {
    fn default() -> RetentionEngineSettings {
        RetentionEngineSettings {
            draining: false,
            guarded: true,
            entries_max: 2000,
            edit_every_ms: 1000,
        }
    }
}
