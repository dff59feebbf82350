//! Clusters as a test of somebody else would use them.

#![expect(clippy::unwrap_used, reason = "a test may end loudly")]

mod blocking;
mod life;
mod readme;
mod users;
