//! What the engine is told: objects as borrowed views, types, answers and outcomes.

use alloc::boxed::Box;

use tenure_core::Revision;

/// A resource that the engine knows, such as `deployments` in `apps`.
///
/// Groups that serve the same storage share one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InternedResource(pub(crate) u16);

/// One owner reference as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerView<'a> {
    /// The group and version the reference was written with.
    pub api_version: &'a str,
    /// The kind of the owner.
    pub kind: &'a str,
    /// The name of the owner.
    pub name: &'a str,
    /// The uid of the owner.
    pub uid: &'a str,
    /// Whether this owner is the managing controller; decides nothing, is shown to people.
    pub controller: bool,
    /// Whether the owner's foreground deletion waits for this object.
    pub block: bool,
}

/// The three facts about a list of finalizers that matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finalizers {
    /// `orphan` is there.
    pub orphan: bool,
    /// `foregroundDeletion` is there.
    pub foreground: bool,
    /// Something else is there.
    pub other: bool,
}

impl Finalizers {
    /// The facts about a list.
    #[must_use]
    pub fn of<'a>(list: impl IntoIterator<Item = &'a str>) -> Finalizers {
        let mut found = Finalizers::default();
        for name in list {
            match name {
                "orphan" => found.orphan = true,
                "foregroundDeletion" => found.foreground = true,
                _ => found.other = true,
            }
        }
        found
    }
}

/// An object as it now is, seen by the engine: identity and ownership, never its content.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    /// Where it is stored.
    pub resource: InternedResource,
    /// Empty for what lives in no namespace.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`.
    pub uid: &'a str,
    /// The revision of the write that made it so.
    pub revision: Revision,
    /// Whether `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// What its finalizers say.
    pub finalizers: Finalizers,
    /// Its owner references, in their order.
    pub owners: &'a [OwnerView<'a>],
}

/// A kind that is served in one version.
#[derive(Clone, Copy, Debug)]
pub struct KindVersion<'a> {
    /// The group and version, such as `apps/v1`.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Where its objects are stored.
    pub resource: InternedResource,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether its objects are collected: they can be listed, watched and deleted.
    pub collected: bool,
    /// Whether its objects get a grace period when they are deleted, as pods do.
    pub graceful: bool,
}

/// How much is known of the order of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOrder {
    /// All changes come in the one order in which they happened.
    Total,
    /// Changes of one resource come in order; resources may lag one another.
    PerResource,
}

/// The reply to an [`OwnerQuery`](crate::OwnerQuery).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerQueryResult<'a> {
    /// There is an object under that name.
    Present {
        /// Its uid, which may be another one than was asked for.
        uid: &'a str,
        /// Whether it is being deleted in the foreground.
        waiting: bool,
    },
    /// The kind is served and there is no such object.
    Absent,
    /// The kind is not served; a missing path must be answered with this, never with `Absent`.
    Unresolvable,
    /// Nothing was learned; the engine asks again.
    Failed,
}

/// What came of a write.
#[derive(Clone, Copy, Debug)]
pub enum WriteOutcome<'a> {
    /// It was written at a revision; the change itself is fed before or after this.
    Applied(Revision),
    /// There is no such object any more.
    NotFound,
    /// The name is now taken by an object with another uid.
    UidMismatch,
    /// Something the decision relied on has changed; the object as it now is, if that is known.
    ///
    /// A host with one order feeds everything up to the conflict first and gives none.
    Conflict(Option<&'a Object<'a>>),
    /// Admission or authorization refused it; [`retry`](crate::OwnershipEngine::retry) asks again.
    Denied,
    /// It could not be tried; [`retry`](crate::OwnershipEngine::retry) asks again.
    Failed,
}

/// Which finalizer the engine may remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finalizer {
    /// `orphan`.
    Orphan,
    /// `foregroundDeletion`.
    Foreground,
}

impl Finalizer {
    /// The literal in `metadata.finalizers`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Finalizer::Orphan => "orphan",
            Finalizer::Foreground => "foregroundDeletion",
        }
    }
}

/// How a deletion treats dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeletionPropagation {
    /// The object goes first, its dependents after it.
    Background,
    /// The object waits for its blocking dependents.
    Foreground,
    /// The dependents stay and lose their reference.
    Orphan,
}

impl DeletionPropagation {
    /// The word of `propagationPolicy`.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            DeletionPropagation::Background => "Background",
            DeletionPropagation::Foreground => "Foreground",
            DeletionPropagation::Orphan => "Orphan",
        }
    }
}

/// Who an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    /// Where it is stored.
    pub resource: InternedResource,
    /// Empty for what lives in no namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its uid.
    pub uid: Box<str>,
}

/// One owner reference, told in full because two may share a uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerIdentity {
    /// The group and version it was written with.
    pub api_version: Box<str>,
    /// The kind it names.
    pub kind: Box<str>,
    /// The name it names.
    pub name: Box<str>,
    /// The uid it names.
    pub uid: Box<str>,
}
