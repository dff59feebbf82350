//! Going back to an earlier revision because a deprecated annotation asks for it (DP18).
//!
//! `kubectl rollout undo` does not come this way: it writes the template itself.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::annotations::{self, ROLLBACK};
use super::rollout::Rollout;
use super::sets::ReplicaSetDraft;
use crate::intent::{ControllerIntent, EventReport, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::template::{self, HASH_LABEL};

/// The revision that is asked for; zero means the one before the current.
pub(super) fn requested_revision(deployment: &Object) -> Option<i64> {
    crate::owner::annotation(deployment, ROLLBACK)?.parse().ok()
}

impl Rollout<'_> {
    /// Changes the template, or gives up; in either case the annotation goes.
    pub(super) fn roll_back(&mut self, requested: i64) {
        self.sync_revision();
        let waiting = self.new.is_none() || self.sets.iter().any(ReplicaSetDraft::is_changed);
        if waiting || self.revision_differs() {
            // The numbers must be right before one of them is looked for; the next pass sees them.
            if self.make_new_set() {
                self.write_plain_status();
            }
            return;
        }
        self.revision = None;
        let revision = if requested == 0 { self.last_revision() } else { requested };
        let (object, note) = self.restored(requested, revision);
        let seen = self.deployment.revision;
        let update = ControllerIntent::update(
            BuiltinResource::Deployments,
            object,
            UpdateEndpoint::Main,
            seen,
        );
        self.out.intents.extend([update, ControllerIntent::tell(note)]);
    }

    fn revision_differs(&self) -> bool {
        let known = crate::owner::annotation(&self.deployment, annotations::REVISION);
        self.revision.as_deref() != known
    }

    /// The second highest number of all ReplicaSets, or zero.
    fn last_revision(&self) -> i64 {
        let mut numbers: Vec<i64> =
            self.sets.iter().filter_map(ReplicaSetDraft::revision).collect();
        numbers.sort_unstable();
        numbers.iter().rev().nth(1).copied().unwrap_or_default().max(0)
    }

    /// The Deployment as it should be, and what is told about it.
    fn restored(&self, requested: i64, revision: i64) -> (Object, EventReport) {
        let mut object = Object::clone(&self.deployment.object);
        object.map_mut("metadata").map_mut("annotations").remove(ROLLBACK);
        let about = &self.about;
        let missing = |words: &str| about.warning("DeploymentRollbackRevisionNotFound", words);
        if requested == 0 && revision == 0 {
            return (object, missing("Unable to find last revision."));
        }
        let found = self.sets.iter().find(|set| set.revision() == Some(revision));
        let Some((set, back)) = found.and_then(|set| Some((set, set.template()?))) else {
            return (object, missing("Unable to find the revision to rollback to."));
        };
        let name = self.deployment.name();
        let current = self.deployment.map_at(&["spec", "template"]);
        if current.is_some_and(|current| template::same(current, back)) {
            let words = format!(
                "The rollback revision contains the same template as current deployment \"{name}\""
            );
            return (object, about.warning("DeploymentRollbackTemplateUnchanged", words));
        }
        let mut back = back.clone();
        back.map_mut("metadata").map_mut("labels").remove(HASH_LABEL);
        object.map_mut("spec").insert("template".to_string(), Value::Object(back));
        annotations::restore(&mut object, set.object());
        let words = format!("Rolled back deployment \"{name}\" to revision {revision}");
        (object, about.normal("DeploymentRollback", words))
    }
}
