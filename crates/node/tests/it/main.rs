//! Tests of the node agent that need more than one room: real runtimes, real files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end loudly"
)]

mod cri;
mod fake;
mod logs;
mod process;
mod streams;
mod volume;
mod walls;
