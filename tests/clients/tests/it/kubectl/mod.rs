//! kubectl, unchanged, as a person would type it. Outputs are asserted as kubectl prints them.

mod applying;
mod attaching;
mod changes;
mod cron_jobs;
mod custom;
mod events;
mod harbour;
mod kinds;
mod opting_in;
mod ownership;
mod policies;
mod reads;
mod reference_kinds;
mod references;
mod rights;
pub(crate) mod runner;
mod server_objects;
mod service_networks;
mod snapshots;
mod suite;
mod version;
mod workloads;

use runner::Kubectl;
use version::Documented;
