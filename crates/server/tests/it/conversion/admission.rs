//! Admission webhooks and policies that look at another version than the one that is written or stored.

use super::*;

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// An admission webhook that notes what it sees, and patches it so.
async fn hook(patch: Value) -> ReviewServer {
    ReviewServer::start(move |review| {
        let mut response = json!({ "uid": review["request"]["uid"], "allowed": true });
        if !patch.is_null() {
            response["patch"] = STANDARD.encode(patch.to_string()).into();
            response["patchType"] = "JSONPatch".into();
        }
        let whole = json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
        });
        Response::new(whole.to_string().into())
    })
    .await
}

/// What it was asked since this was looked at last.
fn requests(hook: &ReviewServer) -> Vec<Value> {
    hook.take().into_iter().map(|review| review.body["request"].clone()).collect()
}

/// A configuration about one version of routes, also under their other names.
fn configuration(server: &HttpsServer, version: &str) -> Value {
    json!({ "metadata": { "name": "c" }, "webhooks": [{
        "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "clientConfig": { "url": server.url("/hook"), "caBundle": STANDARD.encode(&server.authority) },
        "rules": [{ "apiGroups": ["example.com"], "apiVersions": [version],
            "operations": ["*"], "resources": ["routes"] }],
    }] })
}

#[tokio::test]
async fn r161_a_webhook_changes_an_object_in_the_version_that_it_knows() {
    let (house, _converter) = routes("v1").await;
    let patch = json!([{ "op": "replace", "path": "/spec/port", "value": 443 }]);
    let hook = hook(patch).await;
    house.made(MUTATING, configuration(&hook.server, "v2")).await;
    let made = house.made(V1, first("a", "here:80")).await;
    assert_eq!(made["spec"], json!({ "address": "here:443" }));
    assert_eq!(house.get(&format!("{V2}/a")).await.with(200)["spec"]["port"], 443);
    let seen = requests(&hook);
    assert_eq!(seen[0]["object"]["spec"], json!({ "host": "here", "port": 80 }));
    assert_eq!(seen[0]["kind"]["version"], "v2");
    assert_eq!(seen[0]["requestKind"]["version"], "v1");
}

#[tokio::test]
async fn r161_a_webhook_works_with_a_different_stored_version() {
    let (house, _converter) = routes("v1").await;
    let patch = json!([{ "op": "add", "path": "/spec/old", "value": "patched" }]);
    let hook = hook(patch).await;
    house.made(V1, first("a", "here:80")).await;
    house.made(MUTATING, configuration(&hook.server, "v1")).await;
    store_as(&house, "v2").await;
    let path = format!("{V1}/a");
    let changed = house.merge(&path, json!({ "metadata": { "labels": { "a": "b" } } })).await;
    // Version 2 knows no such field: what the webhook added is not kept.
    assert_eq!(changed.with(200)["spec"], json!({ "address": "here:80" }));
    let seen = requests(&hook);
    assert_eq!(seen[0]["oldObject"]["apiVersion"], "example.com/v1");
    assert_eq!(seen[0]["object"]["metadata"]["labels"], json!({ "a": "b" }));
}

#[tokio::test]
async fn r161_nothing_passes_that_a_webhook_cannot_be_shown() {
    let (house, converter) = routes("v1").await;
    let hook = hook(Value::Null).await;
    house.made(VALIDATING, configuration(&hook.server, "v2")).await;
    converter.breaks();
    fails(house.post(V1, first("a", "here:80")).await, "out of order");
    assert!(hook.seen().is_empty());
    converter.works();
    house.made(V1, first("a", "here:80")).await;
    house.delete(&format!("{V1}/a")).await.with(200);
    let seen = requests(&hook);
    assert_eq!(seen[0]["object"]["spec"]["host"], "here");
    assert_eq!(seen[1]["operation"], "DELETE");
    assert_eq!(seen[1]["oldObject"]["spec"]["host"], "here");
}

#[tokio::test]
async fn r164_a_policy_sees_the_version_that_it_is_about() {
    let (house, converter) = routes("v1").await;
    house
        .made(
            POLICIES,
            json!({ "metadata": { "name": "ports" }, "spec": {
        "matchConstraints": { "matchPolicy": "Equivalent", "resourceRules": [{
            "apiGroups": ["example.com"], "apiVersions": ["v2"],
            "operations": ["CREATE", "UPDATE"], "resources": ["routes"] }] },
        "validations": [{ "expression": "object.spec.port > 1023", "message": "too low" }],
    } }),
        )
        .await;
    let binding = json!({ "policyName": "ports", "validationActions": ["Deny"] });
    house.made(BINDINGS, json!({ "metadata": { "name": "ports" }, "spec": binding })).await;
    let refused = house.post(V1, first("a", "here:80")).await.fails(422, "Invalid");
    assert!(refused["message"].as_str().unwrap().contains("too low"), "{refused}");
    house.made(V1, first("a", "here:8080")).await;
    converter.breaks();
    fails(house.post(V1, first("b", "here:8080")).await, "out of order");
}

#[tokio::test]
async fn r164_parameters_are_read_in_the_version_that_is_named() {
    let (house, converter) = routes("v1").await;
    house.made(V1, first("limits", "here:80")).await;
    house
        .made(
            POLICIES,
            json!({ "metadata": { "name": "p" }, "spec": {
        "paramKind": { "apiVersion": "example.com/v2", "kind": "Route" },
        "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["configmaps"] }] },
        "validations": [{ "expression": "params.spec.host == object.metadata.name" }],
    } }),
        )
        .await;
    let binding = json!({ "policyName": "p", "validationActions": ["Deny"],
        "paramRef": { "name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny" } });
    house.made(BINDINGS, json!({ "metadata": { "name": "p" }, "spec": binding })).await;
    house.post(CONFIG_MAPS, named("there")).await.fails(422, "Invalid");
    house.config_map("here").await;
    assert_eq!(converter.calls(), 1, "what was converted is known");
    converter.breaks();
    house
        .merge(&format!("{V1}/limits"), json!({ "spec": { "address": "there:80" } }))
        .await
        .with(200);
    let refused = house.post(CONFIG_MAPS, named("there")).await.fails(422, "Invalid");
    assert!(refused["message"].as_str().unwrap().contains("out of order"), "{refused}");
}

const MUTATING_POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
const MUTATING_BINDINGS: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";

/// A policy in force that changes routes as version 2 has them.
async fn mutating(house: &House, mutation: Value) {
    let policy = json!({ "metadata": { "name": "m" }, "spec": {
        "reinvocationPolicy": "Never",
        "matchConstraints": { "matchPolicy": "Equivalent", "resourceRules": [{
            "apiGroups": ["example.com"], "apiVersions": ["v2"],
            "operations": ["CREATE", "UPDATE"], "resources": ["routes"] }] },
        "mutations": [mutation],
    } });
    house.made(MUTATING_POLICIES, policy).await;
    let binding = json!({ "metadata": { "name": "m" }, "spec": { "policyName": "m" } });
    house.made(MUTATING_BINDINGS, binding).await;
}

#[tokio::test]
async fn r164a_a_policy_changes_an_object_in_the_version_that_it_is_about() {
    let configuration = "Object{spec: Object.spec{port: object.spec.port + 1}}";
    let patch = "[JSONPatch{op: 'replace', path: '/spec/port', value: object.spec.port + 1}]";
    for mutation in [
        json!({ "patchType": "ApplyConfiguration",
            "applyConfiguration": { "expression": configuration } }),
        json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": patch } }),
    ] {
        let (house, converter) = routes("v1").await;
        mutating(&house, mutation).await;
        let made = house.made(V1, first("a", "here:80")).await;
        assert_eq!(made["apiVersion"], "example.com/v1");
        assert_eq!(made["spec"], json!({ "address": "here:81" }));
        let path = format!("{V1}/a");
        let change = json!({ "spec": { "address": "there:90" } });
        let changed = house.merge(&path, change.clone()).await.with(200);
        assert_eq!(changed["spec"], json!({ "address": "there:91" }));
        assert_eq!(house.get(&format!("{V2}/a")).await.with(200)["spec"]["port"], 91);
        // What cannot be shown to it, or not be brought back, is not written.
        converter.breaks();
        fails(house.merge(&path, change).await, "out of order");
        fails(house.post(V1, first("b", "here:80")).await, "out of order");
        house.get(&format!("{V1}/b")).await.fails(404, "NotFound");
    }
}

#[tokio::test]
async fn r164a_what_a_policy_leaves_as_it_is_is_not_converted_back() {
    let (house, converter) = routes("v1").await;
    let patch = "[JSONPatch{op: 'replace', path: '/spec/host', value: object.spec.host}]";
    mutating(&house, json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": patch } }))
        .await;
    let mut route = first("a", "here:80");
    // Version 2 knows no such field.
    route["spec"]["old"] = "kept".into();
    let made = house.made(V1, route).await;
    assert_eq!(made["spec"], json!({ "address": "here:80", "old": "kept" }));
    let wanted = |asked: Value| asked["desiredAPIVersion"].clone();
    let wanted: Vec<Value> = converter.asked().into_iter().map(wanted).collect();
    assert_eq!(wanted, ["example.com/v2"]);
}

#[tokio::test]
async fn r164a_parameters_of_a_policy_that_changes_are_read_in_the_version_that_is_named() {
    let (house, converter) = routes("v1").await;
    house.made(V1, first("target", "here:80")).await;
    let policy = json!({ "metadata": { "name": "m" }, "spec": {
        "reinvocationPolicy": "Never",
        "paramKind": { "apiVersion": "example.com/v2", "kind": "Route" },
        "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["CREATE"], "resources": ["configmaps"] }] },
        "mutations": [{ "patchType": "ApplyConfiguration", "applyConfiguration": {
            "expression": "Object{data: {'host': params.spec.host}}" } }],
    } });
    house.made(MUTATING_POLICIES, policy).await;
    let binding = json!({ "policyName": "m", "paramRef": { "name": "target",
        "namespace": "default", "parameterNotFoundAction": "Deny" } });
    house.made(MUTATING_BINDINGS, json!({ "metadata": { "name": "m" }, "spec": binding })).await;
    let made = house.made(CONFIG_MAPS, named("a")).await;
    assert_eq!(made["data"], json!({ "host": "here" }));
    converter.breaks();
    let change = json!({ "spec": { "address": "there:80" } });
    house.merge(&format!("{V1}/target"), change).await.with(200);
    let refused = house.post(CONFIG_MAPS, named("b")).await.fails(403, "Forbidden");
    assert!(refused["message"].as_str().unwrap().contains("out of order"), "{refused}");
}
