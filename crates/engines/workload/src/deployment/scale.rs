//! A Deployment that changes its size in the middle of a rollout: every ReplicaSet takes its share (DP11).

use alloc::vec::Vec;

use tenure_machinery::ObjectExt as _;

use super::annotations::{DESIRED, MAX};
use super::math::{part, recreates};
use super::rollout::Rollout;
use super::sets::ReplicaSetDraft;

impl Rollout<'_> {
    /// Whether an active ReplicaSet was last scaled for another size of the Deployment (DP2).
    pub(super) fn size_changed(&self) -> bool {
        let differs =
            |set: &ReplicaSetDraft| set.noted_size(DESIRED).is_some_and(|size| size != self.wanted);
        self.sets.iter().any(|set| set.active() && differs(set))
    }

    /// Brings all ReplicaSets to the Deployment's new size without moving the rollout on.
    pub(super) fn scale_in_proportion(&mut self) {
        match self.active_or_latest() {
            One::None => {}
            One::Only(place) => {
                self.resize(place, self.wanted);
            }
            One::Several if self.saturated() => {
                let old: Vec<usize> = self.old().collect();
                for place in old {
                    self.resize(place, 0);
                }
            }
            One::Several if !recreates(&self.deployment) => self.share_out(),
            One::Several => {}
        }
    }

    /// The only active ReplicaSet, or the newest when none is active.
    fn active_or_latest(&self) -> One {
        let mut active =
            self.sets.iter().enumerate().filter(|(_, set)| set.active()).map(|(place, _)| place);
        match (active.next(), active.next()) {
            (Some(only), None) => One::Only(only),
            (Some(_), Some(_)) => One::Several,
            (None, _) => self.new.or(self.old().last()).map_or(One::None, One::Only),
        }
    }

    /// Whether the new ReplicaSet holds, and is known to hold, all pods of the Deployment.
    fn saturated(&self) -> bool {
        self.new_set().is_some_and(|set| {
            set.replicas() == self.wanted
                && set.noted_size(DESIRED) == Some(self.wanted)
                && set.available() == self.wanted
        })
    }

    fn share_out(&mut self) {
        let limit = if self.wanted > 0 { self.wanted.saturating_add(self.slack.surge) } else { 0 };
        let to_add = limit - self.total();
        let mut places: Vec<usize> = (0..self.sets.len()).collect();
        places.retain(|place| self.sets.get(*place).is_some_and(ReplicaSetDraft::active));
        self.by_size(&mut places, to_add > 0);
        let mut sizes: Vec<(usize, i64)> = Vec::new();
        let mut added = 0;
        for place in places {
            let Some(set) = self.sets.get(place) else { continue };
            let part = self.part(set, to_add, added);
            sizes.push((place, set.replicas() + part));
            added += part;
        }
        if let Some((_, size)) = sizes.first_mut() {
            *size = (*size + to_add - added).max(0);
        }
        let max = self.wanted.saturating_add(self.slack.surge);
        for (place, size) in sizes {
            if let Some(set) = self.sets.get_mut(place) {
                set.resize(size, self.wanted, max, &self.about);
            }
        }
    }

    /// Largest first; of the same size newer first when growing, older first when shrinking.
    fn by_size(&self, places: &mut [usize], growing: bool) {
        let size = |place: usize| self.sets.get(place).map_or(0, ReplicaSetDraft::replicas);
        let age = |place: usize| self.sets.get(place).map(ReplicaSetDraft::age);
        places.sort_by(|one, other| {
            let ages = age(*one).cmp(&age(*other));
            let ages = if growing { ages.reverse() } else { ages };
            size(*other).cmp(&size(*one)).then(ages)
        });
    }

    /// The part of one ReplicaSet, never more than what is left to share out.
    fn part(&self, set: &ReplicaSetDraft, to_add: i64, added: i64) -> i64 {
        if to_add == 0 || to_add == added {
            return 0;
        }
        let noted = set.noted_size(MAX).filter(|size| *size > 0);
        let before = noted
            .unwrap_or_else(|| self.deployment.int_at(&["status", "replicas"]).unwrap_or_default());
        let limit = self.wanted.saturating_add(self.slack.surge);
        let part = part(set.replicas(), limit, before, self.wanted);
        if to_add > 0 { part.min(to_add - added) } else { part.max(to_add - added) }
    }
}

/// How many ReplicaSets a change of size concerns.
enum One {
    None,
    Only(usize),
    Several,
}
