//! Real clients against a running `tenure up`, one module per client. Rule numbers are those of
//! spec/api-server.md.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end loudly"
)]

mod access;
mod attacks;
mod bad_input;
mod crash;
mod envtest;
mod inspect;
mod javascript;
mod kube_rs;
mod kubectl;
mod lifecycle;
mod log_lines;
mod metrics;
mod node;
mod pages;
mod parity;
mod python;
mod recorded;
mod reference_hammer;
mod references;
mod script;
mod typed;
mod unused;
