//! Reads: one object, a list, a watch.

pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod token;
pub(crate) mod watch;
