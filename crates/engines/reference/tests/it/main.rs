//! Rules of spec/referential-authorization.md, on the engine alone.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

mod allocation;
mod checks;
mod explaining;
mod hostile;
mod house;
mod join;
mod paths;
mod properties;
mod requests;
mod revocation;
