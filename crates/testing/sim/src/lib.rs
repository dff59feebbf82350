//! A seeded world for the engines: the truth, hosts with their faults, a slow obvious model.
//!
//! ```text
//!   clients ──► store (the truth) ──► host ──► engine ──► host ──► store
//!                  └──────────────────► model: what should have been wanted
//! ```
//!
//! Used by tests and by `cargo xtask sim`; never shipped.
#![expect(clippy::indexing_slicing, reason = "a tool for tests may fail loudly")]

pub mod access;
pub mod attach;
pub mod check;
pub mod fixture;
pub mod model;
pub mod ops;
pub mod random;
pub mod reference;
pub mod retention;
pub mod run;
pub mod store;
pub mod up;
