//! What hosts tell the index, and what the index answers them (R170).

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::Value;

use crate::extract::Failed;
use crate::model::{Consumer, Grant, Resource, ServedType, Strategy};
use crate::view::Capability;

/// Something happened. Every event may be repeated, and those of different objects may come in any order.
#[derive(Clone, Debug)]
pub enum IndexEvent<'a> {
    /// A consumer as it now is.
    PutConsumer(Consumer),
    /// A consumer is gone.
    DropConsumer(&'a str),
    /// A strategy as it now is.
    PutStrategy(Strategy),
    /// A strategy is gone.
    DropStrategy(&'a str),
    /// A grant as it now is.
    PutGrant(Grant),
    /// A grant is gone: namespace and name.
    DropGrant(&'a str, &'a str),
    /// An object of the three kinds is stored that cannot be understood (R83): it counts as gone.
    Unusable(ReferenceApiKind, &'a str, &'a str),
    /// An origin as it now is, at a version that was asked for; others are ignored.
    PutOrigin(Origin<'a>),
    /// An origin is gone, in all versions.
    DropOrigin(OriginName<'a>),
    /// What the API serves, all of it.
    Served(Vec<ServedType>),
    /// Every object of a kind has been told.
    Synced(Synced<'a>),
}

/// One of the three kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferenceApiKind {
    /// ClusterReferenceConsumer.
    Consumer,
    /// ReferenceStrategy.
    Strategy,
    /// ReferenceGrant.
    Grant,
}

/// The name of an origin.
#[derive(Clone, Copy, Debug)]
pub struct OriginName<'a> {
    /// Its API group.
    pub group: &'a str,
    /// Its resource.
    pub resource: &'a str,
    /// Its namespace; empty when it has none.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// An origin object.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Which one.
    pub name: OriginName<'a>,
    /// The version it was read at.
    pub version: &'a str,
    /// The object as the API serves it at that version, with defaults (R77).
    pub object: &'a Value,
}

/// What has been seen to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced<'a> {
    /// All objects of one of the three kinds.
    Kind(ReferenceApiKind),
    /// All origins of a type at a version, since it was last asked for.
    Origins {
        /// The API group.
        group: &'a str,
        /// The resource.
        resource: &'a str,
        /// The version.
        version: &'a str,
    },
}

/// What the index needs from its host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Tell every origin of this type at this version, then that all were told, then each change.
    Feed(Resource, String),
    /// No longer needed.
    Stop(Resource, String),
}

/// A target became live or dead for a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The target; [`Index::target`](crate::Index::target) has its name until the next publication.
    pub target: TargetId,
    /// The source and class, by number.
    pub(crate) capability: Capability,
    /// Whether it is live now.
    pub live: bool,
}

/// The number of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub(crate) u32);

/// A reference of one origin became allowed or denied (R112); told when asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReferenceChange {
    /// The type of the origin.
    pub origin: Resource,
    /// The namespace of the origin.
    pub origin_namespace: String,
    /// The name of the origin.
    pub origin_name: String,
    /// The type of the target.
    pub target: Resource,
    /// The namespace of the target.
    pub target_namespace: String,
    /// The name of the target.
    pub target_name: String,
    /// What for.
    pub purpose: String,
    /// Whether it is allowed now.
    pub allowed: bool,
}

/// A path gave nothing for an origin, and its author should hear of it (R72, R79).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathFailure {
    /// The strategy.
    pub strategy: String,
    /// The path or expression.
    pub path: String,
    /// The type of the origin.
    pub origin: Resource,
    /// The namespace of the origin.
    pub namespace: String,
    /// The name of the origin.
    pub name: String,
    /// What went wrong.
    pub failed: Failed,
}

/// What came of events. Each list is only added to.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// What the index needs.
    pub needs: Vec<Need>,
    /// Targets that became live or dead.
    pub transitions: Vec<Transition>,
    /// References that became allowed or denied.
    pub moved: Vec<ReferenceChange>,
    /// Users (false) and groups (true) whose rights changed.
    pub subjects: Vec<(bool, String)>,
    /// What authors of origins should hear of.
    pub reports: Vec<PathFailure>,
}
