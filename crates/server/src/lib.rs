//! The HTTP API server.
//!
//! ```text
//!   listen ──► ApiServer::call: route → authenticate → authorize → decode → default → admit → validate → propose
//!                                                              │
//!   read: get, list, watch ◄── one immutable World ────────────┘
//!   internal_writer: how the followers of this process write, the same way
//! ```
//!
//! Rules of kinds live in crate `kinds`, rules of patches in `patch`, order and durability in `world`.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")
)]

pub mod access;
pub mod admit;
mod aggregate;
pub mod api;
pub mod audit;
pub mod authenticate;
pub mod authorize;
pub mod body;
pub mod bootstrap;
pub mod certificate_signing;
pub mod clock;
pub mod connect;
mod conversion;
pub mod custom;
mod dispatch;
pub mod engine_api;
mod fair;
mod fields;
#[doc(hidden)]
pub mod fuzzing;
mod internal;
pub mod internal_client;
pub mod internal_writer;
pub mod listen;
pub mod metrics;
pub mod negotiate;
mod node;
mod offload;
mod permit;
mod pods;
pub mod query;
mod read;
pub mod recorder;
pub mod reference;
pub mod registry;
mod request;
mod request_line;
mod request_log;
pub mod response;
mod review;
mod revocation;
pub mod route;
pub mod rules;
mod select;
mod snapshot;
mod system;
mod system_objects;
mod view;
mod webhook_client;
mod write;

pub use access::AuthorizerChain;
pub use aggregate::FrontProxy;
pub use api::{ApiConfig, ApiServer, Peer};
pub use audit::AuditSink;
pub use body::Body;
pub use fair::ServerLimits;
pub use registry::ServedKinds;
pub use system::kubernetes_version;
pub use tenure_outbound::CertifiedKey;
