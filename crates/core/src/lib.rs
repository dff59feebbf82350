//! The nouns of Tenure: places in the log, identities, selectors.
//!
//! Nothing here decides, waits, reads a clock or touches a file.
#![no_std]
extern crate alloc;

pub mod id;
pub mod revision;
pub mod selector;

pub use id::{GroupResource, GroupVersion};
pub use revision::Revision;
