//! The one integration binary of this crate.
//!
//! Rules R182 to R196 are those of the API server specification, R29 to R33 and R48 those of the
//! dependencies specification.
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

#[cfg(test)]
mod contract;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod model;
#[cfg(test)]
mod power_cut;
#[cfg(test)]
mod scale;
