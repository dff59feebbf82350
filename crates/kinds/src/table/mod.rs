//! The table of built-in kinds: one row each, grouped as discovery groups them.
//!
//! ```text
//!   core.rs  apps.rs  access.rs  …  ──► builtin() ──► the server's lookup
//! ```
//!
//! Rows stand in discovery order: groups as in [`GROUP_ORDER`], the preferred version first, plurals
//! in byte order. What a kind does to objects is in its rules, not here.

mod access;
mod admission;
mod apps;
mod autoscaling;
mod cluster;
mod core;
mod networking;
mod resource;
mod row;
mod storage;

#[cfg(test)]
mod tests;

use tenure_machinery::Kind;

/// The groups in the order discovery lists them; the empty one is core.
pub const GROUP_ORDER: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "storagemigration.k8s.io",
    // Not of Kubernetes, so they come after all that is.
    "reference.authorization.k8s.io",
    "reference.tenure.dev",
];

/// Every kind the server has without a definition, in discovery order.
#[must_use]
pub fn builtin() -> Vec<Kind> {
    let mut rows = core::rows();
    rows.extend(cluster::registration());
    rows.extend(apps::apps());
    rows.extend(cluster::events());
    rows.extend(access::authentication());
    rows.extend(access::authorization());
    rows.extend(autoscaling::rows());
    rows.extend(apps::batch());
    rows.extend(cluster::certificates());
    rows.extend(networking::networking());
    rows.extend(apps::policy());
    rows.extend(access::rbac());
    rows.extend(storage::rows());
    rows.extend(admission::admission());
    rows.extend(admission::extensions());
    rows.extend(apps::scheduling());
    rows.extend(cluster::coordination());
    rows.extend(cluster::node());
    rows.extend(networking::discovery());
    rows.extend(resource::resource());
    rows.extend(cluster::flow_control());
    rows.extend(cluster::storage_migration());
    rows.extend(access::reference());
    rows.extend(access::reference_reviews());
    rows
}
