//! What an object owns, or who owns it, as rows of a tree. Drawing it is the business of `render`.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::Serialize;
use tenure_ownership::Referenced;

use crate::facts::{Found, Named, Unread};
use crate::look::{Look, Standing, Worth};

/// The reference between a row and the row above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Whether the owner is the managing controller.
    pub controller: bool,
    /// Whether the reference says that the owner waits.
    pub blocking: bool,
    /// What the reference is worth.
    pub verdict: Worth,
}

/// One object in a tree.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Who it is.
    #[serde(flatten)]
    pub object: Named,
    /// How many steps it is away from the first row.
    pub depth: usize,
    /// The uid of the row it hangs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<String>,
    /// The reference to or from that row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Link>,
    /// How it stands.
    pub standing: Standing,
    /// How it fares, in the words of its kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
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
}

/// A tree, first row first, each row after the one it hangs on.
#[derive(Clone, Debug, Serialize)]
pub struct Tree {
    /// Whether it goes from an object to its owners.
    pub up: bool,
    /// The rows.
    pub objects: Vec<Row>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// When it was read.
    pub now: Timestamp,
}

struct Next {
    object: Named,
    depth: usize,
    under: Option<String>,
    reference: Option<Link>,
    last: bool,
}

impl Look {
    /// The tree of an object: what it owns, or with `up` who owns it.
    #[must_use]
    pub fn tree(&self, root: &Found, up: bool) -> Tree {
        let mut objects = Vec::new();
        let mut shown = HashSet::new();
        let first =
            Next { object: root.named(), depth: 0, under: None, reference: None, last: true };
        // A list instead of recursion: chains may be deeper than a stack.
        let mut left = vec![first];
        while let Some(next) = left.pop() {
            let uid = next.object.uid.clone();
            let repeated = !shown.insert(uid.clone());
            let depth = next.depth + 1;
            let mut hanging = match repeated {
                true => Vec::new(),
                false if up => self.owners_of(&next.object),
                false => self.dependents_of(&uid),
            };
            hanging.sort_by(|one, other| one.0.cmp(&other.0));
            let count = hanging.len();
            let rows = hanging.into_iter().enumerate().rev();
            left.extend(rows.map(|(index, (object, link))| Next {
                object,
                depth,
                under: Some(uid.clone()),
                reference: Some(link),
                last: index + 1 == count,
            }));
            let nothing_below = left.last().is_none_or(|below| below.depth != depth);
            objects.push(self.row(next, repeated && !(nothing_below && self.is_leaf(&uid, up))));
        }
        Tree { up, objects, unread: self.unread().to_vec(), now: self.now() }
    }

    fn is_leaf(&self, uid: &str, up: bool) -> bool {
        self.explain(uid).is_none_or(|explained| match up {
            true => explained.references.is_empty(),
            false => explained.dependents.is_empty(),
        })
    }

    fn row(&self, next: Next, repeated: bool) -> Row {
        let found = self.get(&next.object.uid).filter(|found| !found.assumed);
        let meta = found.map(|found| &found.meta);
        Row {
            standing: self.standing(&next.object.uid),
            status: self.status(&next.object.uid).map(str::to_owned),
            created: meta.and_then(|meta| meta.creation_timestamp),
            deleted: meta.and_then(crate::meta::Meta::deleted_at),
            finalizers: meta.map(|meta| meta.finalizers.clone()).unwrap_or_default(),
            depth: next.depth,
            under: next.under,
            reference: next.reference,
            repeated,
            last: next.last,
            object: next.object,
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<(Named, Link)> {
        let explained = self.explain(uid);
        let dependents = explained.map(|explained| explained.dependents).unwrap_or_default();
        let link = |dependent: tenure_ownership::Dependent| {
            let link = Link {
                controller: dependent.controller,
                blocking: dependent.block,
                verdict: self.worth(dependent.verdict, uid),
            };
            (self.named(&dependent.key), link)
        };
        dependents.into_iter().map(link).collect()
    }

    fn owners_of(&self, object: &Named) -> Vec<(Named, Link)> {
        let explained = self.explain(&object.uid);
        let references = explained.map(|explained| explained.references).unwrap_or_default();
        let link = |referenced: Referenced| {
            let verdict = self.worth_of(&referenced);
            let owner = match &referenced.owner {
                Some(key) => self.named(key),
                None => self.referred(&referenced.reference, &object.namespace),
            };
            let link =
                Link { controller: referenced.controller, blocking: referenced.block, verdict };
            (owner, link)
        };
        references.into_iter().map(link).collect()
    }
}
