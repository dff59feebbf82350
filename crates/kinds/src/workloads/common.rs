//! What the kinds around pod templates share.

use std::sync::LazyLock;

use serde_json::Value;
use tenure_machinery::name::dns_label_faults;
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use crate::podspec::selector::{
    is_empty, is_usable, matches, template_labels, validate_label_selector,
};
use crate::podspec::text::non_negative;
use crate::podspec::{default_pod_template, template_warnings, validate_template};

pub(super) use crate::stored::is_new;

/// Restores the stored status.
pub(super) fn keep_status(object: &mut Object, old: &Object) {
    match old.get("status") {
        Some(status) => object.insert("status".to_owned(), status.clone()),
        None => object.remove("status"),
    };
}

/// What a missing specification reads as.
static EMPTY: LazyLock<Object> = LazyLock::new(Object::new);

/// The specification, or an empty one.
pub(super) fn spec_of(object: &Object) -> &Object {
    object.map_at(&["spec"]).unwrap_or(&EMPTY)
}

/// Fills the template under `spec`.
pub(super) fn default_template(spec: &mut Object) {
    default_pod_template(spec.map_mut("template"));
}

/// Checks that the number under `name`, if set, is not negative.
pub(super) fn not_negative(object: &Object, name: &str, path: &Path<'_>, errors: &mut Errors) {
    non_negative(object.int_at(&[name]), &path.field(name), errors);
}

/// Checks that a member is as it was.
pub(super) fn immutable(
    new: &Object,
    old: &Object,
    name: &str,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if new.get(name) != old.get(name) {
        errors.invalid(&path.field(name), shown(new.get(name)), "field is immutable");
    }
}

/// A value as causes show it.
pub(super) fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "null".to_owned(), Value::to_string)
}

/// A selector that must be there, be well formed and select something.
pub(super) fn validate_selector(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("selector");
    match spec.map_at(&["selector"]) {
        None => errors.required(&at, ""),
        Some(selector) => {
            validate_label_selector(selector, &at, errors);
            if is_empty(selector) {
                errors.invalid(&at, "{}", "empty selector is invalid");
            }
        }
    }
}

/// Whether the selector can be compared with labels; else the cause is pushed.
pub(super) fn usable_selector(spec: &Object, path: &Path<'_>, errors: &mut Errors) -> bool {
    let usable = spec.map_at(&["selector"]).is_none_or(is_usable);
    if !usable {
        let at = path.field("selector");
        errors.invalid(&at, shown(spec.get("selector")), "invalid label selector");
    }
    usable
}

/// The labels of the template must satisfy the selector; an empty selector is another's cause.
pub(super) fn selector_matches_template(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let selector = spec.map_at(&["selector"]);
    let labels = spec.map_at(&["template"]).and_then(template_labels);
    if !matches(selector, labels) && selector.is_none_or(|selector| !is_empty(selector)) {
        labels_mismatch(labels, path, errors);
    }
}

/// The cause that template labels do not fit.
pub(super) fn labels_mismatch(labels: Option<&Object>, path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("template");
    let at = at.field("metadata");
    let at = at.field("labels");
    let shown = labels
        .map_or_else(|| "null".to_owned(), |labels| Value::Object(labels.clone()).to_string());
    errors.invalid(&at, shown, "`selector` does not match template `labels`");
}

/// A template as such, which must be there.
pub(super) fn validate_spec_template(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    match spec.map_at(&["template"]) {
        None => errors.required(&path.field("template"), ""),
        Some(template) => validate_template(template, &path.field("template"), errors),
    }
}

/// Pods that are kept running restart always and have no deadline.
pub(super) fn validate_long_running(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(pod) = spec.map_at(&["template", "spec"]) else { return };
    let at = path.field("template");
    let at = at.field("spec");
    let policy = pod.str_at(&["restartPolicy"]).unwrap_or_default();
    if policy != "Always" {
        errors.not_supported(&at.field("restartPolicy"), policy, &["Always"]);
    }
    if pod.int_at(&["activeDeadlineSeconds"]).is_some() {
        errors.forbidden(
            &at.field("activeDeadlineSeconds"),
            "is not supported for pods kept running",
        );
    }
}

/// A whole number or a percentage that is not negative.
pub(super) fn validate_share(value: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Some(Value::String(text)) if percent(text).is_none() => {
            let why = "a valid percent string must be a numeric string followed by an ending '%'";
            errors.invalid(path, format_args!("{text:?}"), why);
        }
        Some(Value::Number(_)) => non_negative(value.and_then(Value::as_i64), path, errors),
        _ => {}
    }
}

/// Shares above the whole are refused.
pub(super) fn validate_share_cap(value: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let share = value.and_then(Value::as_str).and_then(percent);
    if share.is_some_and(|share| share > 100) {
        errors.invalid(path, shown(value), "must not be greater than 100%");
    }
}

/// The number, be it a count or a percentage.
pub(super) fn share(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::String(text)) => {
            percent(text).or_else(|| text.parse().ok()).unwrap_or_default()
        }
        other => other.and_then(Value::as_i64).unwrap_or_default(),
    }
}

/// `25%` → 25.
fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().unwrap_or(i64::MAX))
}

/// Counts in a status: none negative, the listed parts not above the whole.
pub(super) fn validate_counts(
    object: &Object,
    counts: &[&str],
    parts: &[&str],
    errors: &mut Errors,
) {
    let empty = Object::new();
    let status = object.map_at(&["status"]).unwrap_or(&empty);
    let path = Path::Root.field("status");
    for name in counts {
        not_negative(status, name, &path, errors);
    }
    let count = |name: &str| status.int_at(&[name]).unwrap_or_default();
    for name in parts {
        if count(name) > count("replicas") {
            errors.invalid(
                &path.field(name),
                count(name),
                "cannot be greater than status.replicas",
            );
        }
    }
    if parts.contains(&"availableReplicas") && count("availableReplicas") > count("readyReplicas") {
        let at = path.field("availableReplicas");
        errors.invalid(&at, count("availableReplicas"), "cannot be greater than readyReplicas");
    }
}

/// The count of hash collisions only grows.
pub(super) fn validate_collisions(object: &Object, old: &Object, errors: &mut Errors) {
    let count = |object: &Object| object.int_at(&["status", "collisionCount"]);
    if let Some(before) = count(old)
        && count(object).is_none_or(|now| now < before)
    {
        let path = Path::Root.field("status");
        let now = count(object).unwrap_or_default();
        errors.invalid(&path.field("collisionCount"), now, "cannot be decremented");
    }
}

/// On create, the advice to use names that fit into host names.
pub(super) fn name_warning(object: &Object, old: Option<&Object>) -> Vec<String> {
    let advice = "this is used in Pod names and hostnames, which can result in surprising behavior; \
                  a DNS label is recommended";
    let faults = dns_label_faults(object.name());
    if old.is_some() || faults.is_empty() {
        return Vec::new();
    }
    vec![format!("metadata.name: {advice}: [{}]", faults.join(" "))]
}

/// Whether the object is new, or its specification has changed: when clients are told about templates.
pub(super) fn has_moved(object: &Object, old: Option<&Object>) -> bool {
    let generation = |object: &Object| object.int_at(&["metadata", "generation"]);
    old.is_none_or(|old| generation(old) != generation(object))
}

/// What to tell about the template of a specification at `path`.
pub(super) fn template_warning(spec: &Object, path: &Path<'_>) -> Vec<String> {
    let template = spec.map_at(&["template"]);
    template
        .map(|template| template_warnings(template, &path.field("template")))
        .unwrap_or_default()
}

/// What to tell about the name and the template of a new object, and about the template of a changed one.
pub(super) fn name_and_template_warnings(object: &Object, old: Option<&Object>) -> Vec<String> {
    let mut warnings = name_warning(object, old);
    if has_moved(object, old) {
        warnings.extend(template_warning(spec_of(object), &Path::Root.field("spec")));
    }
    warnings
}
