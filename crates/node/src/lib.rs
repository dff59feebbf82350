//! The node agent: runs the pods bound to its node, keeps their files current and tells the server
//! the truth about them. It reaches the server over HTTP as any kubelet does.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")
)]

mod admission;
pub mod agent;
mod allocation;
mod certificate;
pub mod client;
mod clock;
mod container;
mod events;
mod evict;
pub mod follow;
mod foreign_sandboxes;
mod gate;
mod handler;
pub mod logs;
pub mod node;
mod objects;
mod offline_cache;
mod pod_certificate;
pub mod pods;
pub mod private;
mod probe;
mod random;
pub mod register;
pub mod runtime;
pub mod serve;
mod service_proxy;
mod shared_collection;
pub mod spdy;
mod sysctl;
pub mod volume;
mod worker;

pub use agent::{Agent, AgentConfig, AgentError};
pub use client::Server;
pub use node::{GivenRuntime, Node, NodeError, NodeSettings, RuntimeChoice, ShutdownOptions};
