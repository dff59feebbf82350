//! Every controller of this crate, and which of them `--controllers` turns on.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::controller::Controller;
use crate::cron::CronJobs;
use crate::daemonset::DaemonSets;
use crate::deployment::Deployments;
use crate::disruption::DisruptionBudgets;
use crate::endpoints::Endpoints;
use crate::ephemeral::EphemeralVolumes;
use crate::job::Jobs;
use crate::podgc::PodCollector;
use crate::quota::Quotas;
use crate::replicas::{ReplicaSets, ReplicationControllers};
use crate::scheduler::Scheduler;
use crate::simulated::SimulatedNodes;
use crate::slices::EndpointSlices;
use crate::statefulset::StatefulSets;
use crate::taints::{NodeLifecycle, TaintEviction};
use crate::ttl::TtlAfterFinished;
use crate::volumes::Volumes;

/// All controllers, in the order in which `--help` lists them.
pub static CONTROLLERS: &[&dyn Controller] = &[
    &Endpoints,
    &EndpointSlices,
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
    &DisruptionBudgets,
    &NodeLifecycle,
    &TaintEviction,
    &Volumes,
    &EphemeralVolumes,
    &Scheduler,
    &SimulatedNodes,
];

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
/// first word that names it decides.
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
    let on = |c: &&&'static dyn Controller| {
        let named = |word: &&str| [c.name(), c.alias()].contains(word);
        names(words, c.name(), c.alias()) && (c.on_by_default() || words.iter().any(named))
    };
    Ok(CONTROLLERS.iter().filter(on).copied().collect())
}

/// Whether a list such as `*,-job` turns on what has this name and this older name.
#[must_use]
pub fn names(words: &[&str], name: &str, alias: &str) -> bool {
    for word in words {
        let (named, off) = word.strip_prefix('-').map_or((*word, false), |rest| (rest, true));
        if named == name || named == alias {
            return !off;
        }
    }
    words.contains(&"*")
}

#[cfg(test)]
mod tests {
    use super::{UnknownController, enabled};
    use alloc::vec::Vec;

    fn on(words: &[&str]) -> Vec<&'static str> {
        enabled(words, |name| name == "garbage-collector-controller")
            .unwrap()
            .iter()
            .map(|c| c.alias())
            .collect()
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
