//! The only clock of this crate. It is read here and nowhere else, and nothing is decided here.
#![expect(clippy::disallowed_methods, reason = "the one place of this crate that reads the clock")]

/// Now, as objects and logs write it.
#[inline]
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
