//! Rules of spec/downward-api.md: what users forbid with ValidatingAdmissionPolicies (R59), and how such
//! a policy behaves towards every other request. Rules of spec/api-server.md: who may name parameters (R161a).

use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::*;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const OWNERS: &str = "metadata.ownerReferences";
const FORBID: &str = "downward.tenure.dev/owner-references";

/// A policy over ConfigMaps with these members of its spec.
fn policy(name: &str, spec: Value) -> Value {
    let mut whole = json!({
        "matchConstraints": { "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }] },
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({ "metadata": { "name": name }, "spec": whole })
}

fn binding(name: &str, policy: &str, spec: Value) -> Value {
    let mut whole = json!({ "policyName": policy, "validationActions": ["Deny"] });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({ "metadata": { "name": name }, "spec": whole })
}

async fn bound(house: &House, spec: Value) {
    house.made(POLICIES, policy("p", spec)).await;
    house.made(BINDINGS, binding("b", "p", json!({}))).await;
}

fn validations(expression: &str) -> Value {
    json!({ "validations": [{ "expression": expression }] })
}

fn map(name: &str, data: Value) -> Value {
    json!({ "metadata": { "name": name }, "data": data })
}

fn container(env: Value) -> Value {
    json!({ "name": "c", "image": "example.com/app:v1", "env": env })
}

fn in_env(field: &str) -> Value {
    let from = json!({ "fieldRef": { "fieldPath": field } });
    json!({ "containers": [container(json!([{ "name": "E", "valueFrom": from }]))] })
}

fn in_file(field: &str) -> Value {
    let item = json!({ "path": "f", "fieldRef": { "fieldPath": field } });
    let source = json!({ "downwardAPI": { "items": [item] } });
    json!({
        "containers": [container(json!([]))],
        "volumes": [{ "name": "v", "projected": { "sources": [source] } }],
    })
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

#[tokio::test]
async fn r59_the_printed_policy_forbids_in_one_namespace_and_not_in_the_other() {
    let house = House::new().await;
    let printed = tenure_downward::policy::owner_references(false);
    // The label of the printed binding forbids it here without any policy (R58), so it is another one.
    let label = format!("{FORBID}: forbid");
    assert!(printed.contains(&label));
    let printed = printed.replace(&format!("        {label}"), "        example.com/bound: 'yes'");
    let yaml = [("content-type", "application/yaml")];
    for (place, document) in [POLICIES, BINDINGS].into_iter().zip(printed.split("\n---\n")) {
        house.ask("POST", place, &yaml, document.to_owned()).await.with(201);
    }
    for (name, labels) in [("bound", json!({ "example.com/bound": "yes" })), ("free", json!({}))] {
        house.made(NAMESPACES, json!({ "metadata": { "name": name, "labels": labels } })).await;
        let account = json!({ "metadata": { "name": "default" } });
        house.post(&format!("/api/v1/namespaces/{name}/serviceaccounts"), account).await;
    }
    let pod = |name: &str, spec: Value| json!({ "metadata": { "name": name }, "spec": spec });
    let carrier = "metadata.annotations['tenure.dev/owner-references']";
    for (number, spec) in
        [in_env(OWNERS), in_env(carrier), in_file(OWNERS), in_file(carrier)].into_iter().enumerate()
    {
        let body = pod(&format!("x{number}"), spec);
        let refused = house.post("/api/v1/namespaces/bound/pods", body.clone()).await;
        let status = refused.fails(403, "Forbidden");
        assert!(message(&status).contains("ValidatingAdmissionPolicy"), "{status}");
        house.made("/api/v1/namespaces/free/pods", body).await;
    }
    let owners = pod("y", in_env(OWNERS));
    house.made("/api/v1/namespaces/bound/pods", pod("x", in_env("metadata.name"))).await;
    house.post("/api/v1/namespaces/bound/pods", owners.clone()).await.fails(403, "Forbidden");
    house.delete(POLICIES).await.with(200);
    house.made("/api/v1/namespaces/bound/pods", owners).await;
}

#[tokio::test]
async fn r59_a_refusal_speaks_as_upstream_and_ends_with_the_policy() {
    let house = House::new().await;
    let forbidden = json!({ "validations": [{
        "expression": "!has(object.data) || !('secret' in object.data)",
        "message": "no secrets here", "reason": "Forbidden",
    }] });
    house.made(POLICIES, policy("p", forbidden)).await;
    // A policy without a binding does nothing.
    house.made(CONFIG_MAPS, map("early", json!({ "secret": "x" }))).await;
    house.made(BINDINGS, binding("b", "p", json!({}))).await;
    let status =
        house.post(CONFIG_MAPS, map("x", json!({ "secret": "x" }))).await.fails(403, "Forbidden");
    let why = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no secrets here";
    assert_eq!(message(&status), format!("configmaps \"x\" is forbidden: {why}"));
    assert_eq!(status["details"]["causes"], json!([{ "message": why }]));
    assert_eq!(status["details"]["kind"], "configmaps");
    assert_eq!(status["details"]["name"], "x");
    house.made(CONFIG_MAPS, map("x", json!({}))).await;
    // What is changed is looked at, too, and what is deleted is not unless the policy says so.
    let path = format!("{CONFIG_MAPS}/x");
    house.merge(&path, json!({ "data": { "secret": "x" } })).await.fails(403, "Forbidden");
    house.merge(&path, json!({ "data": { "open": "x" } })).await.with(200);
    house.delete(&path).await.with(200);
    house.delete(&format!("{BINDINGS}/b")).await.with(200);
    house.made(CONFIG_MAPS, map("x", json!({ "secret": "x" }))).await;
    house.made(BINDINGS, binding("b", "p", json!({}))).await;
    house.post(CONFIG_MAPS, map("y", json!({ "secret": "x" }))).await.fails(403, "Forbidden");
    house.delete(&format!("{POLICIES}/p")).await.with(200);
    house.made(CONFIG_MAPS, map("y", json!({ "secret": "x" }))).await;
}

#[tokio::test]
async fn r59_reasons_and_messages() {
    for (reason, code, word) in [
        (json!(null), 422, "Invalid"),
        (json!("Invalid"), 422, "Invalid"),
        (json!("Forbidden"), 403, "Forbidden"),
        (json!("RequestEntityTooLarge"), 413, "RequestEntityTooLarge"),
    ] {
        let house = House::new().await;
        let mut one = json!({ "expression": "false" });
        if !reason.is_null() {
            one["reason"] = reason;
        }
        bound(&house, json!({ "validations": [one] })).await;
        let status = house.post(CONFIG_MAPS, named("x")).await.fails(code, word);
        assert!(message(&status).ends_with("denied request: failed expression: false"));
    }
    let house = House::new().await;
    let computed = "'name ' + object.metadata.name + ' is bad in ' + request.namespace";
    bound(
        &house,
        json!({ "validations": [{
            "expression": "object.metadata.name != 'x'", "message": "said",
            "messageExpression": computed,
        }] }),
    )
    .await;
    let status = house.post(CONFIG_MAPS, named("x")).await.fails(422, "Invalid");
    assert!(message(&status).ends_with("denied request: name x is bad in default"));
    // A message that cannot be computed gives way to the one that is said.
    let house = House::new().await;
    bound(
        &house,
        json!({ "validations": [{
            "expression": "false", "message": "said", "messageExpression": "string(object.nothing.there)",
        }] }),
    )
    .await;
    let status = house.post(CONFIG_MAPS, named("x")).await.fails(422, "Invalid");
    assert!(message(&status).ends_with("denied request: said"), "{status}");
}

#[tokio::test]
async fn r59_what_expressions_see() {
    let house = House::new().await;
    let cases = [
        "request.operation == 'CREATE' ? oldObject == null : oldObject.metadata.name == 'x'",
        "request.kind.kind == 'ConfigMap' && request.kind.version == 'v1' && request.kind.group == ''",
        "request.resource.resource == 'configmaps' && request.requestResource == request.resource",
        "request.name == 'x' && request.namespace == 'default' && !has(request.subResource)",
        "'system:masters' in request.userInfo.groups",
        "namespaceObject.metadata.name == 'default'",
        "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'",
        "object.kind == 'ConfigMap' && object.apiVersion == 'v1'",
        "request.dryRun == false",
    ];
    let all: Vec<Value> = cases.iter().map(|text| json!({ "expression": text })).collect();
    bound(&house, json!({ "validations": all })).await;
    house.made(CONFIG_MAPS, named("x")).await;
    let path = format!("{CONFIG_MAPS}/x");
    house.merge(&path, json!({ "data": { "a": "b" } })).await.with(200);
    let status = house.post(&format!("{CONFIG_MAPS}?dryRun=All"), named("x")).await;
    assert!(message(&status.fails(422, "Invalid")).contains("request.dryRun == false"));
}

#[tokio::test]
async fn r59_variables_are_computed_where_they_are_needed() {
    let house = House::new().await;
    bound(
        &house,
        json!({
            "variables": [
                { "name": "broken", "expression": "object.nothing.there" },
                { "name": "data", "expression": "has(object.data) ? object.data : {}" },
                { "name": "size", "expression": "size(variables.data)" },
            ],
            "validations": [{
                "expression": "variables.size < 2 && (true || variables.broken == 1)",
                "messageExpression": "'too many: ' + string(variables.size)",
            }],
        }),
    )
    .await;
    house.made(CONFIG_MAPS, map("one", json!({ "a": "b" }))).await;
    let status = house
        .post(CONFIG_MAPS, map("two", json!({ "a": "b", "c": "d" })))
        .await
        .fails(422, "Invalid");
    assert!(message(&status).ends_with("denied request: too many: 2"), "{status}");
}

#[tokio::test]
async fn r59_failures_count_as_the_policy_says() {
    for (policy, code) in [("Fail", 422), ("Ignore", 201)] {
        let house = House::new().await;
        let mut spec = validations("object.nothing.there == 1");
        spec["failurePolicy"] = policy.into();
        bound(&house, spec).await;
        let answer = house.post(CONFIG_MAPS, named("x")).await;
        if code == 422 {
            let status = answer.fails(422, "Invalid");
            let why =
                "expression 'object.nothing.there == 1' resulted in error: no such key: nothing";
            assert!(message(&status).ends_with(why), "{status}");
        } else {
            answer.with(201);
        }
    }
}

#[tokio::test]
async fn r59_conditions_decide_whether_a_policy_looks() {
    let house = House::new().await;
    let mut spec = validations("false");
    spec["matchConditions"] = json!([
        { "name": "ours", "expression": "request.name.startsWith('x')" },
        { "name": "fails", "expression": "object.metadata.labels['a'] == 'b'" },
    ]);
    bound(&house, spec).await;
    // One that is false outweighs one that fails.
    house.made(CONFIG_MAPS, named("y")).await;
    let status = house.post(CONFIG_MAPS, named("x")).await.fails(422, "Invalid");
    assert!(message(&status).contains("resulted in error: no such key"), "{status}");
    let labels = |value: &str| json!({ "metadata": { "name": "x", "labels": { "a": value } } });
    house.post(CONFIG_MAPS, labels("b")).await.fails(422, "Invalid");
    house.made(CONFIG_MAPS, labels("c")).await;
}

#[tokio::test]
async fn r59_rules_and_selectors_choose() {
    let house = House::new().await;
    let rules = |members: Value| {
        let mut rule = json!({
            "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"],
        });
        rule.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        json!({ "resourceRules": [rule] })
    };
    let with = |mut constraints: Value, more: Value| {
        constraints.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        constraints
    };
    let labels = json!({ "matchLabels": { "a": "b" } });
    let other = json!({ "matchExpressions": [{ "key": "a", "operator": "DoesNotExist" }] });
    let cases = [
        (rules(json!({})), false),
        (rules(json!({ "resources": ["secrets"] })), true),
        (rules(json!({ "resources": ["*"] })), false),
        (rules(json!({ "resources": ["configmaps/status"] })), true),
        (rules(json!({ "operations": ["UPDATE"] })), true),
        (rules(json!({ "apiGroups": ["apps"] })), true),
        (rules(json!({ "apiVersions": ["v2"] })), true),
        (rules(json!({ "scope": "Cluster" })), true),
        (rules(json!({ "scope": "Namespaced" })), false),
        (rules(json!({ "resourceNames": ["x"] })), false),
        (rules(json!({ "resourceNames": ["y"] })), true),
        (with(rules(json!({})), json!({ "objectSelector": labels })), true),
        (with(rules(json!({})), json!({ "objectSelector": other })), false),
        (with(rules(json!({})), json!({ "namespaceSelector": labels })), true),
        (with(rules(json!({})), json!({ "namespaceSelector": other })), false),
        (
            with(
                rules(json!({})),
                json!({ "excludeResourceRules": rules(json!({}))["resourceRules"] }),
            ),
            true,
        ),
    ];
    for (constraints, passes) in cases {
        let mut spec = validations("false");
        spec["matchConstraints"] = constraints.clone();
        bound(&house, spec).await;
        let answer = house.post(&format!("{CONFIG_MAPS}?dryRun=All"), named("x")).await;
        assert_eq!(answer.code == 201, passes, "{constraints}: {answer:?}");
        for place in [BINDINGS, POLICIES] {
            house.delete(place).await.with(200);
        }
        // The same said by a binding.
        house.made(POLICIES, policy("p", validations("false"))).await;
        let spec = json!({ "matchResources": constraints });
        house.made(BINDINGS, binding("b", "p", spec)).await;
        let answer = house.post(&format!("{CONFIG_MAPS}?dryRun=All"), named("x")).await;
        assert_eq!(answer.code == 201, passes, "{constraints}: {answer:?}");
        for place in [BINDINGS, POLICIES] {
            house.delete(place).await.with(200);
        }
    }
}

#[tokio::test]
async fn r59_the_same_resource_in_another_version_counts() {
    for (how, code) in [("Equivalent", 422), ("Exact", 201)] {
        let house = House::new().await;
        let spec = json!({
            "matchConstraints": { "matchPolicy": how, "resourceRules": [{
                "apiGroups": ["autoscaling"], "apiVersions": ["v2"], "operations": ["CREATE"],
                "resources": ["horizontalpodautoscalers"],
            }] },
            "validations": [{
                "expression": "request.kind.version == 'v2' && request.requestKind.version == 'v1' \
                    && object.apiVersion == 'autoscaling/v2' && object.spec.metrics.size() == 0",
            }],
        });
        bound(&house, spec).await;
        let object = json!({
            "metadata": { "name": "x" },
            "spec": {
                "maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
                "scaleTargetRef": { "kind": "Deployment", "name": "d", "apiVersion": "apps/v1" },
            },
        });
        let place = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
        let answer = house.post(place, object).await;
        assert_eq!(answer.code, code, "{answer:?}");
    }
}

#[tokio::test]
async fn r59_a_binding_may_warn_or_only_write_it_down() {
    let house = House::new().await;
    house.made(POLICIES, policy("p", validations("false"))).await;
    let warn = json!({ "validationActions": ["Warn", "Audit"] });
    house.made(BINDINGS, binding("b", "p", warn)).await;
    let answer = house.post(CONFIG_MAPS, named("x")).await;
    let warnings = answer.warnings();
    answer.with(201);
    let wanted = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: false";
    assert!(warnings.iter().any(|warning| warning.contains(wanted)), "{warnings:?}");
    let audit = json!({ "validationActions": ["Audit"] });
    house.merge(&format!("{BINDINGS}/b"), json!({ "spec": audit })).await.with(200);
    let answer = house.post(CONFIG_MAPS, named("y")).await;
    assert_eq!(answer.warnings(), Vec::<String>::new());
    answer.with(201);
}

#[tokio::test]
async fn r59_parameters_come_from_objects() {
    let house = House::new().await;
    house.made(CONFIG_MAPS, map("limit", json!({ "most": "1" }))).await;
    let mut spec = json!({
        "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
        "validations": [{ "expression": "!has(object.data) || size(object.data) <= int(params.data.most)" }],
    });
    spec["matchConditions"] =
        json!([{ "name": "others", "expression": "request.name != 'limit'" }]);
    house.made(POLICIES, policy("p", spec)).await;
    let reference = |members: Value| json!({ "paramRef": members });
    let by_name = reference(json!({ "name": "limit", "parameterNotFoundAction": "Deny" }));
    house.made(BINDINGS, binding("b", "p", by_name)).await;
    let two = || map("x", json!({ "a": "b", "c": "d" }));
    house.post(CONFIG_MAPS, two()).await.fails(422, "Invalid");
    house
        .merge(&format!("{CONFIG_MAPS}/limit"), json!({ "data": { "most": "2" } }))
        .await
        .with(200);
    house.made(CONFIG_MAPS, two()).await;
    house.delete(&format!("{CONFIG_MAPS}/limit")).await.with(200);
    let status = house.post(CONFIG_MAPS, named("y")).await.fails(422, "Invalid");
    let why = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    assert!(message(&status).ends_with(why), "{status}");
    let allow = json!({ "spec": { "paramRef": { "parameterNotFoundAction": "Allow" } } });
    house.merge(&format!("{BINDINGS}/b"), allow).await.with(200);
    house.made(CONFIG_MAPS, named("y")).await;
}

#[tokio::test]
async fn r59_deletions_and_subresources_are_requests_like_others() {
    let house = House::new().await;
    let spec = json!({
        "matchConstraints": { "resourceRules": [
            {
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"],
                "resources": ["configmaps"],
            },
            {
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"],
                "resources": ["deployments/scale"],
            },
        ] },
        "validations": [
            { "expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'" },
            { "expression": "request.operation != 'UPDATE' || (object.kind == 'Scale' && object.spec.replicas < 3)" },
        ],
    });
    bound(&house, spec).await;
    house.made(CONFIG_MAPS, named("kept")).await;
    house.made(CONFIG_MAPS, named("free")).await;
    house.delete(&format!("{CONFIG_MAPS}/free")).await.with(200);
    house.delete(&format!("{CONFIG_MAPS}/kept")).await.fails(422, "Invalid");
    let labels = json!({ "app": "x" });
    let container = json!({ "name": "c", "image": "example.com/app:v1" });
    let template =
        json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
    let deployment = json!({
        "metadata": { "name": "d" },
        "spec": { "selector": { "matchLabels": labels }, "template": template },
    });
    let place = "/apis/apps/v1/namespaces/default/deployments";
    house.made(place, deployment).await;
    let scale = |count: u32| json!({ "spec": { "replicas": count } });
    house.merge(&format!("{place}/d/scale"), scale(2)).await.with(200);
    house.merge(&format!("{place}/d/scale"), scale(3)).await.fails(422, "Invalid");
}

#[tokio::test]
async fn r164_a_connection_is_seen_with_its_options_and_its_path() {
    let house = House::new().await;
    let spec = json!({
        "matchConstraints": { "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"],
            "resources": ["nodes/proxy", "pods/proxy", "services/proxy", "pods/exec"],
        }] },
        "validations": [
            { "expression": "request.kind.kind == object.kind && request.requestKind.kind == object.kind" },
            { "expression": "object.kind.endsWith('ProxyOptions') || object.command == ['ls', '-l']" },
            { "expression": "!object.kind.endsWith('ProxyOptions') || (has(object.path) && object.path.startsWith('/metrics'))" },
            { "expression": "request.subResource != 'proxy' || object.kind == {'nodes': 'NodeProxyOptions', 'pods': 'PodProxyOptions', 'services': 'ServiceProxyOptions'}[request.resource.resource]" },
        ],
    });
    bound(&house, spec).await;
    // Nothing of these is there, so what passes is not found, and what does not is refused before.
    for path in [
        "/api/v1/nodes/x",
        "/api/v1/namespaces/default/pods/x:80",
        "/api/v1/namespaces/default/services/x:80",
    ] {
        for (rest, passes) in [
            ("/metrics", true),
            ("/metrics/cadvisor?a=b", true),
            ("/%6detrics", true),
            ("//metrics", true),
            ("/%2fmetrics", true),
            ("/metricS", false),
            ("/run/a/b/c", false),
            ("/run?path=/metrics", false),
            ("?path=/metrics", false),
            ("//run", false),
            ("/", false),
            ("", false),
        ] {
            let answer = house.get(&format!("{path}/proxy{rest}")).await;
            let refused = answer.code == 422 && message(&answer.json).contains("denied request");
            assert_eq!(!refused, passes, "{path}/proxy{rest}: {answer:?}");
            assert!(refused || answer.code == 404, "{path}/proxy{rest}: {answer:?}");
        }
    }
    let exec = |command: &str| format!("{PODS}/x/exec?{command}&stdout=1");
    house.post(&exec("command=ls&command=-l"), json!({})).await.fails(404, "NotFound");
    house.post(&exec("command=rm"), json!({})).await.fails(422, "Invalid");
}

#[tokio::test]
async fn r59_a_policy_over_everything_can_be_taken_back() {
    let house = House::new().await;
    let spec = json!({
        "matchConstraints": { "resourceRules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"],
        }] },
        "validations": [{ "expression": "false" }],
    });
    bound(&house, spec).await;
    house.post(CONFIG_MAPS, named("x")).await.fails(422, "Invalid");
    house.post(NAMESPACES, named("n")).await.fails(422, "Invalid");
    house.delete(&format!("{BINDINGS}/b")).await.with(200);
    house.made(CONFIG_MAPS, named("x")).await;
}

#[tokio::test]
async fn r59_expressions_that_cannot_run_are_refused_with_their_field() {
    let house = House::new().await;
    let cases = [
        (validations("object."), "spec.validations[0].expression", "compilation failed: ERROR"),
        (
            validations("nobody"),
            "spec.validations[0].expression",
            "undeclared reference to 'nobody'",
        ),
        (
            validations("'text'"),
            "spec.validations[0].expression",
            "must evaluate to bool but got string",
        ),
        (
            validations("object.spec"),
            "spec.validations[0].expression",
            "must evaluate to bool but got dyn",
        ),
        (
            validations("request.nothing == 1"),
            "spec.validations[0].expression",
            "undefined field 'nothing'",
        ),
        (
            validations("params.a == 1"),
            "spec.validations[0].expression",
            "undeclared reference to 'params'",
        ),
        (validations("variables.a == 1"), "spec.validations[0].expression", "undefined field 'a'"),
        (
            json!({ "validations": [{
                "expression": "true", "messageExpression": "authorizer.path('/x').check('get').reason()",
            }] }),
            "spec.validations[0].messageExpression",
            "undeclared reference to 'authorizer'",
        ),
        (
            validations("authorizer.group('').check('get').allowed()"),
            "spec.validations[0].expression",
            "found no matching overload for 'check'",
        ),
        (
            json!({ "validations": [{ "expression": "true", "messageExpression": "1" }] }),
            "spec.validations[0].messageExpression",
            "must evaluate to string but got int",
        ),
        (
            json!({ "validations": [{ "expression": "true" }],
                "variables": [{ "name": "a", "expression": "variables.b" }, { "name": "b", "expression": "1" }] }),
            "spec.variables[0].expression",
            "undefined field 'b'",
        ),
        (
            json!({ "validations": [{ "expression": "true" }],
                "matchConditions": [{ "name": "a", "expression": "1" }] }),
            "spec.matchConditions[0].expression",
            "must evaluate to bool but got int",
        ),
        (
            json!({ "auditAnnotations": [{ "key": "k", "valueExpression": "1" }] }),
            "spec.auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type] but got int",
        ),
    ];
    for (spec, field, why) in cases {
        let status = house.post(POLICIES, policy("p", spec.clone())).await.fails(422, "Invalid");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["field"], field, "{spec}: {status}");
        assert!(cause["message"].as_str().unwrap().contains(why), "{status}");
    }
}

#[tokio::test]
async fn r59_an_expression_that_takes_long_is_run_aside_and_stopped() {
    let house = House::new().await;
    let data: serde_json::Map<String, Value> =
        (0..400).map(|number| (format!("k{number}"), json!("value"))).collect();
    let slow = "object.data.all(a, object.data.all(b, a != b || a == b))";
    bound(&house, validations(slow)).await;
    // A good deal of work, but not too much.
    house.made(CONFIG_MAPS, map("x", Value::Object(data))).await;
    let data: serde_json::Map<String, Value> =
        (0..4000).map(|number| (format!("k{number}"), json!("value"))).collect();
    let status = house.post(CONFIG_MAPS, map("y", Value::Object(data))).await.fails(422, "Invalid");
    assert!(message(&status).contains("cost limit exceeded"), "{status}");
}

#[tokio::test]
async fn r164_a_policy_asks_what_the_writer_may_do() {
    let house = House::new().await;
    let rules = json!([
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"] },
        { "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["known"], "verbs": ["get"] },
    ]);
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    house.made(roles, json!({ "metadata": { "name": "r" }, "rules": rules })).await;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let binding = json!({
        "metadata": { "name": "r" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "User", "name": "writer", "apiGroup": "rbac.authorization.k8s.io" }],
    });
    house.made(bindings, binding).await;
    let writer = peer("writer", &[]);
    let secrets = "authorizer.group('').resource('secrets').namespace('default')";
    let account = "authorizer.serviceAccount('default', 'default').group('').resource('pods')";
    let twice = "authorizer.path('/a').check('get').allowed() || authorizer.path('/b').check('get').allowed()";
    for (count, (expression, holds)) in [
        (format!("{secrets}.name('known').check('get').allowed()"), true),
        (format!("{secrets}.name('other').check('get').allowed()"), false),
        (format!("{secrets}.check('get').allowed()"), false),
        (format!("{secrets}.namespace('').name('known').check('get').allowed()"), false),
        (format!("{secrets}.subresource('x').name('known').check('get').allowed()"), false),
        (
            format!("!{secrets}.check('get').errored() && {secrets}.check('get').error() == ''"),
            true,
        ),
        ("authorizer.requestResource.check('create').allowed()".to_owned(), true),
        ("authorizer.requestResource.check('delete').allowed()".to_owned(), false),
        ("authorizer.path('/healthz').check('get').allowed()".to_owned(), true),
        ("authorizer.path('/metrics').check('get').allowed()".to_owned(), false),
        (format!("{account}.check('list').allowed()"), false),
        // Three checks are more than one expression can afford, two are not.
        (format!("!({twice})"), true),
        (format!("!({twice} || authorizer.path('/c').check('get').allowed())"), false),
        (
            "authorizer.serviceAccount('a.b', 'x').path('/').check('get').allowed() || true"
                .to_owned(),
            true,
        ),
        ("authorizer.path(' ').check('get').allowed()".to_owned(), false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("p{count}");
        house.made(POLICIES, policy(&name, validations(&expression))).await;
        house.made(BINDINGS, self::binding(&name, &name, json!({}))).await;
        let body = map(&name, json!({})).to_string();
        let headers = [("content-type", JSON)];
        let answer = house.ask_as(&writer, "POST", CONFIG_MAPS, &headers, body).await;
        assert_eq!(answer.code, if holds { 201 } else { 422 }, "{expression}: {}", answer.text());
        house.delete(&format!("{BINDINGS}/{name}")).await.with(200);
    }
}

/// Somebody who may write policies and bindings of both kinds, and whatever these rules say.
async fn policy_writer(house: &House, name: &str, rules: Value) -> Peer {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let mut all = vec![json!({
        "verbs": ["*"], "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"],
    })];
    all.extend(rules.as_array().unwrap().clone());
    house
        .made(
            &format!("{RBAC}/clusterroles"),
            json!({ "metadata": { "name": name }, "rules": all }),
        )
        .await;
    let reference =
        json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name });
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name });
    let binding = json!({
        "metadata": { "name": name }, "roleRef": reference, "subjects": [subject],
    });
    house.made(&format!("{RBAC}/clusterrolebindings"), binding).await;
    peer(name, &[])
}

async fn sent(house: &House, who: &Peer, method: &str, path: &str, body: &Value) -> Answer {
    let media = if method == "PATCH" { MERGE } else { JSON };
    house.ask_as(who, method, path, &[("content-type", media)], body.to_string()).await
}

#[tokio::test]
async fn r161a_what_a_writer_reads_is_what_parameters_may_be() {
    let house = House::new().await;
    let secret = json!({ "metadata": { "name": "top" }, "stringData": { "password": "hunter2" } });
    house.made("/api/v1/namespaces/kube-system/secrets", secret).await;
    let rule = |verb: &str, names: Value| {
        json!([{
            "verbs": [verb], "apiGroups": [""], "resources": ["secrets"], "resourceNames": names,
        }])
    };
    let nobody = policy_writer(&house, "nobody", json!([])).await;
    let named = policy_writer(&house, "named", rule("get", json!(["top"]))).await;
    let reader = policy_writer(&house, "reader", rule("get", json!([]))).await;
    let spec = json!({
        "paramKind": { "apiVersion": "v1", "kind": "Secret" },
        "validations": [{
            "expression": "false", "messageExpression": "string(params.data['password'])",
        }],
    });
    let leaks = policy("leaks", spec.clone());
    let top = json!({ "name": "top", "namespace": "kube-system" });
    let reads = |more: Value| {
        let mut reference = json!({ "parameterNotFoundAction": "Deny" });
        reference.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        binding("reads", "leaks", json!({ "paramRef": reference }))
    };
    let before = house.revision();
    for who in [&nobody, &named] {
        let answer = sent(&house, who, "POST", POLICIES, &leaks).await;
        assert_eq!(fields(&answer.fails(422, "Invalid")), ["spec.paramKind"]);
        // Without the policy it is not known what would be read.
        let answer = sent(&house, who, "POST", BINDINGS, &reads(top.clone())).await;
        assert_eq!(fields(&answer.fails(422, "Invalid")), ["spec.paramRef"]);
    }
    assert_eq!(house.revision(), before);
    sent(&house, &reader, "POST", POLICIES, &leaks).await.with(201);
    for reference in [
        top.clone(),
        json!({ "name": "top" }),
        json!({ "selector": {}, "namespace": "kube-system" }),
        json!({ "selector": {} }),
    ] {
        let answer = sent(&house, &nobody, "POST", BINDINGS, &reads(reference)).await;
        assert_eq!(fields(&answer.fails(422, "Invalid")), ["spec.paramRef"]);
    }
    // Reading one object is enough to name it, and not to select.
    sent(&house, &named, "POST", BINDINGS, &reads(json!({ "selector": {} }))).await.with(422);
    sent(&house, &reader, "POST", BINDINGS, &reads(json!({ "selector": {} }))).await.with(422);
    sent(&house, &named, "POST", BINDINGS, &reads(top)).await.with(201);
    // What stands stays writable; what it reads does not change.
    let path = format!("{BINDINGS}/reads");
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    sent(&house, &nobody, "PATCH", &path, &label).await.with(200);
    for change in [
        json!({ "spec": { "paramRef": { "name": "other" } } }),
        json!({ "spec": { "paramRef": { "namespace": "default" } } }),
        json!({ "spec": { "policyName": "none" } }),
    ] {
        let answer = sent(&house, &nobody, "PATCH", &path, &change).await;
        assert_eq!(fields(&answer.fails(422, "Invalid")), ["spec.paramRef"]);
    }
    let none = json!({ "spec": { "paramRef": null } });
    sent(&house, &nobody, "PATCH", &path, &none).await.with(200);
    let path = format!("{POLICIES}/leaks");
    sent(&house, &nobody, "PATCH", &path, &label).await.with(200);
    for kind in [json!({ "kind": "ConfigMap" }), json!({ "apiVersion": "example.com/v1" })] {
        let change = json!({ "spec": { "paramKind": kind } });
        let answer = sent(&house, &nobody, "PATCH", &path, &change).await;
        assert_eq!(fields(&answer.fails(422, "Invalid")), ["spec.paramKind"]);
    }
    let plain = json!({ "spec": { "paramKind": null, "validations": [{ "expression": "true" }] } });
    sent(&house, &nobody, "PATCH", &path, &plain).await.with(200);
    house.made(POLICIES, policy("of-the-administrator", spec)).await;
}

#[tokio::test]
async fn r161a_mutating_policies_are_no_way_around() {
    let house = House::new().await;
    let nobody = policy_writer(&house, "nobody", json!([])).await;
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    let mutation = json!({
        "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "Object{}" },
    });
    let body = policy(
        "m",
        json!({
            "paramKind": { "apiVersion": "v1", "kind": "Secret" },
            "mutations": [mutation], "reinvocationPolicy": "Never",
        }),
    );
    let answer = sent(&house, &nobody, "POST", path, &body).await;
    assert_eq!(fields(&answer.fails(422, "Invalid")), ["spec.paramKind"]);
    house.made(path, body).await;
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings";
    let reference = json!({ "name": "x", "parameterNotFoundAction": "Deny" });
    let body = json!({
        "metadata": { "name": "m" }, "spec": { "policyName": "m", "paramRef": reference },
    });
    let answer = sent(&house, &nobody, "POST", path, &body).await;
    assert_eq!(fields(&answer.fails(422, "Invalid")), ["spec.paramRef"]);
}
