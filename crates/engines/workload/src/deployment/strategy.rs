//! Moving pods from old ReplicaSets to the new one: rolling (DP8, DP9) or all at once (DP10).

use alloc::vec::Vec;

use super::math::grown;
use super::rollout::Rollout;
use super::sets::ReplicaSetDraft;
use crate::resource::BuiltinResource;
use crate::{owner, pod};

impl Rollout<'_> {
    /// One step of a rolling update; up or down, never both.
    pub(super) fn roll(&mut self) {
        if !self.make_new_set() {
            return;
        }
        if !self.grow_new() && !self.shrink_old() && self.complete_before() {
            self.prune();
        }
        self.write_rollout_status();
    }

    /// Scales the new ReplicaSet towards the wanted size; says whether that changed it.
    fn grow_new(&mut self) -> bool {
        let Some((place, own)) = self.new.zip(self.new_set().map(ReplicaSetDraft::replicas)) else {
            return false;
        };
        let size = if own > self.wanted {
            self.wanted
        } else {
            grown(own, self.total(), self.wanted, self.slack.surge)
        };
        self.resize(place, size)
    }

    /// Scales old ReplicaSets down as far as enough pods stay available (DP9).
    fn shrink_old(&mut self) -> bool {
        let min_available = self.wanted - self.slack.unavailable;
        let new_unavailable = self.new_set().map_or(0, |set| set.replicas() - set.available());
        let budget = self.total() - min_available - new_unavailable;
        if budget <= 0 || !self.old_sets().any(ReplicaSetDraft::active) {
            return false;
        }
        // A ReplicaSet that has yet to act on its last size counts pods that are about to go.
        if self.old_sets().any(|set| set.active() && set.available() > set.replicas()) {
            return false;
        }
        let unhealthy = self.shrink_by(budget, |set| set.replicas() - set.available());
        // What is gone was not available, so the count of available pods still holds.
        let spare = self.active_available() - min_available;
        let healthy = if spare > 0 { self.shrink_by(spare, ReplicaSetDraft::replicas) } else { 0 };
        unhealthy + healthy > 0
    }

    /// The available pods of the new ReplicaSet and of the old ones that still had some to begin with.
    fn active_available(&self) -> i64 {
        let old = self.old_sets().filter(|set| crate::replicas::wanted(set.before()) > 0);
        old.chain(self.new_set()).map(ReplicaSetDraft::available).sum()
    }

    /// Takes away up to `budget` pods, oldest ReplicaSet first, from each as much as `from` it allows.
    fn shrink_by(&mut self, budget: i64, from: impl Fn(&ReplicaSetDraft) -> i64) -> i64 {
        let mut taken = 0;
        let old: Vec<usize> = self.old().collect();
        for place in old {
            let Some(set) = self.sets.get(place).filter(|set| set.active()) else { continue };
            let part = from(set).min(budget - taken).max(0);
            let size = set.replicas() - part;
            if part > 0 && self.resize(place, size) {
                taken += part;
            }
        }
        taken
    }

    /// Removes all old pods, waits for their end, then starts the new ones (DP10).
    pub(super) fn recreate(&mut self) {
        let old: Vec<usize> = self.old().collect();
        let mut shrunk = false;
        for place in old {
            shrunk |= self.resize(place, 0);
        }
        if shrunk || self.old_pods_run() {
            self.write_rollout_status();
            return;
        }
        if !self.make_new_set() {
            return;
        }
        if let Some(place) = self.new {
            self.resize(place, self.wanted);
        }
        if self.complete_before() {
            self.prune();
        }
        self.write_rollout_status();
    }

    /// Whether an old ReplicaSet counts pods, or has one that has not ended.
    fn old_pods_run(&self) -> bool {
        self.old_sets().any(|set| {
            let uid = owner::uid(set.before());
            set.counted("replicas") > 0
                || self
                    .pass
                    .view
                    .owned_by(uid, BuiltinResource::Pods)
                    .iter()
                    .any(|pod| owner::controlled_by(pod, uid) && !pod::terminal(pod))
        })
    }
}
