//! Role-based access: who may do what, and who may hand it on.
//!
//! ```text
//!   subject ──► binding ──► role ──► rule ──► verb on resource, or on path
//!      │           └ in a namespace, or everywhere
//!      └ user, group or service account
//! ```
//!
//! The engine is fed roles and bindings as they change and answers from an index by subject.
//! It allows or has no opinion; it never denies, waits, reads a clock or looks anything up.
//! Who somebody is, how objects are stored and what other authorizers say is decided elsewhere.
#![no_std]
extern crate alloc;

mod aggregate;
pub mod bootstrap;
mod cover;
mod decide;
mod escalate;
mod impersonate;
mod json;
mod reconcile;
mod role;
mod rule;
mod shared;
mod slots;
mod sorted;

pub use aggregate::{RoleChange, aggregate};
pub use cover::missing;
pub use decide::{Rbac, RbacDecision, RoleGrant};
pub use escalate::{Escalation, Relied, RoleWrite, is_upkeep};
pub use impersonate::{Impersonated, ImpersonationRequest, impersonate, service_account};
pub use reconcile::{Reconciled, reconcile};
pub use role::{BindingSubject, Requester, Role, RoleBinding, RoleRef};
pub use rule::{PolicyRule, RequestAttributes};

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The group whose members may do everything, whatever roles say.
pub const MASTERS: &str = "system:masters";
