//! Tests of the engine from outside; rule numbers are those of `spec/api-server.md`.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it means and fails loudly"
)]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod aggregation;
mod covering;
mod escalation;
mod fixture;
mod impersonation;
mod model;
mod rules;
mod standing;
