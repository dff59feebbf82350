//! The clock of those who follow a cluster: it is read here and nowhere else.
#![expect(clippy::disallowed_methods, reason = "the one place of this crate that reads the clock")]

use tokio::time::Instant;

/// Now, as timers count it, which tests may hold.
pub(super) fn timer_instant() -> Instant {
    Instant::now()
}
