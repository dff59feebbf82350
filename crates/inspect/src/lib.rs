//! What owns what in any cluster: trees, reasons, plans and findings.
//!
//! ```text
//!   cluster ──► Reader ──► Facts ──► Look (the ownership engine) ──► Tree, Why, Plan, Audit ──► render
//! ```
//!
//! Only reads: nothing here ever writes to a cluster. Verdicts come from the engines; words and drawings
//! are made here. Law: `spec/ownership.md`, section 21, `spec/retention.md`, section 13, and
//! `spec/referential-authorization.md`, section 9.

pub mod access;
mod audit;
mod clock;
mod connect;
mod facts;
mod finding;
mod fold;
mod health;
mod holders;
mod inventory;
mod live;
mod meta;
mod ownership_analysis;
mod plan;
mod reader;
mod release;
pub mod render;
mod retention;
mod served;
mod status;
mod tree;
mod unused;
mod usage;
mod why;
mod wire;

pub use audit::{AuditOptions, AuditReport};
pub use connect::{ConnectionOptions, ReadError};
pub use facts::{ClusterSnapshot, ObjectIdentity, ObservedObject, UnreadableKind};
pub use finding::{Finding, FindingCode, Severity, age};
pub use health::Health;
pub use live::LiveCluster;
pub use meta::{LastWriter, ObjectMetadata, OwnerReference};
pub use ownership_analysis::{LifecycleState, OwnerStatus, OwnershipAnalysis};
pub use plan::{DeletionPlan, Happens, PlanStep, Stays};
pub use reader::{ClusterReader, ObjectPresence};
pub use retention::{MANAGER, RetainedSubject};
pub use served::{DiscoveredKinds, DiscoveredResource};
pub use tenure_ownership::DeletionPropagation;
pub use tree::{Folded, OwnerLink, Tree, TreeRow};
pub use unused::{UnusedReport, Usage, UsageHolder, UsageState};
pub use usage::UsageSubject;
pub use why::ObjectDiagnosis;
