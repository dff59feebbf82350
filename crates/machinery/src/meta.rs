//! Rules of `metadata` that every kind shares: names, labels, owners, finalizers, frozen members.
//!
//! What DELETE does to metadata is not decided here, nor is anything looked up.

use serde_json::Value;

use crate::field::{Errors, Path};
use crate::kind::{Kind, NameRule};
use crate::name;
use crate::object::{Object, ObjectExt};
use crate::validate::{objects, same, text, validate_labels};

/// How many bytes all annotations of one object may have.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Finalizers that need no domain.
const PLAIN_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Members of metadata that an update may not change.
const FROZEN: [&str; 6] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// What is wrong with the metadata of a new object; generateName has been completed before. Nothing is told twice,
/// not even of the kinds that repeat themselves elsewhere.
pub fn validate_meta(object: &Object, kind: &Kind, errors: &mut Errors) {
    let mut found = Errors::new();
    validate_new_meta(object, kind, &mut found);
    found.dedupe();
    errors.append(found);
}

fn validate_new_meta(object: &Object, kind: &Kind, errors: &mut Errors) {
    let path = Path::Root.field("metadata");
    let empty = Object::new();
    let meta = object.map_at(&["metadata"]).unwrap_or(&empty);
    let generate_name = text(meta, "generateName");
    for why in generate_name_faults(generate_name, kind) {
        errors.invalid(&path.field("generateName"), format_args!("{generate_name:?}"), why);
    }
    match text(meta, "name") {
        "" => errors.required(&path.field("name"), "name or generateName is required"),
        name => {
            for why in name_faults(name, kind) {
                errors.invalid(&path.field("name"), format_args!("{name:?}"), why);
            }
        }
    }
    validate_namespace(text(meta, "namespace"), kind, &path, errors);
    validate_common(meta, &path, errors);
    validate_domains(meta, kind, &path.field("finalizers"), errors);
}

/// What is wrong with the metadata of a changed object.
///
/// Members that the client left out have been filled from the stored object before, see
/// [`keep_stored_meta`].
pub fn validate_meta_update(object: &Object, old: &Object, kind: &Kind, errors: &mut Errors) {
    let path = Path::Root.field("metadata");
    let empty = Object::new();
    let meta = object.map_at(&["metadata"]).unwrap_or(&empty);
    let stored = old.map_at(&["metadata"]).unwrap_or(&empty);
    let generate_name = text(meta, "generateName");
    for why in name::path_segment_prefix_faults(generate_name) {
        errors.invalid(&path.field("generateName"), format_args!("{generate_name:?}"), why);
    }
    validate_common(meta, &path, errors);
    validate_meta_change(meta, stored, &path, errors);
    if repeats_metadata(kind) {
        // Upstream looks at these twice more, and says everything again.
        validate_described(meta, &path, errors);
        let (mut again, mut frozen) = (Errors::new(), Errors::new());
        validate_new_finalizers(meta, stored, &path, &mut again);
        validate_described(meta, &path, &mut again);
        validate_frozen_members(meta, stored, &path, &mut frozen);
        // The third turn tells nothing twice.
        again.dedupe();
        errors.append(again);
        errors.append(frozen);
    }
    validate_domains(meta, kind, &path.field("finalizers"), errors);
}

/// Whether what is wrong with the metadata of a changed object is told as often as it is found: custom objects,
/// their definitions, and what other servers serve.
fn repeats_metadata(kind: &Kind) -> bool {
    kind.type_name.is_empty()
        || matches!(kind.group.as_ref(), "apiextensions.k8s.io" | "apiregistration.k8s.io")
}

/// What is wrong with labels, annotations, owners and finalizers, for a kind that looks at them once more.
pub fn validate_meta_again(object: &Object, errors: &mut Errors) {
    let empty = Object::new();
    let meta = object.map_at(&["metadata"]).unwrap_or(&empty);
    let mut found = Errors::new();
    validate_common(meta, &Path::Root.field("metadata"), &mut found);
    found.dedupe();
    errors.append(found);
}

/// What an update may not do to metadata.
fn validate_meta_change(meta: &Object, stored: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_new_finalizers(meta, stored, path, errors);
    validate_frozen_members(meta, stored, path, errors);
}

fn validate_new_finalizers(meta: &Object, stored: &Object, path: &Path<'_>, errors: &mut Errors) {
    if is_set(stored, "deletionTimestamp") {
        validate_no_new_finalizers(meta, stored, path, errors);
    }
}

fn validate_frozen_members(meta: &Object, stored: &Object, path: &Path<'_>, errors: &mut Errors) {
    for member in FROZEN {
        if meta.get(member) != stored.get(member) && !both_unset(meta, stored, member) {
            let value = meta.get(member).unwrap_or(&Value::Null);
            errors.invalid(&path.field(member), value, "field is immutable");
        }
    }
}

/// Fills what an update may leave out from the stored object, and keeps what clients cannot move.
///
/// The time of creation is the stored one whatever the client says, and so is the
/// `deletionTimestamp` of a Terminating object; the generation is always the stored one, to be
/// moved by the caller if the change counts.
pub fn keep_stored_meta(object: &mut Object, old: &Object) {
    let Some(stored) = old.map_at(&["metadata"]) else { return };
    let meta = object.map_mut("metadata");
    for member in FROZEN {
        if !is_set(meta, member) {
            copy(meta, stored, member);
        }
    }
    for member in ["creationTimestamp", "deletionTimestamp"] {
        if is_set(stored, member) {
            copy(meta, stored, member);
        }
    }
    copy(meta, stored, "generation");
    copy(meta, stored, "selfLink");
}

/// Drops owner references that repeat an earlier one in every member; says which uids repeated.
pub fn dedupe_owner_references(object: &mut Object) -> Vec<String> {
    let Some(Value::Array(owners)) =
        object.get_mut("metadata").and_then(|meta| meta.get_mut("ownerReferences"))
    else {
        return Vec::new();
    };
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut repeated: Vec<String> = Vec::new();
    for owner in owners.drain(..) {
        if kept.iter().any(|other| same_owner(other, &owner)) {
            let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
            if !repeated.iter().any(|known| known == uid) {
                repeated.push(uid.to_owned());
            }
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
    if repeated.is_empty() {
        return Vec::new();
    }
    vec![format!(
        ".metadata.ownerReferences contains duplicate entries, each kept once; repeated owner \
         UID(s): {}",
        repeated.join(", ")
    )]
}

fn same_owner(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else { return a == b };
    let flag = |owner: &Object, member: &str| owner.get(member).and_then(Value::as_bool);
    ["apiVersion", "kind", "name", "uid"].iter().all(|member| text(a, member) == text(b, member))
        && ["controller", "blockOwnerDeletion"].iter().all(|m| flag(a, m) == flag(b, m))
}

/// What is wrong with a name under the rule of its kind, one sentence per fault: clients count them.
fn name_faults(text: &str, kind: &Kind) -> Vec<&'static str> {
    match kind.name_rule {
        NameRule::Subdomain => name::dns_subdomain_faults(text),
        NameRule::Label => name::dns_label_faults(text),
        NameRule::PathSegment => name::path_segment_faults(text),
    }
}

/// A generateName may end in a dash, since characters follow.
fn generate_name_faults(text: &str, kind: &Kind) -> Vec<&'static str> {
    if text.is_empty() {
        return Vec::new();
    }
    if kind.name_rule == NameRule::PathSegment {
        return name::path_segment_faults(text);
    }
    // Upstream puts a letter in the place of the dash and of what stands before it.
    match text.strip_suffix('-').and_then(|head| head.get(..head.len().checked_sub(1)?)) {
        Some(head) => name_faults(&format!("{head}a"), kind),
        None => name_faults(text, kind),
    }
}

fn validate_namespace(namespace: &str, kind: &Kind, path: &Path<'_>, errors: &mut Errors) {
    match (kind.namespaced, namespace) {
        (true, "") => errors.required(&path.field("namespace"), ""),
        (true, text) => {
            for why in name::dns_label_faults(text) {
                errors.invalid(&path.field("namespace"), format_args!("{text:?}"), why);
            }
        }
        (false, "") => {}
        (false, _) => errors.forbidden(&path.field("namespace"), "this kind has no namespace"),
    }
}

fn validate_common(meta: &Object, path: &Path<'_>, errors: &mut Errors) {
    // A client's own generation is no negative number (R61).
    if let Some(number) = meta.int_at(&["generation"]).filter(|number| *number < 0) {
        let why = "must be greater than or equal to 0";
        errors.invalid(&path.field("generation"), number, why);
    }
    validate_described(meta, path, errors);
    validate_finalizers(meta, &path.field("finalizers"), errors);
}

/// Labels, annotations and owners.
fn validate_described(meta: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(labels) = meta.map_at(&["labels"]) {
        validate_labels(labels, &path.field("labels"), errors);
    }
    if let Some(annotations) = meta.map_at(&["annotations"]) {
        validate_annotations(annotations, &path.field("annotations"), errors);
    }
    validate_owners(meta, &path.field("ownerReferences"), errors);
}

/// Keys are qualified names in any case; keys and values together have a bound.
pub fn validate_annotations(annotations: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut bytes = 0_usize;
    for (key, value) in annotations {
        for why in name::qualified_name_faults(&key.to_lowercase()) {
            errors.invalid(path, format_args!("{key:?}"), why);
        }
        bytes = bytes.saturating_add(key.len() + value.as_str().map_or(0, str::len));
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.too_long(path, ANNOTATIONS_BYTES_MAX);
    }
}

fn validate_owners(meta: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for (index, owner) in objects(meta, "ownerReferences") {
        validate_owner(owner, &path.index(index), errors);
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => errors.invalid(
                    path,
                    format_args!("{:?}", this),
                    &format!(
                        "only one reference may be the controller, but {first} and {this} are"
                    ),
                ),
            }
        }
    }
}

fn validate_owner(owner: &Object, path: &Path<'_>, errors: &mut Errors) {
    let version = text(owner, "apiVersion");
    let parts: Vec<&str> = version.split('/').collect();
    if version.is_empty() {
        errors.required(&path.field("apiVersion"), "must not be empty");
    } else if parts.len() > 2 || parts.last().is_none_or(|last| last.is_empty()) {
        errors.invalid(
            &path.field("apiVersion"),
            format_args!("{version:?}"),
            "must be a version, or a group and a version",
        );
    }
    for member in ["kind", "name", "uid"] {
        if text(owner, member).is_empty() {
            errors.required(&path.field(member), "must not be empty");
        }
    }
    if (version, text(owner, "kind")) == ("v1", "Event") {
        errors.invalid(path, "v1 Event", "an Event may not own objects");
    }
}

fn validate_finalizers(meta: &Object, path: &Path<'_>, errors: &mut Errors) {
    let list: Vec<&str> = strings(meta, "finalizers");
    for finalizer in &list {
        for why in name::qualified_name_faults(finalizer) {
            errors.invalid(path, format_args!("{finalizer:?}"), why);
        }
    }
    if list.contains(&"orphan") && list.contains(&"foregroundDeletion") {
        errors.invalid(
            path,
            format_args!("{list:?}"),
            "orphan and foregroundDeletion exclude each other",
        );
    }
}

/// Groups whose kinds are looked at as custom ones are where finalizers are concerned.
const LENIENT_GROUPS: [&str; 6] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "policy",
];

/// Finalizers of most built-in kinds have a domain, but for the plain ones.
fn validate_domains(meta: &Object, kind: &Kind, path: &Path<'_>, errors: &mut Errors) {
    let list: Vec<&str> = strings(meta, "finalizers");
    // Custom kinds accept plain names and get a warning instead.
    let event = kind.group.is_empty() && kind.kind == "Event";
    if kind.type_name.is_empty() || event || LENIENT_GROUPS.contains(&kind.group.as_ref()) {
        return;
    }
    for (index, finalizer) in list.iter().enumerate() {
        if !finalizer.contains('/') && !PLAIN_FINALIZERS.contains(finalizer) {
            errors.invalid(
                &path.index(index),
                format_args!("{finalizer:?}"),
                "must have a domain, such as example.com/name",
            );
        }
    }
}

/// What to tell a client that gave a custom object a finalizer without a domain.
#[must_use]
pub fn finalizer_warnings(object: &Object, kind: &Kind) -> Vec<String> {
    if !kind.type_name.is_empty() {
        return Vec::new();
    }
    let Some(meta) = object.map_at(&["metadata"]) else { return Vec::new() };
    strings(meta, "finalizers")
        .into_iter()
        .filter(|finalizer| !finalizer.contains('/') && !PLAIN_FINALIZERS.contains(finalizer))
        .map(|finalizer| {
            format!(
                "metadata.finalizers: {finalizer:?}: a name with a domain, such as \
                 example.com/name, cannot clash with others"
            )
        })
        .collect()
}

fn validate_no_new_finalizers(
    meta: &Object,
    stored: &Object,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let before = strings(stored, "finalizers");
    let mut new: Vec<&str> =
        strings(meta, "finalizers").into_iter().filter(|f| !before.contains(f)).collect();
    new.sort_unstable();
    new.dedup();
    if !new.is_empty() {
        errors.forbidden(
            &path.field("finalizers"),
            &format!("the object is being deleted, so no finalizer may be added; new: {new:?}"),
        );
    }
}

fn strings<'a>(meta: &'a Object, member: &str) -> Vec<&'a str> {
    meta.list_at(&[member]).iter().filter_map(Value::as_str).collect()
}

fn is_set(meta: &Object, member: &str) -> bool {
    match meta.get(member) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    }
}

fn both_unset(meta: &Object, stored: &Object, member: &str) -> bool {
    !is_set(meta, member) && !is_set(stored, member) && same(meta.get(member), stored.get(member))
}

fn copy(meta: &mut Object, stored: &Object, member: &str) {
    match stored.get(member) {
        Some(value) => meta.insert(member.to_owned(), value.clone()),
        None => meta.remove(member),
    };
}

#[cfg(test)]
mod tests;
