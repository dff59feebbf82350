//! Short reads of the three kinds: which references they speak of. Nothing here fails or judges.

use core::fmt;

use serde_json::Value;
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Object, ObjectExt};

use super::ReferencePolicyKind;

/// A group and a resource, as an object names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupResourceRef<'a> {
    /// The group; empty for core.
    pub group: &'a str,
    /// The plural.
    pub resource: &'a str,
}

impl<'a> GroupResourceRef<'a> {
    /// What the member of an object names; empty where it names nothing.
    #[must_use]
    pub fn read(object: &'a Object, member: &str) -> GroupResourceRef<'a> {
        let part = |name| object.str_at(&[member, name]).unwrap_or_default();
        GroupResourceRef { group: part("group"), resource: part("resource") }
    }
}

impl fmt::Display for GroupResourceRef<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => out.write_str(self.resource),
            group => write!(out, "{}.{group}", self.resource),
        }
    }
}

/// Origin, target and purpose: what the three kinds agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TripleView<'a> {
    /// Where references start.
    pub origin: GroupResourceRef<'a>,
    /// Where they point.
    pub target: GroupResourceRef<'a>,
    /// What for.
    pub purpose: &'a str,
}

impl<'a> TripleView<'a> {
    /// The triple of a grant, or of an entry of a consumer.
    #[must_use]
    pub fn read(object: &'a Object) -> TripleView<'a> {
        TripleView {
            origin: GroupResourceRef::read(object, "origin"),
            target: GroupResourceRef::read(object, "target"),
            purpose: text(object, "purpose"),
        }
    }

    /// The members, in one order for all triples.
    fn members(&self) -> [(&'static str, &'a str); 5] {
        [
            ("origin.group", self.origin.group),
            ("origin.resource", self.origin.resource),
            ("target.group", self.target.group),
            ("target.resource", self.target.resource),
            ("purpose", self.purpose),
        ]
    }

    /// The only member in which another triple differs, and what it has there.
    #[must_use]
    pub fn only_difference<'b>(&self, other: &TripleView<'b>) -> Option<(&'static str, &'b str)> {
        let both = self.members().into_iter().zip(other.members());
        let mut differing =
            both.filter(|((_, mine), (_, theirs))| mine != theirs).map(|(_, theirs)| theirs);
        let first = differing.next()?;
        differing.next().is_none().then_some(first)
    }
}

impl fmt::Display for TripleView<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} -> {} for {}", self.origin, self.target, self.purpose)
    }
}

/// The triples of any of the three kinds, in the order of the object; those of a strategy come from the given
/// version only, or from all of them.
#[must_use]
pub fn triples<'a>(
    kind: ReferencePolicyKind,
    object: &'a Object,
    version: Option<&str>,
) -> Vec<TripleView<'a>> {
    match kind {
        ReferencePolicyKind::Grant => vec![TripleView::read(object)],
        ReferencePolicyKind::Consumer => {
            objects(object, "references").map(|(_, entry)| TripleView::read(entry)).collect()
        }
        ReferencePolicyKind::Strategy => {
            let origin = GroupResourceRef::read(object, "origin");
            let versions = objects(object, "versions").map(|(_, versioned)| versioned);
            let wanted =
                versions.filter(|of| version.is_none_or(|wanted| text(of, "version") == wanted));
            let entries = wanted.flat_map(|versioned| objects(versioned, "references"));
            entries
                .map(|(_, entry)| TripleView {
                    origin,
                    target: GroupResourceRef::read(entry, "target"),
                    purpose: text(entry, "purpose"),
                })
                .collect()
        }
    }
}

/// The distinct targets that an object names, in order.
#[must_use]
pub fn targets(kind: ReferencePolicyKind, object: &Object) -> Vec<GroupResourceRef<'_>> {
    let mut targets: Vec<GroupResourceRef<'_>> =
        triples(kind, object, None).into_iter().map(|triple| triple.target).collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}

/// What a grant selects namespaces by, if it does (D9).
#[must_use]
pub fn namespace_selector(grant: &Object) -> Option<&Object> {
    grant.map_at(&["origin", "namespaceSelector"])
}

/// The names that a grant grants.
#[must_use]
pub fn target_names(grant: &Object) -> Vec<&str> {
    grant.list_at(&["target", "names"]).iter().filter_map(Value::as_str).collect()
}
