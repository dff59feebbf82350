//! ControllerRevisions: what a template was, under which name and number (HI1 to HI12).
//!
//! ```text
//!   template ──data──► ControllerRevision ──template──► the same template again
//! ```
//!
//! What StatefulSet and DaemonSet share. When a revision is made, renumbered or dropped is decided
//! by each of them.

mod defaults;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::intent::{ControllerIntent, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;
use crate::{owner, template, time};

/// The label of a StatefulSet's revision that holds its hash (HI3).
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The label of a pod that names its revision; a DaemonSet's revisions carry it too (HI3, SS2, DS4).
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// The longest part of a controller's name that goes into the name of a revision (HI2).
const PREFIX_MAX: usize = 223;

/// A template as a revision holds it: a strategic merge patch that puts it back whole (HI1, HI12).
#[must_use]
pub fn data(template: &Object) -> Value {
    let mut template = template.clone();
    template.insert("$patch".to_string(), "replace".into());
    json!({ "spec": { "template": template } })
}

/// The template that a revision holds.
#[must_use]
pub fn template_of(revision: &Object) -> Object {
    let mut template = revision.map_at(&["data", "spec", "template"]).cloned().unwrap_or_default();
    template.remove("$patch");
    template
}

/// Whether a revision holds exactly this data (HI7).
#[must_use]
pub fn holds(revision: &Object, data: &Value) -> bool {
    revision.get("data") == Some(data)
}

/// Whether a revision, put back and given the defaults of today, would be this template (HI7).
#[must_use]
pub fn restores(revision: &Object, wanted: &Object) -> bool {
    let held = template_of(revision);
    template::same(&held, wanted) || defaults::explain(&held, wanted)
}

/// The number of a revision.
#[must_use]
pub fn number(revision: &Object) -> i64 {
    revision.int_at(&["revision"]).unwrap_or_default()
}

/// Puts revisions in order: by number, then by age, then by name.
pub fn sort(revisions: &mut [VersionedObject]) {
    revisions.sort_by(|a, b| order(a, b));
}

fn order(one: &Object, other: &Object) -> Ordering {
    number(one)
        .cmp(&number(other))
        .then_with(|| time::created(one).cmp(&time::created(other)))
        .then_with(|| one.name().cmp(other.name()))
}

/// The number that follows the highest of these.
#[must_use]
pub fn next_number(revisions: &[VersionedObject]) -> i64 {
    revisions.iter().map(|revision| number(revision)).max().unwrap_or_default().saturating_add(1)
}

/// The hash of a StatefulSet's revision: of its data, then of how many collisions there were (HI2).
#[must_use]
pub fn content_hash(data: &Value, collisions: i64) -> String {
    let written = data.to_string();
    let mut bytes: Vec<u8> = Vec::with_capacity(written.len());
    for letter in written.chars() {
        // Upstream writes these so that its JSON may stand in HTML, and hashes what it wrote.
        if matches!(letter, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') {
            bytes.extend_from_slice(format!("\\u{:04x}", u32::from(letter)).as_bytes());
        } else {
            bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    bytes.extend_from_slice(collisions.to_string().as_bytes());
    template::safe(u64::from(template::fnv1(&bytes)))
}

/// The name of a revision: the controller's name, cut where it is too long, and the hash (HI2).
#[must_use]
pub fn name(controller: &str, hash: &str) -> String {
    let mut end = controller.len().min(PREFIX_MAX);
    while !controller.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{hash}", controller.get(..end).unwrap_or_default())
}

/// What a new revision consists of.
pub struct New<'a> {
    /// What kind of object the controller is.
    pub resource: BuiltinResource,
    /// The controller.
    pub controller: &'a Object,
    /// What the revision holds.
    pub data: &'a Value,
    /// The key of the label that tells its hash.
    pub label: &'static str,
    /// The hash.
    pub hash: &'a str,
    /// Its number.
    pub number: i64,
}

impl New<'_> {
    /// The name it will have.
    #[must_use]
    pub fn name(&self) -> String {
        name(self.controller.name(), self.hash)
    }

    /// The revision itself (HI1 to HI5).
    #[must_use]
    pub fn object(&self) -> Object {
        let mut labels = self
            .controller
            .map_at(&["spec", "template", "metadata", "labels"])
            .cloned()
            .unwrap_or_default();
        labels.insert(self.label.to_string(), self.hash.into());
        let mut metadata = Object::new();
        metadata.insert("name".to_string(), self.name().into());
        metadata.insert("namespace".to_string(), self.controller.namespace().into());
        metadata.insert("labels".to_string(), Value::Object(labels));
        let annotations = self.controller.map_at(&["metadata", "annotations"]);
        if let Some(annotations) = annotations.filter(|map| !map.is_empty()) {
            metadata.insert("annotations".to_string(), Value::Object(annotations.clone()));
        }
        let entry = owner::entry(self.resource, self.controller);
        metadata.insert("ownerReferences".to_string(), Value::Array([entry].to_vec()));
        let mut object = Object::new();
        object.insert("apiVersion".to_string(), "apps/v1".into());
        object.insert("kind".to_string(), "ControllerRevision".into());
        object.insert("metadata".to_string(), Value::Object(metadata));
        object.insert("data".to_string(), self.data.clone());
        object.insert("revision".to_string(), self.number.into());
        object
    }
}

/// Gives a revision another number; it keeps everything else (HI6, HI10).
#[must_use]
pub fn renumber(revision: &VersionedObject, number: i64) -> ControllerIntent {
    let mut object = Object::clone(&revision.object);
    object.insert("revision".to_string(), number.into());
    ControllerIntent::update(
        BuiltinResource::ControllerRevisions,
        object,
        UpdateEndpoint::Main,
        revision.revision,
    )
}

/// Drops a revision (HI9).
#[must_use]
pub fn drop(revision: &VersionedObject) -> ControllerIntent {
    ControllerIntent::delete(BuiltinResource::ControllerRevisions, revision)
}

/// `spec.revisionHistoryLimit`; ten when it is left out.
#[must_use]
pub fn limit(controller: &Object) -> i64 {
    controller.int_at(&["spec", "revisionHistoryLimit"]).unwrap_or(10)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{New, content_hash, data, holds, name, restores, template_of};
    use crate::resource::BuiltinResource;
    use serde_json::{Value, json};
    use tenure_machinery::{Object, ObjectExt};

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    fn web() -> Object {
        object(json!({
            "metadata": {"name": "web", "namespace": "n", "uid": "u", "annotations": {"team": "a"}},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"a": 1}}},
        }))
    }

    #[test]
    fn hi1_data_is_a_patch_that_replaces_the_template() {
        let set = web();
        let template = set.map_at(&["spec", "template"]).unwrap();
        assert_eq!(
            data(template),
            json!({"spec": {"template": {
                "$patch": "replace", "metadata": {"labels": {"app": "web"}}, "spec": {"a": 1},
            }}})
        );
    }

    #[test]
    fn hi2_name_is_the_controller_and_a_hash_that_knows_collisions() {
        let data = json!({"spec": {}});
        let hash = content_hash(&data, 0);
        assert!(hash.chars().all(|c| "456789bcdf".contains(c)) && hash.len() <= 10);
        assert_ne!(hash, content_hash(&data, 1));
        // FNV-1 over `{"spec":{}}0`, written down so that a change of it cannot go unseen.
        assert_eq!(hash, "59c9b4d596");
        // The same over `{"a":"\u003c\u0026"}0`, as upstream writes such letters.
        assert_eq!(content_hash(&json!({"a": "<&"}), 0), "7b4b4b54d6");
        assert_eq!(name("web", "4"), "web-4");
        let long = "a".repeat(253);
        assert_eq!(name(&long, "4").len(), 223 + 2);
    }

    #[test]
    fn hi3_hi4_hi5_a_revision_carries_labels_annotations_and_owner() {
        let set = web();
        let held = data(set.map_at(&["spec", "template"]).unwrap());
        let new = New {
            resource: BuiltinResource::StatefulSets,
            controller: &set,
            data: &held,
            label: super::HASH_LABEL,
            hash: "4",
            number: 1,
        };
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": held,
            "metadata": {
                "name": "web-4", "namespace": "n", "annotations": {"team": "a"},
                "labels": {"app": "web", "controller.kubernetes.io/hash": "4"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
        });
        assert_eq!(Value::Object(new.object()), expected);
    }

    #[test]
    fn hi7_a_template_that_only_gained_defaults_is_the_same() {
        let held = |spec: Value| object(json!({"data": {"spec": {"template": {"spec": spec}}}}));
        let wanted = |spec: Value| object(json!({"spec": spec}));
        let old = held(json!({"containers": [{"name": "c", "image": "i:1"}]}));
        let gained = json!({
            "containers": [{"name": "c", "image": "i:1", "terminationMessagePolicy": "File"}],
            "restartPolicy": "Always",
        });
        assert!(restores(&old, &wanted(gained)));
        let changed = json!({"containers": [{"name": "c", "image": "i:2"}]});
        assert!(!restores(&old, &wanted(changed)));
        let said = json!({"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Never"});
        assert!(!restores(&old, &wanted(said)));
        // `Always` on an init container makes another thing of it.
        let init = held(json!({"initContainers": [{"name": "c"}]}));
        let sidecar = json!({"initContainers": [{"name": "c", "restartPolicy": "Always"}]});
        assert!(!restores(&init, &wanted(sidecar)));
        let lost = json!({"containers": [{"name": "c"}]});
        assert!(!restores(&old, &wanted(lost)));
    }

    #[test]
    fn hi12_a_revision_gives_back_exactly_its_template() {
        let set = web();
        let template = set.map_at(&["spec", "template"]).unwrap();
        let revision = object(json!({"data": data(template)}));
        assert!(holds(&revision, &data(template)));
        assert_eq!(&template_of(&revision), template);
    }
}
