//! What a pod on a node should do next, and what is said of it, from its specification and what is
//! observed. No IO, clock or randomness lives here: time comes in, actions go out.
//!
//! ```text
//!   Spec + Observed + now ──► plan        what to start, stop and finish; when to look again
//!                         ──► pod_status  phase, conditions, container statuses
//! ```
#![no_std]

extern crate alloc;

mod backoff;
mod condition;
mod fit;
mod message;
mod phase;
mod plan;
mod seen;
mod spec;
mod status;

pub use backoff::Backoff;
pub use fit::{Asked, Refusal, Room, asked, fits};
pub use message::{TERMINATION_MESSAGE_MAX, clip_message, clip_messages, fallback_message};
pub use phase::{Phase, may_restart, pod_phase};
pub use plan::{Action, Kill, MIN_GRACE, Plan, is_ending, next_actions};
pub use seen::{Busy, Ended, Instance, KillOrder, Leaving, Observed, Seen, State, Waiting};
pub use spec::{ContainerSpec, Deletion, RestartPolicy, Role, Rule, Spec};
pub use status::{container_status, pod_status, written};
