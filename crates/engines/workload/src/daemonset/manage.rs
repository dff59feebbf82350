//! One pod per node: which nodes lack a pod, which pods are too many (DS1, DS5, DS9).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tenure_machinery::ObjectExt;

use super::update::max_surge;
use super::{DaemonSetContext, Land, PodFailures, pods};
use crate::controller::{Pass, ReconcileResult};
use crate::history::REVISION_LABEL;
use crate::intent::ControllerIntent;
use crate::view::VersionedObject;
use crate::{owner, pod};

/// How many pods one pass creates, and how many it deletes, at most (PT4).
const BURST: usize = 250;

/// What is to be done about pods.
#[derive(Default)]
pub(super) struct DaemonPodPlan {
    /// Nodes that need a pod.
    pub(super) nodes: Vec<String>,
    /// Pods that have to go.
    pub(super) pods: Vec<VersionedObject>,
}

impl DaemonPodPlan {
    /// Adds it to a pass, and says whether there was anything (PT2, PT4).
    pub(super) fn order(
        &self,
        set: &DaemonSetContext<'_>,
        hash: &str,
        pass: &Pass<'_>,
        out: &mut ReconcileResult,
    ) -> bool {
        let new = pods::new(set, hash).filter(|_| !pod::namespace_closed(pass));
        let wanted = self.nodes.iter().take(BURST).filter_map(|node| Some((node, new.clone()?)));
        let before = out.intents.len();
        for (index, (node, new)) in wanted.enumerate() {
            // Batches of 1, 2, 4 …: a batch begins where the index plus one is a power of two.
            let together = !(index + 1).is_power_of_two();
            out.push(pod::creation(pods::aim(new, node), &set.about).together(together));
        }
        let gone = self.pods.iter().take(BURST);
        out.intents.extend(gone.map(|pod| pod::deletion(pod, &set.about)));
        out.intents.len() > before
    }
}

/// Adds what every node needs or has too much to a pass, and says whether there was anything.
pub(super) fn plan(
    set: &DaemonSetContext<'_>,
    land: &Land,
    hash: &str,
    pass: &Pass<'_>,
    mut failures: PodFailures,
    out: &mut ReconcileResult,
) -> bool {
    let mut work = DaemonPodPlan::default();
    for (node, place) in &land.places {
        let here = land.on(node);
        if place.run && here.is_empty() {
            work.nodes.push(node.clone());
        } else if place.stay {
            let running = ended(set, node, here, &mut failures, &mut work, out);
            settle(set, node, place.run, running, hash, &mut work);
        } else {
            work.pods.extend(here.iter().filter(|pod| !owner::deleting(pod)).cloned());
        }
    }
    out.memory = failures.memory();
    work.pods.extend(lost(land));
    work.order(set, hash, pass, out)
}

/// Pods aimed at nodes that are no more: nobody would ever bind or end them (DS9).
fn lost(land: &Land) -> Vec<VersionedObject> {
    let gone = land.pods.iter().filter(|(node, _)| !land.places.contains_key(*node));
    gone.flat_map(|(_, pods)| pods)
        .filter(|pod| pod::node(pod).is_empty() && !owner::deleting(pod))
        .cloned()
        .collect()
}

/// Marks pods that have ended for removal, and gives the others (DS5).
fn ended(
    set: &DaemonSetContext<'_>,
    node: &str,
    here: &[VersionedObject],
    failures: &mut PodFailures,
    work: &mut DaemonPodPlan,
    out: &mut ReconcileResult,
) -> Vec<VersionedObject> {
    let mut running = Vec::new();
    for pod in here.iter().filter(|pod| !owner::deleting(pod)) {
        let name = format!("{}/{}", pod.namespace(), pod.name());
        match pod::phase(pod) {
            "Failed" => match failures.count(node, set.now) {
                Ok(()) => {
                    let words = format!(
                        "Found failed daemon pod {name} on node {node}, will try to kill it"
                    );
                    out.push(ControllerIntent::tell(set.about.warning("FailedDaemonPod", words)));
                    work.pods.push(pod.clone());
                }
                Err(wait) => out.wake_after(wait),
            },
            "Succeeded" => {
                let words = format!(
                    "Found succeeded daemon pod {name} on node {node}, will try to delete it"
                );
                out.push(ControllerIntent::tell(set.about.normal("SucceededDaemonPod", words)));
                work.pods.push(pod.clone());
            }
            _ => running.push(pod.clone()),
        }
    }
    running
}

/// Leaves one pod on a node, or with surge an old one and a new one (DS5).
fn settle(
    set: &DaemonSetContext<'_>,
    node: &str,
    run: bool,
    running: Vec<VersionedObject>,
    hash: &str,
    work: &mut DaemonPodPlan,
) {
    if max_surge(set, 1) == 0 {
        // The pods come oldest first.
        work.pods.extend(running.into_iter().skip(1));
        return;
    }
    if running.is_empty() && run {
        work.nodes.push(node.into());
    }
    if running.len() <= 1 {
        return;
    }
    let is_new = |pod: &&VersionedObject| owner::label(pod, REVISION_LABEL) == Some(hash);
    let new = running.iter().find(is_new);
    let old = running.iter().find(|pod| !is_new(pod));
    let kept =
        |pod: &VersionedObject| [new, old].into_iter().flatten().any(|k| k.name() == pod.name());
    work.pods.extend(running.iter().filter(|pod| !kept(pod)).cloned());
    if let (Some(new), Some(old)) = (new, old)
        && (!pod::ready(old) || set.available(new))
    {
        work.pods.push(old.clone());
    }
}
