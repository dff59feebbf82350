//! What one DELETE does to one object: nothing, a mark, or the end (ownership R39–R57, R149, R160).
//!
//! ```text
//!   options + stored object ──► finalizers of the collector ──► grace ──► keep, mark or remove
//! ```
//!
//! Everything here is decided from the object and the options; nothing is looked up or stored.

use serde_json::Value;
use tenure_machinery::kind::Dependents;
use tenure_machinery::{Kind, Object, ObjectExt};

use crate::clock::{self, now, seconds_after};
use crate::write::delete::{DeleteOptions, RequestedPropagation};

/// The finalizers that the collector understands.
const COLLECTOR: [&str; 2] = ["orphan", "foregroundDeletion"];

/// What becomes of the object.
#[derive(Debug)]
pub(crate) enum DeletionDecision {
    /// Nothing changes.
    Keep,
    /// The object stays, with these marks.
    Mark(Object),
    /// The object goes; its last state.
    Remove(Object),
}

/// Decides; without a collector no finalizer is added or taken (ownership R48).
pub(crate) fn decide(
    kind: &Kind,
    collects_garbage: bool,
    options: &DeleteOptions,
    old: &Object,
) -> DeletionDecision {
    let marked = old.str_at(&["metadata", "deletionTimestamp"]).is_some();
    if is_namespace(kind) {
        if !marked {
            return mark_namespace(collects_garbage, options, old);
        }
        if !old.list_at(&["spec", "finalizers"]).is_empty() {
            return DeletionDecision::Keep;
        }
    }
    if is_definition(kind) && !marked {
        let mut new = old.clone();
        tenure_structural::crd::begin_deletion(&mut new, &now());
        return DeletionDecision::Mark(new);
    }
    if kind.kind == "Pod" && kind.group.is_empty() {
        return decide_pod(kind, collects_garbage, options, old);
    }
    decide_plain(kind, collects_garbage, options, old)
}

pub(crate) fn is_namespace(kind: &Kind) -> bool {
    kind.kind == "Namespace" && kind.group.is_empty()
}

pub(crate) fn is_definition(kind: &Kind) -> bool {
    kind.kind == "CustomResourceDefinition" && kind.group == "apiextensions.k8s.io"
}

/// An object that knows no grace: finalizers decide, on every DELETE anew (R50, R51, R54, R57).
fn decide_plain(
    kind: &Kind,
    collects_garbage: bool,
    options: &DeleteOptions,
    old: &Object,
) -> DeletionDecision {
    // Who is told of the end sees what was stored.
    let free = old.list_at(&["metadata", "finalizers"]).is_empty();
    if free && (!collects_garbage || wanted(old, kind.dependents, options.propagation).is_none()) {
        return DeletionDecision::Remove(old.clone());
    }
    let mut new = old.clone();
    if collects_garbage {
        settle_finalizers(&mut new, kind.dependents, options.propagation);
    }
    if new.list_at(&["metadata", "finalizers"]).is_empty() {
        return DeletionDecision::Remove(old.clone());
    }
    if old.str_at(&["metadata", "deletionTimestamp"]).is_none() {
        mark(&mut new, 0);
        move_generation(&mut new);
    } else {
        new.map_mut("metadata").insert("deletionGracePeriodSeconds".into(), 0.into());
    }
    if new == *old { DeletionDecision::Keep } else { DeletionDecision::Mark(new) }
}

/// A pod gets its grace first; a second DELETE may shorten it (R52, R53, R55–R57).
fn decide_pod(
    kind: &Kind,
    collects_garbage: bool,
    options: &DeleteOptions,
    old: &Object,
) -> DeletionDecision {
    let requested = options.grace_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let mut new = old.clone();
    let grace = match old.str_at(&["metadata", "deletionTimestamp"]) {
        None => {
            let grace = first_grace(requested, old);
            mark(&mut new, grace);
            move_generation(&mut new);
            grace
        }
        Some(mark) => {
            let stored = old.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
            if stored == 0 {
                return decide_plain(kind, collects_garbage, options, old);
            }
            let Some(requested) = requested.filter(|requested| *requested < stored) else {
                return DeletionDecision::Keep;
            };
            shorten(&mut new, mark, stored, requested);
            requested
        }
    };
    if collects_garbage {
        settle_finalizers(&mut new, kind.dependents, options.propagation);
    }
    if grace == 0 && new.list_at(&["metadata", "finalizers"]).is_empty() {
        DeletionDecision::Remove(new)
    } else {
        DeletionDecision::Mark(new)
    }
}

/// The period a pod gets (R52); nothing waits for a pod that runs nowhere.
fn first_grace(requested: Option<i64>, pod: &Object) -> i64 {
    let nowhere = pod.str_at(&["spec", "nodeName"]).is_none_or(str::is_empty);
    if nowhere || matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed")) {
        return 0;
    }
    let own = || pod.int_at(&["spec", "terminationGracePeriodSeconds"]);
    let seconds = requested.or_else(own).unwrap_or(0);
    if seconds < 0 { 1 } else { seconds }
}

/// Counts the shorter period from the first DELETE; never ends before now, and a period that is over
/// already becomes the shortest there is, for the node to see (R56).
fn shorten(pod: &mut Object, mark: &str, stored: i64, requested: i64) {
    let now = clock::timestamp().as_second();
    let ends = mark.parse::<jiff::Timestamp>().map_or(now, jiff::Timestamp::as_second);
    // A period beyond the end of time says nothing about when it began.
    let begun = ends.checked_sub(stored).filter(|begun| *begun > 0).unwrap_or(now);
    let ends = begun.saturating_add(requested);
    let grace = if ends < now && requested != 0 { 1 } else { requested };
    let metadata = pod.map_mut("metadata");
    metadata.insert("deletionTimestamp".into(), seconds_after(ends.max(now) - now).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
}

/// A namespace is marked and waits for its content to go; each finalizer of the collector follows its
/// own wish here, and `orphanDependents: false` means to wait for dependents (R149).
fn mark_namespace(
    collects_garbage: bool,
    options: &DeleteOptions,
    old: &Object,
) -> DeletionDecision {
    let mut new = old.clone();
    new.map_mut("metadata").insert("deletionTimestamp".into(), now().into());
    new.map_mut("status").insert("phase".into(), "Terminating".into());
    if collects_garbage && options.propagation.is_some() {
        let wanted = match options.propagation {
            Some(RequestedPropagation::Orphan) => Some("orphan"),
            Some(RequestedPropagation::Foreground) => Some("foregroundDeletion"),
            _ if options.orphan_false => Some("foregroundDeletion"),
            _ => None,
        };
        set_finalizer(&mut new, wanted);
    }
    DeletionDecision::Mark(new)
}

fn mark(object: &mut Object, grace_seconds: i64) {
    let metadata = object.map_mut("metadata");
    metadata.insert("deletionTimestamp".into(), seconds_after(grace_seconds).into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace_seconds.into());
}

fn move_generation(object: &mut Object) {
    let generation = object.int_at(&["metadata", "generation"]).unwrap_or(0);
    if generation > 0 {
        let next = generation.saturating_add(1);
        object.map_mut("metadata").insert("generation".into(), next.into());
    }
}

/// Leaves the one of the collector's finalizers that belongs on the object, or none (R39–R47).
fn settle_finalizers(
    object: &mut Object,
    default: Dependents,
    propagation: Option<RequestedPropagation>,
) {
    let wanted = wanted(object, default, propagation);
    set_finalizer(object, wanted);
}

/// Which of the two collector finalizers ends up on the object.
fn wanted(
    object: &Object,
    default: Dependents,
    propagation: Option<RequestedPropagation>,
) -> Option<&'static str> {
    match (default, propagation, collector_finalizer(object)) {
        (Dependents::Unsupported, _, _) => None,
        (_, Some(RequestedPropagation::Orphan), _) => Some("orphan"),
        (_, Some(RequestedPropagation::Foreground), _) => Some("foregroundDeletion"),
        (_, Some(RequestedPropagation::Background), _) => None,
        (_, None, Some(present)) => Some(present),
        (Dependents::Orphan, None, None) => Some("orphan"),
        (Dependents::Delete, None, None) => None,
    }
}

/// The first of the collector's finalizers that the object has.
fn collector_finalizer(object: &Object) -> Option<&'static str> {
    let list = object.list_at(&["metadata", "finalizers"]);
    let known = |name: &Value| COLLECTOR.into_iter().find(|own| name.as_str() == Some(own));
    list.iter().find_map(known)
}

/// Leaves at most this one of the collector's finalizers; the others keep their order.
fn set_finalizer(object: &mut Object, wanted: Option<&'static str>) {
    let has = |own: &str| {
        let list = object.list_at(&["metadata", "finalizers"]);
        list.iter().any(|name| name.as_str() == Some(own))
    };
    // A list that has just what is wanted keeps its order as well.
    if COLLECTOR.iter().all(|own| has(own) == (wanted == Some(own))) {
        return;
    }
    let metadata = object.map_mut("metadata");
    let mut list = match metadata.remove("finalizers") {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    list.retain(|name| !name.as_str().is_some_and(|name| COLLECTOR.contains(&name)));
    list.extend(wanted.map(Value::from));
    if !list.is_empty() {
        metadata.insert("finalizers".into(), Value::Array(list));
    }
}
