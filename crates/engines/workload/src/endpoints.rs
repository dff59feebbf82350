//! The older Endpoints object of a Service with a selector (ES4).
//!
//! One object per Service, under its name; it goes when the Service goes. Endpoints of Services
//! without a selector belong to whoever wrote them.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{Controller, ObjectChange, Pass, ReconcileKey, ReconcileResult};
use crate::intent::{ControllerIntent, InvolvedObject, MessageSuffix, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::slices::{self, HEADLESS_LABEL, TRIGGER, reach};
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, pod, selector};

/// Who keeps the object.
const KEEPER_LABEL: &str = "endpoints.kubernetes.io/managed-by";
const KEEPER: &str = "endpoint-controller";
/// Tells that there were more addresses than fit.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// How many addresses fit.
const ADDRESSES_MAX: usize = 1000;

/// The controller of Endpoints.
pub struct Endpoints;

impl Controller for Endpoints {
    fn name(&self) -> &'static str {
        "endpoints-controller"
    }
    fn alias(&self) -> &'static str {
        "endpoint"
    }
    fn component(&self) -> &'static str {
        "endpoint-controller"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Services, BuiltinResource::Pods, BuiltinResource::Endpoints]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        match change.resource {
            BuiltinResource::Pods => slices::by_pod(change, view, wake),
            BuiltinResource::Services => crate::wake::itself(change, wake),
            _ => {
                let kept =
                    |seen: &&VersionedObject| owner::label(seen, KEEPER_LABEL) == Some(KEEPER);
                if change.object().filter(kept).is_some() {
                    crate::wake::itself(change, wake);
                }
            }
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass)
    }
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let (namespace, name) = (&*pass.key.namespace, &*pass.key.name);
    let known = pass.view.get(BuiltinResource::Endpoints, namespace, name);
    let Some(service) = pass.view.get(BuiltinResource::Services, namespace, name) else {
        if let Some(known) = known.filter(|known| !owner::deleting(known)) {
            out.push(ControllerIntent::delete(BuiltinResource::Endpoints, &known));
        }
        return out;
    };
    if !reach::selects(&service) || owner::deleting(&service) {
        return out;
    }
    let Some(picked) = selector::map_at(&service, &["spec", "selector"]) else { return out };
    let pods = pass.view.select(BuiltinResource::Pods, namespace, &picked);
    let (subsets, over) = subsets(&service, &pods);
    let mut labels = service.map_at(&["metadata", "labels"]).cloned().unwrap_or_default();
    labels.remove(HEADLESS_LABEL);
    if reach::headless(&service) {
        labels.insert(HEADLESS_LABEL.to_string(), "".into());
    }
    labels.insert(KEEPER_LABEL.to_string(), KEEPER.into());
    if let Some(known) = &known {
        let same = known.list_at(&["subsets"]) == subsets.as_slice()
            && known.map_at(&["metadata", "labels"]) == Some(&labels)
            && owner::annotation(known, OVER_CAPACITY).is_some() == over;
        if same {
            return out;
        }
    }
    let mut object =
        known.as_ref().map_or_else(|| fresh(&service), |known| Object::clone(&known.object));
    if subsets.is_empty() {
        object.remove("subsets");
    } else {
        object.insert("subsets".to_string(), Value::Array(subsets));
    }
    let metadata = object.map_mut("metadata");
    metadata.insert("labels".to_string(), Value::Object(labels));
    metadata.map_mut("annotations").remove(OVER_CAPACITY);
    if over {
        owner::annotate(&mut object, OVER_CAPACITY, "truncated");
    }
    if let Some(trigger) = slices::trigger(&service, &pods) {
        owner::annotate(&mut object, TRIGGER, &trigger);
    }
    let about = InvolvedObject::of(BuiltinResource::Services, &service);
    let refused = |reason: &str, words: &str| {
        let words = format!("Failed to {words} endpoint {namespace}/{name}: ");
        about.warning(reason, words).ending(MessageSuffix::Error)
    };
    out.push(match known {
        Some(known) => ControllerIntent::update(
            BuiltinResource::Endpoints,
            object,
            UpdateEndpoint::Main,
            known.revision,
        )
        .when_refused(refused("FailedToUpdateEndpoint", "update")),
        None => ControllerIntent::create(BuiltinResource::Endpoints, object)
            .when_refused(refused("FailedToCreateEndpoint", "create")),
    });
    out
}

fn fresh(service: &Object) -> Object {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": service.name(), "namespace": service.namespace()},
    });
    object.as_object().cloned().unwrap_or_default()
}

/// Addresses that share ports.
struct Subset {
    ports: Vec<Value>,
    ready: Vec<Value>,
    unready: Vec<Value>,
}

/// The subsets, sorted by their first address, and whether some addresses were left out.
fn subsets(service: &Object, pods: &[VersionedObject]) -> (Vec<Value>, bool) {
    let publishes = reach::publishes_unready(service);
    let family = reach::families(service).first().copied().unwrap_or("IPv4");
    let mut found: Vec<(bool, Value, Vec<Value>)> = Vec::new();
    for pod in pods.iter().filter(|pod| reach::counts(pod, publishes)) {
        let Some(ip) = reach::addresses(pod, family).first().copied() else { continue };
        let ports = reach::ports(service, pod);
        // A Service with an address of its own shows only pods that serve one of its ports.
        if ports.is_empty() && !reach::headless(service) {
            continue;
        }
        let ready = publishes || pod::ready(pod);
        found.push((ready, address(service, pod, ip), ports.into_iter().map(unnamed).collect()));
    }
    let over = found.len() > ADDRESSES_MAX;
    if over {
        // Ready ones are kept first.
        found.sort_by_key(|(ready, _, _)| !ready);
        found.truncate(ADDRESSES_MAX);
    }
    let ip = |address: &Value| address.get("ip").and_then(Value::as_str).map(ToString::to_string);
    found.sort_by_key(|(_, address, _)| ip(address));
    let mut subsets: Vec<Subset> = Vec::new();
    for (ready, address, ports) in found {
        let place = subsets.iter().position(|subset| subset.ports == ports);
        let place = place.unwrap_or_else(|| {
            subsets.push(Subset { ports, ready: Vec::new(), unready: Vec::new() });
            subsets.len() - 1
        });
        if let Some(subset) = subsets.get_mut(place) {
            if ready { &mut subset.ready } else { &mut subset.unready }.push(address);
        }
    }
    (subsets.into_iter().map(written).collect(), over)
}

fn written(subset: Subset) -> Value {
    let mut made = Object::new();
    let parts = [
        ("addresses", subset.ready),
        ("notReadyAddresses", subset.unready),
        ("ports", subset.ports),
    ];
    for (name, list) in parts {
        if !list.is_empty() {
            made.insert(name.to_string(), Value::Array(list));
        }
    }
    Value::Object(made)
}

/// Endpoints leave an empty name of a port out.
fn unnamed(mut port: Value) -> Value {
    if let Some(port) = port.as_object_mut()
        && port.get("name").and_then(Value::as_str) == Some("")
    {
        port.remove("name");
    }
    port
}

fn address(service: &Object, pod: &Object, ip: &str) -> Value {
    let mut made = Object::new();
    made.insert("ip".to_string(), ip.into());
    if !pod::node(pod).is_empty() {
        made.insert("nodeName".to_string(), pod::node(pod).into());
    }
    made.insert("targetRef".to_string(), reach::target(pod));
    if let Some(hostname) = reach::hostname(service, pod) {
        made.insert("hostname".to_string(), hostname.into());
    }
    Value::Object(made)
}
