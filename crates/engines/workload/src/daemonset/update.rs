//! Replacing pods of an older template, as far as the strategy allows (DS6).
//!
//! ```text
//!   no surge:  end an old pod ──► the node lacks one ──► a new one is made
//!   surge:     make a new pod beside the old one ──► it is available ──► the old one ends
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use tenure_machinery::ObjectExt;

use super::manage::DaemonPodPlan;
use super::{DaemonSetContext, Land, pods};
use crate::controller::{Pass, ReconcileResult};
use crate::owner;
use crate::share::{self, Round};
use crate::view::VersionedObject;

/// How many nodes may have two pods; zero unless the strategy says so.
pub(super) fn max_surge(set: &DaemonSetContext<'_>, wanted: i64) -> i64 {
    amount(set, "maxSurge", wanted)
}

fn amount(set: &DaemonSetContext<'_>, name: &str, wanted: i64) -> i64 {
    if !set.rolls() {
        return 0;
    }
    let said = set.object.at(&["spec", "updateStrategy", "rollingUpdate", name]);
    said.and_then(|said| share::of(said, wanted, Round::Up)).unwrap_or_default().max(0)
}

/// Adds the replacement of old pods to a pass.
pub(super) fn plan(
    set: &DaemonSetContext<'_>,
    land: &Land,
    hash: &str,
    pass: &Pass<'_>,
    out: &mut ReconcileResult,
) {
    let wanted = land.wanted();
    let surge = max_surge(set, wanted);
    let unavailable = amount(set, "maxUnavailable", wanted);
    let work = if surge == 0 {
        // Both zero cannot be meant: nothing would ever move.
        replace(set, land, hash, unavailable.max(1))
    } else {
        surpass(set, land, hash, surge, wanted)
    };
    work.order(set, hash, pass, out);
}

/// The new and the old pod of a node; `None` when there are several of either.
fn pair<'a>(
    set: &DaemonSetContext<'_>,
    here: &'a [VersionedObject],
    hash: &str,
) -> Option<(Option<&'a VersionedObject>, Option<&'a VersionedObject>)> {
    let (mut new, mut old) = (None, None);
    for pod in here.iter().filter(|pod| !owner::deleting(pod)) {
        let slot = if pods::updated(set.object, pod, hash) { &mut new } else { &mut old };
        if slot.replace(pod).is_some() {
            return None;
        }
    }
    Some((new, old))
}

/// All nodes that should have a pod or have one.
fn nodes(land: &Land) -> impl Iterator<Item = (&String, &[VersionedObject])> {
    let empty = land.places.iter().filter(|(node, place)| place.run && land.on(node).is_empty());
    let empty = empty.map(|(node, _)| (node, &[][..]));
    land.pods.iter().map(|(node, pods)| (node, pods.as_slice())).chain(empty)
}

/// Ends old pods so that no more than so many nodes are without an available one.
fn replace(
    set: &DaemonSetContext<'_>,
    land: &Land,
    hash: &str,
    max_unavailable: i64,
) -> DaemonPodPlan {
    let mut unavailable = 0_i64;
    let (mut must_go, mut may_go): (Vec<VersionedObject>, Vec<VersionedObject>) =
        (Vec::new(), Vec::new());
    for (_, here) in nodes(land) {
        match pair(set, here, hash) {
            Some((Some(new), None)) => unavailable += i64::from(!set.available(new)),
            Some((None, Some(old))) if set.available(old) => may_go.push(old.clone()),
            Some((None, Some(old))) => {
                // A pod that serves nobody costs nothing.
                unavailable += 1;
                must_go.push(old.clone());
            }
            _ => unavailable += 1,
        }
    }
    let budget = usize::try_from(max_unavailable.saturating_sub(unavailable)).unwrap_or_default();
    must_go.extend(may_go.into_iter().take(budget));
    DaemonPodPlan { nodes: Vec::new(), pods: must_go }
}

/// Makes new pods beside old ones, and ends old ones that are no longer needed.
fn surpass(
    set: &DaemonSetContext<'_>,
    land: &Land,
    hash: &str,
    max_surge: i64,
    wanted: i64,
) -> DaemonPodPlan {
    let mut work = DaemonPodPlan::default();
    let (mut surged, mut available) = (0_i64, 0_i64);
    let mut candidates: Vec<String> = Vec::new();
    let mut leaving: Vec<VersionedObject> = Vec::new();
    for (node, here) in nodes(land) {
        let Some((new, old)) = pair(set, here, hash) else {
            surged += 1;
            continue;
        };
        available += i64::from(old.or(new).is_some_and(|pod| set.available(pod)));
        match (new, old) {
            (_, None) => {}
            (Some(new), Some(old)) if set.available(new) => work.pods.push(old.clone()),
            (Some(_), Some(_)) => surged += 1,
            (None, Some(old)) => match (land.place(node).run, set.available(old)) {
                (true, true) => candidates.push(node.clone()),
                (true, false) => work.nodes.push(node.clone()),
                (false, true) => leaving.push(old.clone()),
                (false, false) => work.pods.push(old.clone()),
            },
        }
    }
    // Nodes that are no longer a place give their pods up only for pods available elsewhere.
    let spare = usize::try_from(available.saturating_sub(wanted)).unwrap_or_default();
    work.pods.extend(leaving.into_iter().take(spare));
    let room = usize::try_from(max_surge.saturating_sub(surged)).unwrap_or_default();
    work.nodes.extend(candidates.into_iter().take(room));
    work
}
