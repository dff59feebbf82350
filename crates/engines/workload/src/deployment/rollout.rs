//! One pass over one Deployment: what is known, what changes, and in which order it is written.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::annotations::REVISION;
use super::math::Slack;
use super::new_set::find;
use super::sets::ReplicaSetDraft;
use crate::controller::{Pass, ReconcileResult};
use crate::intent::{ControllerIntent, InvolvedObject, UpdateEndpoint};
use crate::owner;
use crate::replicas::wanted;
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;

/// What a pass knows and has changed so far.
pub(super) struct Rollout<'a> {
    pub(super) pass: Pass<'a>,
    pub(super) deployment: VersionedObject,
    pub(super) about: InvolvedObject,
    /// The wanted size.
    pub(super) wanted: i64,
    pub(super) slack: Slack,
    pub(super) paused: bool,
    /// All ReplicaSets, oldest first.
    pub(super) sets: Vec<ReplicaSetDraft>,
    /// Where among them the one with the Deployment's template is.
    pub(super) new: Option<usize>,
    /// The conditions as this pass has changed them.
    pub(super) conditions: Vec<Value>,
    /// The revision annotation that the Deployment should have.
    pub(super) revision: Option<String>,
    /// The status that this pass ends with.
    pub(super) status: Option<Object>,
    /// Deletions, after all other writes of ReplicaSets.
    pub(super) deletions: Vec<ControllerIntent>,
    /// What comes after everything else, and when to look again.
    pub(super) out: ReconcileResult,
}

impl<'a> Rollout<'a> {
    pub(super) fn new(
        pass: &Pass<'a>,
        deployment: VersionedObject,
        sets: Vec<VersionedObject>,
    ) -> Rollout<'a> {
        let mut sets: Vec<ReplicaSetDraft> =
            sets.into_iter().map(ReplicaSetDraft::stored).collect();
        sets.sort_by(|one, other| one.age().cmp(&other.age()));
        let size = wanted(&deployment);
        let about = InvolvedObject::of(BuiltinResource::Deployments, &deployment);
        Rollout {
            pass: *pass,
            wanted: size,
            slack: Slack::of(&deployment, size),
            paused: deployment.bool_at(&["spec", "paused"]) == Some(true),
            new: find(&deployment, &sets),
            conditions: deployment.list_at(&["status", "conditions"]).to_vec(),
            sets,
            about,
            revision: None,
            status: None,
            deletions: Vec::new(),
            out: ReconcileResult::default(),
            deployment,
        }
    }

    /// Everything that is to be written, in order: ReplicaSets, deletions, the Deployment's status.
    pub(super) fn finish(mut self) -> ReconcileResult {
        let status = self.status_write();
        let mut out = self.out;
        let mut intents = Vec::new();
        for set in self.sets {
            intents.extend(set.intents(&self.about));
        }
        intents.extend(self.deletions);
        intents.extend(status);
        intents.append(&mut out.intents);
        out.intents = intents;
        out
    }

    /// One write for status, conditions and the revision annotation, if any of them differs (DP7).
    fn status_write(&mut self) -> Option<ControllerIntent> {
        let seen = &self.deployment;
        let known = owner::annotation(seen, REVISION);
        let revision = self.revision.take().filter(|revision| known != Some(revision));
        let status = self.status.take().filter(|new| seen.map_at(&["status"]) != Some(new));
        if revision.is_none() && status.is_none() {
            return None;
        }
        let mut object = Object::clone(&seen.object);
        if let Some(revision) = revision {
            owner::annotate(&mut object, REVISION, &revision);
        }
        if let Some(status) = status {
            object.insert("status".to_string(), Value::Object(status));
        }
        Some(ControllerIntent::update(
            BuiltinResource::Deployments,
            object,
            UpdateEndpoint::Status,
            seen.revision,
        ))
    }

    /// The ReplicaSet with the Deployment's template.
    pub(super) fn new_set(&self) -> Option<&ReplicaSetDraft> {
        self.sets.get(self.new?)
    }

    /// The places of all other ReplicaSets, oldest first.
    pub(super) fn old(&self) -> impl Iterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.sets.len()).filter(move |place| Some(*place) != new)
    }

    /// All other ReplicaSets, oldest first.
    pub(super) fn old_sets(&self) -> impl Iterator<Item = &ReplicaSetDraft> {
        let new = self.new;
        self.sets.iter().enumerate().filter(move |(at, _)| Some(*at) != new).map(|(_, set)| set)
    }

    /// How many pods all ReplicaSets want together.
    pub(super) fn total(&self) -> i64 {
        self.sets.iter().map(ReplicaSetDraft::replicas).sum()
    }

    /// How many pods of all ReplicaSets are available.
    pub(super) fn available(&self) -> i64 {
        self.sets.iter().map(ReplicaSetDraft::available).sum()
    }

    /// Sets the size of one ReplicaSet; says whether that changed it.
    pub(super) fn resize(&mut self, place: usize, size: i64) -> bool {
        let max = self.wanted.saturating_add(self.slack.surge);
        let Some(set) = self.sets.get_mut(place) else { return false };
        if set.replicas() == size {
            return false;
        }
        set.resize(size, self.wanted, max, &self.about);
        true
    }
}
