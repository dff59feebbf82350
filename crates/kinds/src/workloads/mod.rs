//! Rules of the kinds that run pods; what other kinds do never lives here.
//!
//! ```text
//!   common ──► pod, replicas (rc, rs, deployment), sets (statefulset, daemonset, revision), job, cron_job
//! ```

mod common;
mod cron_job;
mod job;
mod job_policy;
mod pod;
mod replicas;
mod sets;

#[cfg(test)]
mod tests;

pub use cron_job::CronJobRules;
pub use job::JobRules;
pub use pod::{PodRules, PodTemplateRules};
pub use replicas::{DeploymentRules, ReplicaSetRules, ReplicationControllerRules};
pub use sets::{ControllerRevisionRules, DaemonSetRules, StatefulSetRules};
