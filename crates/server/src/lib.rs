//! The HTTP API server.
//!
//! ```text
//!   listen ──► Api::call: route → authenticate → authorize → decode → default → admit → validate → propose
//!                                                              │
//!   read: get, list, watch ◄── one immutable World ────────────┘
//!   door: how the followers of this process write, the same way
//! ```
//!
//! Rules of kinds live in crate `kinds`, rules of patches in `patch`, order and durability in `world`.

pub mod access;
pub mod admit;
pub mod answer;
pub mod api;
mod aside;
pub mod audit;
pub mod authenticate;
pub mod beside;
pub mod body;
pub mod bootstrap;
pub mod certificate_signing;
pub mod clock;
pub mod connect;
pub mod custom;
mod dispatch;
pub mod door;
mod fair;
#[doc(hidden)]
pub mod fuzzing;
mod internal;
pub mod listen;
pub mod metrics;
pub mod negotiate;
mod node;
mod permit;
mod pods;
pub mod query;
mod read;
pub mod recorder;
pub mod reference;
pub mod registry;
mod request;
mod request_line;
mod review;
mod revocation;
pub mod route;
pub mod rules;
mod select;
mod snapshot;
mod system;
mod system_objects;
mod view;
mod write;

pub use access::Access;
pub use api::{Api, ApiConfig, Peer};
pub use audit::Audit;
pub use body::Body;
pub use fair::Limits;
pub use registry::Kinds;
