//! The only clock of this crate: it times the sync of a relaxed log and decides nothing.
#![expect(clippy::disallowed_methods, reason = "the one place of this crate that reads the clock")]

use std::time::Instant;

/// Now, for how long things take.
#[inline]
pub(crate) fn instant() -> Instant {
    Instant::now()
}
