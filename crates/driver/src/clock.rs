//! The driver's only clock: engines and queues are handed the time.
#![expect(clippy::disallowed_methods, reason = "the one place of this crate that reads the clock")]

use std::time::Instant;

/// Now, for waiting.
#[inline]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Now, as tokio's timers count it, which tests may hold.
#[inline]
pub(crate) fn timer_instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Now, as objects tell it.
#[inline]
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Waits until then; for ever if there is no such time.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
