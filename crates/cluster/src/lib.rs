//! What users import: a control plane inside a test, with clients. Requests are never handled here;
//! that is the work of the server this crate starts.
//!
#![doc = include_str!("../README.md")]

mod builder;
#[cfg(feature = "kube")]
mod client;
mod cluster;

pub use builder::Builder;
pub use cluster::{Cluster, StartError};
pub use tenure_host::{Config, Durability};
