//! The nouns of Tenure: places in the log, identities, selectors, paths of fields.
//!
//! Nothing here decides, waits, reads a clock or touches a file.
#![no_std]
extern crate alloc;

pub mod field_path;
pub mod id;
pub mod revision;
pub mod selector;

pub use field_path::{FieldPath, PodField};
pub use id::{GroupResource, GroupVersion};
pub use revision::Revision;
