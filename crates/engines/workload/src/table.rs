//! Every controller of this crate, and which of them `--controllers` turns on.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::aggregated_owners::AggregatedOwners;
use crate::api_service::ApiServiceRegistration;
use crate::autoscaler::HorizontalAutoscalers;
use crate::certificate_signing::CertificateSigning;
use crate::controller::Controller;
use crate::cron::CronJobs;
use crate::custom_resource_definition::CustomResourceDefinitions;
use crate::daemonset::DaemonSets;
use crate::deployment::Deployments;
use crate::disruption::DisruptionBudgets;
use crate::endpoints::Endpoints;
use crate::ephemeral::EphemeralVolumes;
use crate::ip_addresses::IpAddresses;
use crate::job::Jobs;
use crate::mirroring::MirroredEndpoints;
use crate::namespace::Namespaces;
use crate::node_ranges::NodeRanges;
use crate::pod_certificate_requests::PodCertificateRequests;
use crate::podgc::PodCollector;
use crate::policy_types::PolicyTypes;
use crate::protection::{ClaimProtection, ClassProtection, VolumeProtection};
use crate::quota::Quotas;
use crate::replicas::{ReplicaSets, ReplicationControllers};
use crate::role_aggregation::RoleAggregation;
use crate::root_ca_certificates::RootCaCertificates;
use crate::scheduler::Scheduler;
use crate::service_account_tokens::ServiceAccountTokens;
use crate::service_accounts::ServiceAccounts;
use crate::service_cidrs::ServiceCidrs;
use crate::simulated::SimulatedNodes;
use crate::slices::EndpointSlices;
use crate::statefulset::StatefulSets;
use crate::storage_migration::StorageVersionMigrations;
use crate::system_objects::SystemObjects;
use crate::taints::{NodeLifecycle, TaintEviction};
use crate::ttl::TtlAfterFinished;
use crate::volumes::PersistentVolumes;

/// All controllers, in the order in which `--help` lists them.
pub static CONTROLLERS: &[&dyn Controller] = &[
    &Endpoints,
    &EndpointSlices,
    &MirroredEndpoints,
    &ReplicationControllers,
    &PodCollector,
    &Quotas,
    &Deployments,
    &ReplicaSets,
    &StatefulSets,
    &DaemonSets,
    &Jobs,
    &TtlAfterFinished,
    &CronJobs,
    &HorizontalAutoscalers,
    &DisruptionBudgets,
    &NodeRanges,
    &NodeLifecycle,
    &TaintEviction,
    &PersistentVolumes,
    &EphemeralVolumes,
    &Namespaces,
    &ClaimProtection,
    &VolumeProtection,
    &ClassProtection,
    &ServiceAccounts,
    &ServiceAccountTokens,
    &RootCaCertificates,
    &CertificateSigning,
    &PodCertificateRequests,
    &ServiceCidrs,
    &RoleAggregation,
    &AggregatedOwners,
    &StorageVersionMigrations,
    &PolicyTypes,
    &Scheduler,
    &SimulatedNodes,
];

/// What an API server does by itself, wherever it runs.
pub static API_SERVER: &[&dyn Controller] =
    &[&CustomResourceDefinitions, &ApiServiceRegistration, &SystemObjects, &IpAddresses];

/// A name in `--controllers` that no controller has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownController(pub String);

impl fmt::Display for UnknownController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no controller", self.0)
    }
}

impl core::error::Error for UnknownController {}

/// The controllers that a list such as `*,-job` turns on.
///
/// A name turns one on, `-name` turns it off, `*` stands for all others; for each controller the
/// first word that names it decides. What the API itself promises runs unless it is turned off by name.
///
/// # Errors
/// A word names no controller of this crate, and `elsewhere` does not know it either.
pub fn enabled(
    words: &[&str],
    elsewhere: impl Fn(&str) -> bool,
) -> Result<Vec<&'static dyn Controller>, UnknownController> {
    for word in words.iter().filter(|word| **word != "*") {
        let name = word.strip_prefix('-').unwrap_or(word);
        let known = CONTROLLERS.iter().any(|c| c.name() == name || c.alias() == name);
        if !known && !elsewhere(name) {
            return Err(UnknownController(name.into()));
        }
    }
    let on = |c: &&&'static dyn Controller| match named(words, c.name(), c.alias()) {
        Some(on) => on,
        None => c.is_essential() || (c.on_by_default() && words.contains(&"*")),
    };
    Ok(CONTROLLERS.iter().filter(on).copied().collect())
}

/// Whether a list such as `*,-job` turns on what has this name and this older name.
#[must_use]
pub fn names(words: &[&str], name: &str, alias: &str) -> bool {
    named(words, name, alias).unwrap_or_else(|| words.contains(&"*"))
}

/// What the first word that names something says of it.
fn named(words: &[&str], name: &str, alias: &str) -> Option<bool> {
    words.iter().find_map(|word| {
        let (named, off) = word.strip_prefix('-').map_or((*word, false), |rest| (rest, true));
        (named == name || named == alias).then_some(!off)
    })
}

#[cfg(test)]
mod tests {
    use super::{UnknownController, enabled};
    use alloc::vec::Vec;

    fn on(words: &[&str]) -> Vec<&'static str> {
        enabled(words, |name| name == "garbage-collector-controller")
            .unwrap()
            .iter()
            .filter(|c| !c.is_essential())
            .map(|c| c.alias())
            .collect()
    }

    #[test]
    fn what_the_api_promises_runs_unless_it_is_turned_off_by_name() {
        let on = |words: &[&str]| {
            let on = enabled(words, |_| false).unwrap();
            on.iter().any(|c| c.alias() == "pvc-protection")
        };
        for words in [&["*"][..], &[], &["job"], &["-job", "*"]] {
            assert!(on(words), "{words:?}");
        }
        for word in ["-pvc-protection", "-persistentvolumeclaim-protection-controller"] {
            assert!(!on(&["*", word]));
        }
    }

    #[test]
    fn words_turn_controllers_on_and_off() {
        assert!(on(&["*"]).contains(&"deployment"));
        assert!(!on(&["-deployment", "*"]).contains(&"deployment"));
        assert!(on(&["*", "-deployment"]).contains(&"replicaset"));
        assert!(!on(&["*", "-deployment-controller"]).contains(&"deployment"));
        assert_eq!(on(&["deployment", "-deployment"]), ["deployment"]);
        assert_eq!(on(&["garbage-collector-controller"]), Vec::<&str>::new());
        assert_eq!(
            enabled(&["*", "-nobody"], |_| false).err(),
            Some(UnknownController("nobody".into()))
        );
    }
}
