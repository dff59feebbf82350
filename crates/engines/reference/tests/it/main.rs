//! Rules of spec/referential-authorization.md, on the engine alone.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

mod allocation;
mod beside;
mod checks;
mod decisions;
mod explaining;
mod hostile;
mod house;
mod join;
mod lengths;
mod past;
mod paths;
mod poc;
mod properties;
mod readers;
mod requests;
mod revocation;
mod selectors;
