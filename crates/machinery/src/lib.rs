//! API rules without IO: what a kind is, how errors are said, how objects are read.
//!
//! ```text
//!   Kind (a row of the table) ── rules ──► default, prepare, validate   (pure functions of objects)
//!   Failure ──► the Status object that clients see
//! ```
//!
//! No clock, no randomness, no storage: hosts hand those in through [`Cx`].

pub mod desired_state;
pub mod field;
pub mod kind;
pub mod meta;
pub mod name;
pub mod network;
pub mod node_path;
pub mod object;
pub mod quantity;
pub mod query;
pub mod request_info;
pub mod schedule;
pub mod signer;
pub mod status;
pub mod time;
pub mod usage;
pub mod validate;

pub use field::{Errors, Path, Reason};
pub use kind::{Cx, Kind, Rules};
pub use node_path::NodePath;
pub use object::{Object, ObjectExt};
pub use request_info::{RequestInfo, ResourcePath};
pub use status::{Failure, WriteRefusal};
