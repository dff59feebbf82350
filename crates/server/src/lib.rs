//! The HTTP API server.
//!
//! ```text
//!   listen ──► Api::call: route → authenticate → authorize → decode → default → admit → validate → propose
//!                                                              │
//!   read: get, list, watch ◄── one immutable World ────────────┘
//!   follow: what a write to a namespace brings with it, through the same door
//! ```
//!
//! Rules of kinds live in crate `kinds`, rules of patches in `patch`, order and durability in `world`.

pub mod access;
mod accounts;
pub mod admit;
mod aggregate;
pub mod answer;
pub mod api;
mod aside;
pub mod audit;
pub mod authenticate;
pub mod beside;
pub mod body;
pub mod bootstrap;
pub mod clock;
pub mod connect;
pub mod custom;
mod define;
mod dispatch;
pub mod door;
pub mod expire;
mod fair;
pub mod follow;
#[doc(hidden)]
pub mod fuzzing;
mod internal;
pub mod listen;
pub mod metrics;
pub mod negotiate;
mod node;
mod own;
pub mod pace;
mod permit;
mod pods;
mod protect;
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
pub mod sign;
mod snapshot;
mod system;
mod view;
mod write;

pub use access::Access;
pub use api::{Api, ApiConfig, Peer};
pub use audit::Audit;
pub use body::Body;
pub use fair::Limits;
pub use registry::Kinds;
