//! DaemonSet: one pod on every node that is a place for it (DS1 to DS9).
//!
//! ```text
//!   claim pods, revisions ──► the revision of today ──► status
//!                         ──► one pod per node ──► outdated pods ──► old revisions
//! ```
//!
//! Pods are aimed at nodes here and bound by a scheduler. Whether a node is ready or full is not
//! looked at.

mod failures;
mod manage;
mod pods;
mod revisions;
mod status;
mod update;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::Value;
use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt};

pub use failures::Failures;

use crate::claim::{Claim, Claimed};
use crate::controller::{Change, Controller, Key, Memory, Outcome, Pass};
use crate::intent::{Intent, Subject};
use crate::resource::Resource;
use crate::view::{Seen, View};
use crate::{owner, placement, pod, selector, wake};

/// The controller of DaemonSets.
pub struct DaemonSets;

impl Controller for DaemonSets {
    fn name(&self) -> &'static str {
        "daemonset-controller"
    }
    fn alias(&self) -> &'static str {
        "daemonset"
    }
    fn watches(&self) -> &'static [Resource] {
        &[Resource::DaemonSets, Resource::Pods, Resource::ControllerRevisions, Resource::Nodes]
    }
    fn wake(&self, change: &Change<'_>, view: &dyn View, wake: &mut dyn FnMut(Key)) {
        match change.resource {
            Resource::Pods => wake_by_pod(change, view, wake),
            Resource::ControllerRevisions => {
                wake::by_child(change, view, Resource::DaemonSets, selector_of, wake);
            }
            Resource::Nodes => wake_by_node(change, view, wake),
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
        && pod::node(before) == pod::node(after)
    {
        return;
    }
    wake::by_child(change, view, Resource::DaemonSets, selector_of, wake);
}

/// A node concerns the sets for which it became, or ceased to be, a place (0.1 on DS1 and DS9).
fn wake_by_node(change: &Change<'_>, view: &dyn View, wake: &mut dyn FnMut(Key)) {
    if let (Some(before), Some(after)) = (change.before, change.after) {
        let same = |path: &[&str]| before.at(path) == after.at(path);
        // Heartbeats come all the time and say nothing about places.
        if same(&["metadata", "labels"]) && same(&["spec", "taints"]) {
            return;
        }
    }
    for set in view.list(Resource::DaemonSets, None) {
        let tolerations = pods::tolerations(&set);
        let place = |node: Option<&Seen>| {
            node.map_or(Place::NONE, |node| Place::of(&set, node, &tolerations))
        };
        let misplaced = set.int_at(&["status", "numberMisscheduled"]).unwrap_or_default() > 0;
        if misplaced || place(change.before) != place(change.after) {
            wake(Key::of(&set));
        }
    }
}

/// What a node is to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// A pod should be there.
    run: bool,
    /// A pod that is there may stay.
    stay: bool,
}

impl Place {
    const NONE: Place = Place { run: false, stay: false };

    /// Looks at name, labels and taints of a node, and at nothing else (DS1).
    fn of(set: &Object, node: &Object, tolerations: &[Value]) -> Place {
        let spec = set.map_at(&["spec", "template", "spec"]);
        let named = spec.and_then(|spec| spec.str_at(&["nodeName"])).unwrap_or_default();
        let attracted = spec.is_none_or(|spec| placement::attracts(spec, node));
        if !(named.is_empty() || named == node.name()) || !attracted {
            return Place::NONE;
        }
        let stay = !placement::repels(node, tolerations, &["NoExecute"]);
        Place { run: stay && !placement::repels(node, tolerations, &["NoSchedule"]), stay }
    }
}

/// A set as one pass reads it.
struct Set<'a> {
    object: &'a Seen,
    about: Subject,
    min_ready: i64,
    now: Timestamp,
    tolerations: Vec<Value>,
}

impl<'a> Set<'a> {
    fn read(object: &'a Seen, now: Timestamp) -> Set<'a> {
        Set {
            object,
            about: Subject::of(Resource::DaemonSets, object),
            min_ready: object.int_at(&["spec", "minReadySeconds"]).unwrap_or_default(),
            now,
            tolerations: pods::tolerations(object),
        }
    }

    fn available(&self, pod: &Object) -> bool {
        pod::available(pod, self.min_ready, self.now)
    }

    fn rolls(&self) -> bool {
        self.object.str_at(&["spec", "updateStrategy", "type"]) != Some("OnDelete")
    }
}

/// Nodes, and the pods that are on them or aimed at them.
struct Land {
    /// What each node is to the set.
    places: BTreeMap<String, Place>,
    /// The pods by node, oldest first; also of nodes that are no more.
    pods: BTreeMap<String, Vec<Seen>>,
}

impl Land {
    fn survey(set: &Set<'_>, claimed: &[Seen], view: &dyn View) -> Land {
        let places = view
            .list(Resource::Nodes, None)
            .iter()
            .map(|node| {
                let place = Place::of(set.object, node, &set.tolerations);
                (node.name().to_string(), place)
            })
            .collect();
        let mut pods: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
        for pod in claimed {
            // What has ended and is being deleted waits for others; there is nothing left to do.
            if pod::terminal(pod) && owner::deleting(pod) {
                continue;
            }
            if let Some(node) = pods::target(pod) {
                pods.entry(node.to_string()).or_default().push(pod.clone());
            }
        }
        for pods in pods.values_mut() {
            pods.sort_by(|a, b| pods::order(a, b));
        }
        Land { places, pods }
    }

    fn place(&self, node: &str) -> Place {
        self.places.get(node).copied().unwrap_or(Place::NONE)
    }

    fn on(&self, node: &str) -> &[Seen] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }

    /// How many nodes should have a pod.
    fn wanted(&self) -> i64 {
        i64::try_from(self.places.values().filter(|place| place.run).count()).unwrap_or(i64::MAX)
    }
}

fn reconcile(pass: &Pass<'_>) -> Outcome {
    let mut out = Outcome::default();
    let (namespace, name) = (&pass.key.namespace, &pass.key.name);
    let Some(object) = pass.view.get(Resource::DaemonSets, namespace, name) else {
        return out;
    };
    let Some(selector) = selector_of(&object) else { return out };
    if selector.is_everything() {
        selects_all(pass, &object, &mut out);
        return out;
    }
    // Being deleted, its history may be gone already, and no number could be trusted (DS7).
    if owner::deleting(&object) {
        return out;
    }
    let set = Set::read(&object, pass.now);
    let revisions = claim(&set, &selector, Resource::ControllerRevisions, pass.view);
    let claimed = claim(&set, &selector, Resource::Pods, pass.view);
    out.intents.extend(revisions.intents);
    out.intents.extend(claimed.intents);
    if !out.intents.is_empty() {
        out.memory = pass.memory.clone();
        return out;
    }
    let pods = claimed.ours;
    let known = match revisions::decide(&set, revisions.ours, &pods, pass.view) {
        revisions::Decision::Write(intents) => {
            out.intents = intents;
            out.memory = pass.memory.clone();
            return out;
        }
        revisions::Decision::Known(known) => known,
    };
    let land = Land::survey(&set, &pods, pass.view);
    out.intents.extend(status::changed(&set, &land, &known.hash));
    let failures = Failures::recall(pass.memory, &object);
    let acted = manage::plan(&set, &land, &known.hash, pass, failures, &mut out);
    if !acted && set.rolls() {
        update::plan(&set, &land, &known.hash, pass, &mut out);
    }
    revisions::prune(&set, &known.old, &pods, &mut out);
    if let Some(wait) = pod::next_available(&pods, set.min_ready, pass.now) {
        out.wake_after(wait);
    }
    out
}

fn claim(set: &Set<'_>, selector: &LabelSelector, children: Resource, view: &dyn View) -> Claimed {
    Claim {
        resource: Resource::DaemonSets,
        controller: set.object,
        children,
        selector,
        among: |_| true,
        fits: &|_| true,
        finalizer: None,
    }
    .make(view)
}

/// A selector that matches every pod is told about once, and nothing is done.
fn selects_all(pass: &Pass<'_>, set: &Seen, out: &mut Outcome) {
    let generation = owner::generation(set);
    out.memory = Memory::Told(generation);
    if *pass.memory != out.memory {
        let words = "This daemon set is selecting all pods. A non-empty selector is required.";
        let note = Subject::of(Resource::DaemonSets, set).warning("SelectingAll", words);
        out.push(Intent::tell(note));
    }
}
