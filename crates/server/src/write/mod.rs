//! Writes: the order of work in one mutating request (R53).
//!
//! ```text
//!   create   decode ─────────────────────────────┐
//!   update   decode, patch, apply or scale ──────┴─► stages ──► commit
//!   delete   options ──► decide: keep, mark or remove ────────► commit
//! ```
//!
//! `stages` lists what an object goes through, new or not; deletions of a collection run many at once.
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
pub(crate) mod stages;
pub(crate) mod update;
