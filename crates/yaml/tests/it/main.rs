//! The one integration binary of this crate: what Kubernetes expects of YAML, pinned.
//!
//! Rule numbers are those of the dependencies specification.
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod read;
#[cfg(test)]
mod write;
