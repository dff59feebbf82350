//! The controllers against an imitated server, rule by rule.
//!
//! One file per controller; `world` is the server they share.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should fail loudly"
)]

mod aggregated_owners;
mod autoscaler;
mod certificate_signing;
mod claim;
mod cron;
mod custom_resource_definition;
mod daemonset;
mod deployment;
mod disruption;
mod endpoints;
mod history;
mod job;
mod job_indexed;
mod job_random;
mod mirroring;
mod namespace;
mod node_ranges;
mod podgc;
mod policy_types;
mod protection;
mod quota;
mod random;
mod replicas;
mod rollout;
mod scheduler;
mod service_accounts;
mod service_cidrs;
mod simulated;
mod statefulset;
mod statefulset_claims;
mod statefulset_update;
mod storage_migration;
mod system_objects;
mod taints;
mod volumes;
mod world;
