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
mod observation;
mod phase;
mod plan;
mod resize;
mod spec;
mod status;

pub use backoff::RestartBackoff;
pub use fit::{NodeCapacity, PodRejection, PodRequests, fits, pod_requests};
pub use message::{TERMINATION_MESSAGE_MAX, clip_message, clip_messages, fallback_message};
pub use observation::{
    ContainerInstance, ContainerTermination, ContainerTransition, InstanceState, KillOrder,
    Leaving, Observed, ObservedContainer, WaitingState,
};
pub use phase::{Phase, may_restart, pod_phase};
pub use plan::{Kill, MIN_GRACE, PodAction, PodPlan, is_ending, next_actions};
pub use resize::{
    PendingResize, PodResize, PodResources, pending_resize, pod_resources, resize_restarts,
    same_resources, with_resources,
};
pub use spec::{
    ContainerRestartRule, ContainerSpec, ContainerType, Deletion, LifecycleSpec, RestartPolicy,
};
pub use status::{container_status, pod_status, written};
