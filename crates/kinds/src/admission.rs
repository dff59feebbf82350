//! Admission policies and their bindings.
//!
//! Whether expressions compile is checked where they are evaluated, not here.

use serde_json::{Value, json};
use tenure_machinery::validate::{objects, text, validate_label_selector, validate_one_of};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::admission_rule::{
    FAILURE, MATCH, default_match, validate_conditions, validate_operations,
};
use crate::stored::{keep, member, set_status, spec, texts};

/// Rules of ValidatingAdmissionPolicy.
pub(crate) struct ValidatingPolicyRules;
/// Rules of MutatingAdmissionPolicy.
pub(crate) struct MutatingPolicyRules;
/// Rules of both bindings.
pub(crate) struct PolicyBindingRules {
    /// Whether the binding says what a violation does.
    pub(crate) validating: bool,
}

const ACTIONS: &[&str] = &["Audit", "Deny", "Warn"];
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
/// What a policy that mutates can be asked about.
const MUTABLE: &[&str] = &["*", "CONNECT", "CREATE", "UPDATE"];
const ANNOTATIONS_MAX: usize = 20;
const ANNOTATION_BYTES_MAX: usize = 5 * 1024;

impl Rules for ValidatingPolicyRules {
    fn default(&self, object: &mut Object) {
        default_policy(object);
    }
    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({}));
    }
    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_policy(object, false, errors);
        let spec = spec(object);
        if spec.list_at(&["validations"]).is_empty()
            && spec.list_at(&["auditAnnotations"]).is_empty()
        {
            let path = Path::Root.field("spec");
            let why = "needs validations or auditAnnotations";
            errors.required(&path.field("validations"), why);
            errors.required(&path.field("auditAnnotations"), why);
        }
        validate_validations(spec, errors);
        validate_annotations(object.name(), spec, errors);
    }
}

impl Rules for MutatingPolicyRules {
    fn default(&self, object: &mut Object) {
        default_policy(object);
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_policy(object, true, errors);
        let path = Path::Root.field("spec");
        let spec = spec(object);
        let list = path.field("mutations");
        if spec.list_at(&["mutations"]).is_empty() {
            errors.required(&list, "needs at least one");
        }
        for (index, mutation) in objects(spec, "mutations") {
            validate_mutation(mutation, &list.index(index), errors);
        }
        if text(spec, "reinvocationPolicy").is_empty() {
            errors.required(&path.field("reinvocationPolicy"), "");
        } else {
            let policies = &["IfNeeded", "Never"];
            validate_one_of(spec, "reinvocationPolicy", policies, &path, errors);
        }
    }
}

impl Rules for PolicyBindingRules {
    fn default(&self, object: &mut Object) {
        if let Some(spec) = member(object, "spec")
            && let Some(resources) = member(spec, "matchResources")
        {
            default_match(resources);
        }
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        let policy = text(spec, "policyName");
        if policy.is_empty() {
            if !self.validating {
                errors.required(&path.field("policyName"), "");
            }
        } else if let Some(why) = name::dns_subdomain(policy) {
            errors.invalid(&path.field("policyName"), format_args!("{policy:?}"), why);
        }
        if let Some(params) = spec.map_at(&["paramRef"]) {
            validate_params(params, &path.field("paramRef"), errors);
        }
        if let Some(resources) = spec.map_at(&["matchResources"]) {
            validate_match(resources, &path.field("matchResources"), errors);
        }
        if self.validating {
            let actions = texts(spec, "validationActions");
            let list = path.field("validationActions");
            for (index, action) in actions.iter().enumerate() {
                if !ACTIONS.contains(action) {
                    errors.not_supported(&list.index(index), action, ACTIONS);
                }
                if actions.iter().take(index).any(|other| other == action) {
                    errors.duplicate(&list.index(index), format_args!("{action:?}"));
                }
            }
            if actions.contains(&"Deny") && actions.contains(&"Warn") {
                errors.invalid(&list, format_args!("{actions:?}"), "Deny includes Warn");
            }
        }
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        if self.validating && text(spec(object), "policyName").is_empty() {
            errors.required(&path.field("policyName"), "");
        }
        if self.validating && spec(object).list_at(&["validationActions"]).is_empty() {
            errors.required(&path.field("validationActions"), "needs at least one action");
        }
    }
}

fn default_policy(object: &mut Object) {
    let spec = object.map_mut("spec");
    spec.set_default("failurePolicy", "Fail");
    if let Some(constraints) = member(spec, "matchConstraints") {
        default_match(constraints);
    }
}

fn validate_policy(object: &Object, mutates: bool, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let spec = spec(object);
    validate_one_of(spec, "failurePolicy", FAILURE, &path, errors);
    if let Some(kind) = spec.map_at(&["paramKind"]) {
        validate_param_kind(kind, &path.field("paramKind"), errors);
    }
    let constraints = path.field("matchConstraints");
    match spec.get("matchConstraints").and_then(Value::as_object) {
        None => errors.required(&constraints, ""),
        Some(resources) => {
            validate_match(resources, &constraints, errors);
            let rules = constraints.field("resourceRules");
            if resources.list_at(&["resourceRules"]).is_empty() {
                errors.required(&rules, "");
            }
            for (_, rule) in objects(resources, "resourceRules").filter(|_| mutates) {
                for operation in texts(rule, "operations") {
                    if !MUTABLE.contains(&operation) {
                        errors.not_supported(&rules.field("operations"), operation, MUTABLE);
                    }
                }
            }
        }
    }
    validate_conditions(spec, &path.field("matchConditions"), errors);
    let list = path.field("variables");
    for (index, variable) in objects(spec, "variables") {
        let place = list.index(index);
        let name = text(variable, "name");
        if name.trim().is_empty() {
            errors.required(&place.field("name"), "name is not specified");
        } else if !is_identifier(name) {
            let why = "must be a valid CEL identifier";
            errors.invalid(&place.field("name"), format_args!("{name:?}"), why);
        }
        if text(variable, "expression").trim().is_empty() {
            errors.required(&place.field("expression"), "expression is not specified");
        }
    }
}

/// The parameters' version is one, with or without a group; their kind a label in any case.
fn validate_param_kind(kind: &Object, path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("apiVersion");
    let given = text(kind, "apiVersion");
    let shown = format_args!("{given:?}");
    let parts: Vec<&str> = given.split('/').collect();
    match *parts.as_slice() {
        _ if given.is_empty() => errors.required(&at, ""),
        [version] => validate_version(version, given, &at, errors),
        [group, version] => {
            if let Some(why) = (!group.is_empty()).then(|| name::dns_subdomain(group)).flatten() {
                errors.invalid(&at, shown, why);
            }
            validate_version(version, given, &at, errors);
        }
        _ => errors.invalid(&at, shown, "must be a version, or a group and a version"),
    }
    let given = text(kind, "kind");
    if given.is_empty() {
        errors.required(&path.field("kind"), "");
    } else if let Some(why) = name::dns_1035_label(&given.to_lowercase()) {
        errors.invalid(&path.field("kind"), format_args!("{given:?}"), why);
    }
}

fn validate_version(version: &str, given: &str, at: &Path<'_>, errors: &mut Errors) {
    if version.is_empty() {
        errors.invalid(at, format_args!("{given:?}"), "names no version");
    } else if let Some(why) = name::dns_1035_label(version) {
        errors.invalid(at, format_args!("{version:?}"), why);
    }
}

/// A mutation has just the member that its type names.
fn validate_mutation(mutation: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (own, other) = match text(mutation, "patchType") {
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        "" => return errors.required(&path.field("patchType"), ""),
        kind => {
            let known = &["ApplyConfiguration", "JSONPatch"];
            return errors.not_supported(&path.field("patchType"), kind, known);
        }
    };
    match mutation.map_at(&[own]) {
        None => errors.required(&path.field(own), "must be there for this patchType"),
        Some(patch) if text(patch, "expression").trim().is_empty() => {
            errors.required(&path.field(own).field("expression"), "");
        }
        Some(_) => {}
    }
    if mutation.map_at(&[other]).is_some() {
        errors.invalid(&path.field(other), "{}", "must not be there for this patchType");
    }
}

/// Words that a variable of an expression cannot be called.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|letter: char| letter == '_' || letter.is_ascii_alphabetic());
    let goes_on = name.chars().all(|letter| letter == '_' || letter.is_ascii_alphanumeric());
    begins && goes_on && !WORDS.contains(&name)
}

fn validate_match(resources: &Object, path: &Path<'_>, errors: &mut Errors) {
    validate_one_of(resources, "matchPolicy", MATCH, path, errors);
    for member in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = resources.map_at(&[member]) {
            validate_label_selector(selector, &path.field(member), errors);
        }
    }
    validate_operations(resources, "resourceRules", path, errors);
    validate_operations(resources, "excludeResourceRules", path, errors);
}

fn validate_validations(spec: &Object, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let list = path.field("validations");
    for (index, validation) in objects(spec, "validations") {
        let place = list.index(index);
        if text(validation, "expression").trim().is_empty() {
            errors.required(&place.field("expression"), "expression is not specified");
        }
        let expression = text(validation, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let at = place.field("messageExpression");
            errors.invalid(&at, format_args!("{expression:?}"), "must be non-empty if specified");
        }
        let message = text(validation, "message");
        let shown = format_args!("{message:?}");
        if !message.is_empty() && message.trim().is_empty() {
            errors.invalid(&place.field("message"), shown, "must be non-empty if specified");
        } else if message.trim().contains(['\n', '\r']) {
            errors.invalid(&place.field("message"), shown, "must not contain line breaks");
        }
        validate_one_of(validation, "reason", REASONS, &place, errors);
    }
}

fn validate_annotations(policy: &str, spec: &Object, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let list = path.field("auditAnnotations");
    let count = spec.list_at(&["auditAnnotations"]).len();
    if count > ANNOTATIONS_MAX {
        let why = format!("must have at most {ANNOTATIONS_MAX} items");
        errors.invalid(&list, count, &why);
    }
    let mut seen = Vec::new();
    for (index, annotation) in objects(spec, "auditAnnotations") {
        let place = list.index(index);
        let key = text(annotation, "key");
        for why in name::qualified_name_faults(&format!("{policy}/{key}")) {
            errors.invalid(&place.field("key"), format_args!("{key:?}"), why);
        }
        let expression = text(annotation, "valueExpression").trim();
        if expression.is_empty() {
            let why = "valueExpression is not specified";
            errors.required(&place.field("valueExpression"), why);
        } else if expression.len() > ANNOTATION_BYTES_MAX {
            // Upstream calls what is too long required.
            let why = format!("must have at most {ANNOTATION_BYTES_MAX} bytes");
            errors.required(&place.field("valueExpression"), &why);
        }
        if seen.contains(&key) {
            errors.duplicate(&place.field("key"), format_args!("{key:?}"));
        }
        seen.push(key);
    }
}

fn validate_params(params: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (name, selector) = (text(params, "name"), params.map_at(&["selector"]));
    let why = "name and selector are mutually exclusive";
    for why in name::path_segment_faults(name) {
        errors.invalid(&path.field("name"), format_args!("{name:?}"), why);
    }
    if !name.is_empty() && selector.is_some() {
        errors.forbidden(&path.field("name"), why);
    }
    if let Some(selector) = selector {
        validate_label_selector(selector, &path.field("selector"), errors);
        if !name.is_empty() {
            errors.forbidden(&path.field("selector"), why);
        }
    }
    if name.is_empty() && selector.is_none() {
        errors.required(path, "one of name or selector must be specified");
    }
    if text(params, "parameterNotFoundAction").is_empty() {
        return errors.required(&path.field("parameterNotFoundAction"), "");
    }
    let actions = &["Allow", "Deny"];
    validate_one_of(params, "parameterNotFoundAction", actions, path, errors);
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{faults, row};

    const GROUP: &str = "admissionregistration.k8s.io";

    #[test]
    fn r136_policy_faults() {
        let rule = json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"]});
        let body = json!({"metadata": {"name": "p"}, "spec": {
            "paramKind": {"kind": "ConfigMap"},
            "matchConstraints": {"resourceRules": [rule], "matchPolicy": "Roughly"},
            "variables": [{"name": "a-b", "expression": "1"}, {"name": "a"}],
            "validations": [{"reason": "Tired", "message": "two\nlines"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "''"}, {"key": "k"}],
        }});
        assert_eq!(
            faults(&row(GROUP, "ValidatingAdmissionPolicy"), body),
            [
                "spec.paramKind.apiVersion FieldValueRequired",
                "spec.matchConstraints.matchPolicy FieldValueNotSupported",
                "spec.variables[0].name FieldValueInvalid",
                "spec.variables[1].expression FieldValueRequired",
                "spec.validations[0].expression FieldValueRequired",
                "spec.validations[0].message FieldValueInvalid",
                "spec.validations[0].reason FieldValueNotSupported",
                "spec.auditAnnotations[1].valueExpression FieldValueRequired",
                "spec.auditAnnotations[1].key FieldValueDuplicate",
            ]
        );
    }

    #[test]
    fn r136g_a_mutation_is_what_its_type_says() {
        let rule = json!({"operations": ["CREATE", "DELETE"], "apiGroups": [""],
            "apiVersions": ["v1"], "resources": ["pods"]});
        let body = json!({"spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "mutations": [{}, {"patchType": "Merge"}, {"patchType": "JSONPatch"},
                {"patchType": "ApplyConfiguration", "applyConfiguration": {},
                    "jsonPatch": {"expression": "[]"}}],
            "reinvocationPolicy": "Always",
        }});
        assert_eq!(
            faults(&row(GROUP, "MutatingAdmissionPolicy"), body),
            [
                "spec.matchConstraints.resourceRules.operations FieldValueNotSupported",
                "spec.mutations[0].patchType FieldValueRequired",
                "spec.mutations[1].patchType FieldValueNotSupported",
                "spec.mutations[2].jsonPatch FieldValueRequired",
                "spec.mutations[3].applyConfiguration.expression FieldValueRequired",
                "spec.mutations[3].jsonPatch FieldValueInvalid",
                "spec.reinvocationPolicy FieldValueNotSupported",
            ]
        );
    }

    #[test]
    fn r136_bindings_name_parameters_in_one_way() {
        let of = |params: serde_json::Value| json!({"spec": {"policyName": "p", "validationActions": ["Deny"], "paramRef": params}});
        let faults = |params| faults(&row(GROUP, "ValidatingAdmissionPolicyBinding"), of(params));
        assert!(faults(json!({"name": "a", "parameterNotFoundAction": "Allow"})).is_empty());
        assert_eq!(
            faults(json!({})),
            [
                "spec.paramRef FieldValueRequired",
                "spec.paramRef.parameterNotFoundAction FieldValueRequired",
            ]
        );
        assert_eq!(
            faults(json!({"name": "a", "selector": {}, "parameterNotFoundAction": "Shrug"})),
            [
                "spec.paramRef.name FieldValueForbidden",
                "spec.paramRef.selector FieldValueForbidden",
                "spec.paramRef.parameterNotFoundAction FieldValueNotSupported",
            ]
        );
    }

    #[test]
    fn r136_bindings_name_a_policy() {
        assert_eq!(
            faults(&row(GROUP, "ValidatingAdmissionPolicyBinding"), json!({"spec": {}})),
            ["spec.policyName FieldValueRequired", "spec.validationActions FieldValueRequired"]
        );
        assert_eq!(
            faults(&row(GROUP, "MutatingAdmissionPolicyBinding"), json!({"spec": {}})),
            ["spec.policyName FieldValueRequired"]
        );
    }
}
