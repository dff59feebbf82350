//! Clusters as a test of somebody else would use them.

#![expect(clippy::unwrap_used, reason = "a test may end loudly")]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod blocking;
mod embedding;
mod life;
mod readme;
mod users;
