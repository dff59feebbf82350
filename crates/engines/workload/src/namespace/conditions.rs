//! What a namespace that is going says of itself (ownership R156, G4).
//!
//! True means that something stands in the way. Nothing is counted or looked up here.

use alloc::borrow::ToOwned as _;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use tenure_machinery::Object;

use crate::condition;

/// What is left in a namespace that is going.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// How many objects of each resource, such as `pods.` or `deployments.apps`.
    pub objects: BTreeMap<String, usize>,
    /// How many objects each finalizer holds.
    pub finalizers: BTreeMap<String, usize>,
}

/// Writes all five conditions; those that say nothing new stay as they are.
pub(super) fn set(
    namespace: &mut Object,
    remaining: &Remaining,
    (undiscovered, failures): (&[String], &[String]),
    now: Timestamp,
) {
    let list = |counts: &BTreeMap<String, usize>, what: &str| {
        let each = counts.iter().map(|(n, count)| format!("{n} {what} {count} resource instances"));
        each.collect::<Vec<_>>().join(", ")
    };
    let unknown = (!undiscovered.is_empty()).then(|| {
        let count = undiscovered.len();
        format!("Discovery failed for some groups, {count} failing: {}", undiscovered.join(", "))
    });
    let failed = (!failures.is_empty()).then(|| {
        let count = failures.len();
        format!("Some content could not be deleted, {count} failing: {}", failures.join(", "))
    });
    let content = (!remaining.objects.is_empty())
        .then(|| format!("Some resources are remaining: {}", list(&remaining.objects, "has")));
    let held = (!remaining.finalizers.is_empty()).then(|| {
        let held = list(&remaining.finalizers, "in");
        format!("Some content in the namespace has finalizers remaining: {held}")
    });
    // What is stored here is known to this process: only other servers can keep theirs back.
    for (kind, problem, fine) in [
        (
            "NamespaceDeletionDiscoveryFailure",
            (unknown, "DiscoveryFailed"),
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            (None, "GroupVersionParsingFailed"),
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            (failed, "ContentDeletionFailed"),
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        (
            "NamespaceContentRemaining",
            (content, "SomeResourcesRemain"),
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            (held, "SomeFinalizersRemain"),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ] {
        let (status, reason, message) = match problem {
            (Some(message), reason) => ("True", reason, message),
            (None, _) => ("False", fine.0, fine.1.to_owned()),
        };
        condition::put(namespace, (kind, status), reason, &message, now);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/ownership.md.

    use tenure_machinery::ObjectExt as _;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn r156_conditions_keep_their_places_and_times() {
        let mut namespace = Object::new();
        let one = |name: &str| BTreeMap::from([(name.to_owned(), 1)]);
        let held = Remaining { objects: one("pods."), finalizers: one("a/b") };
        let failing = ["too large".to_owned()];
        set(&mut namespace, &held, (&[], &failing), at(1));
        let first = namespace.clone();
        set(&mut namespace, &held, (&[], &failing), at(2));
        assert_eq!(namespace, first, "the same again says nothing new");
        set(&mut namespace, &Remaining { objects: one("secrets."), ..held }, (&[], &[]), at(3));
        let said: Vec<(String, i64)> = namespace
            .list_at(&["status", "conditions"])
            .iter()
            .map(|condition| {
                let text = |member: &str| condition[member].as_str().unwrap().to_owned();
                let time: Timestamp = text("lastTransitionTime").parse().unwrap();
                (format!("{} {}", text("type"), text("reason")), time.as_second())
            })
            .collect();
        let wanted = [
            ("NamespaceDeletionDiscoveryFailure ResourcesDiscovered", 1),
            ("NamespaceDeletionGroupVersionParsingFailure ParsedGroupVersions", 1),
            ("NamespaceDeletionContentFailure ContentDeleted", 3),
            ("NamespaceContentRemaining SomeResourcesRemain", 1),
            ("NamespaceFinalizersRemaining SomeFinalizersRemain", 1),
        ];
        let said: Vec<(&str, i64)> = said.iter().map(|(a, b)| (a.as_str(), *b)).collect();
        assert_eq!(said, wanted);
    }
}
