//! Every built-in kind: its row in the table and its rules.
//!
//! ```text
//!   table/ ──► Kind rows ──► the server
//!     └── each names rules: default, prepare, validate   (pure functions of objects)
//! ```
//!
//! Nothing here allocates addresses, looks up other objects or reads a clock.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")
)]

mod address_warning;
mod admission;
mod admission_rule;
mod api_service;
mod autoscaler;
mod autoscaler_metrics;
pub mod autoscaler_v1;
mod certificate;
pub mod certificate_request;
mod config;
mod device;
mod disruption;
pub mod downward;
mod endpoint_slice;
mod endpoints;
mod event;
mod ignored;
mod ingress;
mod ip_address;
mod key_pair;
mod lease;
mod limits;
mod namespace;
mod network_policy;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
pub mod podspec;
mod priority;
mod private_key;
mod rbac;
pub mod reference;
pub mod resource_claim;
mod resource_slice;
pub mod retention;
mod runtime_class;
pub mod service;
mod service_account;
mod service_families;
mod service_validate;
mod storage;
mod stored;
mod table;
mod webhook;
pub mod workloads;

#[cfg(test)]
mod check;

pub use crate::podspec::{validate_ephemeral_update, validate_resize};
pub use ignored::{IGNORED, IgnoredMember};
pub use table::{GROUP_ORDER, builtin};
