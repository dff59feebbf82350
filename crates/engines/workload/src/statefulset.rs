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
use crate::controller::{Change, Controller, Key, Memory, Outcome, Pass};
use crate::intent::{Intent, Note, Subject};
use crate::resource::Resource;
use crate::view::{Seen, View};
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
    fn watches(&self) -> &'static [Resource] {
        &[
            Resource::StatefulSets,
            Resource::Pods,
            Resource::ControllerRevisions,
            Resource::PersistentVolumeClaims,
        ]
    }
    fn wake(&self, change: &Change<'_>, view: &dyn View, wake: &mut dyn FnMut(Key)) {
        match change.resource {
            Resource::Pods => wake_by_pod(change, view, wake),
            Resource::ControllerRevisions => {
                wake::by_child(change, view, Resource::StatefulSets, selector_of, wake);
            }
            Resource::PersistentVolumeClaims => wake_by_claim(change, view, wake),
            _ => wake::itself(change, wake),
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> Outcome {
        reconcile(pass)
    }
}

fn selector_of(set: &Object) -> Option<LabelSelector> {
    selector::at(set, &["spec", "selector"])
}

fn wake_by_pod(change: &Change<'_>, view: &dyn View, wake: &mut dyn FnMut(Key)) {
    if let (Some(before), Some(after)) = (change.before, change.after)
        && !pod::counts_differently(before, after)
    {
        return;
    }
    wake::by_child(change, view, Resource::StatefulSets, selector_of, wake);
    // A pod of somebody else may have held a name that a set needs.
    if let (Some(gone), None) = (change.before, change.after)
        && let Some((set, _)) = identity::split(gone.name())
        && view.get(Resource::StatefulSets, gone.namespace(), set).is_some()
    {
        wake(Key::new(gone.namespace(), set));
    }
}

/// A claim's name ends with those of its set and of its pod's number; dashes leave several readings.
fn wake_by_claim(change: &Change<'_>, view: &dyn View, wake: &mut dyn FnMut(Key)) {
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
        let found = view.get(Resource::StatefulSets, claim.namespace(), set);
        if found.is_some_and(|found| claims::templates(&found).any(|t| t.name() == template)) {
            wake(Key::new(claim.namespace(), set));
        }
    }
}

/// A set as one pass reads it.
struct Set<'a> {
    object: &'a Seen,
    about: Subject,
    /// The first ordinal, and how many there should be.
    start: i64,
    replicas: i64,
    min_ready: i64,
    /// `OrderedReady` rather than `Parallel`.
    ordered: bool,
    now: Timestamp,
}

impl<'a> Set<'a> {
    fn read(object: &'a Seen, now: Timestamp) -> Set<'a> {
        let int = |path: &[&str]| object.int_at(path);
        Set {
            about: Subject::of(Resource::StatefulSets, object),
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
    replicas: BTreeMap<i64, Seen>,
    /// Those whose numbers it should no longer have, highest first.
    condemned: Vec<Seen>,
}

impl Members {
    /// Pods without a number are nobody's business (SS1).
    fn sort(set: &Set<'_>, pods: Vec<Seen>) -> Members {
        let mut members = Members { replicas: BTreeMap::new(), condemned: Vec::new() };
        let mut condemned: BTreeMap<i64, Seen> = BTreeMap::new();
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

    fn all(&self) -> impl Iterator<Item = &Seen> {
        self.replicas.values().chain(&self.condemned)
    }
}

fn reconcile(pass: &Pass<'_>) -> Outcome {
    let mut out = Outcome::default();
    let (namespace, name) = (&pass.key.namespace, &pass.key.name);
    let Some(object) = pass.view.get(Resource::StatefulSets, namespace, name) else {
        return out;
    };
    let Some(selector) = selector_of(&object).filter(|s| !s.is_everything()) else {
        return out;
    };
    let set = Set::read(&object, pass.now);
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
        revisions::Decision::Write(intents) => {
            out.intents = intents;
            out.memory = pass.memory.clone();
            return out;
        }
        revisions::Decision::Known(revisions) => revisions,
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
    set: &Set<'_>,
    selector: &LabelSelector,
    view: &dyn View,
    known: &[Seen],
    out: &mut Outcome,
) -> Vec<Seen> {
    if !owner::deleting(set.object) {
        out.intents.extend(revisions::adopt(set, known));
    }
    let claimed = Claim {
        resource: Resource::StatefulSets,
        controller: set.object,
        children: Resource::Pods,
        selector,
        among: |_| true,
        fits: &|pod| identity::split(pod.name()).is_some_and(|(of, _)| of == set.object.name()),
        finalizer: None,
    }
    .make(view);
    out.intents.extend(claimed.intents);
    claimed.ours
}

fn unknown_strategy(set: &Set<'_>) -> Note {
    let message = alloc::format!(
        "statefulset {}/{} uses Recreate strategy but feature gate StatefulSetRecreateStrategy \
         is disabled",
        set.object.namespace(),
        set.object.name()
    );
    set.about.warning("UnknownStrategy", message)
}

/// Tells what is wrong, but not what was told before and is still so (PU4).
fn tell_once(pass: &Pass<'_>, troubles: Vec<Note>, out: &mut Outcome) {
    let mut said: BTreeSet<String> = BTreeSet::new();
    for note in troubles {
        let old = matches!(pass.memory, Memory::Said(said) if said.contains(&note.message));
        if said.insert(note.message.clone()) && !old {
            out.push(Intent::tell(note));
        }
    }
    if !said.is_empty() {
        out.memory = Memory::Said(said);
    }
}
