//! The only clock of this crate. It is read here and nowhere else, and nothing is decided here. What is waited for
//! is measured by the clock of the runtime, which tests may hold.
#![expect(clippy::disallowed_methods, reason = "the one place of this crate that reads the clock")]

/// Now, as Leases write it.
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Now, as timers count it.
pub(crate) fn timer_instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
