//! The world through its public door; rule numbers are those of `spec/api-server.md`,
//! except in `group.rs`, which follows `spec/dependencies.md`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should fail loudly"
)]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod contract;
mod group;
mod model;
mod quota;
mod record;
mod support;
mod transfer;
mod watch;
