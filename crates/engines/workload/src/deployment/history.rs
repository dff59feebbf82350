//! Forgetting old revisions (DP12).

use alloc::vec::Vec;

use tenure_machinery::ObjectExt as _;

use super::rollout::Rollout;
use super::sets::ReplicaSetDraft;
use crate::intent::ControllerIntent;
use crate::owner;
use crate::replicas::wanted;
use crate::resource::BuiltinResource;

impl Rollout<'_> {
    /// Deletes old ReplicaSets beyond the limit, lowest number first, unless one may still have pods.
    pub(super) fn prune(&mut self) {
        let limit = self.deployment.int_at(&["spec", "revisionHistoryLimit"]);
        let Some(limit) = limit.filter(|limit| *limit != i64::from(i32::MAX)) else { return };
        let living = |set: &&ReplicaSetDraft| !owner::deleting(set.before());
        let mut old: Vec<&ReplicaSetDraft> = self.old_sets().filter(living).collect();
        let over = old.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        // A number that cannot be read sorts before all others.
        old.sort_by(|one, other| {
            one.revision().cmp(&other.revision()).then_with(|| one.age().cmp(&other.age()))
        });
        let deletions = old.into_iter().take(over).filter(|set| spent(set)).map(|set| {
            let seen = set.before();
            ControllerIntent::delete(BuiltinResource::ReplicaSets, seen)
                .unless_changed(seen.revision)
        });
        self.deletions = deletions.collect();
    }
}

/// Whether a ReplicaSet wants no pods, has none, and its controller has seen that.
fn spent(set: &ReplicaSetDraft) -> bool {
    !set.is_changed()
        && wanted(set.before()) == 0
        && set.counted("replicas") == 0
        && owner::generation(set.before()) <= set.counted("observedGeneration")
}
