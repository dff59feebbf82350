//! Rules of spec/api-server.md.

use serde_json::json;

use super::*;

/// A webhook with these members instead of the usual ones.
fn webhook(name: &str, members: &Value) -> Value {
    let mut webhook = json!({
        "timeout": "3s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny",
        "matchConditionSubjectAccessReviewVersion": "v1",
        "connectionInfo": { "type": "KubeConfigFile", "kubeConfigFile": "/etc/hook" },
    });
    for (member, value) in members.as_object().unwrap() {
        match value {
            Value::Null => webhook.as_object_mut().unwrap().remove(member),
            value => webhook.as_object_mut().unwrap().insert(member.clone(), value.clone()),
        };
    }
    json!({ "type": "Webhook", "name": name, "webhook": webhook })
}

fn document(authorizers: &[Value]) -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": authorizers,
    })
}

fn read(authorizers: &[Value]) -> Result<AuthorizationConfiguration, Vec<String>> {
    faults_of(&document(authorizers))
}

fn faults_of(document: &Value) -> Result<AuthorizationConfiguration, Vec<String>> {
    AuthorizationConfiguration::read(document).map_err(|errors| {
        let causes = errors.into_causes().into_iter();
        causes.map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    })
}

fn types(of: &AuthorizationConfiguration) -> Vec<&'static str> {
    of.authorizers.iter().map(|one| one.kind.word()).collect()
}

#[test]
fn r154a_an_order_is_read_as_it_stands() {
    let rbac = json!({ "type": "RBAC", "name": "rbac" });
    let node = json!({ "type": "Node", "name": "node" });
    let references = json!({ "type": "Reference", "name": "reference" });
    let found = read(&[node.clone(), rbac.clone(), webhook("a.example", &json!({}))]).unwrap();
    assert_eq!(types(&found), ["Node", "RBAC", "Webhook", "Reference"], "references come last");
    let found = read(&[references, rbac, node]).unwrap();
    assert_eq!(types(&found), ["Reference", "RBAC", "Node"], "unless they are named");
    let usual = AuthorizationConfiguration::default();
    assert_eq!(types(&usual), ["RBAC", "Reference", "Node"]);
}

#[test]
fn r154a_what_a_webhook_does_not_say_is_as_upstream() {
    let of = |members: Value| {
        let found = read(&[webhook("a", &members)]).unwrap();
        found.webhooks().next().unwrap().1.clone()
    };
    let usual = of(json!({}));
    assert_eq!(usual.authorized_ttl, Some(Duration::from_secs(300)));
    assert_eq!(usual.unauthorized_ttl, Some(Duration::from_secs(30)));
    assert!(usual.denies_on_failure);
    // Zero means that nothing is said; not to keep anything has a word of its own.
    let zero = of(json!({ "authorizedTTL": "0s", "unauthorizedTTL": "1m30s" }));
    assert_eq!(zero.authorized_ttl, Some(Duration::from_secs(300)));
    assert_eq!(zero.unauthorized_ttl, Some(Duration::from_secs(90)));
    let none = of(json!({ "cacheAuthorizedRequests": false, "cacheUnauthorizedRequests": false }));
    assert_eq!((none.authorized_ttl, none.unauthorized_ttl), (None, None));
    let open = of(json!({ "failurePolicy": "NoOpinion", "subjectAccessReviewVersion": "v1beta1" }));
    assert_eq!((open.denies_on_failure, open.version), (false, "v1beta1"));
}

#[test]
fn r154a_faults_name_their_field() {
    let at = "authorizers[0].webhook";
    let condition = |text: &str| json!({ "matchConditions": [{ "expression": text }] });
    for (members, said) in [
        (json!({ "timeout": null }), format!("{at}.timeout: Required value")),
        (
            json!({ "timeout": "31s" }),
            format!("{at}.timeout: Invalid value: \"31s\": must be > 0s and <= 30s"),
        ),
        (
            json!({ "timeout": "-1s" }),
            format!("{at}.timeout: Invalid value: \"-1s\": must be > 0s"),
        ),
        (
            json!({ "timeout": "soon" }),
            format!("{at}.timeout: Invalid value: \"soon\": must be a duration"),
        ),
        (json!({ "timeout": 3 }), format!("{at}.timeout: Invalid value: 3: must be a duration")),
        (json!({ "authorizedTTL": "-5s" }), format!("{at}.authorizedTTL: Invalid value")),
        (json!({ "unauthorizedTTL": [] }), format!("{at}.unauthorizedTTL: Invalid value: []")),
        (
            json!({ "cacheAuthorizedRequests": "no" }),
            format!("{at}.cacheAuthorizedRequests: Invalid value: \"no\": must be true or false"),
        ),
        (
            json!({ "subjectAccessReviewVersion": null }),
            format!("{at}.subjectAccessReviewVersion: Required value"),
        ),
        (
            json!({ "subjectAccessReviewVersion": "v2" }),
            format!(
                "{at}.subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \"v1beta1\""
            ),
        ),
        (
            json!({ "matchConditionSubjectAccessReviewVersion": "v1beta1" }),
            format!("{at}.matchConditionSubjectAccessReviewVersion: Unsupported value"),
        ),
        (json!({ "failurePolicy": null }), format!("{at}.failurePolicy: Required value")),
        (
            json!({ "failurePolicy": "Ignore" }),
            format!("{at}.failurePolicy: Unsupported value: \"Ignore\""),
        ),
        (json!({ "connectionInfo": null }), format!("{at}.connectionInfo.type: Required value")),
        (
            json!({ "connectionInfo": [] }),
            format!("{at}.connectionInfo: Invalid value: []: must be a mapping"),
        ),
        (
            json!({ "connectionInfo": { "type": "InClusterConfig" } }),
            format!("{at}.connectionInfo.type: Invalid value: \"InClusterConfig\""),
        ),
        (
            json!({ "connectionInfo": { "type": "Url" } }),
            format!("{at}.connectionInfo.type: Unsupported value: \"Url\""),
        ),
        (
            json!({ "connectionInfo": { "type": "KubeConfigFile" } }),
            format!("{at}.connectionInfo.kubeConfigFile: Required value"),
        ),
        (
            json!({ "connectionInfo": { "type": "KubeConfigFile", "kubeConfigFile": "a/b" } }),
            format!(
                "{at}.connectionInfo.kubeConfigFile: Invalid value: \"a/b\": must be an absolute path"
            ),
        ),
        (
            json!({ "connectionInfo": { "type": "KubeConfigFile", "kubeConfigFile": 1 } }),
            format!("{at}.connectionInfo.kubeConfigFile: Invalid value: 1: must be a string"),
        ),
        (json!({ "failurepolicy": "Deny" }), format!("{at}.failurepolicy: unknown field")),
        (
            json!({ "matchConditions": {} }),
            format!("{at}.matchConditions: Invalid value: {{}}: must be a list"),
        ),
        (
            json!({ "matchConditions": ["true"] }),
            format!("{at}.matchConditions[0]: Invalid value: \"true\": must be a mapping"),
        ),
        (condition(""), format!("{at}.matchConditions[0].expression: Required value")),
        (
            condition("request.user"),
            format!(
                "{at}.matchConditions[0].expression: Invalid value: \"request.user\": must evaluate to bool"
            ),
        ),
        (condition("object.x"), format!("{at}.matchConditions[0].expression: Invalid value")),
        (
            condition(&format!("request.user == '{}'", "x".repeat(100_001))),
            format!("{at}.matchConditions[0].expression: Invalid value"),
        ),
        (
            json!({ "matchConditions": [{ "expression": "true", "name": "x" }] }),
            format!("{at}.matchConditions[0].name: unknown field"),
        ),
        (
            json!({ "matchConditions": [{ "expression": "true" }, { "expression": "true" }] }),
            format!("{at}.matchConditions[1].expression: Duplicate value: \"true\""),
        ),
        (
            json!({ "matchConditionSubjectAccessReviewVersion": null, "matchConditions": [{ "expression": "true" }] }),
            format!("{at}.matchConditionSubjectAccessReviewVersion: Required value"),
        ),
        (
            json!({ "matchConditions": vec![json!({ "expression": "true" }); 65] }),
            format!("{at}.matchConditions: Too many: 65: must have at most 64 items"),
        ),
    ] {
        let found = read(&[webhook("a", &members)]).unwrap_err();
        let only = format!("{at}.");
        assert!(found.iter().all(|fault| fault.starts_with(&only)), "{members}: {found:?}");
        assert!(found.iter().any(|fault| fault.starts_with(&said)), "{found:?} instead of {said}");
    }
}

#[test]
fn r154a_a_list_is_checked_as_a_whole() {
    let one = |kind: &str, name: &str| json!({ "type": kind, "name": name });
    for (authorizers, said) in [
        (vec![], "authorizers: Required value"),
        (vec![json!(1)], "authorizers[0]: Invalid value: 1: must be a mapping"),
        (vec![json!({})], "authorizers[0].type: Required value"),
        (vec![one("ABAC", "abac")], "authorizers[0].type: Unsupported value: \"ABAC\""),
        (vec![one("rbac", "rbac")], "authorizers[0].type: Unsupported value: \"rbac\""),
        (
            vec![one("RBAC", "rbac"), one("RBAC", "rbac")],
            "authorizers[1].type: Duplicate value: \"RBAC\"",
        ),
        (vec![one("RBAC", "")], "authorizers[0].name: Required value"),
        (vec![one("RBAC", "roles")], "authorizers[0].name: Invalid value: \"roles\""),
        (vec![one("Webhook", "a")], "authorizers[0].webhook: Required value"),
        (
            vec![webhook("A_b", &json!({}))],
            "authorizers[0].name: Invalid value: \"A_b\": authorizer name is invalid",
        ),
        (
            vec![webhook("a", &json!({})), webhook("a", &json!({}))],
            "authorizers[1].name: Duplicate value: \"a\"",
        ),
        (
            vec![json!({ "type": "RBAC", "name": "rbac", "webhook": {} })],
            "authorizers[0].webhook: Invalid value",
        ),
        (
            vec![json!({ "type": "Webhook", "name": "a", "webhook": "x" })],
            "authorizers[0].webhook: Invalid value: \"x\": must be a mapping",
        ),
        (
            vec![json!({ "type": ["RBAC"], "name": "rbac" })],
            "authorizers[0].type: Invalid value: [\"RBAC\"]: must be a string",
        ),
        (
            vec![json!({ "type": "RBAC", "name": "rbac", "order": 1 })],
            "authorizers[0].order: unknown field",
        ),
    ] {
        let found = read(&authorizers).unwrap_err();
        assert!(found.iter().any(|fault| fault.starts_with(said)), "{found:?} instead of {said}");
    }
    // Upstream has no bound, and neither is there one here: eleven webhooks are asked one after the other.
    let eleven: Vec<Value> = (0..11).map(|n| webhook(&format!("a{n}"), &json!({}))).collect();
    assert_eq!(read(&eleven).unwrap().webhooks().count(), 11);
}

#[test]
fn r154a_only_its_own_document_is_read() {
    let good = document(&[json!({ "type": "RBAC", "name": "rbac" })]);
    for version in API_VERSIONS {
        let mut other = good.clone();
        other["apiVersion"] = json!(version);
        assert!(faults_of(&other).is_ok(), "{version}");
    }
    for (member, value, said) in [
        ("apiVersion", json!("apiserver.config.k8s.io/v1alpha1"), "apiVersion: Unsupported value"),
        ("apiVersion", Value::Null, "apiVersion: Required value"),
        ("kind", json!("AuthenticationConfiguration"), "kind: Unsupported value"),
        ("kind", json!({}), "kind: Invalid value"),
        ("authorizers", json!("RBAC"), "authorizers: Invalid value: \"RBAC\": must be a list"),
        ("authorisers", json!([]), "authorisers: unknown field"),
    ] {
        let mut other = good.clone();
        other[member] = value;
        let found = faults_of(&other).unwrap_err();
        assert!(found.iter().any(|fault| fault.starts_with(said)), "{found:?} instead of {said}");
    }
    for rubbish in [json!(null), json!([]), json!("x"), json!(1), json!({})] {
        assert!(faults_of(&rubbish).is_err(), "{rubbish}");
    }
}

#[test]
fn r154a_types_are_compared_without_webhooks_and_references() {
    let of = |kinds: &[&str]| {
        let one = |kind: &&str| json!({ "type": kind, "name": kind.to_lowercase() });
        read(&kinds.iter().map(one).collect::<Vec<_>>()).unwrap()
    };
    let (both, one) = (of(&["Node", "RBAC"]), of(&["RBAC", "Reference"]));
    assert_eq!(one.missing_of(&both), ["Node"]);
    assert!(both.missing_of(&one).is_empty());
}
