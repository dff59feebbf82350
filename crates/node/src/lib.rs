//! The node agent: runs the pods bound to its node, keeps their files current and tells the server
//! the truth about them. It reaches the server over HTTP as any kubelet does.

mod admission;
pub mod agent;
mod ask;
mod certificate;
pub mod client;
mod container;
mod events;
mod evict;
pub mod follow;
mod gate;
mod keep;
pub mod logs;
pub mod node;
mod objects;
pub mod pods;
pub mod private;
mod probe;
pub mod register;
pub mod runtime;
pub mod serve;
pub mod spdy;
mod strangers;
mod sysctl;
pub mod volume;
mod worker;

pub use agent::{Agent, AgentConfig, AgentError};
pub use client::Server;
pub use node::{Ending, GivenRuntime, Node, NodeError, NodeSettings, RuntimeChoice};
