//! Referential authorization: who may read an object because another object points at it.
//!
//! ```text
//!   strategy: where names are ──┐
//!   origin object ──────────────┴─► references ──┬─ same namespace ─────────► live ─┐
//!   grant: who may point here ───────────────────┴─ other namespace, granted ► live ─┤
//!                                                                                   ├─► decide
//!   consumer: who serves which references, for which classes ──────────────────────┘
//! ```
//!
//! Events go in, needs and transitions come out; readers decide on an immutable [`CapabilityView`]. It allows or has
//! no opinion, only `get`, `list` and `watch` of one named object. It never waits, reads no clock, draws no
//! random number and cannot fail. Law: `spec/referential-authorization.md`.
#![no_std]
extern crate alloc;

mod check;
mod clear;
mod counts;
mod event;
mod explain;
mod extract;
mod force;
mod grant;
mod index;
mod intern;
mod json;
mod key;
mod model;
mod nearest;
mod origin;
mod past;
pub mod path;
mod selection;
mod selector;
mod slots;
mod source;
mod stats;
mod subject;
mod table;
mod target;
mod view;
mod words;

pub use check::{
    Detached, FoundReference, GrantName, RefQuery, Verdict, WhyNot, check_detached, references_of,
};
pub use event::{
    IndexEvent, Need, Origin, OriginName, Outputs, PathFailure, ReferenceApiKind, ReferenceChange,
    Synced, TargetId, Transition,
};
pub use explain::{Explanation, TargetReader, Witness};
pub use extract::{Dropped, Expressions, Failed, NoExpressions, OBJECT_COST_MAX, is_name};
pub use index::Index;
pub use json::Unusable;
pub use model::{
    Class, Consumer, Finder, Grant, Obj, ReferencePath, Resource, ServedType, Strategy, Subject,
    TargetName, Triple, VersionPaths, preference_order,
};
pub use nearest::{Nearest, UnmetCondition};
pub use selector::{ClassSelector, NamespaceSelector, Selectors};
pub use stats::{EdgeStates, FieldWarning, IndexStats, ReferenceFinding};
pub use view::{Attributes, CapabilityView, DecisionHandle, ReferenceDecision};

/// The API group of the three kinds.
pub const GROUP: &str = "reference.authorization.k8s.io";
