//! The one integration binary of this crate: tokens issued, forged, verified and asked for.
//!
//! The files under `keys` were made by OpenSSL for these tests and open nothing.
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

#[cfg(test)]
mod attack;
#[cfg(test)]
mod forge;
#[cfg(test)]
mod key;
#[cfg(test)]
mod legacy;
#[cfg(test)]
mod random;
#[cfg(test)]
mod request;
