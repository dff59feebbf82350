//! The revision of a DaemonSet's template, and those it no longer needs (HI2 to HI11).

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::DaemonSetContext;
use crate::controller::ReconcileResult;
use crate::history::{self, New, REVISION_LABEL};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, template};

/// What is known of the revisions of a set.
pub(super) struct DaemonSetRevisions {
    /// The hash that pods of today's template carry.
    pub(super) hash: String,
    /// The others.
    pub(super) old: Vec<VersionedObject>,
}

/// What has to be written before anything else, or what is known.
pub(super) enum DaemonRevisionOutcome {
    /// These writes, then another pass.
    Write(Vec<ControllerIntent>),
    /// Nothing to write.
    Known(DaemonSetRevisions),
}

/// Finds, renumbers, makes or merges the revision of the template (HI6, HI8).
pub(super) fn decide(
    set: &DaemonSetContext<'_>,
    all: Vec<VersionedObject>,
    pods: &[VersionedObject],
    view: &dyn ClusterView,
) -> DaemonRevisionOutcome {
    let unlabelled: Vec<ControllerIntent> =
        all.iter().filter(|r| owner::label(r, REVISION_LABEL).is_none()).map(label).collect();
    if !unlabelled.is_empty() {
        return DaemonRevisionOutcome::Write(unlabelled);
    }
    let template = set.object.map_at(&["spec", "template"]).cloned().unwrap_or_default();
    let data = history::data(&template);
    let (mut current, old): (Vec<VersionedObject>, Vec<VersionedObject>) =
        all.into_iter().partition(|revision| history::holds(revision, &data));
    let number = history::next_number(&old);
    history::sort(&mut current);
    let Some(kept) = current.pop() else {
        return make(set, &template, &data, number, old, view);
    };
    if !current.is_empty() {
        return DaemonRevisionOutcome::Write(merge(&kept, &current, pods));
    }
    if history::number(&kept) < number {
        return DaemonRevisionOutcome::Write([history::renumber(&kept, number)].to_vec());
    }
    DaemonRevisionOutcome::Known(DaemonSetRevisions { hash: hash_of(&kept), old })
}

fn hash_of(revision: &Object) -> String {
    owner::label(revision, REVISION_LABEL).unwrap_or_default().to_string()
}

/// A revision from before hashes were labels is known by its name.
fn label(revision: &VersionedObject) -> ControllerIntent {
    let mut object = Object::clone(&revision.object);
    let name = revision.name().to_string();
    let labels = object.map_mut("metadata").map_mut("labels");
    labels.insert(REVISION_LABEL.to_string(), name.into());
    ControllerIntent::update(
        BuiltinResource::ControllerRevisions,
        object,
        UpdateEndpoint::Main,
        revision.revision,
    )
    .independent()
}

/// Makes the revision of the template, or makes room for its name (HI8).
fn make(
    set: &DaemonSetContext<'_>,
    template: &Object,
    data: &Value,
    number: i64,
    old: Vec<VersionedObject>,
    view: &dyn ClusterView,
) -> DaemonRevisionOutcome {
    let collisions = set.object.int_at(&["status", "collisionCount"]);
    let hash = template::hash(template, collisions);
    let new = New {
        resource: BuiltinResource::DaemonSets,
        controller: set.object,
        data,
        label: REVISION_LABEL,
        hash: &hash,
        number,
    };
    match view.get(BuiltinResource::ControllerRevisions, set.object.namespace(), &new.name()) {
        None => {
            let create =
                ControllerIntent::create(BuiltinResource::ControllerRevisions, new.object());
            DaemonRevisionOutcome::Write([create.relying_on(set.about.living())].to_vec())
        }
        Some(taken) if history::holds(&taken, data) => {
            let known = Some(hash_of(&taken)).filter(|hash| !hash.is_empty());
            DaemonRevisionOutcome::Known(DaemonSetRevisions { hash: known.unwrap_or(hash), old })
        }
        Some(_) => {
            let collisions = collisions.unwrap_or_default().saturating_add(1);
            let mut object = Object::clone(&set.object.object);
            object.map_mut("status").insert("collisionCount".to_string(), collisions.into());
            let revision = set.object.revision;
            let write = ControllerIntent::update(
                BuiltinResource::DaemonSets,
                object,
                UpdateEndpoint::Status,
                revision,
            );
            DaemonRevisionOutcome::Write([write].to_vec())
        }
    }
}

/// Of several revisions of one template the highest stays; pods of the others become its own (HI6).
fn merge(
    kept: &VersionedObject,
    others: &[VersionedObject],
    pods: &[VersionedObject],
) -> Vec<ControllerIntent> {
    let hash = hash_of(kept);
    let merged: BTreeSet<String> = others.iter().map(|revision| hash_of(revision)).collect();
    let strangers = pods.iter().filter(|pod| {
        owner::label(pod, REVISION_LABEL).is_some_and(|l| l != hash && merged.contains(l))
    });
    let relabelled = strangers.map(|pod| {
        let mut object = Object::clone(&pod.object);
        let labels = object.map_mut("metadata").map_mut("labels");
        labels.insert(REVISION_LABEL.to_string(), hash.clone().into());
        ControllerIntent::update(BuiltinResource::Pods, object, UpdateEndpoint::Main, pod.revision)
            .together(true)
    });
    relabelled.chain(others.iter().map(history::drop)).collect()
}

/// Drops the oldest beyond the limit, but none that a pod carries, terminating ones included (HI9).
pub(super) fn prune(
    set: &DaemonSetContext<'_>,
    old: &[VersionedObject],
    pods: &[VersionedObject],
    out: &mut ReconcileResult,
) {
    let limit = usize::try_from(history::limit(set.object)).unwrap_or_default();
    let surplus = old.len().saturating_sub(limit);
    if surplus == 0 {
        return;
    }
    let live: BTreeSet<&str> =
        pods.iter().filter_map(|pod| owner::label(pod, REVISION_LABEL)).collect();
    let mut old = old.to_vec();
    history::sort(&mut old);
    let dead = old.iter().filter(|revision| {
        !owner::label(revision, REVISION_LABEL).is_some_and(|hash| live.contains(hash))
    });
    for revision in dead.take(surplus).filter(|revision| !owner::deleting(revision)) {
        out.push(history::drop(revision).independent().together(true));
    }
}
