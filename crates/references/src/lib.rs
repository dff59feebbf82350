//! Is this particular reference allowed, and by what? For authors of controllers.
//!
//! The API server answers whether a controller may *read* an object because something points at it. A
//! controller must still ask whether *this* origin may use it: two Gateways may name one Secret, and only
//! one of them is granted to.
//!
//! ```text
//!   ReferenceStrategy, ReferenceGrant, ClusterReferenceConsumer ──┐
//!   your origins (Gateways, Ingresses, …) ────────────────────────┴─► RefIndex ──┬─► check: Verdict
//!                                                                               ├─► watch: became allowed, denied
//!   by hand, or by watches of kube-rs: References                               └─► ReferencedCache: just the
//!                                                                                   targets, one watch each
//! ```
//!
//! ```
//! use serde_json::json;
//! use tenure_references::{Obj, RefIndex, RefQuery, Resource, ServedType, Verdict};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (gateways, secrets) = (Resource::new("gateway.networking.k8s.io", "gateways"), Resource::new("", "secrets"));
//! let mut index = RefIndex::new();
//! index.serve(vec![
//!     ServedType { resource: gateways.clone(), kind: "Gateway".into(), namespaced: true, versions: vec!["v1".into()] },
//!     ServedType { resource: secrets, kind: "Secret".into(), namespaced: true, versions: vec!["v1".into()] },
//! ]);
//! index.put(&json!({
//!     "kind": "ReferenceStrategy",
//!     "metadata": { "name": "gateways" },
//!     "origin": { "group": "gateway.networking.k8s.io", "resource": "gateways" },
//!     "versions": [{ "version": "v1", "references": [{
//!         "path": "$.spec.listeners[*].tls.certificateRefs[*].name",
//!         "target": { "group": "", "resource": "secrets" },
//!         "purpose": "tls-serving",
//!     }]}],
//! }))?;
//! index.put_origin(&gateways, &json!({
//!     "apiVersion": "gateway.networking.k8s.io/v1",
//!     "metadata": { "namespace": "prod", "name": "web" },
//!     "spec": { "listeners": [{ "tls": { "certificateRefs": [{ "name": "acme-tls", "namespace": "prod-tls" }] } }] },
//! }));
//! index.all_told();
//!
//! let query = RefQuery {
//!     origin: Obj { group: "gateway.networking.k8s.io", resource: "gateways", namespace: "prod", name: "web" },
//!     target: Obj { group: "", resource: "secrets", namespace: "prod-tls", name: "acme-tls" },
//!     purpose: "tls-serving",
//!     class: None,
//!     subject: None,
//! };
//! assert!(matches!(index.check(&query), Verdict::NotPermitted(_)));
//!
//! index.put(&json!({
//!     "kind": "ReferenceGrant",
//!     "metadata": { "namespace": "prod-tls", "name": "prod-gateways" },
//!     "origin": { "group": "gateway.networking.k8s.io", "resource": "gateways", "namespace": "prod" },
//!     "target": { "group": "", "resource": "secrets", "names": ["acme-tls"] },
//!     "purpose": "tls-serving",
//! }))?;
//! let verdict = index.check(&query);
//! assert!(matches!(verdict, Verdict::Granted { strategy: "gateways", .. }));
//! # Ok(())
//! # }
//! ```
//!
//! - What your controller needs in RBAC: to read the three reference kinds and its own origins. Never its
//!   targets; those it reads one by one, while something points at them (R115).
//! - Where the API server lets grants select namespaces, or consumers select classes, say so by
//!   [`RefIndex::with_selectors`]; the controller then also reads namespaces and those classes (D9, D13).
//! - `RefNotPermitted` is told on the origin, never on the grant: [`Condition`] (R116).
//! - [`conformance`] holds vectors as JSON for implementations in any language (R117).
//! - [`strategies`] holds ready strategies for common APIs; none is in force until somebody applies it.
//! - [`migrate`] makes grants of this API from those of the Gateway API.
//!
//! Rules are decided in the engine `reference`, never here. Law: `spec/referential-authorization.md`.

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
