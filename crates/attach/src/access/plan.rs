//! Which names stand in which Role of a consumer in one namespace (A20).
//!
//! A name stays in the Role where it is, so that a change writes one Role. Nothing is read or written here.

use std::collections::{BTreeMap, BTreeSet};

use crate::install::SHARDS;

/// How many names one Role holds.
pub(super) const NAMES_MAX: usize = 500;

/// An object of the namespace that may be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RoleTarget {
    pub(super) group: String,
    pub(super) plural: String,
    pub(super) name: String,
}

/// The names of one Role, by type.
pub(super) type RoleNames = BTreeMap<(String, String), BTreeSet<String>>;

/// What the Roles of one consumer in one namespace hold.
#[derive(Clone, Debug, Default)]
pub(super) struct RolePlan {
    // INVARIANT: every target stands in `shards[placed[target]]`, or in `left_out`, never in both.
    placed: BTreeMap<RoleTarget, usize>,
    shards: [RoleNames; SHARDS],
    sizes: [usize; SHARDS],
    closed: [bool; SHARDS],
    left_out: BTreeSet<RoleTarget>,
}

impl RolePlan {
    /// A target may be read; the shard that changes, if one does.
    pub(super) fn add(&mut self, target: RoleTarget) -> Option<usize> {
        if self.placed.contains_key(&target) || self.left_out.contains(&target) {
            return None;
        }
        let room = |shard: &usize| {
            let size = self.sizes.get(*shard).copied().unwrap_or(NAMES_MAX);
            size < NAMES_MAX && !self.closed.get(*shard).copied().unwrap_or(true)
        };
        match (0..SHARDS).find(room) {
            Some(shard) => {
                self.place(target, shard);
                Some(shard)
            }
            None => {
                self.left_out.insert(target);
                None
            }
        }
    }

    /// A target is found in a Role of before.
    pub(super) fn adopt(&mut self, target: RoleTarget, shard: usize) {
        let room = self.sizes.get(shard).is_some_and(|size| *size < NAMES_MAX);
        if room && !self.placed.contains_key(&target) {
            self.left_out.remove(&target);
            self.place(target, shard);
        }
    }

    /// A target may no longer be read; the shards that change: where it was, and where room came for another.
    pub(super) fn remove(&mut self, target: &RoleTarget) -> Option<usize> {
        self.left_out.remove(target);
        let shard = self.placed.remove(target)?;
        self.take_out(target, shard);
        if let Some(waiting) = self.left_out.pop_first() {
            self.add(waiting);
        }
        Some(shard)
    }

    /// The Role of a shard is somebody else's: its names go to others. Gives the shards that change.
    pub(super) fn close(&mut self, shard: usize) -> BTreeSet<usize> {
        if let Some(closed) = self.closed.get_mut(shard) {
            *closed = true;
        }
        let here = self.placed.iter().filter(|(_, at)| **at == shard);
        let moving: Vec<RoleTarget> = here.map(|(target, _)| target.clone()).collect();
        for target in &moving {
            self.placed.remove(target);
            self.take_out(target, shard);
        }
        moving.into_iter().filter_map(|target| self.add(target)).collect()
    }

    /// The name of a shard is free again. Gives whether something goes there.
    pub(super) fn open(&mut self, shard: usize) -> bool {
        if let Some(closed) = self.closed.get_mut(shard) {
            *closed = false;
        }
        let waiting = std::mem::take(&mut self.left_out);
        let placed = waiting.into_iter().filter_map(|target| self.add(target));
        placed.filter(|at| *at == shard).count() > 0
    }

    pub(super) fn is_closed(&self, shard: usize) -> bool {
        self.closed.get(shard).copied().unwrap_or(true)
    }

    /// What the Role of a shard holds; none when there is to be no Role.
    pub(super) fn names(&self, shard: usize) -> Option<&RoleNames> {
        self.shards.get(shard).filter(|names| !names.is_empty())
    }

    /// Everything that is placed or waits for room.
    pub(super) fn targets(&self) -> impl Iterator<Item = &RoleTarget> {
        self.placed.keys().chain(&self.left_out)
    }

    /// How many targets find no room.
    pub(super) fn left_out(&self) -> usize {
        self.left_out.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.placed.is_empty() && self.left_out.is_empty()
    }

    fn place(&mut self, target: RoleTarget, shard: usize) {
        if let (Some(names), Some(size)) = (self.shards.get_mut(shard), self.sizes.get_mut(shard)) {
            let kind = (target.group.clone(), target.plural.clone());
            names.entry(kind).or_default().insert(target.name.clone());
            *size += 1;
            self.placed.insert(target, shard);
        }
    }

    fn take_out(&mut self, target: &RoleTarget, shard: usize) {
        if let (Some(names), Some(size)) = (self.shards.get_mut(shard), self.sizes.get_mut(shard)) {
            let kind = (target.group.clone(), target.plural.clone());
            if let Some(of_kind) = names.get_mut(&kind) {
                if of_kind.remove(&target.name) {
                    *size -= 1;
                }
                if of_kind.is_empty() {
                    names.remove(&kind);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/attach.md.
    use super::*;

    fn target(name: &str) -> RoleTarget {
        RoleTarget { group: String::new(), plural: "secrets".into(), name: name.into() }
    }

    #[test]
    fn a20_five_hundred_names_stand_in_a_role_and_four_roles_in_a_namespace() {
        let mut plan = RolePlan::default();
        for n in 0..2_000 {
            assert_eq!(plan.add(target(&format!("n{n}"))), Some(n / NAMES_MAX));
        }
        assert_eq!(plan.add(target("more")), None);
        assert_eq!((plan.left_out(), plan.targets().count()), (1, 2_001));
        // Where one goes, the one that waits comes.
        assert_eq!(plan.remove(&target("n700")), Some(1));
        assert_eq!(plan.left_out(), 0);
        assert!(plan.names(1).unwrap().values().next().unwrap().contains("more"));
    }

    #[test]
    fn a20_a_name_stays_where_it_is() {
        let mut plan = RolePlan::default();
        for n in 0..501 {
            plan.add(target(&format!("n{n}")));
        }
        plan.remove(&target("n3"));
        assert_eq!(plan.add(target("n500")), None, "it is there");
        assert_eq!(plan.add(target("new")), Some(0));
        assert_eq!(plan.names(1).unwrap().values().map(BTreeSet::len).sum::<usize>(), 1);
        plan.remove(&target("n500"));
        assert_eq!(plan.names(1), None);
    }

    #[test]
    fn a20_what_was_written_before_is_found_again() {
        let mut plan = RolePlan::default();
        plan.adopt(target("old"), 2);
        assert_eq!(plan.add(target("old")), None);
        assert_eq!(plan.names(2).unwrap().len(), 1);
        plan.adopt(target("old"), 1);
        assert_eq!(plan.names(1), None, "a name stands in one Role");
    }

    #[test]
    fn a24_names_move_on_from_a_role_of_somebody_else() {
        let mut plan = RolePlan::default();
        plan.add(target("a"));
        assert_eq!(plan.close(0), BTreeSet::from([1]));
        assert_eq!(plan.add(target("b")), Some(1));
        assert_eq!(plan.names(0), None);
        for shard in 1..SHARDS {
            plan.close(shard);
        }
        assert_eq!(plan.left_out(), 2);
        assert!(plan.open(3));
        assert_eq!(plan.left_out(), 0);
        assert!(!plan.is_empty());
    }
}
