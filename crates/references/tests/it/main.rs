//! The library as controller authors use it. Rules of spec/referential-authorization.md.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may end loudly"
)]

mod cel;
mod cluster;
mod conformance;
mod follow;
mod golden;
mod informer;
mod library;
mod migrate;
mod selectors;
