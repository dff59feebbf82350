//! Annotations that mean something to pods: what they may say, and how they agree with the fields that
//! replaced some of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use crate::podspec::placement::validate_tolerations;
use crate::podspec::security::validate_app_armor;
use crate::podspec::text;
use crate::podspec::view::{
    CONTAINERS, each_container, has, items, items_mut, map, text as text_of,
};

const MIRROR: &str = "kubernetes.io/config.mirror";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
pub(crate) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(crate) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// How profiles are named in annotations.
const UNCONFINED: &str = "unconfined";
const RUNTIME_DEFAULT: &str = "runtime/default";
const DOCKER_DEFAULT: &str = "docker/default";
const LOCALHOST: &str = "localhost/";

/// The annotations of a pod or a template.
pub(crate) fn annotations_of(object: &Object) -> Option<&Object> {
    object.map_at(&["metadata", "annotations"])
}

/// Annotations that mean something to pods.
pub(crate) fn validate_pod_annotations(
    object: &Object,
    spec: &Object,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let Some(annotations) = annotations_of(object) else { return };
    if has(annotations, MIRROR) && text_of(spec, "nodeName").is_empty() {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&path.key(MIRROR), "", why);
    }
    validate_toleration_text(text_of(annotations, TOLERATIONS), path, errors);
    let cost = text_of(annotations, COST);
    // Numbers are written plainly: no sign but minus, no leading zero.
    let plain = cost.parse::<i32>().is_ok_and(|number| number.to_string() == cost);
    if has(annotations, COST) && !plain {
        errors.invalid(&path.key(COST), format_args!("{cost:?}"), "must be a 32bit integer");
    }
    validate_seccomp_texts(annotations, path, errors);
    validate_app_armor_texts(annotations, spec, path, errors);
}

/// Tolerations as JSON in an annotation, as alpha versions had them.
fn validate_toleration_text(written: &str, path: &Path<'_>, errors: &mut Errors) {
    if written.is_empty() {
        return;
    }
    match read_tolerations(written) {
        Ok(list) => {
            let spec = Object::from_iter([("tolerations".to_owned(), Value::Array(list))]);
            validate_tolerations(&spec, &path.field(TOLERATIONS), errors);
        }
        Err(why) => errors.invalid(path, format_args!("{TOLERATIONS:?}"), &why),
    }
}

/// The list of tolerations that a text holds. As Go reads JSON: unknown members and null are passed over,
/// the case of names does not matter.
fn read_tolerations(written: &str) -> Result<Vec<Value>, String> {
    let list = match serde_json::from_str(written).map_err(|error| error.to_string())? {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        _ => return Err("cannot read tolerations: not a list".to_owned()),
    };
    let members = ["key", "operator", "value", "effect", "tolerationSeconds"];
    list.into_iter()
        .map(|item| {
            let item = match item {
                Value::Null => Object::new(),
                Value::Object(item) => item,
                _ => return Err("cannot read tolerations: not an object".to_owned()),
            };
            let mut read = Object::new();
            for (name, value) in item.into_iter().filter(|(_, value)| !value.is_null()) {
                let known = members.iter().find(|member| member.eq_ignore_ascii_case(&name));
                let Some(known) = known else { continue };
                let fits =
                    if *known == "tolerationSeconds" { value.is_i64() } else { value.is_string() };
                if !fits {
                    return Err(format!("cannot read tolerations: wrong type of {known}"));
                }
                read.insert((*known).to_owned(), value);
            }
            Ok(Value::Object(read))
        })
        .collect()
}

fn validate_seccomp_texts(annotations: &Object, path: &Path<'_>, errors: &mut Errors) {
    let of_pod = annotations.iter().filter(|(name, _)| *name == SECCOMP_POD);
    let of_containers = annotations.iter().filter(|(name, _)| name.starts_with(SECCOMP_CONTAINER));
    for (name, value) in of_pod.chain(of_containers) {
        let profile = value.as_str().unwrap_or_default();
        // Upstream names these as members, not as keys.
        let at = path.field(name);
        match profile {
            RUNTIME_DEFAULT | DOCKER_DEFAULT | UNCONFINED => {}
            profile => match profile.strip_prefix(LOCALHOST) {
                Some(file) => text::descending_path(file, &at, errors),
                None => {
                    let why = "must be a valid seccomp profile";
                    errors.invalid(&at, format_args!("{profile:?}"), why);
                }
            },
        }
    }
}

fn validate_app_armor_texts(
    annotations: &Object,
    spec: &Object,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let mut profiles =
        annotations.iter().filter(|(name, _)| name.starts_with(APP_ARMOR)).peekable();
    if profiles.peek().is_none() {
        return;
    }
    let mut names = BTreeSet::new();
    for list in CONTAINERS {
        names.extend(items(spec, list).map(|container| text_of(container, "name")));
    }
    for (key, value) in profiles {
        let container = key.strip_prefix(APP_ARMOR).unwrap_or_default();
        let profile = value.as_str().unwrap_or_default();
        if !names.contains(container) {
            errors.invalid(&path.key(key), format_args!("{container:?}"), "container not found");
        }
        let good =
            matches!(profile, "" | RUNTIME_DEFAULT | UNCONFINED) || profile.starts_with(LOCALHOST);
        if !good {
            let why = format!("invalid AppArmor profile name: {profile:?}");
            errors.invalid(&path.key(key), format_args!("{profile:?}"), &why);
        }
    }
}

/// Where an annotation and its field both name a profile, they name the same one: seccomp, then AppArmor.
/// `path` is that of the specification.
pub(crate) fn validate_profile_agreement(
    object: &Object,
    spec: &Object,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let Some(annotations) = annotations_of(object) else { return };
    let own = |object: &Object, member: &str| object.map_at(&["securityContext", member]).cloned();
    let of_pod = own(spec, "seccompProfile");
    if let (Some(profile), Some(text)) = (&of_pod, annotations.str_at(&[SECCOMP_POD])) {
        let at = path.field("securityContext");
        agree(text, profile, "seccomp", &at.field("seccompProfile"), errors);
    }
    each_container(spec, path, &mut |container, at| {
        let key = format!("{SECCOMP_CONTAINER}{}", text_of(container, "name"));
        let Some(text) = annotations.str_at(&[&key]) else { return };
        if let Some(profile) = own(container, "seccompProfile") {
            let at = at.field("securityContext");
            agree(text, &profile, "seccomp", &at.field("seccompProfile"), errors);
        }
    });
    // AppArmor says nothing on Windows, so nothing is compared there.
    if spec.str_at(&["os", "name"]) == Some("windows") {
        return;
    }
    let of_pod = own(spec, "appArmorProfile");
    each_container(spec, path, &mut |container, at| {
        let key = format!("{APP_ARMOR}{}", text_of(container, "name"));
        let Some(text) = annotations.str_at(&[&key]) else { return };
        if let Some(profile) = own(container, "appArmorProfile").or_else(|| of_pod.clone()) {
            let at = at.field("securityContext");
            agree(text, &profile, "apparmor", &at.field("appArmorProfile"), errors);
        }
    });
}

fn agree(written: &str, profile: &Object, what: &str, path: &Path<'_>, errors: &mut Errors) {
    let same_type = match text_of(profile, "type") {
        "Unconfined" => written == UNCONFINED,
        "RuntimeDefault" => {
            written == RUNTIME_DEFAULT || (what == "seccomp" && written == DOCKER_DEFAULT)
        }
        "Localhost" => match written.strip_prefix(LOCALHOST) {
            Some(file) => {
                if profile.str_at(&["localhostProfile"]) != Some(file) {
                    let why = format!("{what} profile in annotation and field must match");
                    errors.forbidden(&path.field("localhostProfile"), &why);
                }
                true
            }
            None => false,
        },
        _ => true,
    };
    if !same_type {
        let why = format!("{what} type in annotation and field must match");
        errors.forbidden(&path.field("type"), &why);
    }
}

/// AppArmor annotations of a pod that exists neither come, change nor go; a mirror pod stays one, and
/// nothing else becomes one.
pub fn validate_annotation_update(new: &Object, old: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let at = Path::Root.field("metadata");
    let at = at.field("annotations");
    let before = annotations_of(old).unwrap_or(&empty);
    let after = annotations_of(new).unwrap_or(&empty);
    let kinds = |key: &str| {
        let app_armor = key.starts_with(APP_ARMOR).then_some("AppArmor annotations");
        app_armor.or((key == MIRROR).then_some("mirror pod annotation"))
    };
    for (key, _) in before.iter().filter(|(key, value)| after.get(*key) != Some(value)) {
        if let Some(what) = kinds(key) {
            errors.forbidden(&at.key(key), &format!("may not remove or update {what}"));
        }
    }
    for key in after.keys().filter(|key| !before.contains_key(*key)) {
        if let Some(what) = kinds(key) {
            errors.forbidden(&at.key(key), &format!("may not add {what}"));
        }
    }
    // Upstream looks at the annotations once more here, and clients count causes.
    let spec = new.map_at(&["spec"]).unwrap_or(&empty);
    validate_pod_annotations(new, spec, &at, errors);
}

/// The field that an AppArmor annotation stands for, if it stands for a valid one.
pub(crate) fn app_armor_profile(annotation: &str) -> Option<Object> {
    let profile = match annotation {
        UNCONFINED => json!({"type": "Unconfined"}),
        RUNTIME_DEFAULT => json!({"type": "RuntimeDefault"}),
        other => {
            let file = other.strip_prefix(LOCALHOST).filter(|file| !file.is_empty())?;
            json!({"type": "Localhost", "localhostProfile": file})
        }
    };
    let context = Object::from_iter([("appArmorProfile".to_owned(), profile)]);
    let mut errors = Errors::new();
    validate_app_armor(&context, &Path::Root, &mut errors);
    if errors.is_empty() { map(&context, "appArmorProfile").cloned() } else { None }
}

/// On create: containers that have an AppArmor profile by annotation only get the field, unless it is that
/// of their pod.
pub fn apply_app_armor_annotations(pod: &mut Object) {
    if is_windows(pod) {
        return;
    }
    let Some(annotations) = annotations_of(pod).filter(|all| any_app_armor(all)).cloned() else {
        return;
    };
    let of_pod = pod.map_at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    let spec = pod.map_mut("spec");
    for list in CONTAINERS {
        for container in items_mut(spec, list) {
            let written = app_armor_text(&annotations, container);
            let profile = written.and_then(|(_, written)| app_armor_profile(written));
            let has_field = container.map_at(&["securityContext", "appArmorProfile"]).is_some();
            if let Some(profile) = profile.filter(|_| !has_field)
                && Some(&profile) != of_pod.as_ref()
            {
                let context = container.map_mut("securityContext");
                context.insert("appArmorProfile".to_owned(), Value::Object(profile));
            }
        }
    }
}

/// What to tell of AppArmor annotations of a new pod that had no field beside them; the pod has its fields
/// by now, so that who wrote them tells which were the client's.
pub(crate) fn app_armor_warnings(pod: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(annotations) = annotations_of(pod).filter(|all| any_app_armor(all)) else {
        return warnings;
    };
    if is_windows(pod) {
        return warnings;
    }
    let Some(spec) = map(pod, "spec") else { return warnings };
    let of_pod = spec.map_at(&["securityContext", "appArmorProfile"]);
    for list in CONTAINERS {
        for container in items(spec, list) {
            let Some((key, written)) = app_armor_text(annotations, container) else { continue };
            let own = container.map_at(&["securityContext", "appArmorProfile"]);
            let alone = match own {
                Some(own) => Some(own) != of_pod && !is_written(pod, list, container),
                None => app_armor_profile(written).is_none(),
            };
            if alone {
                warnings.push(app_armor_advice(&Path::Root, &key));
            }
        }
    }
    warnings
}

/// That an AppArmor annotation is to become a field.
pub(crate) fn app_armor_advice(path: &Path<'_>, key: &str) -> String {
    let at = path.field("metadata");
    let at = at.field("annotations");
    let at = at.key(key);
    format!("{at}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
}

fn is_windows(pod: &Object) -> bool {
    pod.str_at(&["spec", "os", "name"]) == Some("windows")
}

fn any_app_armor(annotations: &Object) -> bool {
    annotations.keys().any(|key| key.starts_with(APP_ARMOR))
}

/// The AppArmor annotation of a container: its key and its value.
pub(crate) fn app_armor_text<'a>(
    annotations: &'a Object,
    container: &Object,
) -> Option<(String, &'a str)> {
    let key = format!("{APP_ARMOR}{}", text_of(container, "name"));
    let written = annotations.str_at(&[&key])?;
    Some((key, written))
}

/// Whether somebody owns the AppArmor field of a container, so that it was not copied.
fn is_written(pod: &Object, list: &str, container: &Object) -> bool {
    let (list, name) = (format!("f:{list}"), text_of(container, "name"));
    let item = format!("k:{{\"name\":\"{name}\"}}");
    let field = ["fieldsV1", "f:spec", &list, &item, "f:securityContext", "f:appArmorProfile"];
    let managers = pod.list_at(&["metadata", "managedFields"]);
    managers.iter().filter_map(Value::as_object).any(|manager| manager.at(&field).is_some())
}
