//! The only randomness of this crate: names that nobody else has, and hashes that nobody can aim for.
#![expect(clippy::disallowed_methods, reason = "the one place of this crate that draws randomness")]

use std::hash::RandomState;
use std::io;

use rustix::rand::GetRandomFlags;

/// Bytes that nobody can guess.
pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes)
}

/// Keys of a hash that differ from start to start.
pub(crate) fn hasher() -> RandomState {
    RandomState::new()
}
