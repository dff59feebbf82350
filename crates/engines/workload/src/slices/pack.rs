//! Which slices hold which endpoints, so that as little as possible is written (ES1, ES3).
//!
//! An endpoint stays in the slice it is in; new ones fill slices that are written anyway or have
//! room; a slice that nobody needs is written over before another is made.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use super::{EndpointGroup, TRIGGER, reach};
use crate::intent::{ControllerIntent, EventReport, InvolvedObject, MessageSuffix, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;

/// How many endpoints a slice holds at most.
const ENDPOINTS_MAX: usize = 100;

/// What all slices of a Service share.
pub(super) struct SliceTemplate<'a> {
    pub(super) service: &'a VersionedObject,
    pub(super) labels: Object,
    pub(super) trigger: Option<String>,
}

/// A slice as it should be: over a known one, or new.
struct SliceDraft<'a> {
    over: Option<&'a VersionedObject>,
    ports: Vec<Value>,
    endpoints: Vec<Value>,
}

/// What makes the slices of one family hold these groups.
pub(super) fn intents(
    frame: &SliceTemplate<'_>,
    family: &str,
    groups: Vec<EndpointGroup>,
    known: &[&VersionedObject],
) -> Vec<ControllerIntent> {
    let mut spare: Vec<&VersionedObject> = known.to_vec();
    let mut drafts: Vec<SliceDraft<'_>> = Vec::new();
    for group in groups {
        place(group, &mut spare, &mut drafts);
    }
    if drafts.is_empty() {
        // One empty slice says that nobody is there.
        drafts.push(SliceDraft { over: None, ports: Vec::new(), endpoints: Vec::new() });
    }
    for draft in drafts.iter_mut().filter(|draft| draft.over.is_none()) {
        if !spare.is_empty() {
            draft.over = Some(spare.remove(0));
        }
    }
    let mut intents: Vec<ControllerIntent> = spare.iter().map(|slice| removal(slice)).collect();
    for draft in drafts {
        intents.extend(written(frame, family, draft));
    }
    intents
}

/// Removes a slice.
pub(super) fn removal(slice: &VersionedObject) -> ControllerIntent {
    ControllerIntent::delete(BuiltinResource::EndpointSlices, slice).unless_changed(slice.revision)
}

/// Lays the endpoints of a group into the slices that have its ports, then into new ones.
fn place<'a>(
    group: EndpointGroup,
    spare: &mut Vec<&'a VersionedObject>,
    drafts: &mut Vec<SliceDraft<'a>>,
) {
    let EndpointGroup { ports, endpoints: mut left } = group;
    let start = drafts.len();
    let mut others = Vec::new();
    for slice in spare.drain(..) {
        if slice.list_at(&["ports"]) != ports.as_slice() {
            others.push(slice);
            continue;
        }
        let endpoints = kept(slice, &mut left);
        if endpoints.is_empty() {
            others.push(slice);
        } else {
            drafts.push(SliceDraft { over: Some(slice), ports: ports.clone(), endpoints });
        }
    }
    *spare = others;
    let mut left = left.into_values();
    for draft in drafts.iter_mut().skip(start) {
        let room = ENDPOINTS_MAX.saturating_sub(draft.endpoints.len());
        draft.endpoints.extend(left.by_ref().take(room));
    }
    loop {
        let endpoints: Vec<Value> = left.by_ref().take(ENDPOINTS_MAX).collect();
        if endpoints.is_empty() {
            return;
        }
        drafts.push(SliceDraft { over: None, ports: ports.clone(), endpoints });
    }
}

/// What of a slice is still wanted, as it is wanted now; taken out of what is left to place.
fn kept(slice: &Object, left: &mut BTreeMap<String, Value>) -> Vec<Value> {
    let names = slice.list_at(&["endpoints"]).iter();
    let names = names.filter_map(|endpoint| endpoint.as_object()?.str_at(&["targetRef", "name"]));
    names.filter_map(|name| left.remove(name)).take(ENDPOINTS_MAX).collect()
}

/// The write of a slice that is new or differs from what is stored.
fn written(
    frame: &SliceTemplate<'_>,
    family: &str,
    draft: SliceDraft<'_>,
) -> Option<ControllerIntent> {
    let list = |list: Vec<Value>| if list.is_empty() { Value::Null } else { Value::Array(list) };
    let SliceDraft { over, ports, endpoints } = draft;
    let Some(old) = over else {
        return (!owner::deleting(frame.service)).then(|| {
            let object = json!({
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "generateName": format!("{}-", frame.service.name()),
                    "namespace": frame.service.namespace(),
                    "labels": frame.labels,
                    "ownerReferences": [owner::entry(BuiltinResource::Services, frame.service)],
                },
                "addressType": family,
                "endpoints": list(endpoints),
                "ports": list(ports),
            });
            let mut object = object.as_object().cloned().unwrap_or_default();
            stamp(&mut object, frame);
            let about = InvolvedObject::of(BuiltinResource::Services, frame.service);
            let reported = in_machine(object.list_at(&["endpoints"]));
            let create = ControllerIntent::create(BuiltinResource::EndpointSlices, object)
                .relying_on(about.living());
            telling(create, frame, reported)
        });
    };
    let same = old.list_at(&["endpoints"]) == endpoints.as_slice()
        && old.list_at(&["ports"]) == ports.as_slice()
        && old.map_at(&["metadata", "labels"]) == Some(&frame.labels);
    if same {
        return None;
    }
    let mut object = Object::clone(&old.object);
    object.insert("endpoints".to_string(), list(endpoints));
    object.insert("ports".to_string(), list(ports));
    object.map_mut("metadata").insert("labels".to_string(), Value::Object(frame.labels.clone()));
    stamp(&mut object, frame);
    let reported =
        in_machine(object.list_at(&["endpoints"])) && !in_machine(old.list_at(&["endpoints"]));
    let update = ControllerIntent::update(
        BuiltinResource::EndpointSlices,
        object,
        UpdateEndpoint::Main,
        old.revision,
    );
    Some(telling(update, frame, reported))
}

fn in_machine(endpoints: &[Value]) -> bool {
    endpoints.iter().filter_map(Value::as_object).any(reach::in_machine)
}

/// The write, and what is told of it: why it was refused, and how pods are reached that are in the network
/// of their machine (ES4a).
fn telling(
    intent: ControllerIntent,
    frame: &SliceTemplate<'_>,
    in_machine: bool,
) -> ControllerIntent {
    let about = InvolvedObject::of(BuiltinResource::Services, frame.service);
    let refused =
        format!("Error updating Endpoint Slices for Service {}/{}: ", about.namespace, about.name);
    let refused =
        about.warning("FailedToUpdateEndpointSlices", refused).ending(MessageSuffix::Error);
    let intent = intent.when_refused(refused);
    if in_machine { intent.when_done(not_served(frame.service, &about)) } else { intent }
}

/// What nobody serves, and what can be used in its place.
fn not_served(service: &Object, about: &InvolvedObject) -> EventReport {
    let what = match service.str_at(&["spec", "clusterIP"]) {
        Some(address) if !reach::headless(service) => format!("the address {address}"),
        _ => format!("the name {}.{}", about.name, about.namespace),
    };
    about.warning(
        "NotServed",
        format!(
            "{what} is not served: pods of this runtime are in the network of their machine, where they \
             are reached at the addresses of the EndpointSlices; from elsewhere use port-forward or \
             services/proxy"
        ),
    )
}

fn stamp(object: &mut Object, frame: &SliceTemplate<'_>) {
    if let Some(trigger) = &frame.trigger {
        owner::annotate(object, TRIGGER, trigger);
    }
}
