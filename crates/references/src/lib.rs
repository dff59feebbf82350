//! What controller authors import. Rules are decided in the engine `reference`, never here.
//! Law: `spec/referential-authorization.md`.
//!
//! ```text
//!   ReferenceStrategy, ReferenceGrant, ClusterReferenceConsumer ──┐
//!   your origins (Gateways, Ingresses, …) ────────────────────────┴─► RefIndex ──┬─► check: Verdict
//!                                                                               ├─► watch: became allowed, denied
//!   by hand, or by watches of kube-rs: References                               └─► ReferencedCache: just the
//!                                                                                   targets, one watch each
//! ```
//!
//! - What your controller needs in RBAC: to read the three reference kinds and its own origins. Never its
//!   targets; those it reads one by one, while something points at them (R115).
//! - Where the API server lets grants select namespaces, or consumers select classes, say so by
//!   [`RefIndex::with_selectors`]; the controller then also reads namespaces and those classes (D9, D13).
//! - `RefNotPermitted` is told on the origin, never on the grant: [`Condition`] (R116).
//!
#![doc = include_str!("../README.md")]

mod condition;
pub mod conformance;
mod index;
#[cfg(feature = "kube")]
pub mod live;
pub mod migrate;
mod names;
mod objects;
mod served;
pub mod strategies;

pub use condition::Condition;
pub use index::{
    Filter, NotUnderstood, Readable, RefIndex, TargetChange, VerdictUpdate, VerdictUpdates,
};
#[cfg(feature = "kube")]
pub use live::{ReferencedCache, References};
pub use names::{Identity, ObjectName, Reference};
pub use objects::grant_object;
pub use tenure_reference::{
    Attributes, Class, ClassSelector, Consumer, Detached, Expressions, FoundReference, GROUP,
    Grant, NamespaceSelector, Nearest, Need, NoExpressions, Obj, RefQuery, ReferenceApiKind,
    Resource, Selectors, ServedType, Strategy, Subject, Triple, UnmetCondition, Unusable, Verdict,
    WhyNot, check_detached, preference_order, references_of,
};
