//! The nearest miss: which object differs from what is needed in a single field, and which field.
//!
//! Nothing here depends on whether the target exists or on who else points at it (R131).

use alloc::format;
use alloc::string::String;
use core::fmt;

use crate::model::{Grant, Obj, Triple};

/// The first condition that is not met (R132).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnmetCondition {
    /// The verb, name or subresource is never granted.
    Verb,
    /// No consumer names the subject.
    Subject,
    /// No consumer of the subject serves this type of target.
    Target,
    /// No strategy has the triple.
    Triple,
    /// The strategy has no version that is served.
    Version,
    /// No origin points there.
    Reference,
    /// The class of the origin is not accepted.
    Class,
    /// The reference leaves its namespace, and no grant covers it.
    Grant,
}

impl UnmetCondition {
    /// As it is written in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            UnmetCondition::Verb => "VERB",
            UnmetCondition::Subject => "SUBJECT",
            UnmetCondition::Target => "TARGET",
            UnmetCondition::Triple => "TRIPLE",
            UnmetCondition::Version => "VERSION",
            UnmetCondition::Reference => "REFERENCE",
            UnmetCondition::Class => "CLASS",
            UnmetCondition::Grant => "GRANT",
        }
    }
}

impl fmt::Display for UnmetCondition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// An object that would do, but for one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The kind of the object.
    pub kind: &'static str,
    /// Its namespace, if it has one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The field that differs.
    pub field: &'static str,
    /// What the field would have to be, or contain.
    pub wanted: String,
    /// What it is.
    pub found: String,
}

impl fmt::Display for Nearest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Nearest { kind, namespace, name, field, wanted, found } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        if *field == SELECTOR {
            return write!(
                out,
                "{kind} `{namespace}{slash}{name}` differs in `{field}`: the labels of namespace \
                 `{wanted}` do not match `{found}`"
            );
        }
        write!(
            out,
            "{kind} `{namespace}{slash}{name}` differs in `{field}`: it has `{found}`, needed is `{wanted}`"
        )
    }
}

/// The field that selects namespaces by labels.
const SELECTOR: &str = "origin.namespaceSelector";

/// The grant a reference needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needed<'a> {
    pub(crate) origin: Obj<'a>,
    pub(crate) target: Obj<'a>,
    pub(crate) purpose: &'a str,
}

impl Needed<'_> {
    /// Whether a grant covers it (R51).
    pub(crate) fn is_met_by(&self, grant: &Grant) -> bool {
        let names = grant.names.iter().any(|name| name == self.target.name);
        names && self.fields(grant).into_iter().all(|(_, wanted, found)| Some(wanted) == found)
    }

    /// Every field but the names: what is needed and what is there. `None` is a selector that does not match.
    fn fields<'g>(&'g self, grant: &'g Grant) -> [(&'static str, &'g str, Option<&'g str>); 7] {
        let from = self.origin.namespace;
        let namespace = match &grant.namespace_selector {
            None => ("origin.namespace", from, Some(grant.origin_namespace.as_str())),
            Some(_) => (SELECTOR, from, grant.is_from(from).then_some(from)),
        };
        [
            ("metadata.namespace", self.target.namespace, Some(&grant.namespace)),
            ("origin.group", self.origin.group, Some(&grant.origin.group)),
            ("origin.resource", self.origin.resource, Some(&grant.origin.resource)),
            namespace,
            ("target.group", self.target.group, Some(&grant.target.group)),
            ("target.resource", self.target.resource, Some(&grant.target.resource)),
            ("purpose", self.purpose, Some(&grant.purpose)),
        ]
    }

    /// The first of the grants, by name, that lacks a single field.
    pub(crate) fn nearest<'g>(&self, grants: impl Iterator<Item = &'g Grant>) -> Option<Nearest> {
        let near = grants.filter_map(|grant| Some((grant, self.only_difference(grant)?)));
        let near = near.min_by_key(|(grant, _)| (&grant.namespace, &grant.name));
        near.map(|(grant, (field, wanted, found))| Nearest {
            kind: "ReferenceGrant",
            namespace: grant.namespace.clone(),
            name: grant.name.clone(),
            field,
            wanted,
            found,
        })
    }

    fn only_difference(&self, grant: &Grant) -> Option<(&'static str, String, String)> {
        let mut differences =
            self.fields(grant).into_iter().filter(|(_, wanted, found)| Some(*wanted) != *found);
        let (first, second) = (differences.next(), differences.next());
        let named = grant.names.iter().any(|name| name == self.target.name);
        match (first, second, named) {
            (Some((field, wanted, found)), None, true) => {
                let selector = grant.namespace_selector.as_ref();
                let found = match found {
                    Some(found) => found.into(),
                    None => selector.map(|selector| format!("{selector}")).unwrap_or_default(),
                };
                Some((field, wanted.into(), found))
            }
            (None, _, false) => {
                Some(("target.names", self.target.name.into(), grant.names.join(", ")))
            }
            _ => None,
        }
    }

    /// A grant that would do, ready to apply. Text from objects is quoted, because it may say anything.
    pub(crate) fn yaml(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text);
        let mut yaml = format!(
            "apiVersion: {}/v1alpha1\nkind: ReferenceGrant\nmetadata:\n  name: {}\n  namespace: {}\n",
            crate::GROUP,
            quoted(&self.name()),
            quoted(self.target.namespace),
        );
        yaml += &format!(
            "origin:\n  group: {}\n  resource: {}\n",
            quoted(self.origin.group),
            quoted(self.origin.resource)
        );
        if !self.origin.namespace.is_empty() {
            yaml += &format!("  namespace: {}\n", quoted(self.origin.namespace));
        }
        yaml += &format!(
            "target:\n  group: {}\n  resource: {}\n  names: [{}]\npurpose: {}\n",
            quoted(self.target.group),
            quoted(self.target.resource),
            quoted(self.target.name),
            quoted(self.purpose)
        );
        yaml
    }

    /// A name for the grant, from what it is for; cut where a name must end.
    fn name(&self) -> String {
        let from = if self.origin.namespace.is_empty() { "cluster" } else { self.origin.namespace };
        let name = format!("{from}-{}-{}", self.origin.resource, self.target.resource);
        name.chars().take(63).collect::<String>().trim_end_matches('-').into()
    }
}

/// The part in which two triples differ, if it is one: field, wanted, found.
pub(crate) fn only_part(wanted: &Triple, found: &Triple) -> Option<(&'static str, String, String)> {
    let text = |resource: &crate::Resource| format!("{resource}");
    let parts = [
        ("origin", text(&wanted.origin), text(&found.origin)),
        ("target", text(&wanted.target), text(&found.target)),
        ("purpose", wanted.purpose.clone(), found.purpose.clone()),
    ];
    let mut differing = parts.into_iter().filter(|(_, wanted, found)| wanted != found);
    let first = differing.next();
    first.filter(|_| differing.next().is_none())
}

/// Whether two texts are at most two edits apart.
pub(crate) fn is_close(one: &str, two: &str) -> bool {
    let (one, two) = (one.as_bytes(), two.as_bytes());
    if one.len().abs_diff(two.len()) > 2 {
        return false;
    }
    // One row of the table of edits; names are short.
    let mut row: alloc::vec::Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (b, cell) in two.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            left = (diagonal + usize::from(a != b)).min(above + 1).min(left + 1);
            *cell = left;
            diagonal = above;
        }
    }
    row.last().is_some_and(|edits| *edits <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_edits_are_close_and_three_are_not() {
        assert!(is_close("acme-tls", "acme-tls") && is_close("acme-tls", "amce-tls"));
        assert!(is_close("acme", "acm") && is_close("", "ab") && is_close("abc", "xbcd"));
        assert!(!is_close("acme", "abcd") && !is_close("a", "abcd") && !is_close("xyz", "abc"));
    }
}
