//! Writes: the order of work in one mutating request (R53).
//!
//! ```text
//!   create   decode → default → own fields → admit → prepare → validate → propose
//!   update   (decode or patch) → default → restore → own fields → admit → prepare → validate → propose
//!   delete   options → finalizers → mark or remove → propose; of a collection, many at once
//! ```
//!
//! Every write ends as one proposal whose guards name what it relied on. When somebody was faster the
//! work is done again on the newer object, unless the client asked for just the older one.

pub(crate) mod apply;
pub(crate) mod collection;
pub(crate) mod commit;
pub(crate) mod create;
pub(crate) mod decide;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod ensure;
pub(crate) mod managed;
pub(crate) mod patch;
pub(crate) mod scale;
pub(crate) mod update;
