//! What an object owns, or who owns it, as rows of a tree. Drawing it is the business of `render`.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::Serialize;
use tenure_ownership::Referenced;

use crate::facts::{ObjectIdentity, ObservedObject, UnreadableKind};
use crate::health::Health;
use crate::ownership_analysis::{LifecycleState, OwnerStatus, OwnershipAnalysis};

/// The reference between a row and the row above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerLink {
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// Whether the reference says that the owner waits.
    pub blocking: bool,
    /// What the reference is worth.
    pub verdict: OwnerStatus,
}

/// One object in a tree.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeRow {
    /// Who it is.
    #[serde(flatten)]
    pub object: ObjectIdentity,
    /// How many steps it is away from the first row.
    pub depth: usize,
    /// The uid of the row it hangs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<String>,
    /// The reference to or from that row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<OwnerLink>,
    /// How it stands.
    #[serde(rename = "standing")]
    pub state: LifecycleState,
    /// How it fares, in the words of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What these words come to, also for what hangs on it; none where nothing is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// When its deletion was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Timestamp>,
    /// What must be done before it goes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// It stands further up already; what hangs on it is shown there.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    /// Whether it is the last one that hangs on its row.
    #[serde(skip)]
    pub last: bool,
    /// It stands for several objects that are like the ones above it.
    #[serde(skip)]
    pub folded: Option<Folded>,
}

/// Objects that one row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folded {
    /// How many.
    pub count: usize,
    /// When the first of them was created; the row says when the last was.
    pub oldest: Option<Timestamp>,
}

/// A tree, first row first, each row after the one it hangs on.
#[derive(Clone, Debug, Serialize)]
pub struct Tree {
    /// Whether it goes from an object to its owners.
    pub up: bool,
    /// The rows.
    pub objects: Vec<TreeRow>,
    /// What could not be read.
    pub unread: Vec<UnreadableKind>,
    /// When it was read.
    pub now: Timestamp,
}

struct PendingObject {
    object: ObjectIdentity,
    depth: usize,
    under: Option<String>,
    reference: Option<OwnerLink>,
    last: bool,
}

impl OwnershipAnalysis {
    /// The tree of an object: what it owns, or with `up` who owns it. Of a namespace and of the
    /// definition of a kind also what is inside.
    #[must_use]
    pub fn tree(&self, root: &ObservedObject, up: bool) -> Tree {
        self.trees(&[root], up)
    }

    /// The trees of several objects. One that hangs on another is shown there only.
    #[must_use]
    pub fn trees(&self, roots: &[&ObservedObject], up: bool) -> Tree {
        let mut objects = Vec::new();
        let mut shown = HashSet::new();
        let roots =
            if up { roots.iter().map(|root| root.named()).collect() } else { self.tops(roots) };
        let namespace = match roots.split_first() {
            Some((first, rest)) if rest.iter().all(|it| it.namespace == first.namespace) => {
                first.namespace.clone()
            }
            _ => String::new(),
        };
        // A list instead of recursion: chains may be deeper than a stack.
        let firsts = roots.into_iter().rev();
        let mut left: Vec<PendingObject> = firsts
            .map(|object| PendingObject {
                object,
                depth: 0,
                under: None,
                reference: None,
                last: true,
            })
            .collect();
        while let Some(next) = left.pop() {
            let uid = next.object.uid.clone();
            let repeated = !shown.insert(uid.clone());
            let depth = next.depth + 1;
            let mut hanging = match repeated {
                true => Vec::new(),
                false if up => self.owners_of(&next.object),
                false => self.hanging_on(&uid),
            };
            hanging.sort_by(|one, other| one.0.cmp(&other.0));
            let nothing_below = hanging.is_empty();
            let count = hanging.len();
            let rows = hanging.into_iter().enumerate().rev();
            left.extend(rows.map(|(index, (object, reference))| PendingObject {
                object,
                depth,
                under: Some(uid.clone()),
                reference,
                last: index + 1 == count,
            }));
            objects.push(self.row(next, repeated && !(nothing_below && self.is_leaf(&uid, up))));
        }
        let mut unread = self.facts().unread_about(&namespace);
        if up {
            // Owners are asked for by name, so only those that did not answer are missing.
            unread.retain(|unread| objects.iter().any(|row: &TreeRow| self.misses(row, unread)));
        } else {
            tell_upwards(&mut objects);
        }
        Tree { up, objects, unread, now: self.now() }
    }

    fn misses(&self, row: &TreeRow, unread: &UnreadableKind) -> bool {
        let served = self.facts().kinds.find(&row.object.api_version, &row.object.kind);
        match served {
            Some(served) => {
                row.state == LifecycleState::Unread && served.qualified() == unread.kind
            }
            None => row.object.api_version == unread.kind,
        }
    }

    /// Those that hang on no other one of them.
    fn tops(&self, roots: &[&ObservedObject]) -> Vec<ObjectIdentity> {
        let mut tops: Vec<(ObjectIdentity, HashSet<String>)> = Vec::new();
        for root in roots {
            let below = self.below(&root.meta.uid);
            if tops.iter().any(|(_, below)| below.contains(&root.meta.uid)) {
                continue;
            }
            tops.retain(|(top, _)| !below.contains(&top.uid));
            tops.push((root.named(), below));
        }
        tops.into_iter().map(|(top, _)| top).collect()
    }

    /// An object and everything that hangs on it.
    fn below(&self, uid: &str) -> HashSet<String> {
        let mut below = HashSet::new();
        let mut left = vec![uid.to_owned()];
        while let Some(uid) = left.pop() {
            if below.insert(uid.clone()) {
                left.extend(self.dependents_of(&uid).into_iter().map(|(named, _)| named.uid));
            }
        }
        below
    }

    /// What depends on an object, and what lives inside it.
    fn hanging_on(&self, uid: &str) -> Vec<(ObjectIdentity, Option<OwnerLink>)> {
        let mut hanging = self.dependents_of(uid);
        let content = self.get(uid).map(|found| self.content(found)).unwrap_or_default();
        if content.is_empty() {
            return hanging;
        }
        let inside: HashSet<&str> = content.iter().map(|found| found.meta.uid.as_str()).collect();
        let owned = |found: &&ObservedObject| {
            let explained = self.explain(&found.meta.uid);
            explained.is_some_and(|explained| {
                explained.references.iter().any(|referenced| {
                    self.worth_of(referenced).ties() && inside.contains(&*referenced.reference.uid)
                })
            })
        };
        let mut reached = self.below(uid);
        // Rings have no first member: whatever is left over begins one.
        let (later, first): (Vec<&ObservedObject>, Vec<&ObservedObject>) =
            content.iter().copied().partition(|found| owned(found));
        for found in first.into_iter().chain(later) {
            if !reached.contains(&found.meta.uid) {
                reached.extend(self.below(&found.meta.uid));
                hanging.push((found.named(), None));
            }
        }
        hanging
    }

    fn is_leaf(&self, uid: &str, up: bool) -> bool {
        self.explain(uid).is_none_or(|explained| match up {
            true => explained.references.is_empty(),
            false => explained.dependents.is_empty(),
        })
    }

    fn row(&self, next: PendingObject, repeated: bool) -> TreeRow {
        let found = self.get(&next.object.uid).filter(|found| !found.assumed);
        let meta = found.map(|found| &found.meta);
        TreeRow {
            state: self.lifecycle_state(&next.object.uid),
            health: self.status(&next.object.uid).and_then(Health::of),
            status: self.status(&next.object.uid).map(str::to_owned),
            created: meta.and_then(|meta| meta.creation_timestamp),
            deleted: meta.and_then(crate::meta::ObjectMetadata::deleted_at),
            finalizers: meta.map(|meta| meta.finalizers.clone()).unwrap_or_default(),
            depth: next.depth,
            under: next.under,
            reference: next.reference,
            repeated,
            last: next.last,
            folded: None,
            object: next.object,
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<(ObjectIdentity, Option<OwnerLink>)> {
        let explained = self.explain(uid);
        let dependents = explained.map(|explained| explained.dependents).unwrap_or_default();
        let link = |dependent: tenure_ownership::Dependent| {
            let link = OwnerLink {
                controller: dependent.controller,
                blocking: dependent.block,
                verdict: self.worth(dependent.verdict, uid),
            };
            (self.named(&dependent.key), Some(link))
        };
        dependents.into_iter().map(link).collect()
    }

    fn owners_of(&self, object: &ObjectIdentity) -> Vec<(ObjectIdentity, Option<OwnerLink>)> {
        let explained = self.explain(&object.uid);
        let references = explained.map(|explained| explained.references).unwrap_or_default();
        let link = |referenced: Referenced| {
            let verdict = self.worth_of(&referenced);
            let owner = match &referenced.owner {
                Some(key) => self.named(key),
                None => self.referred(&referenced.reference, &object.namespace),
            };
            let link = OwnerLink {
                controller: referenced.controller,
                blocking: referenced.block,
                verdict,
            };
            (owner, Some(link))
        };
        references.into_iter().map(link).collect()
    }
}

/// What is not ready although something that hangs on it fails does not wait: it fails as well.
fn tell_upwards(objects: &mut [TreeRow]) {
    // The depth of the last row, from the end, below which something fails.
    let mut failing: Vec<bool> = Vec::new();
    for row in objects.iter_mut().rev() {
        let below = failing.get(row.depth + 1).copied().unwrap_or_default();
        failing.truncate(row.depth + 1);
        failing.resize(row.depth + 1, false);
        if below && row.health == Some(Health::Waiting) {
            row.health = Some(Health::Failing);
        }
        let fails = below || row.health == Some(Health::Failing);
        if let Some(failing) = failing.last_mut() {
            *failing |= fails;
        }
    }
}
