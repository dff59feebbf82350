//! What is installed, on a control plane with Tenure's own features off: everything comes through the public API.
//! Rules of spec/attach.md.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may end loudly and read the clock"
)]

mod access;
mod doctor;
mod downward;
mod report;
mod town;
mod uninstall;
