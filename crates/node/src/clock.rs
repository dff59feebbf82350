//! The only clock of this crate. It is read here and nowhere else, and nothing is decided here.
#![expect(clippy::disallowed_methods, reason = "the one place of this crate that reads the clock")]

use std::time::{Duration, Instant, SystemTime};

/// Now, for waiting and for how long things take.
#[inline]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Now, as tokio's timers count it, which tests may hold.
#[inline]
pub(crate) fn timer_instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Now, as objects and logs write it.
#[inline]
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Now, as certificates and records count it.
#[inline]
pub(crate) fn system_time() -> SystemTime {
    SystemTime::now()
}

/// Stops this thread, which must be nobody else's, for a while.
#[inline]
pub(crate) fn block_for(duration: Duration) {
    std::thread::sleep(duration);
}
