//! The only randomness of this crate: what ring draws for keys and signatures. It decides nothing.
#![expect(clippy::disallowed_methods, reason = "the one place of this crate that draws randomness")]

use ring::rand::SystemRandom;

/// The system's randomness.
#[inline]
pub(crate) fn source() -> SystemRandom {
    SystemRandom::new()
}
