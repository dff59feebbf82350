//! Webhook configurations, admission policies and their bindings.
//!
//! Whether expressions compile is checked where they are evaluated, not here.

use serde_json::{Value, json};
use tenure_machinery::validate::{
    objects, objects_mut, text, validate_label_selector, validate_one_of,
};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules, name};

use crate::stored::{keep, member, set_status, spec, texts};

/// Rules of MutatingWebhookConfiguration.
pub(crate) struct MutatingWebhookRules;
/// Rules of ValidatingWebhookConfiguration.
pub(crate) struct ValidatingWebhookRules;
/// Rules of ValidatingAdmissionPolicy.
pub(crate) struct ValidatingPolicyRules;
/// Rules of MutatingAdmissionPolicy.
pub(crate) struct MutatingPolicyRules;
/// Rules of both bindings.
pub(crate) struct PolicyBindingRules {
    /// Whether the binding says what a violation does.
    pub(crate) validating: bool,
}

const CONDITIONS_MAX: usize = 64;
const FAILURE: &[&str] = &["Fail", "Ignore"];
const MATCH: &[&str] = &["Equivalent", "Exact"];
const ACTIONS: &[&str] = &["Deny", "Warn", "Audit"];
const REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
const ANNOTATIONS_MAX: usize = 20;

impl Rules for MutatingWebhookRules {
    fn default(&self, object: &mut Object) {
        default_webhooks(object);
        for webhook in objects_mut(object, "webhooks") {
            webhook.set_default("reinvocationPolicy", "Never");
        }
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_webhooks(object, errors);
        let list = Path::Root.field("webhooks");
        for (index, webhook) in objects(object, "webhooks") {
            let policies = &["IfNeeded", "Never"];
            validate_one_of(webhook, "reinvocationPolicy", policies, &list.index(index), errors);
        }
    }
}

impl Rules for ValidatingWebhookRules {
    fn default(&self, object: &mut Object) {
        default_webhooks(object);
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_webhooks(object, errors);
    }
}

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
        let empty = |member: &str| spec(object).list_at(&[member]).is_empty();
        if empty("validations") && empty("auditAnnotations") {
            let path = Path::Root.field("spec");
            let why = "needs validations or auditAnnotations";
            errors.required(&path.field("validations"), why);
            errors.required(&path.field("auditAnnotations"), why);
        }
        validate_policy(object, errors);
        validate_validations(spec(object), errors);
        validate_annotations(object.name(), spec(object), errors);
    }
}

impl Rules for MutatingPolicyRules {
    fn default(&self, object: &mut Object) {
        default_policy(object);
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        if spec(object).list_at(&["mutations"]).is_empty() {
            errors.required(&path.field("mutations"), "needs at least one");
        }
        if text(spec(object), "reinvocationPolicy").is_empty() {
            errors.required(&path.field("reinvocationPolicy"), "");
        }
        validate_policy(object, errors);
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
        if text(spec, "policyName").is_empty() {
            errors.required(&path.field("policyName"), "");
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
            if actions.is_empty() {
                errors.required(&list, "needs at least one action");
            }
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
}

fn default_webhooks(object: &mut Object) {
    for webhook in objects_mut(object, "webhooks") {
        webhook.set_default("failurePolicy", "Fail");
        default_match(webhook);
        webhook.set_default("timeoutSeconds", 10);
        default_scopes(webhook, "rules");
        if let Some(client) = member(webhook, "clientConfig")
            && let Some(service) = member(client, "service")
        {
            service.set_default("port", 443);
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

fn default_match(resources: &mut Object) {
    resources.set_default("matchPolicy", "Equivalent");
    resources.set_default("namespaceSelector", json!({}));
    resources.set_default("objectSelector", json!({}));
    default_scopes(resources, "resourceRules");
    default_scopes(resources, "excludeResourceRules");
}

fn default_scopes(object: &mut Object, list: &str) {
    for rule in objects_mut(object, list) {
        rule.set_default("scope", "*");
    }
}

fn validate_webhooks(object: &Object, errors: &mut Errors) {
    let list = Path::Root.field("webhooks");
    let mut seen = Vec::new();
    for (index, webhook) in objects(object, "webhooks") {
        let path = list.index(index);
        let name = text(webhook, "name");
        if name::dns_subdomain(name).is_some() || name.split('.').count() < 3 {
            let why = "must be a domain name of at least three labels";
            errors.invalid(&path.field("name"), format_args!("{name:?}"), why);
        }
        if seen.contains(&name) {
            errors.duplicate(&path.field("name"), format_args!("{name:?}"));
        }
        seen.push(name);
        validate_webhook(webhook, &path, errors);
    }
}

fn validate_webhook(webhook: &Object, path: &Path<'_>, errors: &mut Errors) {
    let versions = texts(webhook, "admissionReviewVersions");
    let list = path.field("admissionReviewVersions");
    if versions.is_empty() {
        errors.required(&list, "must name v1 or v1beta1");
    } else if !versions.iter().any(|v| matches!(*v, "v1" | "v1beta1")) {
        errors.invalid(&list, format_args!("{versions:?}"), "must name v1 or v1beta1");
    }
    validate_operations(webhook, "rules", path, errors);
    validate_one_of(webhook, "failurePolicy", FAILURE, path, errors);
    validate_one_of(webhook, "matchPolicy", MATCH, path, errors);
    let effects = &["None", "NoneOnDryRun"];
    if text(webhook, "sideEffects").is_empty() {
        errors.required(&path.field("sideEffects"), "must be None or NoneOnDryRun");
    } else {
        validate_one_of(webhook, "sideEffects", effects, path, errors);
    }
    if let Some(seconds) = webhook.int_at(&["timeoutSeconds"])
        && !(1..=30).contains(&seconds)
    {
        errors.invalid(&path.field("timeoutSeconds"), seconds, "must be between 1 and 30");
    }
    for member in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = webhook.map_at(&[member]) {
            validate_label_selector(selector, &path.field(member), errors);
        }
    }
    validate_client(webhook, &path.field("clientConfig"), errors);
    validate_conditions(webhook, &path.field("matchConditions"), errors);
}

fn validate_client(webhook: &Object, path: &Path<'_>, errors: &mut Errors) {
    let url = webhook.str_at(&["clientConfig", "url"]);
    let service = webhook.map_at(&["clientConfig", "service"]);
    match (url, service) {
        (Some(_), Some(_)) | (None, None) => {
            errors.required(path, "exactly one of url and service")
        }
        (Some(url), None) => {
            if !url.starts_with("https://") {
                errors.invalid(
                    &path.field("url"),
                    format_args!("{url:?}"),
                    "must start with https://",
                );
            }
        }
        (None, Some(service)) => {
            let place = path.field("service");
            for member in ["name", "namespace"] {
                if text(service, member).is_empty() {
                    errors.required(&place.field(member), "");
                }
            }
        }
    }
}

fn validate_operations(object: &Object, member: &str, path: &Path<'_>, errors: &mut Errors) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let list = path.field(member);
    for (index, rule) in objects(object, member) {
        let place = list.index(index);
        for member in ["operations", "apiGroups", "apiVersions", "resources"] {
            if rule.list_at(&[member]).is_empty() {
                errors.required(&place.field(member), "");
            }
        }
        let operations = place.field("operations");
        for (index, operation) in texts(rule, "operations").iter().enumerate() {
            if !OPERATIONS.contains(operation) {
                errors.not_supported(&operations.index(index), operation, OPERATIONS);
            }
        }
        validate_one_of(rule, "scope", &["*", "Cluster", "Namespaced"], &place, errors);
    }
}

fn validate_conditions(object: &Object, path: &Path<'_>, errors: &mut Errors) {
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
        } else if let Some(why) = name::qualified_name(name) {
            errors.invalid(&place.field("name"), format_args!("{name:?}"), why);
        }
        if seen.contains(&name) {
            errors.duplicate(&place.field("name"), format_args!("{name:?}"));
        }
        seen.push(name);
    }
}

fn validate_policy(object: &Object, errors: &mut Errors) {
    let path = Path::Root.field("spec");
    let spec = spec(object);
    validate_one_of(spec, "failurePolicy", FAILURE, &path, errors);
    let constraints = path.field("matchConstraints");
    match spec.get("matchConstraints").and_then(Value::as_object) {
        None => errors.required(&constraints, ""),
        Some(resources) => {
            if resources.list_at(&["resourceRules"]).is_empty() {
                errors.required(&constraints.field("resourceRules"), "");
            }
            validate_match(resources, &constraints, errors);
        }
    }
    if let Some(kind) = spec.map_at(&["paramKind"]) {
        let place = path.field("paramKind");
        for member in ["apiVersion", "kind"] {
            if text(kind, member).is_empty() {
                errors.required(&place.field(member), "");
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
    let mut seen = Vec::new();
    for (index, annotation) in objects(spec, "auditAnnotations") {
        let place = list.index(index);
        let key = text(annotation, "key");
        if let Some(why) = name::qualified_name(&format!("{policy}/{key}")) {
            errors.invalid(&place.field("key"), format_args!("{key:?}"), why);
        }
        if seen.contains(&key) {
            errors.duplicate(&place.field("key"), format_args!("{key:?}"));
        }
        seen.push(key);
        if text(annotation, "valueExpression").trim().is_empty() {
            let why = "valueExpression is not specified";
            errors.required(&place.field("valueExpression"), why);
        }
    }
    if seen.len() > ANNOTATIONS_MAX {
        errors.too_many(&list, seen.len(), ANNOTATIONS_MAX);
    }
}

fn validate_params(params: &Object, path: &Path<'_>, errors: &mut Errors) {
    let (named, selector) = (!text(params, "name").is_empty(), params.map_at(&["selector"]));
    if let Some(selector) = selector {
        validate_label_selector(selector, &path.field("selector"), errors);
    }
    match (named, selector.is_some()) {
        (true, true) => {
            let why = "name and selector are mutually exclusive";
            errors.forbidden(&path.field("name"), why);
            errors.forbidden(&path.field("selector"), why);
        }
        (false, false) => errors.required(path, "one of name or selector must be specified"),
        _ => {}
    }
    if text(params, "parameterNotFoundAction").is_empty() {
        errors.required(&path.field("parameterNotFoundAction"), "");
    }
    let actions = &["Allow", "Deny"];
    validate_one_of(params, "parameterNotFoundAction", actions, path, errors);
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row};

    const GROUP: &str = "admissionregistration.k8s.io";

    #[test]
    fn r136_webhook_defaults() {
        let webhook = json!({"name": "a.example.com", "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "s", "namespace": "n"}},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["pods"]}]});
        let kind = row(GROUP, "MutatingWebhookConfiguration");
        assert!(faults(&kind, json!({"webhooks": [webhook]})).is_empty());
        let made = created(&kind, json!({"webhooks": [webhook]}))["webhooks"][0].clone();
        for (member, expected) in [
            ("failurePolicy", json!("Fail")),
            ("matchPolicy", json!("Equivalent")),
            ("timeoutSeconds", json!(10)),
            ("reinvocationPolicy", json!("Never")),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
        ] {
            assert_eq!(made[member], expected, "{member}");
        }
        assert_eq!(made["rules"][0]["scope"], json!("*"));
        assert_eq!(made["clientConfig"]["service"]["port"], json!(443));
    }

    #[test]
    fn r136_webhook_faults() {
        let body = json!({"webhooks": [{"name": "short", "timeoutSeconds": 31}]});
        assert_eq!(
            faults(&row(GROUP, "ValidatingWebhookConfiguration"), body),
            [
                "webhooks[0].name FieldValueInvalid",
                "webhooks[0].admissionReviewVersions FieldValueRequired",
                "webhooks[0].sideEffects FieldValueRequired",
                "webhooks[0].timeoutSeconds FieldValueInvalid",
                "webhooks[0].clientConfig FieldValueRequired",
            ]
        );
    }

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
                "spec.matchConstraints.matchPolicy FieldValueNotSupported",
                "spec.paramKind.apiVersion FieldValueRequired",
                "spec.variables[0].name FieldValueInvalid",
                "spec.variables[1].expression FieldValueRequired",
                "spec.validations[0].expression FieldValueRequired",
                "spec.validations[0].message FieldValueInvalid",
                "spec.validations[0].reason FieldValueNotSupported",
                "spec.auditAnnotations[1].key FieldValueDuplicate",
                "spec.auditAnnotations[1].valueExpression FieldValueRequired",
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
