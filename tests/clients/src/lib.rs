//! What every client test needs: a server process and a client small enough to misbehave on purpose.
//! What a particular client is asked to do never lives here.

pub mod envtest;
pub mod server;
pub mod wire;

pub use server::{Operator, Server};
pub use wire::{Access, Answer, Connection};
