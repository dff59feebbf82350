//! Rules of spec/retention.md, told to the engine alone: facts in, intents out.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it means and fails loudly"
)]

mod properties;
mod rules;
mod states;
mod words;
