//! What is wrong with a review of access, and which of its selectors cannot be read (R153).
//!
//! Access rules do not look at selectors, so one that cannot be read widens nothing: it is told in the
//! answer. Who may do what never lives here.

use serde_json::Value;
use tenure_core::selector::{FieldSelector, LabelSelector};
use tenure_machinery::{Errors, Failure, Object, ObjectExt, Path, name};

/// Refuses a review with all that is wrong with it.
pub(super) fn check(kind: &str, namespace: &str, review: &Object) -> Result<(), Failure> {
    let mut errors = Errors::new();
    let spec = Path::Root.field("spec");
    let resource = review.map_at(&["spec", "resourceAttributes"]);
    let other = review.map_at(&["spec", "nonResourceAttributes"]);
    if resource.is_some() == other.is_some() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid(&spec, "{}", why);
    }
    let nobody = review.str_at(&["spec", "user"]).is_none_or(str::is_empty)
        && review.list_at(&["spec", "groups"]).is_empty();
    if kind != "SelfSubjectAccessReview" && nobody {
        let why = "at least one of user or group must be specified";
        errors.invalid(&spec.field("user"), "\"\"", why);
    }
    let local = kind == "LocalSubjectAccessReview";
    if let Some(resource) = resource {
        let path = spec.field("resourceAttributes");
        selectors(resource, &path, &mut errors);
    }
    metadata(local, review, &mut errors);
    if local {
        let requested =
            resource.map(|requested| requested.str_at(&["namespace"]).unwrap_or_default());
        if let Some(requested) = requested.filter(|requested| *requested != namespace) {
            let path = spec.field("resourceAttributes");
            let why = "must match the namespace of the path";
            errors.invalid(&path.field("namespace"), format_args!("{requested:?}"), why);
        }
        if other.is_some() {
            let path = spec.field("nonResourceAttributes");
            errors.invalid(&path, "{}", "must not be set in a review of one namespace");
        }
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid("authorization.k8s.io", "", "", errors))
}

/// A review is no object with a life of its own.
fn metadata(local: bool, review: &Object, errors: &mut Errors) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(_) => false,
    };
    let free = |name: &str| name == "managedFields" || (local && name == "namespace");
    let given = review.map_at(&["metadata"]).into_iter().flatten();
    if given.into_iter().any(|(name, value)| !free(name) && !is_empty(value)) {
        errors.invalid(&Path::Root.field("metadata"), "{}", "must be empty");
    }
}

fn selectors(resource: &Object, path: &Path<'_>, errors: &mut Errors) {
    for (member, requirement) in [
        ("fieldSelector", field as fn(&Object, &Path<'_>, &mut Errors)),
        ("labelSelector", label as fn(&Object, &Path<'_>, &mut Errors)),
    ] {
        let Some(selector) = resource.map_at(&[member]) else { continue };
        let path = path.field(member);
        let raw = selector.str_at(&["rawSelector"]).unwrap_or_default();
        let requirements = selector.list_at(&["requirements"]);
        let at = path.field("requirements");
        match (raw.is_empty(), requirements.is_empty()) {
            (false, false) => {
                let why = "must not be set together with requirements";
                errors.invalid(&path.field("rawSelector"), format_args!("{raw:?}"), why);
            }
            (true, true) => errors.required(&at, "a selector has requirements or a rawSelector"),
            _ => {}
        }
        for (index, one) in requirements.iter().enumerate() {
            if let Value::Object(one) = one {
                let at = at.index(index);
                values(one, &at, errors);
                requirement(one, &at, errors);
            }
        }
    }
}

/// Operators of newer clients are let through.
fn values(requirement: &Object, path: &Path<'_>, errors: &mut Errors) {
    let path = path.field("values");
    let none = requirement.list_at(&["values"]).is_empty();
    match requirement.str_at(&["operator"]).unwrap_or_default() {
        "In" | "NotIn" if none => {
            errors.required(&path, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !none => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path, why);
        }
        _ => {}
    }
}

fn field(requirement: &Object, path: &Path<'_>, errors: &mut Errors) {
    if requirement.str_at(&["key"]).is_none_or(str::is_empty) {
        errors.required(&path.field("key"), "must be specified");
    }
}

fn label(requirement: &Object, path: &Path<'_>, errors: &mut Errors) {
    let key = requirement.str_at(&["key"]).unwrap_or_default();
    for why in name::qualified_name_faults(key) {
        errors.invalid(&path.field("key"), format_args!("{key:?}"), why);
    }
    let at = path.field("values");
    let all = requirement.list_at(&["values"]).iter().filter_map(Value::as_str);
    for (index, value) in all.enumerate() {
        for why in name::label_value_faults(value) {
            errors.invalid(&at.index(index), format_args!("{value:?}"), why);
        }
    }
}

/// Tells which selectors are left out of account; empty if none is.
pub(super) fn ignored(resource: &Object) -> String {
    let mut said = Vec::new();
    for member in ["fieldSelector", "labelSelector"] {
        let Some(selector) = resource.map_at(&[member]) else { continue };
        let raw = selector.str_at(&["rawSelector"]).unwrap_or_default();
        let requirements = selector.list_at(&["requirements"]);
        let fields = member == "fieldSelector";
        let unread = match requirements {
            [] if fields => FieldSelector::parse(raw).is_err(),
            [] => LabelSelector::parse(raw).is_err(),
            _ => requirements.iter().any(|one| !is_understood(one, fields)),
        };
        if unread {
            let some = requirements.iter().any(|one| is_understood(one, fields));
            let how = if some { "partially ignored" } else { "ignored" };
            said.push(format!("spec.resourceAttributes.{member} {how} due to parse error"));
        }
    }
    said.join("; ")
}

/// The value that a field selector asks for by exactly one requirement (referential authorization R94).
pub(super) fn selected<'a>(resource: &'a Object, field: &str) -> Option<&'a str> {
    let requirements = resource.list_at(&["fieldSelector", "requirements"]).iter();
    let mut named =
        requirements.filter_map(Value::as_object).filter(|one| one.str_at(&["key"]) == Some(field));
    let (Some(one), None) = (named.next(), named.next()) else { return None };
    match one.list_at(&["values"]) {
        [Value::String(name)] if one.str_at(&["operator"]) == Some("In") => Some(name),
        _ => None,
    }
}

/// The node whose pods are asked for, in either form of a selector.
pub(super) fn selected_node(resource: &Object) -> Option<String> {
    const FIELD: &str = "spec.nodeName";
    if !resource.list_at(&["fieldSelector", "requirements"]).is_empty() {
        return selected(resource, FIELD).map(str::to_owned);
    }
    let raw = resource.str_at(&["fieldSelector", "rawSelector"])?;
    FieldSelector::parse(raw).ok()?.exact(FIELD).map(str::to_owned)
}

/// What the server says of an object is not the client's to say.
pub(super) fn wipe(review: &mut Object) {
    let Some(Value::Object(metadata)) = review.get_mut("metadata") else { return };
    for name in
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
    {
        metadata.remove(name);
    }
}

/// Fields are compared with one value at a time.
fn is_understood(requirement: &Value, fields: bool) -> bool {
    let Value::Object(requirement) = requirement else { return false };
    let one = requirement.list_at(&["values"]).len() == 1;
    match requirement.str_at(&["operator"]).unwrap_or_default() {
        "In" | "NotIn" => one || !fields,
        "Exists" | "DoesNotExist" => !fields,
        _ => false,
    }
}
