//! What webhook configurations and admission policies say in the same way: which requests they are asked
//! about, and under which conditions.

use serde_json::json;
use tenure_machinery::validate::{objects, objects_mut, text, validate_one_of};
use tenure_machinery::{Errors, Object, ObjectExt, Path, name};

use crate::stored::texts;

/// What a failure may do.
pub(crate) const FAILURE: &[&str] = &["Fail", "Ignore"];
/// How requests may be compared with rules.
pub(crate) const MATCH: &[&str] = &["Equivalent", "Exact"];

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const CONDITIONS_MAX: usize = 64;

/// Fills what may be left out of which requests are meant.
pub(crate) fn default_match(resources: &mut Object) {
    resources.set_default("matchPolicy", "Equivalent");
    resources.set_default("namespaceSelector", json!({}));
    resources.set_default("objectSelector", json!({}));
    default_scopes(resources, "resourceRules");
    default_scopes(resources, "excludeResourceRules");
}

/// A rule without a scope means objects inside and outside namespaces.
pub(crate) fn default_scopes(object: &mut Object, list: &str) {
    for rule in objects_mut(object, list) {
        rule.set_default("scope", "*");
    }
}

/// What is wrong with the rules under `member`.
pub(crate) fn validate_operations(
    object: &Object,
    member: &str,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let list = path.field(member);
    for (index, rule) in objects(object, member) {
        let place = list.index(index);
        validate_names(rule, &place.field("resourceNames"), errors);
        let at = place.field("operations");
        let operations = texts(rule, "operations");
        validate_alone(&operations, &at, errors);
        for (index, operation) in operations.iter().enumerate() {
            if !OPERATIONS.contains(operation) {
                errors.not_supported(&at.index(index), operation, OPERATIONS);
            }
        }
        validate_alone(&texts(rule, "apiGroups"), &place.field("apiGroups"), errors);
        let at = place.field("apiVersions");
        let versions = texts(rule, "apiVersions");
        validate_alone(&versions, &at, errors);
        for (index, _) in versions.iter().enumerate().filter(|(_, version)| version.is_empty()) {
            errors.required(&at.index(index), "");
        }
        validate_resources(&texts(rule, "resources"), &place.field("resources"), errors);
        validate_one_of(rule, "scope", &["*", "Cluster", "Namespaced"], &place, errors);
    }
}

/// Names of single objects, which only rules of policies have.
fn validate_names(rule: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for (index, given) in texts(rule, "resourceNames").into_iter().enumerate() {
        for why in name::path_segment_faults(given) {
            errors.invalid(&path.index(index), format_args!("{given:?}"), why);
        }
        if seen.contains(&given) {
            errors.duplicate(&path.index(index), format_args!("{given:?}"));
        }
        seen.push(given);
    }
}

/// There is at least one, and `*` stands alone.
fn validate_alone(list: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if list.is_empty() {
        errors.required(path, "");
    }
    if list.len() > 1 && list.contains(&"*") {
        errors.invalid(path, format_args!("{list:?}"), "nothing stands beside `*`");
    }
}

/// Resources and `resource/subresource`, either of which may be `*`; none says what another one said.
fn validate_resources(list: &[&str], path: &Path<'_>, errors: &mut Errors) {
    if list.is_empty() {
        errors.required(path, "");
    }
    // Of `x/*` the x, of `*/x` the x.
    let (mut whole, mut every) = (Vec::new(), Vec::new());
    // Only the last one without a subresource counts, as upstream.
    let mut plain = false;
    for (index, given) in list.iter().enumerate() {
        if given.is_empty() {
            errors.required(&path.index(index), "");
            continue;
        }
        let Some((resource, part)) = given.split_once('/') else {
            plain = *given != "*";
            continue;
        };
        let shown = format_args!("{given:?}");
        if whole.contains(&resource) {
            errors.invalid(&path.index(index), shown, "all subresources of it are named already");
        }
        if every.contains(&part) {
            errors.invalid(&path.index(index), shown, "this subresource of all is named already");
        }
        if part == "*" {
            whole.push(resource);
        }
        if resource == "*" {
            every.push(part);
        }
    }
    let shown = format_args!("{list:?}");
    if list.len() > 1 && list.contains(&"*/*") {
        errors.invalid(path, shown, "nothing stands beside `*/*`");
    }
    if list.contains(&"*") && plain {
        errors.invalid(path, shown, "no other resource stands beside `*`");
    }
}

/// What is wrong with `matchConditions`.
pub(crate) fn validate_conditions(object: &Object, path: &Path<'_>, errors: &mut Errors) {
    let count = object.list_at(&["matchConditions"]).len();
    if count > CONDITIONS_MAX {
        errors.too_many(path, count, CONDITIONS_MAX);
    }
    let mut seen = Vec::new();
    for (index, condition) in objects(object, "matchConditions") {
        let place = path.index(index);
        let name = text(condition, "name");
        if text(condition, "expression").trim().is_empty() {
            errors.required(&place.field("expression"), "");
        }
        if name.is_empty() {
            errors.required(&place.field("name"), "");
            continue;
        }
        for why in name::qualified_name_faults(name) {
            errors.invalid(&place.field("name"), format_args!("{name:?}"), why);
        }
        if seen.contains(&name) {
            errors.duplicate(&place.field("name"), format_args!("{name:?}"));
        }
        seen.push(name);
    }
}
