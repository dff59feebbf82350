//! ReferenceStrategy, ClusterReferenceConsumer and ReferenceGrant (spec/referential-authorization.md, section 1).
//!
//! ```text
//!   object + what the cluster serves ──► validate   causes, in field order
//!                                    └─► warnings   one line each, beginning with the field
//! ```
//!
//! Part of what is wrong with these kinds depends on what is served, so their rows have no rules: the server
//! calls the functions here and hands in the surroundings. Who may write them, and what other objects have to do
//! with them, never lives here.

mod read;
mod select;
mod validate;
mod warn;

#[cfg(test)]
mod tests;

use tenure_machinery::Kind;
pub use tenure_reference::Selectors;

pub use read::{GroupResourceRef, TripleView, namespace_selector, target_names, targets, triples};
pub use validate::validate;
pub use warn::{line, warnings};

/// The group of the three kinds.
pub const GROUP: &str = "reference.authorization.k8s.io";

/// The group of reviews of references, which is not a group of the proposal (R113).
pub const REVIEW_GROUP: &str = "reference.tenure.dev";

/// The most names of a grant.
pub const NAMES_MAX: usize = 16;

/// One of the three kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferencePolicyKind {
    /// Where an API holds references.
    Strategy,
    /// Who serves references.
    Consumer,
    /// Which references may leave their namespace.
    Grant,
}

impl ReferencePolicyKind {
    /// Which of the three a served kind is, if it is one.
    #[must_use]
    pub fn of(kind: &Kind) -> Option<ReferencePolicyKind> {
        if kind.group != GROUP || kind.type_name.is_empty() {
            return None;
        }
        Some(match kind.kind.as_ref() {
            "ReferenceStrategy" => ReferencePolicyKind::Strategy,
            "ClusterReferenceConsumer" => ReferencePolicyKind::Consumer,
            "ReferenceGrant" => ReferencePolicyKind::Grant,
            _ => return None,
        })
    }
}

/// How a resource is served at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Its versions, the preferred one first.
    pub versions: Vec<String>,
}

/// What these rules must know of the cluster around an object.
pub trait Surroundings {
    /// How a resource is served; `None` when it is not.
    fn served(&self, group: &str, resource: &str) -> Option<ServedResource>;
    /// The resource of a kind, for those who typed a kind (D25).
    fn resource_of(&self, group: &str, kind: &str) -> Option<String>;
    /// What is wrong with an expression (R79).
    fn expression_fault(&self, expression: &str) -> Option<String>;
    /// Whether a consumer may be everybody (R84).
    fn lets_everybody(&self) -> bool;
    /// Which selectors may be written (D9, D13).
    fn selectors(&self) -> Selectors;
}

/// Whether a subject stands for everybody, known or not (R84).
fn is_everybody(name: &str) -> bool {
    matches!(name, "system:anonymous" | "system:unauthenticated" | "system:authenticated")
}
