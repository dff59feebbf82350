//! What is installed, on a control plane with Tenure's own features off: everything comes through the public API.
//! Rules of spec/attach.md.

#![allow(clippy::disallowed_methods, reason = "a test may read the clock")]

mod access;
mod doctor;
mod downward;
mod town;
mod uninstall;
