//! Tests of the engine from outside; rule numbers are those of `spec/ownership.md`.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what it means and fails loudly"
)]

mod explain;
mod foreground;
mod gaps;
mod hosts;
mod orphan;
mod scope;
mod seeds;
mod verdicts;
