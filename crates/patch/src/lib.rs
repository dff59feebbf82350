//! Patches and managed fields, as pure functions over JSON objects.
//!
//! ```text
//!   object + patch ──► json | merge | strategic ──► object
//!   old + new + who wrote ──► managed::update ──► new, with its managedFields
//!                    ▲
//!                 schema   which maps and lists merge, and by what keys
//! ```
//!
//! Decoding, defaults, validation and storage happen elsewhere, and no clock is read here.

mod error;
pub mod json;
pub mod managed;
pub mod merge;
pub mod schema;
pub mod strategic;

pub use error::{PatchError, PatchErrorKind};
pub use schema::{Deduced, MergeSchema, Structural, TypeSchema};
