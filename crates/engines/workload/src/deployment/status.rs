//! Counts and conditions of a Deployment (DP13 to DP16).

use alloc::format;
use alloc::string::ToString;
use core::time::Duration;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::rollout::Rollout;
use super::sets::ReplicaSetDraft;
use crate::{condition, owner, time};

/// Whether the rollout moves on.
pub(super) const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";
const NEW_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// Puts conditions into a status, or leaves them out when there are none.
pub(super) fn put_conditions(status: &mut Object, conditions: &[Value]) {
    if conditions.is_empty() {
        status.remove("conditions");
    } else {
        status.insert("conditions".to_string(), Value::Array(conditions.to_vec()));
    }
}

/// A count; zero when it is left out.
fn count(status: &Object, name: &str) -> i64 {
    status.int_at(&[name]).unwrap_or_default()
}

impl Rollout<'_> {
    /// The deadline for progress, if there is one.
    fn deadline_seconds(&self) -> Option<i64> {
        let deadline = self.deployment.int_at(&["spec", "progressDeadlineSeconds"])?;
        (deadline != i64::from(i32::MAX)).then_some(deadline)
    }

    pub(super) fn has_deadline(&self) -> bool {
        self.deadline_seconds().is_some()
    }

    /// A condition with both of its times.
    fn condition(&self, kind: &str, status: &str, reason: &str, message: &str) -> Object {
        let mut new = condition::new(kind, status, reason, message, self.pass.now);
        new.insert("lastUpdateTime".to_string(), time::written(self.pass.now).into());
        new
    }

    pub(super) fn set_condition(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let new = self.condition(kind, status, reason, message);
        condition::set(&mut self.conditions, new);
    }

    /// Says that the rollout was paused or resumed, so that the pause does not count as lack of
    /// progress (DP15, DP16).
    pub(super) fn note_pause(&mut self) {
        let reason = |reason| condition::has_reason(&self.conditions, PROGRESSING, reason);
        if !self.has_deadline() || reason(TIMED_OUT) {
            return;
        }
        match (self.paused, reason(PAUSED)) {
            (true, false) => {
                self.set_condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused");
            }
            (false, true) => {
                let reason = "DeploymentResumed";
                self.set_condition(PROGRESSING, "Unknown", reason, "Deployment is resumed");
            }
            _ => {}
        }
    }

    /// Counts, and whether enough pods are available; the rest of the conditions stays.
    pub(super) fn write_plain_status(&mut self) {
        let mut status = self.counts();
        self.note_availability();
        put_conditions(&mut status, &self.conditions);
        self.status = Some(status);
    }

    /// Counts and all conditions of a rollout, and when to look at the deadline again.
    pub(super) fn write_rollout_status(&mut self) {
        let mut status = self.counts();
        self.note_availability();
        if self.has_deadline() {
            self.note_progress(&status);
        } else {
            condition::remove(&mut self.conditions, PROGRESSING);
        }
        self.note_failure();
        put_conditions(&mut status, &self.conditions);
        self.look_at_deadline(&status);
        self.status = Some(status);
    }

    /// All counts (DP14); zeros are left out but for terminating pods.
    fn counts(&self) -> Object {
        let sum = |name: &str| self.sets.iter().map(|set| set.counted(name)).sum::<i64>();
        let available = self.available();
        let updated = self.new_set().map_or(0, |set| set.counted("replicas"));
        let mut status = Object::new();
        for (name, count) in [
            ("observedGeneration", owner::generation(&self.deployment)),
            ("replicas", sum("replicas")),
            ("updatedReplicas", updated),
            ("readyReplicas", sum("readyReplicas")),
            ("availableReplicas", available),
            ("unavailableReplicas", (self.total() - available).max(0)),
        ] {
            if count != 0 {
                status.insert(name.to_string(), count.into());
            }
        }
        // A ReplicaSet that does not say makes the sum unknown.
        let terminating: Option<i64> = self.sets.iter().map(ReplicaSetDraft::terminating).sum();
        if let Some(terminating) = terminating {
            status.insert("terminatingReplicas".to_string(), terminating.into());
        }
        if let Some(collisions) = self.deployment.at(&["status", "collisionCount"]) {
            status.insert("collisionCount".to_string(), collisions.clone());
        }
        status
    }

    fn note_availability(&mut self) {
        if self.available() >= self.wanted - self.slack.unavailable {
            let words = "Deployment has minimum availability.";
            self.set_condition(AVAILABLE, "True", "MinimumReplicasAvailable", words);
        } else {
            let words = "Deployment does not have minimum availability.";
            self.set_condition(AVAILABLE, "False", "MinimumReplicasUnavailable", words);
        }
    }

    /// Whether a status says that all pods are new and available (DP13).
    fn complete(&self, status: &Object) -> bool {
        ["updatedReplicas", "replicas", "availableReplicas"]
            .iter()
            .all(|name| count(status, name) == self.wanted)
            && count(status, "observedGeneration") >= owner::generation(&self.deployment)
    }

    /// Whether the stored status says so.
    pub(super) fn complete_before(&self) -> bool {
        self.deployment.map_at(&["status"]).is_some_and(|status| self.complete(status))
    }

    fn note_progress(&mut self, status: &Object) {
        let done = condition::has_reason(&self.conditions, PROGRESSING, NEW_SET_AVAILABLE)
            && count(status, "replicas") == count(status, "updatedReplicas");
        if done {
            return;
        }
        let who = match self.new_set() {
            Some(set) => format!("ReplicaSet \"{}\"", set.name()),
            None => format!("Deployment \"{}\"", self.deployment.name()),
        };
        if self.complete(status) {
            let words = format!("{who} has successfully progressed.");
            self.set_condition(PROGRESSING, "True", NEW_SET_AVAILABLE, &words);
        } else if self.progressed(status) {
            self.refresh_progress(&format!("{who} is progressing."));
        } else if self.timed_out() {
            let words = format!("{who} has timed out progressing.");
            self.set_condition(PROGRESSING, "False", TIMED_OUT, &words);
        }
    }

    /// More new pods, fewer old ones, or more that are ready or available than stored.
    fn progressed(&self, status: &Object) -> bool {
        let none = Object::new();
        let before = self.deployment.map_at(&["status"]).unwrap_or(&none);
        let more = |name: &str| count(status, name) > count(before, name);
        let old = |status: &Object| count(status, "replicas") - count(status, "updatedReplicas");
        more("updatedReplicas")
            || old(status) < old(before)
            || more("readyReplicas")
            || more("availableReplicas")
    }

    /// Renews the condition even if its reason stays: its update time is when progress was last seen.
    fn refresh_progress(&mut self, words: &str) {
        let mut new = self.condition(PROGRESSING, "True", "ReplicaSetUpdated", words);
        if let Some(known) = condition::find(&self.conditions, PROGRESSING)
            && known.str_at(&["status"]) == Some("True")
            && let Some(since) = known.get("lastTransitionTime").cloned()
        {
            new.insert("lastTransitionTime".to_string(), since);
        }
        condition::remove(&mut self.conditions, PROGRESSING);
        condition::set(&mut self.conditions, new);
    }

    /// When lack of progress counts as failure; `None` when it cannot (DP16).
    fn time_out_at(&self) -> Option<jiff::Timestamp> {
        let known = condition::find(&self.conditions, PROGRESSING)?;
        let since = time::at(known, &["lastUpdateTime"])?;
        Some(time::after(since, self.deadline_seconds()?))
    }

    fn timed_out(&self) -> bool {
        let reason = |reason| condition::has_reason(&self.conditions, PROGRESSING, reason);
        if reason(NEW_SET_AVAILABLE) {
            return false;
        }
        reason(TIMED_OUT) || self.time_out_at().is_some_and(|at| at < self.pass.now)
    }

    fn look_at_deadline(&mut self, status: &Object) {
        let ended = [TIMED_OUT, NEW_SET_AVAILABLE]
            .iter()
            .any(|reason| condition::has_reason(&self.conditions, PROGRESSING, reason));
        if ended || self.complete(status) {
            return;
        }
        if let Some(at) = self.time_out_at() {
            // The second more makes sure that the deadline has passed by then.
            let wait = time::until(at, self.pass.now) + Duration::from_secs(1);
            self.out.wake_after(wait);
        }
    }

    /// Copies what the new ReplicaSet, or else any, says about failing to make pods.
    fn note_failure(&mut self) {
        let all = self.new_set().into_iter().chain(self.old_sets());
        let found = all.filter_map(|set| set.condition(FAILURE)).next().cloned();
        match found {
            Some(mut failure) => {
                if let Some(since) = failure.get("lastTransitionTime").cloned() {
                    failure.insert("lastUpdateTime".to_string(), since);
                }
                condition::set(&mut self.conditions, failure);
            }
            None => condition::remove(&mut self.conditions, FAILURE),
        }
    }
}
