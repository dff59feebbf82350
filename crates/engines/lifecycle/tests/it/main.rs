//! Rules of spec/downward-api.md that the engine decides alone: section 13.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::type_complexity,
    reason = "a test may end loudly"
)]

mod house;
mod phase;
mod plan;
mod status;
