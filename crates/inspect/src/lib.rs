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
mod connect;
mod facts;
mod finding;
mod fold;
mod health;
mod holders;
mod inventory;
mod live;
mod look;
mod meta;
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

pub use audit::{Audit, Scope};
pub use connect::{Access, ReadError};
pub use facts::{Facts, Found, Named, Unread};
pub use finding::{Code, Finding, Level, age};
pub use health::Health;
pub use live::Live;
pub use look::{Look, Standing, Worth};
pub use meta::{Meta, OwnerReference, Writer};
pub use plan::{Happens, Plan, PlanStep, Stays};
pub use reader::{Reader, Sought};
pub use retention::{MANAGER, Retained};
pub use served::{Kinds, Served};
pub use tenure_ownership::Policy;
pub use tree::{Folded, Link, Row, Tree};
pub use unused::{Unused, Usage, User, Verdict};
pub use usage::Subject;
pub use why::Why;
