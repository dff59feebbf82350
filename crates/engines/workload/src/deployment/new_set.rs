//! The ReplicaSet with the Deployment's template: found, kept in step, or made (DP3 to DP6).

use alloc::format;
use alloc::string::{String, ToString};

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use super::annotations;
use super::math::grown;
use super::rollout::Rollout;
use super::sets::ReplicaSetDraft;
use super::status::PROGRESSING;
use crate::intent::{FailedIntent, Verb};
use crate::resource::BuiltinResource;
use crate::template::HASH_LABEL;
use crate::{condition, owner, template};

/// The longest name of a ReplicaSet.
const NAME_CHARS_MAX: usize = 253;

/// The oldest ReplicaSet whose template is the Deployment's (DP3); they come oldest first.
pub(super) fn find(deployment: &Object, sets: &[ReplicaSetDraft]) -> Option<usize> {
    let wanted = deployment.map_at(&["spec", "template"])?;
    sets.iter().position(|set| set.template().is_some_and(|has| template::same(has, wanted)))
}

impl Rollout<'_> {
    /// One more than the highest number of the old ReplicaSets.
    fn next_revision(&self) -> i64 {
        let highest =
            self.old_sets().filter_map(ReplicaSetDraft::revision).max().unwrap_or_default().max(0);
        highest.saturating_add(1)
    }

    /// Keeps number, annotations and `minReadySeconds` of the new ReplicaSet in step, and the
    /// Deployment's number with it.
    pub(super) fn sync_revision(&mut self) {
        let revision = self.next_revision();
        let deployment = self.deployment.clone();
        let Some(set) = self.new.and_then(|place| self.sets.get_mut(place)) else { return };
        if !annotations::follows(set.object(), &deployment, revision) {
            annotations::follow(set.edit(), &deployment, revision);
        }
        let min_ready = deployment.int_at(&["spec", "minReadySeconds"]).unwrap_or_default();
        if set.object().int_at(&["spec", "minReadySeconds"]).unwrap_or_default() != min_ready {
            set_min_ready(set.edit().map_mut("spec"), min_ready);
        }
        let number = owner::annotation(set.object(), annotations::REVISION);
        self.revision = number.map(ToString::to_string);
        let name = set.name().to_string();
        if self.has_deadline() && condition::find(&self.conditions, PROGRESSING).is_none() {
            let words = format!("Found new replica set \"{name}\"");
            self.set_condition(PROGRESSING, "True", "FoundNewReplicaSet", &words);
        }
    }

    /// Makes the new ReplicaSet if there is none; `false` when the pass has to end here.
    pub(super) fn make_new_set(&mut self) -> bool {
        if self.new.is_some() {
            return true;
        }
        let revision = self.next_revision();
        let Some(mut set) = self.composed(revision).map(ReplicaSetDraft::new) else { return false };
        let name = set.name().to_string();
        let namespace = &self.pass.key.namespace;
        if self.pass.view.get(BuiltinResource::ReplicaSets, namespace, &name).is_some() {
            self.count_collision();
            return false;
        }
        if crate::pod::namespace_closed(&self.pass) {
            return false;
        }
        set.tell_created(&self.about);
        if let Some(refused) = self.refused_before(&name) {
            self.try_again(set, &refused);
            return false;
        }
        self.new = Some(self.sets.len());
        self.sets.push(set);
        self.revision = Some(revision.to_string());
        if self.has_deadline() {
            let words = format!("Created new replica set \"{name}\"");
            self.set_condition(PROGRESSING, "True", "NewReplicaSetCreated", &words);
        }
        true
    }

    /// The new ReplicaSet as it is to be created (DP4).
    fn composed(&self, revision: i64) -> Option<Object> {
        let deployment = &self.deployment;
        let mut template = deployment.map_at(&["spec", "template"])?.clone();
        let collisions = deployment.int_at(&["status", "collisionCount"]);
        let hash = template::hash(&template, collisions);
        let labels = template.map_mut("metadata").map_mut("labels");
        labels.insert(HASH_LABEL.to_string(), Value::String(hash.clone()));
        let labels = Value::Object(labels.clone());
        let mut selector = deployment.map_at(&["spec", "selector"])?.clone();
        selector.map_mut("matchLabels").insert(HASH_LABEL.to_string(), hash.as_str().into());
        let size = if super::math::recreates(deployment) {
            self.wanted
        } else {
            grown(0, self.total(), self.wanted, self.slack.surge)
        };
        let mut spec = json!({ "replicas": size, "selector": selector, "template": template });
        let min_ready = deployment.int_at(&["spec", "minReadySeconds"]).unwrap_or_default();
        set_min_ready(spec.as_object_mut()?, min_ready);
        let mut set = json!({
            "apiVersion": BuiltinResource::ReplicaSets.api_version(),
            "kind": BuiltinResource::ReplicaSets.kind(),
            "metadata": {
                "name": named(deployment.name(), &hash),
                "namespace": deployment.namespace(),
                "labels": labels,
                "ownerReferences": [owner::entry(BuiltinResource::Deployments, deployment)],
            },
            "spec": spec,
        });
        let set = set.as_object_mut()?;
        annotations::follow(set, deployment, revision);
        owner::annotate(set, annotations::DESIRED, &self.wanted.to_string());
        let max = self.wanted.saturating_add(self.slack.surge);
        owner::annotate(set, annotations::MAX, &max.to_string());
        Some(core::mem::take(set))
    }

    /// The name is taken by a ReplicaSet that is not ours: the next pass tries another hash (DP5).
    fn count_collision(&mut self) {
        let known = self.deployment.int_at(&["status", "collisionCount"]).unwrap_or_default();
        let mut status = self.deployment.map_at(&["status"]).cloned().unwrap_or_default();
        status.insert("collisionCount".to_string(), known.saturating_add(1).into());
        self.status = Some(status);
    }

    /// Why creating this ReplicaSet failed in the pass before, unless the name was taken.
    fn refused_before(&self, name: &str) -> Option<FailedIntent> {
        let ours = |refused: &&FailedIntent| {
            refused.verb == Verb::Create
                && refused.resource == Some(BuiltinResource::ReplicaSets)
                && refused.name == name
                && refused.reason != "AlreadyExists"
        };
        self.pass.refused.iter().find(ours).cloned()
    }

    /// Says that creating failed, then tries again; the rest of the pass waits for that.
    fn try_again(&mut self, set: ReplicaSetDraft, refused: &FailedIntent) {
        let name = set.name();
        let words = format!("Failed to create new replica set \"{name}\": {}", refused.message);
        if self.has_deadline() {
            self.set_condition(PROGRESSING, "False", "ReplicaSetCreateError", &words);
            let mut status = self.deployment.map_at(&["status"]).cloned().unwrap_or_default();
            super::status::put_conditions(&mut status, &self.conditions);
            self.status = Some(status);
        }
        self.out.intents.extend(set.intents(&self.about));
    }
}

fn set_min_ready(spec: &mut Object, seconds: i64) {
    if seconds == 0 {
        spec.remove("minReadySeconds");
    } else {
        spec.insert("minReadySeconds".to_string(), seconds.into());
    }
}

/// The Deployment's name and the hash, the first cut so that both fit (DP4).
fn named(deployment: &str, hash: &str) -> String {
    let room = NAME_CHARS_MAX.saturating_sub(hash.len() + 1);
    let kept = deployment.get(..room).unwrap_or(deployment);
    format!("{kept}-{hash}")
}
