//! A place in the log.

use core::fmt;

/// The number of a committed transaction: strictly increasing, never reused, shared by all keys.
///
/// Clients see it as `metadata.resourceVersion`. Zero means "no state yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first write.
    pub const ZERO: Revision = Revision(0);

    /// The revision that follows this one.
    #[must_use]
    pub const fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }

    /// Reads the decimal form that clients send.
    #[must_use]
    pub fn parse(text: &str) -> Option<Revision> {
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        text.parse().ok().map(Revision)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
