//! Reads: one object, a list, a watch.

mod converted;
pub(crate) mod get;
pub(crate) mod list;
mod long;
mod parts;
pub(crate) mod token;
pub(crate) mod watch;
