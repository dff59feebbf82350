//! Which revision pods are made from, and which revisions a set no longer needs (SS3, HI6 to HI11).

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt};

use super::{Members, StatefulSetContext, identity, status};
use crate::controller::ReconcileResult;
use crate::history::{self, New};
use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, selector};

/// A revision as pods are made from it.
pub(super) struct TemplateRevision {
    /// Its name, which is the label that pods carry.
    pub(super) name: String,
    /// The template it holds.
    pub(super) template: Object,
}

impl TemplateRevision {
    fn of(revision: &Object) -> TemplateRevision {
        TemplateRevision {
            name: revision.name().to_string(),
            template: history::template_of(revision),
        }
    }
}

/// The revisions of a set.
pub(super) struct Revisions {
    /// What pods are made from where an update has not arrived.
    pub(super) current: TemplateRevision,
    /// What pods are made from where it has.
    pub(super) update: TemplateRevision,
    pub(super) collisions: i64,
    /// All of them, in order.
    all: Vec<VersionedObject>,
}

/// What has to be written before anything else, or what is known.
pub(super) enum StatefulRevisionOutcome {
    /// These writes, then another pass.
    Write(Vec<ControllerIntent>),
    /// Nothing to write.
    Known(Revisions),
}

/// The revisions that are the set's or nobody's, in order (HI11).
pub(super) fn list(
    set: &StatefulSetContext<'_>,
    selector: &LabelSelector,
    view: &dyn ClusterView,
) -> Vec<VersionedObject> {
    let uid = owner::uid(set.object);
    let mut found = view.owned_by(uid, BuiltinResource::ControllerRevisions);
    found.retain(|revision| {
        owner::controlled_by(revision, uid)
            && revision.namespace() == set.object.namespace()
            && selector::matches(selector, revision)
    });
    found.extend(view.orphans(
        BuiltinResource::ControllerRevisions,
        set.object.namespace(),
        selector,
    ));
    history::sort(&mut found);
    found
}

/// Adopts those that are nobody's (HI11); mismatches of ours are not released.
pub(super) fn adopt(
    set: &StatefulSetContext<'_>,
    revisions: &[VersionedObject],
) -> Vec<ControllerIntent> {
    revisions
        .iter()
        .filter(|revision| owner::controller_of(revision).is_none() && !owner::deleting(revision))
        .map(|revision| {
            let object = owner::adopted(revision, BuiltinResource::StatefulSets, set.object);
            ControllerIntent::update(
                BuiltinResource::ControllerRevisions,
                object,
                UpdateEndpoint::Main,
                revision.revision,
            )
            .relying_on(set.about.living())
            .independent()
        })
        .collect()
}

/// Finds, renumbers or makes the revision of the template (HI6, HI7, HI8).
pub(super) fn decide(
    set: &StatefulSetContext<'_>,
    all: Vec<VersionedObject>,
    view: &dyn ClusterView,
) -> StatefulRevisionOutcome {
    let template = set.object.map_at(&["spec", "template"]).cloned().unwrap_or_default();
    let data = history::data(&template);
    let stored = set.object.int_at(&["status", "collisionCount"]).unwrap_or_default();
    let terminating = owner::deleting(set.object);
    let newest = all.last();
    let equal = all.iter().rev().find(|revision| history::holds(revision, &data));
    if let Some(newest) = newest.filter(|revision| history::holds(revision, &data)) {
        return known(set, TemplateRevision::of(newest), stored, all);
    }
    if let Some(equal) = equal.filter(|_| !terminating) {
        let renumbered = history::renumber(equal, history::next_number(&all));
        return StatefulRevisionOutcome::Write([renumbered].to_vec());
    }
    if let Some(newest) = newest.filter(|revision| history::restores(revision, &template)) {
        return known(set, TemplateRevision::of(newest), stored, all);
    }
    if terminating {
        // Being deleted, a set gets no more history; what its status says is good enough.
        let name = set.object.str_at(&["status", "updateRevision"]).unwrap_or_default();
        return known(set, TemplateRevision { name: name.to_string(), template }, stored, all);
    }
    let mut collisions = stored;
    loop {
        let hash = history::content_hash(&data, collisions);
        let new = New {
            resource: BuiltinResource::StatefulSets,
            controller: set.object,
            data: &data,
            label: history::HASH_LABEL,
            hash: &hash,
            number: history::next_number(&all),
        };
        let taken =
            view.get(BuiltinResource::ControllerRevisions, set.object.namespace(), &new.name());
        match taken {
            Some(taken) if history::holds(&taken, &data) => {
                return known(set, TemplateRevision::of(&taken), collisions, all);
            }
            // Ends: every turn has met another object that exists.
            Some(_) => collisions = collisions.saturating_add(1),
            None => return StatefulRevisionOutcome::Write(make(set, &new, stored, collisions)),
        }
    }
}

/// Makes a revision, after the status knows of the collisions that led to its name (HI8).
fn make(
    set: &StatefulSetContext<'_>,
    new: &New<'_>,
    stored: i64,
    collisions: i64,
) -> Vec<ControllerIntent> {
    let mut intents = Vec::new();
    if collisions != stored {
        let mut known = set.object.map_at(&["status"]).cloned().unwrap_or_default();
        known.insert("collisionCount".to_string(), collisions.into());
        intents.push(status::write(set, known));
    }
    let create = ControllerIntent::create(BuiltinResource::ControllerRevisions, new.object());
    intents.push(create.relying_on(set.about.living()));
    intents
}

fn known(
    set: &StatefulSetContext<'_>,
    update: TemplateRevision,
    collisions: i64,
    all: Vec<VersionedObject>,
) -> StatefulRevisionOutcome {
    let named = set.object.str_at(&["status", "currentRevision"]).unwrap_or_default();
    let current = match all.iter().find(|revision| revision.name() == named) {
        Some(revision) => TemplateRevision::of(revision),
        None => TemplateRevision { name: update.name.clone(), template: update.template.clone() },
    };
    StatefulRevisionOutcome::Known(Revisions { current, update, collisions, all })
}

impl Revisions {
    /// The revision of a new pod (SS3).
    pub(super) fn of_new_pod(
        &self,
        set: &StatefulSetContext<'_>,
        ordinal: i64,
    ) -> &TemplateRevision {
        let kept = match set.partition() {
            Some(partition) => partition,
            None if set.strategy() == "RollingUpdate" => {
                set.object.int_at(&["status", "currentReplicas"]).unwrap_or_default()
            }
            None => 0,
        };
        if ordinal - set.start < kept { &self.current } else { &self.update }
    }

    /// Drops what neither status nor a pod names, beyond the limit, lowest number first (HI9).
    pub(super) fn prune(
        &self,
        set: &StatefulSetContext<'_>,
        members: &Members,
        out: &mut ReconcileResult,
    ) {
        let mut live: BTreeSet<&str> = members.all().map(|pod| identity::revision(pod)).collect();
        live.extend([self.current.name.as_str(), self.update.name.as_str()]);
        let dead: Vec<&VersionedObject> =
            self.all.iter().filter(|revision| !live.contains(revision.name())).collect();
        // A negative limit keeps everything.
        let Ok(limit) = usize::try_from(history::limit(set.object)) else { return };
        for revision in dead.iter().take(dead.len().saturating_sub(limit)) {
            if !owner::deleting(revision) {
                out.push(history::drop(revision).independent().together(true));
            }
        }
    }
}
