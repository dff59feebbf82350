//! The facts table of the built-in types, and what follows from it.
//!
//! ```text
//!   facts.txt (made by `cargo xtask schema`) ──┐
//!   own.txt (groups of Tenure's own) ──────────┴► Facts ──┬─► decode    JSON → checked, pruned, normal form
//!                                                         ├─► protobuf  protobuf → the JSON that decode reads
//!                                                         ├─► default   the scalar defaults that the table declares
//!                                                         ├─► patch     merge keys, list types (crate patch)
//!                                                         └─► openapi   documents (crate openapi)
//! ```
//!
//! Names, numbers, types and keys only; no prose and nothing about storage.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")
)]

pub mod decode;
pub mod default;
pub mod duplicate;
pub mod facts;
mod parse;
pub mod protobuf;
mod scalar;
mod trail;

pub use decode::{Noticed, WrongType, decode};
pub use default::apply_defaults;
pub use duplicate::duplicate_fields;
pub use facts::{ApiKind, ApiType, Field, ListMerge, Scope, TypeFacts, TypeId, ValueType, facts};
