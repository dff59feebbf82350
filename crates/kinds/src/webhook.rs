//! Webhook configurations.

use tenure_machinery::validate::{
    objects, objects_mut, text, validate_label_selector, validate_one_of,
};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules, name};

use crate::admission_rule::{
    FAILURE, MATCH, default_match, default_scopes, validate_conditions, validate_operations,
};
use crate::stored::{member, texts};

/// Rules of MutatingWebhookConfiguration.
pub(crate) struct MutatingWebhookRules;
/// Rules of ValidatingWebhookConfiguration.
pub(crate) struct ValidatingWebhookRules;

/// The forms of a review that are understood.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];

impl Rules for MutatingWebhookRules {
    fn default(&self, object: &mut Object) {
        default_webhooks(object);
        for webhook in objects_mut(object, "webhooks") {
            webhook.set_default("reinvocationPolicy", "Never");
        }
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_webhooks(object, true, errors);
    }
}

impl Rules for ValidatingWebhookRules {
    fn default(&self, object: &mut Object) {
        default_webhooks(object);
    }
    fn validate(&self, object: &Object, errors: &mut Errors) {
        validate_webhooks(object, false, errors);
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

/// One after the other, in the order that clients see (R136g).
fn validate_webhooks(object: &Object, mutates: bool, errors: &mut Errors) {
    let list = Path::Root.field("webhooks");
    let mut seen = Vec::new();
    for (index, webhook) in objects(object, "webhooks") {
        let path = list.index(index);
        validate_webhook(webhook, mutates, &path, errors);
        validate_reviews(webhook, &path.field("admissionReviewVersions"), errors);
        let name = text(webhook, "name");
        if !name.is_empty() && seen.contains(&name) {
            errors.duplicate(&path.field("name"), format_args!("{name:?}"));
        }
        seen.push(name);
    }
}

fn validate_webhook(webhook: &Object, mutates: bool, path: &Path<'_>, errors: &mut Errors) {
    let name = text(webhook, "name");
    if name.is_empty() {
        errors.required(&path.field("name"), "");
    } else if name::dns_subdomain(name).is_some() || name.split('.').count() < 3 {
        let why = "must be a domain name of at least three labels";
        errors.invalid(&path.field("name"), format_args!("{name:?}"), why);
    }
    validate_operations(webhook, "rules", path, errors);
    validate_one_of(webhook, "failurePolicy", FAILURE, path, errors);
    validate_one_of(webhook, "matchPolicy", MATCH, path, errors);
    if webhook.str_at(&["sideEffects"]).is_none() {
        errors.required(&path.field("sideEffects"), "must be None or NoneOnDryRun");
    }
    validate_one_of(webhook, "sideEffects", &["None", "NoneOnDryRun"], path, errors);
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
    if mutates {
        validate_one_of(webhook, "reinvocationPolicy", &["IfNeeded", "Never"], path, errors);
    }
    validate_client(webhook, &path.field("clientConfig"), errors);
    validate_conditions(webhook, &path.field("matchConditions"), errors);
}

fn validate_reviews(webhook: &Object, path: &Path<'_>, errors: &mut Errors) {
    let versions = texts(webhook, "admissionReviewVersions");
    if versions.is_empty() {
        return errors.required(path, "must name v1 or v1beta1");
    }
    for (index, version) in versions.iter().enumerate() {
        let shown = format_args!("{version:?}");
        if versions.iter().take(index).any(|other| other == version) {
            errors.invalid(&path.index(index), shown, "is named twice");
        } else if let Some(why) = name::dns_1035_label(version) {
            errors.invalid(&path.index(index), shown, why);
        }
    }
    if !versions.iter().any(|version| REVIEWS.contains(version)) {
        errors.invalid(path, format_args!("{versions:?}"), "must name v1 or v1beta1");
    }
}

fn validate_client(webhook: &Object, path: &Path<'_>, errors: &mut Errors) {
    let url = webhook.str_at(&["clientConfig", "url"]);
    let service = webhook.map_at(&["clientConfig", "service"]);
    match (url, service) {
        (Some(_), Some(_)) | (None, None) => {
            errors.required(path, "exactly one of url and service")
        }
        (Some(url), None) => validate_url(url, &path.field("url"), errors),
        (None, Some(service)) => validate_service(service, &path.field("service"), errors),
    }
}

fn validate_url(url: &str, path: &Path<'_>, errors: &mut Errors) {
    let shown = format_args!("{url:?}");
    let Some(parts) = UrlParts::read(url) else {
        return errors.required(path, "must be a URL, such as https://host/path");
    };
    if parts.scheme != "https" {
        errors.invalid(path, shown, "must start with https://");
    }
    if parts.host.is_empty() {
        errors.invalid(path, shown, "names no host");
    }
    for (present, what) in [
        (parts.has_user, "a user"),
        (parts.has_fragment, "a fragment"),
        (parts.has_query, "a query"),
    ] {
        if present {
            errors.invalid(path, shown, &format!("may not have {what}"));
        }
    }
}

/// What of a URL matters here.
struct UrlParts<'a> {
    scheme: String,
    host: &'a str,
    has_user: bool,
    has_fragment: bool,
    has_query: bool,
}

impl<'a> UrlParts<'a> {
    /// Takes a URL apart; `None` if it is none.
    fn read(url: &'a str) -> Option<UrlParts<'a>> {
        if url.chars().any(|letter| letter.is_ascii_control()) {
            return None;
        }
        let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
        let (scheme, rest) = UrlParts::scheme(url)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let first = path.split('/').next().unwrap_or_default();
        if scheme.is_empty() && authority.is_empty() && first.contains(':') {
            return None;
        }
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let port = host.rsplit_once(']').map_or(host, |(_, port)| port).rsplit_once(':');
        let numbered = port.is_none_or(|(_, port)| port.chars().all(|c| c.is_ascii_digit()));
        let whole = host.starts_with('[') == host.contains(']') && !host.contains([' ', '<', '>']);
        (numbered && whole).then(|| UrlParts {
            scheme: scheme.to_ascii_lowercase(),
            host,
            has_user: user.is_some(),
            has_fragment: !fragment.is_empty(),
            has_query: !query.is_empty(),
        })
    }

    /// The scheme, or nothing, and what follows.
    fn scheme(url: &str) -> Option<(&str, &str)> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        match url.find(|c: char| !is_part(c)) {
            Some(0) if url.starts_with(':') => None,
            Some(at) if url.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                match url.split_at_checked(at) {
                    Some((scheme, rest)) if rest.starts_with(':') => {
                        Some((scheme, rest.strip_prefix(':').unwrap_or(rest)))
                    }
                    _ => Some(("", url)),
                }
            }
            _ => Some(("", url)),
        }
    }
}

fn validate_service(service: &Object, path: &Path<'_>, errors: &mut Errors) {
    // Upstream exchanges the two when it calls one of them missing.
    for (member, missing) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, member).is_empty() {
            errors.required(&path.field(missing), "");
        }
    }
    if let Some(port) = service.int_at(&["port"])
        && !(1..=65535).contains(&port)
    {
        errors.invalid(&path.field("port"), port, "must be between 1 and 65535");
    }
    validate_service_path(text(service, "path"), &path.field("path"), errors);
}

/// A path begins with a slash; its segments are names.
fn validate_service_path(given: &str, path: &Path<'_>, errors: &mut Errors) {
    if matches!(given, "" | "/") {
        return;
    }
    let shown = format_args!("{given:?}");
    if given == "//" {
        return errors.invalid(path, shown, "has an empty segment");
    }
    if !given.starts_with('/') {
        errors.invalid(path, shown, "must start with /");
    }
    // The first letter is taken for the slash, even where it is none.
    let mut rest = given.chars();
    rest.next();
    let rest = rest.as_str();
    for segment in rest.strip_suffix('/').unwrap_or(rest).split('/') {
        if segment.is_empty() {
            errors.invalid(path, shown, "has an empty segment");
        } else if let Some(why) = name::dns_subdomain(segment) {
            errors.invalid(path, shown, why);
        }
    }
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
        let body = json!({"webhooks": [{"name": "short", "timeoutSeconds": 31},
            {"name": "short", "reinvocationPolicy": "Always"}]});
        assert_eq!(
            faults(&row(GROUP, "MutatingWebhookConfiguration"), body),
            [
                "webhooks[0].name FieldValueInvalid",
                "webhooks[0].sideEffects FieldValueRequired",
                "webhooks[0].timeoutSeconds FieldValueInvalid",
                "webhooks[0].clientConfig FieldValueRequired",
                "webhooks[0].admissionReviewVersions FieldValueRequired",
                "webhooks[1].name FieldValueInvalid",
                "webhooks[1].sideEffects FieldValueRequired",
                "webhooks[1].reinvocationPolicy FieldValueNotSupported",
                "webhooks[1].clientConfig FieldValueRequired",
                "webhooks[1].admissionReviewVersions FieldValueRequired",
                "webhooks[1].name FieldValueDuplicate",
            ]
        );
        let nameless = json!({"webhooks": [{"sideEffects": "None",
            "admissionReviewVersions": ["v2", "V3", "v2"], "clientConfig": {"url": "https://h"}}]});
        assert_eq!(
            faults(&row(GROUP, "ValidatingWebhookConfiguration"), nameless),
            [
                "webhooks[0].name FieldValueRequired",
                "webhooks[0].admissionReviewVersions[1] FieldValueInvalid",
                "webhooks[0].admissionReviewVersions[2] FieldValueInvalid",
                "webhooks[0].admissionReviewVersions FieldValueInvalid",
            ]
        );
    }

    fn faults_of(webhook: serde_json::Value) -> Vec<String> {
        let mut whole = json!({"name": "a.example.com", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://h/p"}});
        for (member, value) in webhook.as_object().unwrap() {
            whole[member] = value.clone();
        }
        let found =
            faults(&row(GROUP, "ValidatingWebhookConfiguration"), json!({"webhooks": [whole]}));
        found.into_iter().map(|cause| cause.replace("webhooks[0].", "")).collect()
    }

    #[test]
    fn r136g_rules_of_webhooks_in_upstreams_order() {
        let rule = |rule: serde_json::Value| faults_of(json!({"rules": [rule]}));
        assert_eq!(
            rule(json!({"scope": "All"})),
            [
                "rules[0].operations FieldValueRequired",
                "rules[0].apiGroups FieldValueRequired",
                "rules[0].apiVersions FieldValueRequired",
                "rules[0].resources FieldValueRequired",
                "rules[0].scope FieldValueNotSupported",
            ]
        );
        assert_eq!(
            rule(json!({"operations": ["*", "GET"], "apiGroups": ["*", "apps"],
                "apiVersions": ["*", ""], "resources": ["*", "pods"]})),
            [
                "rules[0].operations FieldValueInvalid",
                "rules[0].operations[1] FieldValueNotSupported",
                "rules[0].apiGroups FieldValueInvalid",
                "rules[0].apiVersions FieldValueInvalid",
                "rules[0].apiVersions[1] FieldValueRequired",
                "rules[0].resources FieldValueInvalid",
            ]
        );
        assert_eq!(
            rule(json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["pods/*", "pods/status", "*/scale", "x/scale", "", "*/*"]})),
            [
                "rules[0].resources[1] FieldValueInvalid",
                "rules[0].resources[3] FieldValueInvalid",
                "rules[0].resources[4] FieldValueRequired",
                "rules[0].resources FieldValueInvalid",
            ]
        );
    }

    #[test]
    fn r136g_where_a_webhook_is_called() {
        let at = |client: serde_json::Value| faults_of(json!({"clientConfig": client}));
        let url = "clientConfig.url FieldValueInvalid";
        for (given, expected) in [
            ("https://h", vec![]),
            ("https://h:8443/a/b", vec![]),
            ("http://h", vec![url]),
            ("h/p", vec![url, url]),
            ("https:///p", vec![url]),
            ("https://me@h/p?q#f", vec![url, url, url]),
            ("https://h:port", vec!["clientConfig.url FieldValueRequired"]),
            ("://h", vec!["clientConfig.url FieldValueRequired"]),
        ] {
            assert_eq!(at(json!({"url": given})), expected, "{given}");
        }
        let service = |service: serde_json::Value| at(json!({"service": service}));
        // Upstream exchanges the two when it calls one of them missing.
        let namespace = "clientConfig.service.namespace FieldValueRequired";
        assert_eq!(service(json!({"namespace": "n"})), [namespace]);
        let name = "clientConfig.service.name FieldValueRequired";
        assert_eq!(service(json!({"name": "s"})), [name]);
        assert_eq!(
            service(json!({"port": 65536, "path": "a/B"})),
            [
                name,
                namespace,
                "clientConfig.service.port FieldValueInvalid",
                "clientConfig.service.path FieldValueInvalid",
                "clientConfig.service.path FieldValueInvalid",
                "clientConfig.service.path FieldValueInvalid",
            ]
        );
        for path in ["", "/", "/a", "/a/b.c/"] {
            assert!(service(json!({"name": "s", "namespace": "n", "path": path})).is_empty());
        }
    }
}
