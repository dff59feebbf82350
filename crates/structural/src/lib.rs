//! Structural schemas of custom resources, and the rules of the kind that carries them.
//!
//! ```text
//!   openAPIV3Schema ──► check ──► causes at the definition
//!                  └──► Schema ──► prune, default, validate ──► causes at the object
//!   CustomResourceDefinition ──► crd ──► conditions, versions, rows of the kind table
//! ```
//!
//! Everything is a pure function of JSON. Rules in the expression language are collected and handed
//! to a [`RuleEngine`]; this crate neither compiles nor evaluates them, reads no clock and stores
//! nothing.

pub mod check;
pub mod crd;
pub mod custom;
pub mod default;
mod format;
pub mod meta;
mod parse;
pub mod path;
mod pattern;
pub mod prune;
pub mod ratchet;
mod raw;
pub mod schema;
pub mod unique;
pub mod validate;

pub use custom::{CustomResourceRules, Evaluate, RuleEngine};
pub use parse::SchemaError;
pub use schema::{CelRule, Schema};
