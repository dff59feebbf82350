//! Which node a pod goes to (SC1 to SC3).
//!
//! ```text
//!   waiting pods, by priority ──► nodes that fit ──► the best liked, or emptiest ──► Binding
//!                                     └─ none ──► weaker pods go, or the pod is told why it waits
//! ```
//!
//! One key for everything: a decision counts on those before it. Where a pod has no wishes, the number
//! of pods decides; the same state gives the same places.

mod affinity;
mod capacity;
mod joined;
mod preempt;
mod preference;
mod unschedulable;

use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::volumes::SELECTED_NODE;
use crate::{condition, owner, placement, pod};
use capacity::FreeCapacity;
use unschedulable::Hopeless;

pub use capacity::PodAllocation;
pub use joined::JoinedScheduler;

/// The name that pods ask for when they ask for nobody else.
const NAME: &str = "default-scheduler";
/// How many pods one pass binds at most. A pass looks at every node and every pod first, so that of a
/// hundred thousand pods many must be placed at once.
const BURST: usize = 2_000;
/// The taint that a cordoned node has in effect.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The scheduler.
pub struct Scheduler;

impl Controller for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }
    fn alias(&self) -> &'static str {
        "kube-scheduler"
    }
    fn component(&self) -> &'static str {
        NAME
    }
    fn on_by_default(&self) -> bool {
        false
    }
    fn comes_first(&self) -> bool {
        true
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Pods, BuiltinResource::Nodes, BuiltinResource::PersistentVolumeClaims]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        let differs = |path: &[&str]| match (change.before, change.after) {
            (Some(before), Some(after)) => before.at(path) != after.at(path),
            _ => true,
        };
        let concerns = match change.resource {
            BuiltinResource::Nodes => {
                differs(&["spec"])
                    || differs(&["metadata", "labels"])
                    || differs(&["status", "allocatable"])
            }
            BuiltinResource::PersistentVolumeClaims => {
                differs(&["spec", "volumeName"]) && change.after.is_some()
            }
            _ => pod_matters(change, &differs),
        };
        if concerns {
            wake(ReconcileKey::new("", ""));
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass)
    }
}

/// A pod that waits came or changed, or one that held a place let go of it.
fn pod_matters(change: &ObjectChange<'_>, differs: &dyn Fn(&[&str]) -> bool) -> bool {
    let waits = change.after.is_some_and(|pod| waiting(pod));
    if waits {
        return differs(&["spec"]) || differs(&["metadata", "labels"]);
    }
    let held = |pod: Option<&VersionedObject>| {
        pod.is_some_and(|pod| !pod::node(pod).is_empty() && !pod::terminal(pod))
    };
    held(change.before) && !held(change.after)
}

/// Whether a pod waits for this scheduler.
fn waiting(pod: &Object) -> bool {
    pod::node(pod).is_empty()
        && pod::active(pod)
        && matches!(pod.str_at(&["spec", "schedulerName"]), None | Some("" | NAME))
        && pod.list_at(&["spec", "schedulingGates"]).is_empty()
}

/// `spec.priority`, or zero.
fn priority(pod: &Object) -> i64 {
    pod.int_at(&["spec", "priority"]).unwrap_or_default()
}

/// A pod that waits for this scheduler, small enough to be remembered for every pod; in the order in
/// which they are placed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingPod {
    /// Its priority with the sign turned: the strongest come first.
    weakness: i64,
    created: Option<String>,
    namespace: String,
    name: String,
    /// Whether it does not care who is where.
    alone: bool,
}

impl PendingPod {
    /// A pod that waits; nothing where it does not.
    #[must_use]
    pub fn of(pod: &Object) -> Option<PendingPod> {
        if !waiting(pod) {
            return None;
        }
        let affinity = |kind| pod.at(&["spec", "affinity", kind]);
        Some(PendingPod {
            weakness: priority(pod).saturating_neg(),
            created: pod.str_at(&["metadata", "creationTimestamp"]).map(ToString::to_string),
            namespace: pod.namespace().to_string(),
            name: pod.name().to_string(),
            alone: affinity("podAffinity").is_none()
                && affinity("podAntiAffinity").is_none()
                && pod.list_at(&["spec", "topologySpreadConstraints"]).is_empty(),
        })
    }

    fn priority(&self) -> i64 {
        self.weakness.saturating_neg()
    }
}

/// A node and all that is on it or was promised to it.
pub(crate) struct CandidateNode {
    node: VersionedObject,
    room: FreeCapacity,
    /// How many pods there are.
    load: usize,
    /// The pods, where others care who they are.
    pods: Vec<VersionedObject>,
    /// Those of the pods that keep others away.
    shy: Vec<VersionedObject>,
}

impl CandidateNode {
    fn put(&mut self, pod: &VersionedObject) {
        self.room.take(pod);
        self.load += 1;
        if pod.at(&["spec", "affinity", "podAntiAffinity"]).is_some() {
            self.shy.push(pod.clone());
        }
        self.pods.push(pod.clone());
    }
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let pending = pass.view.waiting();
    if pending.is_empty() {
        return out;
    }
    let mut places = places(pass.view, &pending);
    let mut order: BTreeSet<(usize, usize)> =
        places.iter().enumerate().map(|(index, place)| (place.load, index)).collect();
    let wary = preference::any_asks(&places);
    let mut hopeless = Hopeless::default();
    // Of many that wait a pass takes few: they are not all put in order.
    let mut pending: BinaryHeap<_> = pending.into_iter().map(Reverse).collect();
    while let Some(Reverse(next)) = pending.pop() {
        if out.intents.len() >= BURST {
            out.wake_after(Duration::ZERO);
            break;
        }
        let found = pass.view.get(BuiltinResource::Pods, &next.namespace, &next.name);
        let Some(waiting) = found.as_ref().filter(|pod| waiting(pod)) else { continue };
        if let Some(message) = hopeless.like(waiting) {
            hold_room(waiting, None, &mut places);
            out.intents.extend(report_unschedulable(pass, waiting, None, message));
            continue;
        }
        match choose(pass.view, waiting, &places, &order, wary) {
            Ok(chosen) => {
                let Some(place) = places.get_mut(chosen) else { continue };
                order.remove(&(place.load, chosen));
                place.put(waiting);
                order.insert((place.load, chosen));
                let open = open_claims(pass.view, waiting);
                if open.is_empty() {
                    out.push(binding(waiting, &place.node));
                } else {
                    // Bound once its claims are; they learn here where they will be needed.
                    out.intents.extend(open.iter().filter_map(|c| aimed(c, &place.node)));
                }
            }
            Err(why) => {
                let message = message(places.len(), &why);
                let (nominated, deletions) = preempt::make_room(waiting, &places, pass.now);
                out.intents.extend(deletions);
                hold_room(waiting, nominated.as_deref(), &mut places);
                out.intents.extend(report_unschedulable(pass, waiting, nominated, &message));
                hopeless.learn(waiting, message);
            }
        }
    }
    out
}

/// Keeps the room of a pod that waits for others to leave from the weaker ones that come after it (SC3).
fn hold_room(waiting: &VersionedObject, nominated: Option<&str>, places: &mut [CandidateNode]) {
    let earlier = waiting.str_at(&["status", "nominatedNodeName"]);
    let Some(name) = nominated.or(earlier) else { return };
    let promised = places.iter_mut().find(|place| place.node.name() == name);
    let promised = promised.filter(|place| nominated.is_some() || preempt::leaving(waiting, place));
    if let Some(place) = promised {
        place.room.take(waiting);
    }
}

/// Every node with what is on it.
fn places(view: &dyn ClusterView, pending: &[Arc<PendingPod>]) -> Vec<CandidateNode> {
    let nodes = view.list(BuiltinResource::Nodes, None).into_iter();
    let mut places: Vec<CandidateNode> = nodes
        .filter(|node| !owner::deleting(node))
        .map(|node| {
            let room = FreeCapacity::of(&node);
            CandidateNode { node, room, load: 0, pods: Vec::new(), shy: Vec::new() }
        })
        .collect();
    let names: BTreeMap<String, usize> = places
        .iter()
        .enumerate()
        .map(|(index, place)| (place.node.name().to_string(), index))
        .collect();
    let taken = view.taken();
    if all_independent(pending, &taken) {
        for taken in &taken {
            if let Some(place) = names.get(&taken.node).and_then(|index| places.get_mut(*index)) {
                place.room.hand_over(taken);
                place.load += 1;
            }
        }
        return places;
    }
    for pod in view.list(BuiltinResource::Pods, None) {
        let at = names.get(pod::node(&pod)).filter(|_| !pod::terminal(&pod));
        if let Some(place) = at.and_then(|index| places.get_mut(*index)) {
            place.put(&pod);
        }
    }
    places
}

/// Whether none of those who wait cares who is where, and nobody who is somewhere cares who comes: no
/// affinity, no spread, nobody weak enough to go. Then nobody need be looked at again.
fn all_independent(pending: &[Arc<PendingPod>], taken: &[Arc<PodAllocation>]) -> bool {
    let strongest = pending.iter().map(|pod| pod.priority()).max();
    let weakest = taken.iter().map(|taken| taken.priority).min();
    let equal = weakest.is_none_or(|weakest| strongest.is_none_or(|most| most <= weakest));
    equal && pending.iter().all(|pod| pod.alone) && !taken.iter().any(|taken| taken.shy)
}

/// The place of a pod, or why each node is none. Nodes are tried from the emptiest on; one that wishes
/// something looks at all of them. `wary`: some node asks pods to stay away.
fn choose(
    view: &dyn ClusterView,
    pod: &VersionedObject,
    places: &[CandidateNode],
    order: &BTreeSet<(usize, usize)>,
    wary: bool,
) -> Result<usize, Vec<Vec<String>>> {
    if let Some(missing) = claims(view, pod).or_else(|| devices(pod)) {
        return Err([[missing].to_vec()].to_vec());
    }
    let company = affinity::Company::of(view, pod, places);
    let homes = volume_nodes(view, pod);
    let preferences = preference::Preferences::of(view, pod, places, wary);
    let (mut reasons, mut fitting) = (Vec::new(), Vec::new());
    for (_, index) in order {
        let Some(place) = places.get(*index) else { continue };
        let mut against = against(pod, place, &company);
        if against.is_empty() && !homes.iter().all(|home| home.allows(&place.node)) {
            against.push("node(s) didn't match PersistentVolume's node affinity".to_string());
        }
        match (against.is_empty(), &preferences) {
            (true, None) => return Ok(*index),
            (true, Some(_)) => fitting.push(*index),
            (false, _) => reasons.push(against),
        }
    }
    preferences.and_then(|preferences| preferences.best(&fitting, places)).ok_or(reasons)
}

/// A volume that is bound to a claim of the pod, with nodes of its own.
struct VolumeNodes(VersionedObject);

impl VolumeNodes {
    fn allows(&self, node: &Object) -> bool {
        let required = self.0.map_at(&["spec", "nodeAffinity", "required"]);
        required.is_none_or(|required| placement::one_term_matches(required, node))
    }
}

/// The volumes behind a pod's claims that are not everywhere.
fn volume_nodes(view: &dyn ClusterView, pod: &Object) -> Vec<VolumeNodes> {
    let volumes = pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object);
    let names = volumes.filter_map(|volume| claim_of(pod, volume));
    let bound = names.filter_map(|name| {
        let claim = view.get(BuiltinResource::PersistentVolumeClaims, pod.namespace(), &name)?;
        view.get(BuiltinResource::PersistentVolumes, "", crate::volumes::volume_of(&claim)?)
    });
    bound.filter(|volume| volume.at(&["spec", "nodeAffinity"]).is_some()).map(VolumeNodes).collect()
}

/// Why a pod that wants devices waits: nobody allocates them.
fn devices(pod: &Object) -> Option<String> {
    let claims = pod.list_at(&["spec", "resourceClaims"]);
    (!claims.is_empty())
        .then(|| "pod has resource claims, and devices are not allocated".to_string())
}

/// What stands against a node; the first kind of reason is enough, resources are all named.
fn against(pod: &Object, place: &CandidateNode, company: &affinity::Company) -> Vec<String> {
    let spec = pod.map_at(&["spec"]);
    let tolerations = pod.list_at(&["spec", "tolerations"]);
    let one = |reason: &str| [reason.to_string()].to_vec();
    if cordoned(&place.node, tolerations) {
        return one("node(s) were unschedulable");
    }
    if placement::repels(&place.node, tolerations, &["NoSchedule", "NoExecute"]) {
        return one("node(s) had untolerated taint(s)");
    }
    if spec.is_some_and(|spec| !placement::attracts(spec, &place.node)) {
        return one("node(s) didn't match Pod's node affinity/selector");
    }
    let lacking = place.room.lacks(pod);
    if !lacking.is_empty() {
        return lacking;
    }
    company.against(pod, place).map(one).unwrap_or_default()
}

fn cordoned(node: &Object, tolerations: &[Value]) -> bool {
    if node.bool_at(&["spec", "unschedulable"]) != Some(true) {
        return false;
    }
    let taint = json!({"key": UNSCHEDULABLE, "effect": "NoSchedule"});
    taint.as_object().is_some_and(|taint| {
        !tolerations.iter().any(|toleration| placement::tolerates(toleration, taint))
    })
}

/// What is wrong with the claims of a pod, if something is.
fn claims(view: &dyn ClusterView, pod: &VersionedObject) -> Option<String> {
    for volume in pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object) {
        let Some(name) = claim_of(pod, volume) else { continue };
        let claim = view.get(BuiltinResource::PersistentVolumeClaims, pod.namespace(), &name);
        let Some(claim) = claim else {
            return Some(format!("persistentvolumeclaim {name:?} not found"));
        };
        if owner::deleting(&claim) {
            return Some(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if crate::volumes::volume_of(&claim).is_none()
            && !crate::volumes::waits_for_pod(view, &claim)
        {
            return Some("pod has unbound immediate PersistentVolumeClaims".to_string());
        }
    }
    None
}

/// The claims of a pod that are not bound yet.
fn open_claims(view: &dyn ClusterView, pod: &Object) -> Vec<VersionedObject> {
    let volumes = pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object);
    let names = volumes.filter_map(|volume| claim_of(pod, volume));
    let claims = names.filter_map(|name| {
        view.get(BuiltinResource::PersistentVolumeClaims, pod.namespace(), &name)
    });
    claims.filter(|claim| crate::volumes::volume_of(claim).is_none()).collect()
}

/// The name of the claim behind a volume.
fn claim_of(pod: &Object, volume: &Object) -> Option<String> {
    match volume.str_at(&["persistentVolumeClaim", "claimName"]) {
        Some(name) => Some(name.to_string()),
        None => volume.contains_key("ephemeral").then(|| crate::ephemeral::claim_name(pod, volume)),
    }
}

/// Tells a claim the node of its pod, unless it knows one.
fn aimed(claim: &VersionedObject, node: &Object) -> Option<ControllerIntent> {
    owner::annotation(claim, SELECTED_NODE).is_none().then(|| {
        let mut object = Object::clone(&claim.object);
        owner::annotate(&mut object, SELECTED_NODE, node.name());
        let endpoint = UpdateEndpoint::Main;
        ControllerIntent::update(
            BuiltinResource::PersistentVolumeClaims,
            object,
            endpoint,
            claim.revision,
        )
        .independent()
    })
}

fn binding(pod: &VersionedObject, node: &Object) -> ControllerIntent {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": pod.name(),
            "namespace": pod.namespace(),
            "uid": owner::uid(pod),
        },
        "target": {"kind": "Node", "name": node.name()},
    });
    let object = object.as_object().cloned().unwrap_or_default();
    let words =
        format!("Successfully assigned {}/{} to {}", pod.namespace(), pod.name(), node.name());
    let note = InvolvedObject::of(BuiltinResource::Pods, pod).normal("Scheduled", words);
    ControllerIntent::update(BuiltinResource::Pods, object, UpdateEndpoint::Binding, pod.revision)
        .when_done(note)
        .independent()
        .together(true)
}

/// Tells a pod why it waits, unless it knows.
fn report_unschedulable(
    pass: &Pass<'_>,
    pod: &VersionedObject,
    nominated: Option<String>,
    message: &str,
) -> Option<ControllerIntent> {
    let mut object = Object::clone(&pod.object);
    let status = object.map_mut("status");
    if let Some(nominated) = nominated {
        status.insert("nominatedNodeName".to_string(), nominated.into());
    }
    let mut conditions: Vec<Value> = status.list_at(&["conditions"]).to_vec();
    let known = condition::find(&conditions, "PodScheduled").cloned();
    let mut new = condition::new("PodScheduled", "False", "Unschedulable", message, pass.now);
    let same = |known: &Object, name: &str| known.get(name) == new.get(name);
    let stands = known.as_ref().is_some_and(|known| {
        ["status", "reason", "message"].into_iter().all(|name| same(known, name))
    });
    if let Some(known) = known.filter(|known| same(known, "status"))
        && let Some(since) = known.get("lastTransitionTime")
    {
        new.insert("lastTransitionTime".to_string(), since.clone());
    }
    if !stands {
        condition::remove(&mut conditions, "PodScheduled");
        conditions.push(Value::Object(new));
        status.insert("conditions".to_string(), Value::Array(conditions));
    }
    (object != *pod.object).then(|| {
        let note =
            InvolvedObject::of(BuiltinResource::Pods, pod).warning("FailedScheduling", message);
        ControllerIntent::update(
            BuiltinResource::Pods,
            object,
            UpdateEndpoint::Status,
            pod.revision,
        )
        .when_done(note)
        .independent()
        .together(true)
    })
}

/// The words that people know: how many nodes there are, and how many have which fault.
fn message(nodes: usize, reasons: &[Vec<String>]) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_string();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons.iter().flatten() {
        *counts.entry(reason).or_default() += 1;
    }
    let whole =
        |reason: &str| reason.starts_with("persistentvolumeclaim") || reason.starts_with("pod has");
    let mut said: Vec<String> = counts
        .iter()
        .map(|(reason, count)| match whole(reason) {
            true => (*reason).to_string(),
            false => format!("{count} {reason}"),
        })
        .collect();
    said.sort();
    format!("0/{nodes} nodes are available: {}.", said.join(", "))
}
