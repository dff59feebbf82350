//! StatefulSet: pods with names, numbers and claims of their own, one after another (SS1 to SS23).
//!
//! ```text
//!   claim revisions, pods ──► which revision is current, which is next ──► status
//!                         ──► missing pods ──► surplus pods ──► outdated pods ──► old revisions
//! ```
//!
//! In the order of the arrows a pass stops at the first thing it has to wait for. Binding claims to
//! volumes and running pods is not done here.

mod claims;
mod identity;
mod revisions;
mod rollout;
mod status;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt};

use crate::claim::Claim;
use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, EventReport, InvolvedObject};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, pod, selector, wake};

/// The controller of StatefulSets.
pub struct StatefulSets;

impl Controller for StatefulSets {
    fn name(&self) -> &'static str {
        "statefulset-controller"
    }
    fn alias(&self) -> &'static str {
        "statefulset"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[
            BuiltinResource::StatefulSets,
            BuiltinResource::Pods,
            BuiltinResource::ControllerRevisions,
            BuiltinResource::PersistentVolumeClaims,
        ]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        match change.resource {
            BuiltinResource::Pods => wake_by_pod(change, view, wake),
            BuiltinResource::ControllerRevisions => {
                wake::by_child(change, view, BuiltinResource::StatefulSets, selector_of, wake);
            }
            BuiltinResource::PersistentVolumeClaims => wake_by_claim(change, view, wake),
            _ => wake::itself(change, wake),
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass)
    }
}

fn selector_of(set: &Object) -> Option<LabelSelector> {
    selector::at(set, &["spec", "selector"])
}

fn wake_by_pod(
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    if let (Some(before), Some(after)) = (change.before, change.after)
        && !pod::counts_differently(before, after)
    {
        return;
    }
    wake::by_child(change, view, BuiltinResource::StatefulSets, selector_of, wake);
    // A pod of somebody else may have held a name that a set needs.
    if let (Some(gone), None) = (change.before, change.after)
        && let Some((set, _)) = identity::split(gone.name())
        && view.get(BuiltinResource::StatefulSets, gone.namespace(), set).is_some()
    {
        wake(ReconcileKey::new(gone.namespace(), set));
    }
}

/// A claim's name ends with those of its set and of its pod's number; dashes leave several readings.
fn wake_by_claim(
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    let Some(claim) = change.object() else { return };
    if let (Some(before), Some(after)) = (change.before, change.after) {
        let same = |name: &str| before.at(&["metadata", name]) == after.at(&["metadata", name]);
        if same("ownerReferences") && same("deletionTimestamp") {
            return;
        }
    }
    let Some((rest, _)) = identity::split(claim.name()) else { return };
    for (at, _) in rest.match_indices('-') {
        let (template, set) = (rest.get(..at), rest.get(at + 1..));
        let (Some(template), Some(set)) = (template, set) else { continue };
        let found = view.get(BuiltinResource::StatefulSets, claim.namespace(), set);
        if found.is_some_and(|found| claims::templates(&found).any(|t| t.name() == template)) {
            wake(ReconcileKey::new(claim.namespace(), set));
        }
    }
}

/// A set as one pass reads it.
struct StatefulSetContext<'a> {
    object: &'a VersionedObject,
    about: InvolvedObject,
    /// The first ordinal, and how many there should be.
    start: i64,
    replicas: i64,
    min_ready: i64,
    /// `OrderedReady` rather than `Parallel`.
    ordered: bool,
    now: Timestamp,
}

impl<'a> StatefulSetContext<'a> {
    fn read(object: &'a VersionedObject, now: Timestamp) -> StatefulSetContext<'a> {
        let int = |path: &[&str]| object.int_at(path);
        StatefulSetContext {
            about: InvolvedObject::of(BuiltinResource::StatefulSets, object),
            start: int(&["spec", "ordinals", "start"]).unwrap_or_default().max(0),
            replicas: int(&["spec", "replicas"]).unwrap_or(1).max(0),
            min_ready: int(&["spec", "minReadySeconds"]).unwrap_or_default(),
            ordered: object.str_at(&["spec", "podManagementPolicy"]) != Some("Parallel"),
            object,
            now,
        }
    }

    /// Whether an ordinal is one that the set should have.
    fn wants(&self, ordinal: i64) -> bool {
        ordinal >= self.start && ordinal - self.start < self.replicas
    }

    fn strategy(&self) -> &str {
        self.object.str_at(&["spec", "updateStrategy", "type"]).unwrap_or("RollingUpdate")
    }

    /// The index from which pods are updated (SS3, SS7); `None` without a `rollingUpdate` block.
    fn partition(&self) -> Option<i64> {
        let block = self.object.map_at(&["spec", "updateStrategy", "rollingUpdate"])?;
        Some(block.int_at(&["partition"]).unwrap_or_default().max(0))
    }

    fn available(&self, pod: &Object) -> bool {
        pod::available(pod, self.min_ready, self.now)
    }
}

/// The pods of a set by their numbers.
struct Members {
    /// Those that the set should have.
    replicas: BTreeMap<i64, VersionedObject>,
    /// Those whose numbers it should no longer have, highest first.
    condemned: Vec<VersionedObject>,
}

impl Members {
    /// Pods without a number are nobody's business (SS1).
    fn sort(set: &StatefulSetContext<'_>, pods: Vec<VersionedObject>) -> Members {
        let mut members = Members { replicas: BTreeMap::new(), condemned: Vec::new() };
        let mut condemned: BTreeMap<i64, VersionedObject> = BTreeMap::new();
        for pod in pods {
            match identity::ordinal(pod.name()) {
                Some(ordinal) if set.wants(ordinal) => {
                    members.replicas.insert(ordinal, pod);
                }
                Some(ordinal) => {
                    condemned.insert(ordinal, pod);
                }
                None => {}
            }
        }
        members.condemned = condemned.into_values().rev().collect();
        members
    }

    fn all(&self) -> impl Iterator<Item = &VersionedObject> {
        self.replicas.values().chain(&self.condemned)
    }
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let (namespace, name) = (&pass.key.namespace, &pass.key.name);
    let Some(object) = pass.view.get(BuiltinResource::StatefulSets, namespace, name) else {
        return out;
    };
    let Some(selector) = selector_of(&object).filter(|s| !s.is_everything()) else {
        return out;
    };
    let set = StatefulSetContext::read(&object, pass.now);
    let mut troubles = Vec::new();
    if set.strategy() == "Recreate" {
        troubles.push(unknown_strategy(&set));
        tell_once(pass, troubles, &mut out);
        return out;
    }
    let known = revisions::list(&set, &selector, pass.view);
    let pods = claim_pods(&set, &selector, pass.view, &known, &mut out);
    if !out.intents.is_empty() {
        out.memory = pass.memory.clone();
        return out;
    }
    let revisions = match revisions::decide(&set, known, pass.view) {
        revisions::StatefulRevisionOutcome::Write(intents) => {
            out.intents = intents;
            out.memory = pass.memory.clone();
            return out;
        }
        revisions::StatefulRevisionOutcome::Known(revisions) => revisions,
    };
    let members = Members::sort(&set, pods);
    out.intents.extend(status::changed(&set, &members, &revisions));
    if !owner::deleting(&object) {
        rollout::plan(&set, &members, &revisions, pass, &mut out, &mut troubles);
        revisions.prune(&set, &members, &mut out);
    }
    out.requeue_after = pod::next_available(members.all(), set.min_ready, pass.now);
    tell_once(pass, troubles, &mut out);
    out
}

/// Adopts revisions and adopts or releases pods; the pods that are ours already (SS1, HI11).
fn claim_pods(
    set: &StatefulSetContext<'_>,
    selector: &LabelSelector,
    view: &dyn ClusterView,
    known: &[VersionedObject],
    out: &mut ReconcileResult,
) -> Vec<VersionedObject> {
    if !owner::deleting(set.object) {
        out.intents.extend(revisions::adopt(set, known));
    }
    let claimed = Claim {
        resource: BuiltinResource::StatefulSets,
        controller: set.object,
        children: BuiltinResource::Pods,
        selector,
        among: |_| true,
        fits: &|pod| identity::split(pod.name()).is_some_and(|(of, _)| of == set.object.name()),
        finalizer: None,
    }
    .make(view);
    out.intents.extend(claimed.intents);
    claimed.ours
}

fn unknown_strategy(set: &StatefulSetContext<'_>) -> EventReport {
    let message = alloc::format!(
        "statefulset {}/{} uses Recreate strategy but feature gate StatefulSetRecreateStrategy \
         is disabled",
        set.object.namespace(),
        set.object.name()
    );
    set.about.warning("UnknownStrategy", message)
}

/// Tells what is wrong, but not what was told before and is still so (PU4).
fn tell_once(pass: &Pass<'_>, troubles: Vec<EventReport>, out: &mut ReconcileResult) {
    let mut said: BTreeSet<String> = BTreeSet::new();
    for note in troubles {
        let old =
            matches!(pass.memory, ReconcileMemory::Said(said) if said.contains(&note.message));
        if said.insert(note.message.clone()) && !old {
            out.push(ControllerIntent::tell(note));
        }
    }
    if !said.is_empty() {
        out.memory = ReconcileMemory::Said(said);
    }
}
