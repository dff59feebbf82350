//! What pods read of themselves, for every kind that holds a pod specification: where it is used, whether
//! it may be, what is worth telling (spec/downward-api.md, sections 2, 6 and 7).

use tenure_machinery::{Errors, Kind, Object, ObjectExt, Path};

use crate::podspec::{Withheld, downward_warnings, drop_file_users, owner_reference_uses as uses};

/// The members that lead to the pod specification of a kind; none if it holds none.
#[must_use]
pub fn pod_spec_path(kind: &Kind) -> Option<&'static [&'static str]> {
    Some(match kind.type_name.as_ref() {
        "api.core.v1.Pod" => &["spec"],
        "api.core.v1.PodTemplate" => &["template", "spec"],
        "api.batch.v1.CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
        "api.apps.v1.DaemonSet"
        | "api.apps.v1.Deployment"
        | "api.apps.v1.ReplicaSet"
        | "api.apps.v1.StatefulSet"
        | "api.batch.v1.Job"
        | "api.core.v1.ReplicationController" => &["spec", "template", "spec"],
        _ => return None,
    })
}

/// Calls with the path that the members lead to.
fn with_path<T>(members: &[&str], path: &Path<'_>, then: &mut dyn FnMut(&Path<'_>) -> T) -> T {
    match members.split_first() {
        Some((first, rest)) => with_path(rest, &path.field(first), then),
        None => then(path),
    }
}

/// What a function says of the pod specification of an object, if it has one.
fn of_spec<T: Default>(
    kind: &Kind,
    object: &Object,
    then: &mut dyn FnMut(&Object, &Path<'_>) -> T,
) -> T {
    let Some(members) = pod_spec_path(kind) else { return T::default() };
    let Some(spec) = object.map_at(members) else { return T::default() };
    with_path(members, &Path::Root, &mut |path| then(spec, path))
}

/// Which features of the downward API are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Downward {
    /// Pods may read their owner references: `DownwardAPIOwnerReferences`.
    pub owner_references: bool,
    /// Files in volumes may belong to a user: `AtomicWriteVolumeUserFields`.
    pub file_users: bool,
    /// Files may show what variables may: `DownwardAPIVolumeParity`.
    pub volume_parity: bool,
}

impl Default for Downward {
    fn default() -> Downward {
        Downward { owner_references: true, file_users: false, volume_parity: false }
    }
}

impl Downward {
    /// Takes out of a written object what is not stored while its feature is off, unless the object had
    /// it before (R62j).
    pub fn settle(self, kind: &Kind, new: &mut Object, old: Option<&Object>) {
        let Some(members) = pod_spec_path(kind).filter(|_| !self.file_users) else { return };
        let had = old.and_then(|old| old.map_at(members));
        if had.is_some_and(|spec| drop_file_users(&mut spec.clone())) {
            return;
        }
        let mut inner = Some(new);
        for member in members {
            inner = inner.and_then(|inner| inner.get_mut(*member)?.as_object_mut());
        }
        if let Some(spec) = inner {
            drop_file_users(spec);
        }
    }

    /// Refuses fields in an object that did not use them before, while their feature is off (R15, R52,
    /// R53).
    pub fn validate(self, kind: &Kind, new: &Object, old: Option<&Object>, errors: &mut Errors) {
        let off = Withheld {
            owner_references: !self.owner_references,
            volume_parity: !self.volume_parity,
        };
        let used = |object: &Object| of_spec(kind, object, &mut |spec, _| off.used_by(spec));
        let (new_uses, old_uses) = (used(new), old.map(used).unwrap_or_default());
        let refused = Withheld {
            owner_references: new_uses.owner_references && !old_uses.owner_references,
            volume_parity: new_uses.volume_parity && !old_uses.volume_parity,
        };
        if refused != Withheld::default() {
            of_spec(kind, new, &mut |spec, path| refused.refuse(spec, path, errors));
        }
    }
}

/// Where an object uses the owner references of its pods, in either spelling (R57).
#[must_use]
pub fn owner_reference_uses(kind: &Kind, object: &Object) -> Vec<String> {
    of_spec(kind, object, &mut |spec, path| uses(spec, path))
}

/// What to tell of an object that it did not say before (R8, R62i).
#[must_use]
pub fn warnings(kind: &Kind, new: &Object, old: Option<&Object>) -> Vec<String> {
    let told =
        |object: &Object| of_spec(kind, object, &mut |spec, path| downward_warnings(spec, path));
    let mut warnings = told(new);
    if !warnings.is_empty()
        && let Some(old) = old.map(told)
    {
        warnings.retain(|warning| !old.contains(warning));
    }
    warnings
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use serde_json::{Value, json};

    use super::*;
    use crate::builtin;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    /// A specification whose only variable reads a field.
    fn reading(field: &str) -> Value {
        json!({ "containers": [{ "name": "c", "env": [{ "name": "E", "valueFrom": {
            "fieldRef": { "apiVersion": "v1", "fieldPath": field } } }] }] })
    }

    fn holding(members: &[&str], spec: Value) -> Object {
        object(members.iter().rev().fold(spec, |inner, member| json!({ *member: inner })))
    }

    #[test]
    fn r51_r52_r53_every_kind_with_pods() {
        let kinds = builtin();
        let mut seen = 0;
        for kind in kinds.iter() {
            let Some(members) = pod_spec_path(kind) else { continue };
            seen += 1;
            let uses = holding(members, reading("metadata.ownerReferences"));
            let plain = holding(members, reading("metadata.name"));
            let refused = |new: &Object, old: Option<&Object>| {
                let mut errors = Errors::new();
                let off = Downward { owner_references: false, ..Downward::default() };
                off.validate(kind, new, old, &mut errors);
                let mut none = Errors::new();
                Downward::default().validate(kind, new, old, &mut none);
                assert!(none.is_empty());
                errors.causes().iter().map(|cause| cause.field.clone()).collect::<Vec<_>>()
            };
            let field =
                format!("{}.containers[0].env[0].valueFrom.fieldRef.fieldPath", members.join("."));
            assert_eq!(refused(&uses, None), [field.as_str()], "{}", kind.kind);
            assert_eq!(refused(&uses, Some(&plain)), [field.as_str()], "{}", kind.kind);
            assert!(refused(&uses, Some(&uses)).is_empty(), "{}", kind.kind);
            assert!(refused(&plain, None).is_empty(), "{}", kind.kind);
            assert_eq!(owner_reference_uses(kind, &uses), [field], "{}", kind.kind);
        }
        assert_eq!(seen, 9);
    }

    #[test]
    fn r15_fields_in_files_need_the_feature_unless_they_were_there() {
        let kinds = builtin();
        for kind in kinds.iter() {
            let Some(members) = pod_spec_path(kind) else { continue };
            let file = |path: &str| {
                let item = json!({ "path": "f", "fieldRef": { "fieldPath": path } });
                holding(members, json!({ "volumes": [{ "downwardAPI": { "items": [item] } }] }))
            };
            let (uses, plain) = (file("status.podIP"), file("metadata.labels"));
            let refused = |on: bool, new: &Object, old: Option<&Object>| {
                let mut errors = Errors::new();
                let features = Downward { volume_parity: on, ..Downward::default() };
                features.validate(kind, new, old, &mut errors);
                errors.causes().iter().map(|cause| cause.field.clone()).collect::<Vec<_>>()
            };
            let field = format!("{}.volumes[0].downwardAPI.fieldRef.fieldPath", members.join("."));
            assert_eq!(refused(false, &uses, None), [field.as_str()], "{}", kind.kind);
            assert_eq!(refused(false, &uses, Some(&plain)), [field.as_str()], "{}", kind.kind);
            assert!(refused(false, &uses, Some(&uses)).is_empty(), "{}", kind.kind);
            assert!(refused(true, &uses, None).is_empty(), "{}", kind.kind);
            assert!(refused(false, &plain, None).is_empty(), "{}", kind.kind);
        }
    }

    #[test]
    fn r62j_users_of_files_are_stored_only_with_the_feature() {
        let kinds = builtin();
        for kind in &kinds {
            let Some(members) = pod_spec_path(kind) else { continue };
            let spec =
                |user: Value| json!({ "volumes": [{ "downwardAPI": { "defaultUser": user } }] });
            let with = holding(members, spec(json!(7)));
            let settled = |rules: Downward, old: Option<&Object>| {
                let mut new = with.clone();
                rules.settle(kind, &mut new, old);
                new == with
            };
            let without = holding(members, json!({ "volumes": [] }));
            assert!(!settled(Downward::default(), None), "{}", kind.kind);
            assert!(!settled(Downward::default(), Some(&without)), "{}", kind.kind);
            assert!(settled(Downward::default(), Some(&with)), "{}", kind.kind);
            let on = Downward { file_users: true, ..Downward::default() };
            assert!(settled(on, None), "{}", kind.kind);
        }
    }

    #[test]
    fn r8_a_warning_is_told_once() {
        let kinds = builtin();
        let kind = kinds.iter().find(|kind| kind.kind == "Deployment").unwrap();
        let members = pod_spec_path(kind).unwrap();
        let new = holding(members, reading(r"metadata.annotations['a\]']"));
        assert_eq!(warnings(kind, &new, None).len(), 1);
        assert_eq!(warnings(kind, &new, Some(&new)), Vec::<String>::new());
        let old = holding(members, reading("metadata.name"));
        assert_eq!(warnings(kind, &new, Some(&old)).len(), 1);
    }
}
