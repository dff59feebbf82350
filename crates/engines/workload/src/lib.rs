//! The built-in controllers as pure functions.
//!
//! ```text
//!   what there is ──┐
//!   the time ───────┼──► reconcile ──► intents, memory, when to look again
//!   what was left ──┘
//! ```
//!
//! Start reading at [`controller`]; then [`replicas`] shows a whole controller in small.
//! No clock, no randomness, no storage, no waiting: a host hands those in and carries intents out.
//! Law: `spec/workload-controllers.md`.
#![no_std]
extern crate alloc;

pub mod aggregated_owners;
mod api_question;
pub mod api_service;
pub mod autoscaler;
pub mod certificate_signing;
pub mod claim;
pub mod condition;
pub mod controller;
pub mod cron;
pub mod custom_resource_definition;
pub mod daemonset;
pub mod deployment;
pub mod disruption;
pub mod endpoints;
pub mod ephemeral;
pub mod event_expiry;
pub mod history;
pub mod intent;
pub mod ip_addresses;
pub mod job;
pub mod mirroring;
pub mod namespace;
pub mod node_ranges;
pub mod owner;
pub mod placement;
pub mod pod;
pub mod pod_certificate_requests;
pub mod podgc;
pub mod policy_types;
pub mod protection;
pub mod quota;
mod remote_kinds;
pub mod replicas;
pub mod resource;
pub mod role_aggregation;
pub mod root_ca_certificates;
pub mod scheduler;
pub mod selector;
pub mod service_account_tokens;
pub mod service_accounts;
pub mod service_cidrs;
pub mod share;
pub mod simulated;
pub mod slices;
pub mod statefulset;
pub mod storage_migration;
pub mod system_objects;
pub mod table;
pub mod taints;
pub mod template;
pub mod time;
pub mod ttl;
pub mod view;
pub mod volumes;
pub mod wake;

pub use controller::{
    ApiAnswers, ApiRefusal, Controller, Departure, KubernetesProgram, ObjectChange, Pass,
    ReconcileKey, ReconcileMemory, ReconcileResult,
};
pub use intent::{
    Act, AnyObject, ControllerIntent, EventReport, FailedIntent, IntentPropagation, InvolvedObject,
    MessageSuffix, Reliance, UpdateEndpoint, Verb,
};
pub use resource::BuiltinResource;
pub use table::{API_SERVER, CONTROLLERS, UnknownController, enabled};
pub use view::{
    ClusterView, CustomKind, ObjectHeader, ObjectOwner, ResourcePlace, VersionedObject,
};
