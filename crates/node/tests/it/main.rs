//! Tests of the node agent that need more than one room: real runtimes, real files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end loudly"
)]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod adoption;
mod cri;
mod fake;
mod images;
mod logs;
mod network;
mod port;
mod process;
mod streams;
mod volume;
mod walls;
