//! Reads what engine `retention` is told from records: who mentions what, who opted in, whose entries
//! are whose. Data is never read.

use std::collections::HashSet;

use serde_json::Value;
use tenure_kinds::podspec::{ReferenceKind, template_references};
use tenure_machinery::{Object, ObjectExt};
use tenure_retention::{OwnerEntry, SubjectKind, UserKind};
use tenure_server::internal_writer::OPTED_IN_TEXT;
use tenure_server::registry::Registry;
use tenure_world::Record;

/// The name that entries of this engine are managed under.
pub(crate) const MANAGER: &str = "tenure-retention";

/// What is stored under a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetentionKind {
    Subject(SubjectKind),
    User(UserKind),
}

/// Group and resource of everything that is looked at.
pub(crate) const RESOURCES: [(&str, &str, RetentionKind); 9] = [
    ("", "configmaps", RetentionKind::Subject(SubjectKind::ConfigMap)),
    ("", "secrets", RetentionKind::Subject(SubjectKind::Secret)),
    ("", "pods", RetentionKind::User(UserKind::Pod)),
    ("", "replicationcontrollers", RetentionKind::User(UserKind::ReplicationController)),
    ("apps", "controllerrevisions", RetentionKind::User(UserKind::ControllerRevision)),
    ("apps", "daemonsets", RetentionKind::User(UserKind::DaemonSet)),
    ("apps", "deployments", RetentionKind::User(UserKind::Deployment)),
    ("apps", "replicasets", RetentionKind::User(UserKind::ReplicaSet)),
    ("apps", "statefulsets", RetentionKind::User(UserKind::StatefulSet)),
];

/// Where these are stored.
pub(crate) struct RetentionPrefixes(Vec<(Box<str>, RetentionKind)>);

impl RetentionPrefixes {
    pub(crate) fn new(kinds: &Registry) -> RetentionPrefixes {
        let shelf = |(group, plural, stored): (&str, &str, RetentionKind)| {
            let served = kinds.kinds().iter();
            let mut served = served.filter(|s| s.kind.group == group && s.kind.plural == plural);
            Some((served.next()?.prefix.as_str().into(), stored))
        };
        RetentionPrefixes(RESOURCES.into_iter().filter_map(shelf).collect())
    }

    /// What is stored at a key, if it is anything of interest.
    pub(crate) fn at(&self, key: &str) -> Option<RetentionKind> {
        self.0.iter().find(|(prefix, _)| key.starts_with(&**prefix)).map(|(_, stored)| *stored)
    }

    /// The prefixes of everything of interest, within one namespace or all (empty).
    pub(crate) fn within(
        &self,
        namespace: &str,
        wanted: impl Fn(RetentionKind) -> bool,
    ) -> impl Iterator<Item = (String, RetentionKind)> {
        let slash = if namespace.is_empty() { "" } else { "/" };
        self.0
            .iter()
            .filter(move |(_, stored)| wanted(*stored))
            .map(move |(prefix, stored)| (format!("{prefix}{namespace}{slash}"), *stored))
    }

    /// Where a subject is stored.
    pub(crate) fn key(&self, kind: SubjectKind, namespace: &str, name: &str) -> String {
        let shelf = self.0.iter().find(|(_, stored)| *stored == RetentionKind::Subject(kind));
        format!("{}{namespace}/{name}", shelf.map_or("", |(prefix, _)| prefix))
    }
}

/// Whether a ConfigMap or Secret opted in.
pub(crate) fn opted_in(record: &Record) -> bool {
    record.contains(OPTED_IN_TEXT)
}

/// Whether a pod has ended.
pub(crate) fn has_ended(pod: &Record) -> bool {
    matches!(pod.field("status.phase"), Some("Succeeded" | "Failed"))
}

/// Whether a revision belongs to a StatefulSet or DaemonSet, or to nobody any more (R24).
pub(crate) fn is_holder(kind: UserKind, record: &Record) -> bool {
    if kind != UserKind::ControllerRevision {
        return true;
    }
    let controller = record.owners().find(|owner| owner.controller);
    controller.is_none_or(|owner| matches!(owner.kind, "StatefulSet" | "DaemonSet"))
}

/// Hands what a record mentions to somebody, and what of that it only pulls images with; tells how much of it was guessed.
pub(crate) fn with_references(
    kind: UserKind,
    object: &Object,
    look: impl FnOnce(&[(SubjectKind, &str)], &[(SubjectKind, &str)]),
) -> usize {
    let template = match kind {
        UserKind::Pod => Some(object),
        UserKind::ControllerRevision => object.map_at(&["data", "spec", "template"]),
        _ => object.map_at(&["spec", "template"]),
    };
    let Some(template) = template else {
        look(&[], &[]);
        return 0;
    };
    let found = template_references(template);
    let subject = |kind: ReferenceKind| match kind {
        ReferenceKind::ConfigMap => SubjectKind::ConfigMap,
        ReferenceKind::Secret => SubjectKind::Secret,
    };
    let names: Vec<_> = found.names.iter().map(|(kind, name)| (subject(*kind), *name)).collect();
    let pulled: Vec<_> = found.pulled.iter().map(|name| (SubjectKind::Secret, *name)).collect();
    look(&names, &pulled);
    found.guessed
}

/// Hands the owner list of a subject to somebody, with what this engine added marked as such.
pub(crate) fn with_owners<T>(record: &Record, look: impl FnOnce(&[OwnerEntry<'_>]) -> T) -> T {
    let ours = managed(record);
    let holder =
        |kind: &str| matches!(kind, "ReplicaSet" | "ControllerRevision" | "ReplicationController");
    let owners: Vec<OwnerEntry<'_>> = record
        .owners()
        .map(|owner| OwnerEntry {
            uid: owner.uid,
            managed: !owner.controller
                && !owner.block
                && holder(owner.kind)
                && ours.contains(owner.uid),
        })
        .collect();
    look(&owners)
}

/// The uids of the entries that this engine added, as the managed fields tell.
fn managed(record: &Record) -> HashSet<String> {
    let fields = record.managed_fields();
    let Ok(Value::Array(managers)) = serde_json::from_slice(&fields) else { return HashSet::new() };
    let named = |entry: &&Value| entry.get("manager").and_then(Value::as_str) == Some(MANAGER);
    let lists = managers.iter().filter(named).filter_map(|entry| {
        entry.pointer("/fieldsV1/f:metadata/f:ownerReferences").and_then(Value::as_object)
    });
    lists.flat_map(Object::keys).filter_map(|key| uid(key)).collect()
}

/// The uid in a key of a list that is merged by uid: `k:{"uid":"…"}`.
fn uid(key: &str) -> Option<String> {
    let key: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
    key.get("uid").and_then(Value::as_str).map(str::to_owned)
}
