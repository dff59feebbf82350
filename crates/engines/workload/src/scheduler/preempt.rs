//! Room for a pod by the deletion of weaker ones (SC3). Budgets are not looked at.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::{CandidateNode, cordoned, priority};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;
use crate::{condition, owner, placement};

/// The node where room is made, and the deletions that make it; nothing where none can be made.
///
/// Each victim is told first why it goes, in a condition (SC3).
pub(super) fn make_room(
    pod: &VersionedObject,
    places: &[CandidateNode],
    now: Timestamp,
) -> (Option<String>, Vec<ControllerIntent>) {
    let none = (None, Vec::new());
    if pod.str_at(&["spec", "preemptionPolicy"]) == Some("Never") {
        return none;
    }
    let promised = pod.str_at(&["status", "nominatedNodeName"]).unwrap_or_default();
    if places.iter().any(|place| place.node.name() == promised && leaving(pod, place)) {
        // Room is being made already.
        return none;
    }
    let candidates = places.iter().filter_map(|place| Some((victims(pod, place)?, place)));
    let best = candidates.min_by_key(|(victims, place)| {
        let strongest = victims.iter().map(|victim| priority(victim)).max();
        (strongest, victims.len(), place.node.name().to_string())
    });
    let Some((victims, place)) = best else { return none };
    let words = format!("Preempted by pod {} on node {}", owner::uid(pod), place.node.name());
    let reported = victims.iter().map(|victim| mark_disrupted(victim, now));
    let deletions = victims.iter().enumerate().map(|(at, victim)| {
        let note =
            InvolvedObject::of(BuiltinResource::Pods, victim).normal("Preempted", words.clone());
        // The first waits until all are told.
        ControllerIntent::delete(BuiltinResource::Pods, victim)
            .when_done(note)
            .independent()
            .together(at > 0)
    });
    (Some(place.node.name().to_string()), reported.chain(deletions).collect())
}

fn mark_disrupted(victim: &VersionedObject, now: Timestamp) -> ControllerIntent {
    let mut object = Object::clone(&victim.object);
    let status = object.map_mut("status");
    let mut conditions: Vec<Value> = status.list_at(&["conditions"]).to_vec();
    let why = "default-scheduler: preempting to accommodate a higher priority pod";
    let why = condition::new("DisruptionTarget", "True", "PreemptionByScheduler", why, now);
    condition::set(&mut conditions, why);
    status.insert("conditions".to_string(), Value::Array(conditions));
    let intent = ControllerIntent::update(
        BuiltinResource::Pods,
        object,
        UpdateEndpoint::Status,
        victim.revision,
    );
    intent.independent().together(true)
}

/// Whether weaker pods are leaving a node.
pub(super) fn leaving(pod: &Object, place: &CandidateNode) -> bool {
    place.pods.iter().any(|other| owner::deleting(other) && priority(other) < priority(pod))
}

/// The fewest weaker pods, weakest first, whose going makes the pod fit.
fn victims<'a>(pod: &Object, place: &'a CandidateNode) -> Option<Vec<&'a VersionedObject>> {
    let tolerations = pod.list_at(&["spec", "tolerations"]);
    let spec = pod.map_at(&["spec"])?;
    if cordoned(&place.node, tolerations)
        || placement::repels(&place.node, tolerations, &["NoSchedule", "NoExecute"])
        || !placement::attracts(spec, &place.node)
        || place.room.lacks(pod).is_empty()
    {
        return None;
    }
    let mut weaker: Vec<&VersionedObject> =
        place.pods.iter().filter(|other| priority(other) < priority(pod)).collect();
    weaker.sort_by_key(|other| (priority(other), other.name().to_string()));
    let mut room = place.room.clone();
    let mut chosen = Vec::new();
    for other in weaker {
        // One that goes anyway is waited for, not deleted again.
        room.give_back(other);
        if !owner::deleting(other) {
            chosen.push(other);
        }
        if room.lacks(pod).is_empty() {
            return (!chosen.is_empty()).then_some(chosen);
        }
    }
    None
}
