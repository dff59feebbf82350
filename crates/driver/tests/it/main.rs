//! The engines behind a whole API server, in process: what clients see once the collector has acted.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test says what it means and fails loudly"
)]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod audit;
mod autoscaling;
mod behind;
mod controllers;
mod deletion;
mod estate;
mod followers;
mod gaps;
mod hostile_workloads;
#[path = "../../../server/tests/it/house.rs"]
#[allow(dead_code, reason = "shared with the tests of the server, which use more of it")]
mod house;
mod kinds;
#[path = "../../../server/tests/it/paper.rs"]
#[allow(dead_code, reason = "shared with the tests of the server, which use more of it")]
mod paper;
mod policies;
mod quotas;
mod retention;
mod services;
mod traces;
mod workloads;
