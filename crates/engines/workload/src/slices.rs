//! EndpointSlices of Services with a selector (ES1 to ES3).
//!
//! ```text
//!   Service ──selector──► pods ──ports──► one group per set of ports and address family
//!                                          └─► slices of at most 100 endpoints each
//! ```
//!
//! Slices that other people manage are never looked at. Hints about topology are not given.

mod pack;
pub mod reach;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, pod, selector, time};

/// The Service that a slice belongs to.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Who keeps a slice.
pub const KEEPER_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
/// Marks what belongs to a Service without an address.
pub const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// When the last change that is shown happened.
pub const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The keeper of slices that are made here.
const KEEPER: &str = "endpointslice-controller.k8s.io";
/// Where a node is.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The controller of EndpointSlices.
pub struct EndpointSlices;

impl Controller for EndpointSlices {
    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }
    fn alias(&self) -> &'static str {
        "endpointslice"
    }
    fn component(&self) -> &'static str {
        "endpoint-slice-controller"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[
            BuiltinResource::Services,
            BuiltinResource::Pods,
            BuiltinResource::EndpointSlices,
            BuiltinResource::Nodes,
        ]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        match change.resource {
            BuiltinResource::Services => crate::wake::itself(change, wake),
            BuiltinResource::Pods => by_pod(change, view, wake),
            BuiltinResource::Nodes => by_node(change, view, wake),
            _ => {
                for slice in [change.before, change.after].into_iter().flatten() {
                    let keeper = owner::label(slice, KEEPER_LABEL) == Some(KEEPER);
                    if let Some(service) = owner::label(slice, SERVICE_LABEL).filter(|_| keeper) {
                        wake(ReconcileKey::new(slice.namespace(), service));
                    }
                }
            }
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass)
    }
}

/// Wakes the Services that show a pod or showed it.
pub(crate) fn by_pod(
    change: &ObjectChange<'_>,
    view: &dyn ClusterView,
    wake: &mut dyn FnMut(ReconcileKey),
) {
    // A pod gets its addresses only after it was made; at a start every Service is woken anyway.
    let Some(before) = change.before else { return };
    if change.after.is_some_and(|after| !reach::looks_different(before, after)) {
        return;
    }
    for service in view.list(BuiltinResource::Services, Some(before.namespace())) {
        let after = change.after.is_some_and(|after| reach::picks(&service, after));
        if reach::picks(&service, before) || after {
            wake(ReconcileKey::of(&service));
        }
    }
}

/// Wakes the Services of the pods on a node that came, went or moved.
fn by_node(change: &ObjectChange<'_>, view: &dyn ClusterView, wake: &mut dyn FnMut(ReconcileKey)) {
    let zone = |node: Option<&VersionedObject>| {
        node.map(|node| owner::label(node, ZONE).map(String::from))
    };
    if zone(change.before) == zone(change.after) {
        return;
    }
    let Some(node) = change.object() else { return };
    for pod in view.pods_on(node.name()) {
        for service in view.list(BuiltinResource::Services, Some(pod.namespace())) {
            if reach::picks(&service, &pod) {
                wake(ReconcileKey::of(&service));
            }
        }
    }
}

/// Endpoints that share ports and an address family, by the name of their pod.
pub(crate) struct EndpointGroup {
    ports: Vec<Value>,
    endpoints: BTreeMap<String, Value>,
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let service = pass.view.get(BuiltinResource::Services, &pass.key.namespace, &pass.key.name);
    let Some(service) = service.filter(|service| reach::selects(service)) else { return out };
    let Some(picked) = selector::map_at(&service, &["spec", "selector"]) else { return out };
    let pods = pass.view.select(BuiltinResource::Pods, &pass.key.namespace, &picked);
    let mut known = pass.view.owned_by(owner::uid(&service), BuiltinResource::EndpointSlices);
    known.retain(|slice| {
        owner::controlled_by(slice, owner::uid(&service))
            && owner::label(slice, KEEPER_LABEL) == Some(KEEPER)
            && !owner::deleting(slice)
    });
    let families = reach::families(&service);
    let frame = pack::SliceTemplate {
        service: &service,
        labels: labels(&service),
        trigger: trigger(&service, &pods),
    };
    for family in &families {
        let here = |slice: &&VersionedObject| slice.str_at(&["addressType"]) == Some(family);
        let here: Vec<&VersionedObject> = known.iter().filter(here).collect();
        let groups = groups(pass.view, &service, family, &pods);
        out.intents.extend(pack::intents(&frame, family, groups, &here));
    }
    let lost = |slice: &&VersionedObject| {
        slice.str_at(&["addressType"]).is_none_or(|family| !families.contains(&family))
    };
    out.intents.extend(known.iter().filter(lost).map(pack::removal));
    tell_left_out(pass, &service, &pods, &mut out);
    out
}

/// Tells once which pods are on the loopback address of their node, where nobody else finds them (ES4a).
fn tell_left_out(
    pass: &Pass<'_>,
    service: &VersionedObject,
    pods: &[VersionedObject],
    out: &mut ReconcileResult,
) {
    let left_out = pods.iter().filter(|pod| reach::counts(pod, false) && reach::is_left_out(pod));
    let names: BTreeSet<String> = left_out.map(|pod| pod.name().to_string()).collect();
    let Some(first) = names.first() else { return };
    let known =
        |name: &String| matches!(pass.memory, ReconcileMemory::Said(said) if said.contains(name));
    if !names.iter().all(known) {
        let about = InvolvedObject::of(BuiltinResource::Services, service);
        let others = match names.len() {
            1 => String::new(),
            number => format!(" and {} more", number.saturating_sub(1)),
        };
        // What is refused would silence it, and it holds in any case.
        out.intents.insert(0, ControllerIntent::tell(about.warning(
            "NotPublished",
            format!(
                "pod {first}{others} is not behind the Service: with hostNetwork it has the address of its node, \
                 which is loopback; leave hostNetwork out, or give the node another address"
            ),
        )));
    }
    out.memory = ReconcileMemory::Said(names);
}

/// The endpoints that should be, grouped by their ports.
fn groups(
    view: &dyn ClusterView,
    service: &Object,
    family: &str,
    pods: &[VersionedObject],
) -> Vec<EndpointGroup> {
    let mut groups: Vec<EndpointGroup> = Vec::new();
    for pod in pods.iter().filter(|pod| reach::counts(pod, true)) {
        let node = view.get(BuiltinResource::Nodes, "", pod::node(pod));
        if node.is_none() && !reach::publishes_unready(service) {
            continue;
        }
        let addresses = reach::addresses(pod, family);
        if addresses.is_empty() {
            continue;
        }
        let endpoint = endpoint(service, pod, node.as_ref(), &addresses);
        let ports = reach::ports(service, pod);
        let place = groups.iter().position(|group| group.ports == ports);
        let group = match place.and_then(|place| groups.get_mut(place)) {
            Some(group) => group,
            None => {
                groups.push(EndpointGroup { ports, endpoints: BTreeMap::new() });
                let Some(last) = groups.last_mut() else { continue };
                last
            }
        };
        group.endpoints.insert(pod.name().to_string(), endpoint);
    }
    groups
}

fn endpoint(
    service: &Object,
    pod: &Object,
    node: Option<&VersionedObject>,
    addresses: &[&str],
) -> Value {
    let (serving, terminating) = (pod::ready(pod), owner::deleting(pod));
    let ready = reach::publishes_unready(service) || (serving && !terminating);
    let mut made = Object::new();
    made.insert("addresses".to_string(), json!(addresses));
    made.insert(
        "conditions".to_string(),
        json!({"ready": ready, "serving": serving, "terminating": terminating}),
    );
    made.insert("targetRef".to_string(), reach::target(pod));
    if !pod::node(pod).is_empty() {
        made.insert("nodeName".to_string(), pod::node(pod).into());
    }
    if let Some(zone) = node.and_then(|node| owner::label(node, ZONE)) {
        made.insert("zone".to_string(), zone.into());
    }
    if let Some(hostname) = reach::hostname(service, pod) {
        made.insert("hostname".to_string(), hostname.into());
    }
    Value::Object(made)
}

/// The labels of a slice: those of the Service, and who keeps it for whom (ES1).
fn labels(service: &Object) -> Object {
    let mut labels = service.map_at(&["metadata", "labels"]).cloned().unwrap_or_default();
    for reserved in [HEADLESS_LABEL, SERVICE_LABEL, KEEPER_LABEL] {
        labels.remove(reserved);
    }
    if reach::headless(service) {
        labels.insert(HEADLESS_LABEL.to_string(), "".into());
    }
    labels.insert(SERVICE_LABEL.to_string(), service.name().into());
    labels.insert(KEEPER_LABEL.to_string(), KEEPER.into());
    labels
}

/// When the newest thing that is shown happened: a pod became ready, or the Service came.
pub(crate) fn trigger(service: &Object, pods: &[VersionedObject]) -> Option<String> {
    let pods = pods.iter().filter_map(|pod| pod::ready_since(pod));
    pods.chain(time::created(service)).max().map(time::written)
}
