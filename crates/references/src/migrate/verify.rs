//! Old verdict beside new verdict, for every reference of a living origin into another namespace (M5).

use tenure_reference::{Grant, ServedType};

use super::source::SourceGrant;
use crate::names::{ObjectName, Reference};

/// A reference whose verdict is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedVerdict {
    /// Which one.
    pub reference: Reference,
    /// Whether it was allowed and is no longer; else it is allowed and was not.
    pub lost: bool,
}

/// Every cross-namespace reference whose old and new verdict differ.
#[must_use]
pub fn verify(
    sources: &[SourceGrant],
    grants: &[Grant],
    references: &[Reference],
    served: &[ServedType],
) -> Vec<ChangedVerdict> {
    let kind = |object: &ObjectName| {
        let row = served.iter().find(|row| row.resource == object.resource);
        row.map(|row| row.kind.clone()).unwrap_or_else(|| {
            let known = super::KNOWN_KINDS.iter().find(|known| {
                known.group == object.resource.group && known.resource == object.resource.resource
            });
            known.map(|known| known.kind.to_owned()).unwrap_or_default()
        })
    };
    let mut turned = Vec::new();
    for reference in references {
        if !reference.needs_grant() {
            continue;
        }
        let Reference { origin, target, .. } = reference;
        let (origin_kind, target_kind) = (kind(origin), kind(target));
        let from = (&*origin.resource.group, &*origin_kind, &*origin.namespace);
        let to = (&*target.resource.group, &*target_kind, &*target.namespace, &*target.name);
        let old = sources.iter().any(|source| source.allows(from, to));
        let new = grants.iter().any(|grant| reference.is_granted_by(grant));
        if old != new {
            turned.push(ChangedVerdict { reference: reference.clone(), lost: old });
        }
    }
    turned
}
