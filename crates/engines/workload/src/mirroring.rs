//! EndpointSlices of Endpoints that somebody writes by hand (ES5).
//!
//! ```text
//!   Endpoints ──name──► Service without a selector
//!       └─subsets, repacked─► one slice per address family and set of ports
//! ```
//!
//! Slices that other people manage are never looked at. How addresses are laid together is in `repack`.

mod repack;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_core::selector::{LabelRequirement, LabelRule, LabelSelector};
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::slices::{KEEPER_LABEL, SERVICE_LABEL, TRIGGER};
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, wake};
use repack::DesiredEndpointSlice;

/// The keeper of slices that are made here.
const KEEPER: &str = "endpointslicemirroring-controller.k8s.io";
/// Endpoints with this label, `true`, are not mirrored.
const SKIP_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Endpoints that a leader is elected by are not about addresses.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// What `kubectl apply` last sent; it is about the Endpoints.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The controller of EndpointSlices that say what Endpoints say.
pub struct MirroredEndpoints;

impl Controller for MirroredEndpoints {
    fn name(&self) -> &'static str {
        "endpointslice-mirroring-controller"
    }
    fn alias(&self) -> &'static str {
        "endpointslicemirroring"
    }
    fn component(&self) -> &'static str {
        "endpoint-slice-mirroring-controller"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::Services, BuiltinResource::Endpoints, BuiltinResource::EndpointSlices]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        _: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        match change.resource {
            BuiltinResource::Services | BuiltinResource::Endpoints => wake::itself(change, wake),
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

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let known =
        pass.view.select(BuiltinResource::EndpointSlices, &pass.key.namespace, &ours(pass.key));
    let Some(endpoints) = mirrored(pass) else {
        out.intents.extend(known.iter().map(removal));
        return out;
    };
    let (wanted, left_out) = repack::wanted(endpoints.list_at(&["subsets"]));
    let mut spare: Vec<&VersionedObject> = known.iter().collect();
    let mut new: Vec<DesiredEndpointSlice> = Vec::new();
    for wanted in wanted {
        // The first with these ports is kept, also over one that says the same.
        match spare.iter().position(|slice| wanted.fits(slice)) {
            Some(place) => out.intents.extend(written(&endpoints, wanted, spare.remove(place))),
            None => new.push(wanted),
        }
    }
    for wanted in new {
        let family =
            |slice: &&VersionedObject| slice.str_at(&["addressType"]) == Some(wanted.family);
        match spare.iter().position(family) {
            // A slice that nobody needs is written over before another is made.
            Some(place) => out.intents.extend(written(&endpoints, wanted, spare.remove(place))),
            None if owner::deleting(&endpoints) => {}
            None => out.push(created(&endpoints, wanted)),
        }
    }
    out.intents.extend(spare.into_iter().map(removal));
    tell(pass, &endpoints, left_out, &mut out);
    out
}

/// The slices that are kept here for a Service.
fn ours(key: &ReconcileKey) -> LabelSelector {
    let labels = [(SERVICE_LABEL, &*key.name), (KEEPER_LABEL, KEEPER)];
    let requirement = |(key, value): (&str, &str)| LabelRequirement {
        key: key.to_string(),
        rule: LabelRule::Equals(value.to_string()),
    };
    LabelSelector::new(labels.map(requirement).to_vec())
}

/// The Endpoints, if they are to be mirrored: of a Service without a selector, and by nobody's leave left out.
fn mirrored(pass: &Pass<'_>) -> Option<VersionedObject> {
    let (namespace, name) = (&*pass.key.namespace, &*pass.key.name);
    let endpoints = pass.view.get(BuiltinResource::Endpoints, namespace, name)?;
    let skipped = owner::label(&endpoints, SKIP_LABEL) == Some("true")
        || owner::annotation(&endpoints, LEADER).is_some();
    let service = pass.view.get(BuiltinResource::Services, namespace, name)?;
    let selects = service.map_at(&["spec", "selector"]).is_some_and(|picked| !picked.is_empty());
    (!skipped && !selects).then_some(endpoints)
}

fn removal(slice: &VersionedObject) -> ControllerIntent {
    ControllerIntent::delete(BuiltinResource::EndpointSlices, slice)
}

/// Labels and annotations of a slice: those of the Endpoints, and who keeps it for whom.
fn labels(endpoints: &Object) -> Object {
    let mut labels = endpoints.map_at(&["metadata", "labels"]).cloned().unwrap_or_default();
    labels.insert(SERVICE_LABEL.to_string(), endpoints.name().into());
    labels.insert(KEEPER_LABEL.to_string(), KEEPER.into());
    labels
}

fn annotations(endpoints: &Object) -> Object {
    let mut kept = endpoints.map_at(&["metadata", "annotations"]).cloned().unwrap_or_default();
    kept.remove(TRIGGER);
    kept.remove(APPLIED);
    kept
}

fn list(list: Vec<Value>) -> Value {
    if list.is_empty() { Value::Null } else { Value::Array(list) }
}

fn created(endpoints: &VersionedObject, wanted: DesiredEndpointSlice) -> ControllerIntent {
    let object = json!({
        "apiVersion": BuiltinResource::EndpointSlices.api_version(),
        "kind": BuiltinResource::EndpointSlices.kind(),
        "metadata": {
            "generateName": format!("{}-", endpoints.name()),
            "namespace": endpoints.namespace(),
        },
        "addressType": wanted.family,
    });
    let mut object = object.as_object().cloned().unwrap_or_default();
    fill(&mut object, endpoints, wanted);
    let about = InvolvedObject::of(BuiltinResource::Endpoints, endpoints);
    ControllerIntent::create(BuiltinResource::EndpointSlices, object).relying_on(about.living())
}

/// The write over a slice that says something else.
fn written(
    endpoints: &VersionedObject,
    wanted: DesiredEndpointSlice,
    old: &VersionedObject,
) -> Option<ControllerIntent> {
    let none = Object::new();
    let uid = owner::uid(endpoints);
    // Another owner under the same name is one that went; who else owns the slice is not looked at.
    let of_a_former = old.list_at(&["metadata", "ownerReferences"]).iter().any(|entry| {
        let text = |member: &str| entry.get(member).and_then(Value::as_str);
        text("kind") == Some("Endpoints")
            && text("name") == Some(endpoints.name())
            && text("uid") != Some(uid)
    });
    let same = wanted.fits(old)
        && wanted.holds(old.list_at(&["endpoints"]))
        && old.map_at(&["metadata", "labels"]) == Some(&labels(endpoints))
        && *old.map_at(&["metadata", "annotations"]).unwrap_or(&none) == annotations(endpoints)
        && !of_a_former;
    if same {
        return None;
    }
    let mut object = Object::clone(&old.object);
    // What is written is what a fresh slice would be: of the old one it has the name and what is the server's.
    for member in ["generateName", "finalizers"] {
        object.map_mut("metadata").remove(member);
    }
    fill(&mut object, endpoints, wanted);
    Some(ControllerIntent::update(
        BuiltinResource::EndpointSlices,
        object,
        UpdateEndpoint::Main,
        old.revision,
    ))
}

/// Lays into a slice what is wanted of it.
fn fill(object: &mut Object, endpoints: &Object, wanted: DesiredEndpointSlice) {
    let metadata = object.map_mut("metadata");
    metadata.insert("labels".to_string(), Value::Object(labels(endpoints)));
    metadata.remove("annotations");
    let annotations = annotations(endpoints);
    if !annotations.is_empty() {
        metadata.insert("annotations".to_string(), Value::Object(annotations));
    }
    let owners = json!([owner::entry(BuiltinResource::Endpoints, endpoints)]);
    metadata.insert("ownerReferences".to_string(), owners);
    object.insert("ports".to_string(), list(wanted.ports));
    object.insert("endpoints".to_string(), list(wanted.endpoints));
}

/// Tells once that some addresses were left out.
fn tell(pass: &Pass<'_>, endpoints: &VersionedObject, left_out: usize, out: &mut ReconcileResult) {
    if left_out == 0 {
        return;
    }
    let message = format!(
        "A max of {} addresses can be mirrored to EndpointSlices per Endpoints subset. {left_out} \
         addresses were skipped",
        repack::ADDRESSES_MAX
    );
    let said = matches!(pass.memory, ReconcileMemory::Said(said) if said.contains(&message));
    if !said {
        let about = InvolvedObject::of(BuiltinResource::Endpoints, endpoints);
        out.push(ControllerIntent::tell(
            about.warning("TooManyAddressesToMirror", message.clone()),
        ));
    }
    out.memory = ReconcileMemory::Said(BTreeSet::from([message]));
}
