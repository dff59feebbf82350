//! The volume claims of a set's pods, and who owns them (SS12, SS20 to SS23).
//!
//! ```text
//!   whenScaled / whenDeleted    number wanted    number no longer wanted
//!   Retain     / Retain         nobody           nobody
//!   Retain     / Delete         the set          the set
//!   Delete     / Retain         nobody           the pod
//!   Delete     / Delete         the set          the pod
//! ```

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::StatefulSetContext;
use crate::intent::{ControllerIntent, EventReport, MessageSuffix, UpdateEndpoint};
use crate::owner;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};

/// The templates of a set's claims.
pub(super) fn templates(set: &Object) -> impl Iterator<Item = &Object> {
    set.list_at(&["spec", "volumeClaimTemplates"]).iter().filter_map(Value::as_object)
}

/// The name of the claim for the pod with this number.
pub(super) fn name(set: &StatefulSetContext<'_>, template: &Object, ordinal: i64) -> String {
    format!("{}-{}-{ordinal}", template.name(), set.object.name())
}

/// What a set's policy says for one of two occasions.
fn deletes(set: &StatefulSetContext<'_>, occasion: &str) -> bool {
    let path = ["spec", "persistentVolumeClaimRetentionPolicy", occasion];
    set.object.str_at(&path) == Some("Delete")
}

/// The claims that a pod lacks, each to be made before the pod is.
pub(super) struct Missing {
    pub(super) intents: Vec<ControllerIntent>,
    /// A claim that is being deleted: the pod has to wait for a new one.
    pub(super) waits_for: Option<String>,
}

/// The claims that the pod with this number lacks (SS12).
pub(super) fn missing(
    set: &StatefulSetContext<'_>,
    ordinal: i64,
    view: &dyn ClusterView,
) -> Missing {
    let mut missing = Missing { intents: Vec::new(), waits_for: None };
    for template in templates(set.object) {
        let name = name(set, template, ordinal);
        match view.get(BuiltinResource::PersistentVolumeClaims, set.object.namespace(), &name) {
            None => missing.intents.push(creation(set, template, ordinal, name)),
            Some(claim) if owner::deleting(&claim) => missing.waits_for = Some(name),
            Some(_) => {}
        }
    }
    missing
}

fn creation(
    set: &StatefulSetContext<'_>,
    template: &Object,
    ordinal: i64,
    name: String,
) -> ControllerIntent {
    let (pod, about) = (super::identity::name(set, ordinal), set.object.name());
    let done = format!("Create Claim {name} Pod {pod} in StatefulSet {about} success");
    let refused =
        format!("Create Claim {name} for Pod {pod} in StatefulSet {about} failed error: ");
    ControllerIntent::create(BuiltinResource::PersistentVolumeClaims, new(set, template, name))
        .relying_on(set.about.living())
        .when_done(set.about.normal("SuccessfulCreate", done))
        .when_refused(set.about.warning("FailedCreate", refused).ending(MessageSuffix::Error))
}

/// A claim made from its template; its owner is there from the start.
fn new(set: &StatefulSetContext<'_>, template: &Object, name: String) -> Object {
    let mut metadata = Object::new();
    for part in ["annotations", "finalizers"] {
        if let Some(value) = template.at(&["metadata", part]) {
            metadata.insert(part.to_string(), value.clone());
        }
    }
    let mut labels = template.map_at(&["metadata", "labels"]).cloned().unwrap_or_default();
    let matched = set.object.map_at(&["spec", "selector", "matchLabels"]);
    labels.extend(matched.cloned().unwrap_or_default());
    if !labels.is_empty() {
        metadata.insert("labels".to_string(), Value::Object(labels));
    }
    metadata.insert("name".to_string(), name.into());
    metadata.insert("namespace".to_string(), set.object.namespace().into());
    if deletes(set, "whenDeleted") {
        let entry = owner::entry(BuiltinResource::StatefulSets, set.object);
        metadata.insert("ownerReferences".to_string(), Value::Array([entry].to_vec()));
    }
    let mut claim = Object::new();
    claim.insert("apiVersion".to_string(), "v1".into());
    claim.insert("kind".to_string(), "PersistentVolumeClaim".into());
    claim.insert("metadata".to_string(), Value::Object(metadata));
    claim.insert("spec".to_string(), template.get("spec").cloned().unwrap_or_default());
    claim
}

/// Whether a claim still belongs to an earlier pod of this number, which goes with it (SS21).
pub(super) fn stale(set: &StatefulSetContext<'_>, ordinal: i64, view: &dyn ClusterView) -> bool {
    if !deletes(set, "whenScaled") {
        return false;
    }
    let pod = super::identity::name(set, ordinal);
    templates(set.object).any(|template| {
        let claim = name(set, template, ordinal);
        view.get(BuiltinResource::PersistentVolumeClaims, set.object.namespace(), &claim)
            .is_some_and(|claim| entries(&claim).any(|e| names(e, BuiltinResource::Pods, &pod)))
    })
}

/// Puts the owners of a pod's claims right (SS20 to SS23).
pub(super) fn own(
    set: &StatefulSetContext<'_>,
    pod: &VersionedObject,
    ordinal: i64,
    view: &dyn ClusterView,
    troubles: &mut Vec<EventReport>,
) -> Vec<ControllerIntent> {
    let mut intents = Vec::new();
    for template in templates(set.object) {
        let name = name(set, template, ordinal);
        let found =
            view.get(BuiltinResource::PersistentVolumeClaims, set.object.namespace(), &name);
        let Some(claim) = found else { continue };
        let owners = owners(set, pod, ordinal, &claim);
        if owners.conflict {
            troubles.push(conflict(set, &name));
        }
        if let Some(entries) = owners.wanted {
            let mut object = Object::clone(&claim.object);
            let metadata = object.map_mut("metadata");
            if entries.is_empty() {
                metadata.remove("ownerReferences");
            } else {
                metadata.insert("ownerReferences".to_string(), Value::Array(entries));
            }
            let update = ControllerIntent::update(
                BuiltinResource::PersistentVolumeClaims,
                object,
                UpdateEndpoint::Main,
                claim.revision,
            );
            intents.push(update.relying_on(set.about.living()));
        }
    }
    intents
}

fn conflict(set: &StatefulSetContext<'_>, claim: &str) -> EventReport {
    let message = format!(
        "PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging \
         controller, the retention policy is ignored for this claim"
    );
    set.about.warning("ConflictingController", message)
}

/// What should become of the owners of a claim.
#[derive(Debug, PartialEq)]
struct Owners {
    /// The entries it should have, where they differ from what it has.
    wanted: Option<Vec<Value>>,
    /// Somebody else controls it (SS22).
    conflict: bool,
}

fn owners(set: &StatefulSetContext<'_>, pod: &Object, ordinal: i64, claim: &Object) -> Owners {
    let (set_name, pod_name) = (set.object.name(), pod.name());
    let (set_uid, pod_uid) = (owner::uid(set.object), owner::uid(pod));
    let is_set = |entry: &Object| names(entry, BuiltinResource::StatefulSets, set_name);
    let is_pod = |entry: &Object| names(entry, BuiltinResource::Pods, pod_name);
    let stale = |entry: &Object| {
        (is_set(entry) && !has_uid(entry, set_uid)) || (is_pod(entry) && !has_uid(entry, pod_uid))
    };
    if entries(claim).any(stale) {
        return Owners { wanted: None, conflict: false };
    }
    let ours = |entry: &Object| {
        is_set(entry) || is_pod(entry) || has_uid(entry, set_uid) || has_uid(entry, pod_uid)
    };
    let controls = |entry: &Object| entry.bool_at(&["controller"]) == Some(true);
    let retains = !deletes(set, "whenScaled") && !deletes(set, "whenDeleted");
    let conflict = !retains && entries(claim).any(|entry| !ours(entry) && controls(entry));
    let gone = !set.wants(ordinal);
    let wants_pod = !conflict && deletes(set, "whenScaled") && gone;
    let wants_set =
        !conflict && deletes(set, "whenDeleted") && !(gone && deletes(set, "whenScaled"));
    let right = entries(claim).filter(|entry| ours(entry)).all(controls)
        && entries(claim).any(|entry| has_uid(entry, set_uid)) == wants_set
        && entries(claim).any(|entry| has_uid(entry, pod_uid)) == wants_pod;
    if right {
        return Owners { wanted: None, conflict };
    }
    let others = entries(claim).filter(|entry| !ours(entry)).cloned().map(Value::Object);
    let mut wanted: Vec<Value> = others.collect();
    if wants_set {
        wanted.push(owner::entry(BuiltinResource::StatefulSets, set.object));
    }
    if wants_pod {
        wanted.push(owner::entry(BuiltinResource::Pods, pod));
    }
    Owners { wanted: Some(wanted), conflict }
}

fn entries(claim: &Object) -> impl Iterator<Item = &Object> {
    claim.list_at(&["metadata", "ownerReferences"]).iter().filter_map(Value::as_object)
}

/// Whether an entry names an object of this kind and name, whatever its uid is.
fn names(entry: &Object, resource: BuiltinResource, name: &str) -> bool {
    entry.str_at(&["apiVersion"]) == Some(resource.api_version())
        && entry.str_at(&["kind"]) == Some(resource.kind())
        && entry.str_at(&["name"]) == Some(name)
}

fn has_uid(entry: &Object, uid: &str) -> bool {
    entry.str_at(&["uid"]) == Some(uid)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{Owners, owners};
    use crate::statefulset::StatefulSetContext;
    use crate::view::VersionedObject;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use jiff::Timestamp;
    use serde_json::{Value, json};
    use tenure_core::Revision;

    fn seen(value: Value) -> VersionedObject {
        VersionedObject {
            object: Arc::new(value.as_object().unwrap().clone()),
            revision: Revision(1),
        }
    }

    fn entry(kind: &str, uid: &str, controller: bool) -> Value {
        let (version, name) = if kind == "Pod" { ("v1", "web-1") } else { ("apps/v1", "web") };
        let mut entry = json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid});
        if controller {
            entry["controller"] = json!(true);
            entry["blockOwnerDeletion"] = json!(true);
        }
        entry
    }

    fn run(scaled: &str, deleted: &str, replicas: i64, has: &[Value]) -> Owners {
        let set = seen(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "s"},
            "spec": {
                "replicas": replicas,
                "persistentVolumeClaimRetentionPolicy":
                    {"whenScaled": scaled, "whenDeleted": deleted},
            },
        }));
        let pod = seen(json!({"metadata": {"name": "web-1", "uid": "p"}}));
        let claim = seen(json!({"metadata": {"ownerReferences": has}}));
        owners(&StatefulSetContext::read(&set, Timestamp::UNIX_EPOCH), &pod, 1, &claim)
    }

    fn wanted(scaled: &str, deleted: &str, replicas: i64, has: &[Value]) -> Option<Vec<Value>> {
        run(scaled, deleted, replicas, has).wanted
    }

    #[test]
    fn ss20_the_policy_says_who_owns_a_claim() {
        let (set, pod) = (entry("StatefulSet", "s", true), entry("Pod", "p", true));
        // Scaled, deleted, owner while the number is wanted, owner when it no longer is.
        let cases = [
            ("Retain", "Retain", None, None),
            ("Retain", "Delete", Some(&set), Some(&set)),
            ("Delete", "Retain", None, Some(&pod)),
            ("Delete", "Delete", Some(&set), Some(&pod)),
        ];
        for (scaled, deleted, inside, outside) in cases {
            for (replicas, owner) in [(2, inside), (1, outside)] {
                let owner: Vec<Value> = owner.into_iter().cloned().collect();
                for before in [Vec::new(), [set.clone()].to_vec(), [pod.clone()].to_vec()] {
                    let expected = (before != owner).then(|| owner.clone());
                    let case = (scaled, deleted, replicas, &before);
                    assert_eq!(wanted(scaled, deleted, replicas, &before), expected, "{case:?}");
                }
            }
        }
    }

    #[test]
    fn ss20_entries_of_others_stay() {
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"});
        let set = entry("StatefulSet", "s", true);
        assert_eq!(
            wanted("Retain", "Delete", 2, core::slice::from_ref(&other)),
            Some([other.clone(), set.clone()].to_vec())
        );
        assert_eq!(wanted("Retain", "Retain", 2, &[other.clone(), set]), Some([other].to_vec()));
    }

    #[test]
    fn ss21_a_stale_entry_leaves_the_claim_alone() {
        for stale in [entry("StatefulSet", "old", true), entry("Pod", "old", true)] {
            let found = run("Delete", "Delete", 2, &[stale]);
            assert_eq!(found, Owners { wanted: None, conflict: false });
        }
    }

    #[test]
    fn ss22_another_controller_keeps_its_claim() {
        let other = json!({"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "x",
            "controller": true});
        let alone = run("Delete", "Delete", 2, core::slice::from_ref(&other));
        assert_eq!(alone, Owners { wanted: None, conflict: true });
        let both = [other.clone(), entry("StatefulSet", "s", false)];
        let found = run("Delete", "Delete", 2, &both);
        assert_eq!(found, Owners { wanted: Some([other.clone()].to_vec()), conflict: true });
        // Somebody who retains anyway does not mind.
        assert!(!run("Retain", "Retain", 2, &[other]).conflict);
    }

    #[test]
    fn ss23_an_entry_without_the_flag_is_rewritten() {
        let bare = [entry("StatefulSet", "s", false)];
        let full = [entry("StatefulSet", "s", true)].to_vec();
        assert_eq!(wanted("Retain", "Delete", 2, &bare), Some(full.clone()));
        assert_eq!(wanted("Retain", "Delete", 2, &full), None);
    }
}
