//! Rules of spec/api-server.md: admission webhooks (R161–R163), called over TLS as they are by users.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};
use tenure_https::ReviewServer;

use crate::house::*;

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A webhook that runs, with all that it was asked.
struct Webhook(ReviewServer);

impl Webhook {
    /// Answers each request with the members of a response.
    async fn start(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Webhook {
        Webhook::raw(move |review| {
            let mut response = json!({ "uid": review["request"]["uid"], "allowed": true });
            response
                .as_object_mut()
                .unwrap()
                .extend(answer(&review["request"]).as_object().unwrap().clone());
            let whole = json!({
                "kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response,
            });
            Response::new(whole.to_string().into())
        })
        .await
    }

    /// Answers each review as it likes.
    async fn raw(answer: impl Fn(&Value) -> Response<Bytes> + Send + Sync + 'static) -> Webhook {
        Webhook(ReviewServer::start(answer).await)
    }

    /// The requests it was asked about so far.
    fn asked(&self) -> Vec<Value> {
        self.0.seen().into_iter().map(|review| review.body["request"].clone()).collect()
    }

    /// The configuration that calls it for writes of ConfigMaps, with these members.
    fn entry(&self, name: &str, rest: Value) -> Value {
        let mut whole = json!({
            "name": name, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "url": self.0.server.url("/hook"),
                "caBundle": STANDARD.encode(&self.0.server.authority),
            },
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["configmaps"],
            }],
        });
        whole.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        whole
    }
}

fn configuration(name: &str, webhooks: &[Value]) -> Value {
    json!({ "metadata": { "name": name }, "webhooks": webhooks })
}

/// A patch as an answer carries it.
fn patch(operations: Value) -> Value {
    json!({ "patch": STANDARD.encode(operations.to_string()), "patchType": "JSONPatch" })
}

fn map(name: &str, data: Value) -> Value {
    json!({ "metadata": { "name": name }, "data": data })
}

fn rules(rest: Value) -> Value {
    let mut rule = json!({
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"],
    });
    rule.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({ "rules": [rule] })
}

fn message(status: &Value) -> &str {
    status["message"].as_str().unwrap()
}

#[tokio::test]
async fn r163_a_review_says_who_does_what_to_which_object() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({})).await;
    house.made(MUTATING, configuration("c", &[hook.entry("a.example.com", json!({}))])).await;
    let path = format!("{CONFIG_MAPS}?fieldManager=tester&fieldValidation=Strict");
    house.post(&path, map("m", json!({ "a": "1" }))).await.with(201);
    house.merge(&format!("{CONFIG_MAPS}/m"), json!({ "data": { "a": "2" } })).await.with(200);
    let [create, update] = hook.asked().try_into().unwrap();
    let kind = json!({ "group": "", "version": "v1", "kind": "ConfigMap" });
    let resource = json!({ "group": "", "version": "v1", "resource": "configmaps" });
    for (member, wanted) in [
        ("kind", &kind),
        ("requestKind", &kind),
        ("resource", &resource),
        ("requestResource", &resource),
        ("name", &json!("m")),
        ("namespace", &json!("default")),
        ("operation", &json!("CREATE")),
        ("dryRun", &json!(false)),
        ("oldObject", &Value::Null),
        (
            "options",
            &json!({
                "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "tester",
                "fieldValidation": "Strict",
            }),
        ),
    ] {
        assert_eq!(create[member], *wanted, "{member}");
    }
    assert_eq!(create["userInfo"]["username"], "kubernetes-admin");
    let object = &create["object"];
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(object["data"]["a"], "1");
    assert!(object["metadata"].get("uid").is_none(), "it is given after those who change");
    assert!(object["metadata"]["managedFields"].is_array());
    assert_eq!(
        (&update["operation"], &update["oldObject"]["data"]["a"]),
        (&json!("UPDATE"), &json!("1"))
    );
    assert_eq!(update["options"]["kind"], "UpdateOptions");
    assert_ne!(create["uid"], update["uid"]);
}

#[tokio::test]
async fn r163_a_patch_is_applied_defaulted_and_pruned() {
    let house = House::new().await;
    let hook = Webhook::start(|request| match request["object"]["kind"].as_str() {
        Some("Pod") => patch(json!([
            { "op": "add", "path": "/spec/initContainers",
              "value": [{ "name": "i", "image": "i:1", "strange": true }] },
            { "op": "add", "path": "/metadata/uid", "value": "mine" },
        ])),
        _ => patch(json!([{ "op": "add", "path": "/data/added", "value": "yes" }])),
    })
    .await;
    let entry = hook.entry("a.example.com", rules(json!({ "resources": ["configmaps", "pods"] })));
    house.made(MUTATING, configuration("c", &[entry])).await;
    let made = house.made(CONFIG_MAPS, map("m", json!({ "a": "1" }))).await;
    assert_eq!(made["data"], json!({ "a": "1", "added": "yes" }));
    let spec = json!({ "containers": [{ "name": "c", "image": "c:1" }] });
    let pod = house.made(PODS, json!({ "metadata": { "name": "p" }, "spec": spec })).await;
    let init = &pod["spec"]["initContainers"][0];
    assert_eq!(init["imagePullPolicy"], "IfNotPresent", "defaults are filled in");
    assert_eq!(init["terminationMessagePath"], "/dev/termination-log");
    assert!(init.get("strange").is_none());
    assert_ne!(pod["metadata"]["uid"], "mine", "only the server gives uids");
}

#[tokio::test]
async fn r163_a_refusal_is_told_in_the_words_of_the_webhook() {
    let house = House::new().await;
    let status = json!({ "code": 403, "reason": "Forbidden", "message": "not on Mondays" });
    let answer = json!({ "allowed": false, "status": status, "warnings": ["think again"] });
    let hook = Webhook::start(move |_| answer.clone()).await;
    let entry = hook.entry("deny.example.com", json!({}));
    for (kind, name) in [(VALIDATING, "v"), (MUTATING, "m")] {
        house.made(kind, configuration(name, std::slice::from_ref(&entry))).await;
        let refused = house.post(CONFIG_MAPS, map("a", json!({}))).await;
        assert_eq!(refused.warnings(), ["299 - \"think again\""]);
        let status = refused.fails(403, "Forbidden");
        assert_eq!(
            message(&status),
            "admission webhook \"deny.example.com\" denied the request: not on Mondays"
        );
        house.delete(&format!("{kind}/{name}")).await.with(200);
        house.made(CONFIG_MAPS, map(name, json!({}))).await;
    }
}

#[tokio::test]
async fn r163_a_call_that_fails_refuses_or_is_passed_over() {
    let house = House::new().await;
    type Reply = fn(&Value) -> Response<Bytes>;
    let replies: [(&str, Reply); 6] = [
        ("it is not JSON", |_| Response::new("<html>".into())),
        ("expected response.uid=", |_| {
            let review = json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                "response": { "uid": "other", "allowed": true } });
            Response::new(review.to_string().into())
        }),
        ("answered 500 Internal Server Error: out of order", |_| {
            Response::builder().status(500).body("out of order".into()).unwrap()
        }),
        ("answered 302 Found", |_| {
            let elsewhere = Response::builder().status(302).header("location", "/other");
            elsewhere.body(Bytes::default()).unwrap()
        }),
        ("the server could not find the requested resource", |_| {
            Response::builder().status(404).body(Bytes::default()).unwrap()
        }),
        ("longer than", |_| Response::new(vec![b' '; 9 * 1024 * 1024].into())),
    ];
    for (place, (why, reply)) in replies.into_iter().enumerate() {
        let hook = Webhook::raw(reply).await;
        for (policy, kind) in
            [("Fail", VALIDATING), ("Ignore", MUTATING), ("Ignore", VALIDATING), ("Fail", MUTATING)]
        {
            let entry = hook.entry("x.example.com", json!({ "failurePolicy": policy }));
            house.made(kind, configuration("c", &[entry])).await;
            let answer = house.post(CONFIG_MAPS, map(&format!("m-{place}"), json!({}))).await;
            if policy == "Fail" {
                let status = answer.fails(500, "InternalError");
                let said = message(&status);
                assert!(said.contains("failed calling webhook \"x.example.com\": "), "{said}");
                assert!(said.contains(why), "{said}");
            } else {
                answer.with(201);
                house.delete(&format!("{CONFIG_MAPS}/m-{place}")).await.with(200);
            }
            house.delete(&format!("{kind}/c")).await.with(200);
        }
    }
}

#[tokio::test]
async fn r163_a_webhook_has_its_time_and_no_more() {
    let house = House::new().await;
    let hook = Webhook(ReviewServer::hanging().await);
    let entry = hook.entry("slow.example.com", json!({ "timeoutSeconds": 1 }));
    house.made(VALIDATING, configuration("c", &[entry])).await;
    let status = house.post(CONFIG_MAPS, map("a", json!({}))).await.fails(500, "InternalError");
    assert!(message(&status).contains("context deadline exceeded"), "{status}");
    assert!(message(&status).contains("/hook?timeout=1s"), "{status}");
    // Whoever is not concerned waits for nobody.
    house.made(SECRETS, json!({ "metadata": { "name": "s" } })).await;
}

#[tokio::test]
async fn r163_nobody_listens_and_the_authority_must_be_right() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({})).await;
    let other = Webhook::start(|_| json!({})).await;
    let mut entry = hook.entry("a.example.com", json!({}));
    entry["clientConfig"]["caBundle"] = STANDARD.encode(&other.0.server.authority).into();
    house.made(VALIDATING, configuration("c", &[entry])).await;
    let status = house.post(CONFIG_MAPS, map("a", json!({}))).await.fails(500, "InternalError");
    assert!(message(&status).contains("certificate"), "{status}");
    let mut entry = hook.entry("a.example.com", json!({}));
    entry["clientConfig"]["url"] = "https://127.0.0.1:1/hook".into();
    house.delete(&format!("{VALIDATING}/c")).await.with(200);
    house.made(VALIDATING, configuration("c", &[entry])).await;
    let status = house.post(CONFIG_MAPS, map("a", json!({}))).await.fails(500, "InternalError");
    assert!(message(&status).contains("refused"), "{status}");
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn r162_rules_selectors_and_conditions_say_which_requests() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({ "allowed": false })).await;
    let labels = json!({ "team": "a" });
    house.made(NAMESPACES, json!({ "metadata": { "name": "a", "labels": labels } })).await;
    let selecting = json!({ "namespaceSelector": { "matchLabels": labels } });
    let object = json!({ "objectSelector": { "matchLabels": { "guarded": "yes" } } });
    let condition = json!({ "matchConditions": [
        { "name": "big", "expression": "has(object.data) && size(object.data) > 1" }] });
    let in_a = "/api/v1/namespaces/a/configmaps";
    let guarded = json!({ "metadata": { "name": "m", "labels": { "guarded": "yes" } } });
    let big = map("m", json!({ "a": "1", "b": "2" }));
    for (rest, path, body, concerned) in [
        (json!({}), CONFIG_MAPS, map("m", json!({})), true),
        (json!({}), SECRETS, json!({ "metadata": { "name": "m" } }), false),
        (
            rules(json!({ "resources": ["secrets"] })),
            SECRETS,
            json!({ "metadata": { "name": "m" } }),
            true,
        ),
        (rules(json!({ "operations": ["UPDATE"] })), CONFIG_MAPS, map("m", json!({})), false),
        (rules(json!({ "apiGroups": ["apps"] })), CONFIG_MAPS, map("m", json!({})), false),
        (rules(json!({ "scope": "Cluster" })), CONFIG_MAPS, map("m", json!({})), false),
        (rules(json!({ "scope": "Namespaced" })), CONFIG_MAPS, map("m", json!({})), true),
        (json!({ "rules": [] }), CONFIG_MAPS, map("m", json!({})), false),
        (selecting.clone(), CONFIG_MAPS, map("m", json!({})), false),
        (selecting, in_a, map("m", json!({})), true),
        (object.clone(), CONFIG_MAPS, map("m", json!({})), false),
        (object, CONFIG_MAPS, guarded, true),
        (condition.clone(), CONFIG_MAPS, map("m", json!({})), false),
        (condition, CONFIG_MAPS, big, true),
    ] {
        house
            .made(VALIDATING, configuration("c", &[hook.entry("x.example.com", rest.clone())]))
            .await;
        let answer = house.post(path, body).await;
        assert_eq!(answer.code, if concerned { 400 } else { 201 }, "{rest} {path}");
        if !concerned {
            house.delete(&format!("{path}/m")).await.with(200);
        }
        house.delete(&format!("{VALIDATING}/c")).await.with(200);
    }
}

#[tokio::test]
async fn r162_a_condition_that_fails_follows_the_failure_policy() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({ "allowed": false })).await;
    for (policy, code) in [("Fail", 403), ("Ignore", 201)] {
        let rest = json!({ "failurePolicy": policy, "matchConditions": [
            { "name": "x", "expression": "object.data.missing == 'a'" }] });
        house.made(VALIDATING, configuration("c", &[hook.entry("x.example.com", rest)])).await;
        assert_eq!(house.post(CONFIG_MAPS, map("m", json!({}))).await.code, code, "{policy}");
        house.delete(&format!("{VALIDATING}/c")).await.with(200);
    }
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn r162_the_same_objects_in_another_version_count_unless_exact() {
    let house = House::new().await;
    let hook = Webhook::start(|request| {
        let old = request["kind"]["version"] == "v1";
        match old {
            true => patch(json!([{ "op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 77 }])),
            false => json!({}),
        }
    })
    .await;
    let rule = |policy: &str| {
        let mut rest = rules(json!({ "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
            "resources": ["horizontalpodautoscalers"] }));
        rest["matchPolicy"] = policy.into();
        hook.entry("x.example.com", rest)
    };
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let scaler = |name: &str| {
        let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" });
        let metric = json!({ "type": "Resource", "resource": {
            "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } });
        json!({ "metadata": { "name": name },
            "spec": { "scaleTargetRef": target, "maxReplicas": 3, "metrics": [metric] } })
    };
    house.made(MUTATING, configuration("exact", &[rule("Exact")])).await;
    house.made(path, scaler("a")).await;
    assert!(hook.asked().is_empty());
    house.made(MUTATING, configuration("equivalent", &[rule("Equivalent")])).await;
    let made = house.made(path, scaler("b")).await;
    let [seen] = hook.asked().try_into().unwrap();
    assert_eq!(
        (&seen["kind"]["version"], &seen["requestKind"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
    assert_eq!(seen["object"]["spec"]["targetCPUUtilizationPercentage"], 50);
    let target = &made["spec"]["metrics"][0]["resource"]["target"];
    assert_eq!(
        (&made["apiVersion"], &target["averageUtilization"]),
        (&json!("autoscaling/v2"), &json!(77))
    );
}

#[tokio::test]
async fn r161_each_sees_what_those_before_it_left_and_may_be_asked_again() {
    let house = House::new().await;
    let counting = |member: &'static str| {
        move |request: &Value| match request["object"]["data"].get(member) {
            Some(_) => json!({}),
            None => {
                patch(json!([{ "op": "add", "path": format!("/data/{member}"), "value": "1" }]))
            }
        }
    };
    let (first, second) =
        (Webhook::start(counting("x")).await, Webhook::start(counting("y")).await);
    let again = json!({ "reinvocationPolicy": "IfNeeded" });
    house
        .made(
            MUTATING,
            configuration(
                "c",
                &[
                    first.entry("first.example.com", again),
                    second.entry("second.example.com", json!({})),
                ],
            ),
        )
        .await;
    let made = house.made(CONFIG_MAPS, map("m", json!({ "a": "1" }))).await;
    assert_eq!(made["data"], json!({ "a": "1", "x": "1", "y": "1" }));
    assert_eq!(second.asked()[0]["object"]["data"]["x"], "1");
    let [once, twice] = first.asked().try_into().unwrap();
    assert!(once["object"]["data"].get("y").is_none());
    assert_eq!(twice["object"]["data"]["y"], "1", "what came after it is there the second time");
    assert_eq!(second.asked().len(), 1, "nobody is asked again who does not want to be");
}

#[tokio::test]
async fn r161_what_a_webhook_leaves_is_settled_by_the_cluster_once_more() {
    let house = House::new().await;
    let hook = Webhook::start(|_| {
        patch(json!([{ "op": "replace", "path": "/spec/tolerations", "value": [] }]))
    })
    .await;
    let entry = hook.entry("x.example.com", rules(json!({ "resources": ["pods"] })));
    house.made(MUTATING, configuration("c", &[entry])).await;
    let spec = json!({ "containers": [{ "name": "c", "image": "c:1" }] });
    let pod = house.made(PODS, json!({ "metadata": { "name": "p" }, "spec": spec })).await;
    assert_eq!(hook.asked()[0]["object"]["spec"]["tolerations"].as_array().unwrap().len(), 2);
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 2, "they are there again");
}

#[tokio::test]
async fn r163_deletions_connections_and_what_is_posted_are_asked_about() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({ "allowed": false, "status": { "message": "no" } })).await;
    house.made(CONFIG_MAPS, map("m", json!({ "a": "1" }))).await;
    let spec = json!({ "containers": [{ "name": "c", "image": "c:1" }] });
    house.made(PODS, json!({ "metadata": { "name": "p" }, "spec": spec })).await;
    let entry = hook.entry("x.example.com", rules(json!({})));
    house.made(VALIDATING, configuration("c", &[entry])).await;
    for (method, path, body, operation, subresource) in [
        ("DELETE", format!("{CONFIG_MAPS}/m"), json!({}), "DELETE", Value::Null),
        ("DELETE", CONFIG_MAPS.to_owned(), json!({}), "DELETE", Value::Null),
        ("POST", format!("{PODS}/p/exec?command=ls"), Value::Null, "CONNECT", json!("exec")),
        ("POST", format!("{PODS}/p/attach?stdout=true"), Value::Null, "CONNECT", json!("attach")),
        (
            "POST",
            format!("{PODS}/p/eviction"),
            json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } }),
            "CREATE",
            json!("eviction"),
        ),
        (
            "POST",
            format!("{PODS}/p/binding"),
            json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": "n" } }),
            "CREATE",
            json!("binding"),
        ),
        (
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/default/token".to_owned(),
            json!({ "spec": { "audiences": ["a"] } }),
            "CREATE",
            json!("token"),
        ),
        (
            "PATCH",
            format!("{PODS}/p/status"),
            json!({ "status": { "phase": "Running" } }),
            "UPDATE",
            json!("status"),
        ),
    ] {
        let headers = [("content-type", if method == "PATCH" { MERGE } else { JSON })];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let refused = house.ask(method, &path, &headers, body).await;
        assert_eq!(refused.code, 400, "{method} {path}: {}", refused.text());
        let seen = hook.asked().pop().unwrap();
        assert_eq!(
            (&seen["operation"], &seen["subResource"]),
            (&json!(operation), &subresource),
            "{path}"
        );
        if operation == "DELETE" {
            assert_eq!(seen["oldObject"]["kind"], "ConfigMap");
            assert!(seen["object"].is_null());
            assert_eq!(seen["options"]["kind"], "DeleteOptions");
        }
    }
    assert_eq!(
        hook.asked().iter().find(|one| one["subResource"] == "exec").unwrap()["object"]["command"],
        json!(["ls"])
    );
}

#[tokio::test]
async fn r163_a_patch_of_a_scale_changes_the_replicas() {
    let house = House::new().await;
    house.made(DEPLOYMENTS, deployment("d")).await;
    let hook = Webhook::start(|request| {
        assert_eq!(request["object"]["kind"], "Scale");
        patch(json!([{ "op": "replace", "path": "/spec/replicas", "value": 7 }]))
    })
    .await;
    let named = rules(json!({ "apiGroups": ["apps"], "resources": ["deployments/scale"] }));
    house.made(MUTATING, configuration("c", &[hook.entry("x.example.com", named)])).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let scale = house.merge(&path, json!({ "spec": { "replicas": 4 } })).await.with(200);
    assert_eq!(scale["spec"]["replicas"], 7);
    let whole = house.get(&format!("{DEPLOYMENTS}/d")).await.with(200);
    assert_eq!((&whole["kind"], &whole["spec"]["replicas"]), (&json!("Deployment"), &json!(7)));
    assert!(whole["spec"]["template"]["spec"]["containers"].is_array());
}

#[tokio::test]
async fn r255_a_connection_whose_options_a_webhook_changes_is_refused() {
    let house = House::new().await;
    house.bound(pod("p")).await;
    let hook = Webhook::start(|_| {
        patch(json!([{ "op": "replace", "path": "/command", "value": ["sh"] }]))
    })
    .await;
    let named = rules(json!({ "operations": ["CONNECT"], "resources": ["pods/exec"] }));
    house.made(MUTATING, configuration("c", &[hook.entry("x.example.com", named)])).await;
    let answer = house.ask("POST", &format!("{PODS}/p/exec?command=ls"), &[], "").await;
    let status = answer.fails(500, "InternalError");
    assert!(message(&status).contains("may not change the options of a connection"), "{status}");
}

#[tokio::test]
async fn r163_dry_runs_ask_only_those_that_can_bear_them() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({})).await;
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    for (effects, code) in [("None", 201), ("NoneOnDryRun", 201)] {
        let entry = hook.entry("x.example.com", json!({ "sideEffects": effects }));
        house.made(VALIDATING, configuration("c", &[entry])).await;
        assert_eq!(house.post(&dry, map("m", json!({}))).await.code, code, "{effects}");
        assert_eq!(hook.asked().pop().unwrap()["dryRun"], true);
        house.delete(&format!("{VALIDATING}/c")).await.with(200);
    }
}

#[tokio::test]
async fn r162_configurations_and_policies_are_never_asked_about() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({ "allowed": false })).await;
    let entry = hook.entry("x.example.com", rules(json!({})));
    house.made(VALIDATING, configuration("c", std::slice::from_ref(&entry))).await;
    house.made(MUTATING, configuration("d", &[entry])).await;
    house.delete(&format!("{MUTATING}/d")).await.with(200);
    house.delete(&format!("{VALIDATING}/c")).await.with(200);
    house.made(CONFIG_MAPS, map("m", json!({}))).await;
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn r163_what_goes_with_an_answer_reaches_client_and_audit_log() {
    let house = House::new().await;
    let annotations = json!({ "why": "because" });
    let hook = Webhook::start(
        move |_| json!({ "warnings": ["mind the gap"], "auditAnnotations": annotations }),
    )
    .await;
    let entry = hook.entry("x.example.com", json!({}));
    house.made(VALIDATING, configuration("c", &[entry])).await;
    let answer = house.post(CONFIG_MAPS, map("m", json!({}))).await;
    assert_eq!(answer.warnings(), ["299 - \"mind the gap\""]);
    answer.with(201);
}

#[tokio::test]
async fn r163_a_patch_that_cannot_be_applied_refuses_whatever_the_policy() {
    let house = House::new().await;
    for (operations, why) in [
        (json!([{ "op": "remove", "path": "/data/none" }]), "does not apply"),
        (json!([{ "op": "replace", "path": "/data", "value": 1 }]), "does not apply"),
        (
            json!([{ "op": "add", "path": "/metadata/namespace", "value": "other" }]),
            "does not match the namespace",
        ),
    ] {
        let answer = patch(operations);
        let hook = Webhook::start(move |_| answer.clone()).await;
        let entry = hook.entry("x.example.com", json!({ "failurePolicy": "Ignore" }));
        house.made(MUTATING, configuration("c", &[entry])).await;
        let refused = house.post(CONFIG_MAPS, map("m", json!({ "a": "1" }))).await;
        assert!(refused.code >= 400, "{why}");
        assert!(refused.text().contains(why), "{}", refused.text());
        house.delete(&format!("{MUTATING}/c")).await.with(200);
    }
}

#[tokio::test]
async fn r163_a_webhook_may_call_back_into_the_server() {
    let house = Arc::new(House::new().await);
    let (within, runtime) = (Arc::clone(&house), tokio::runtime::Handle::current());
    let called = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&called);
    let server = ReviewServer::answering(move |review| {
        let (house, noted) = (Arc::clone(&within), Arc::clone(&noted));
        let _ = &runtime;
        async move {
            // Secrets are none of this webhook's business, so this does not call it again.
            let made = house.post(SECRETS, json!({ "metadata": { "name": "s" } })).await;
            *noted.lock().unwrap() = Some(made.code);
            let response = json!({ "uid": review["request"]["uid"], "allowed": true });
            let whole = json!({ "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
                "response": response });
            Response::new(whole.to_string().into())
        }
    })
    .await;
    let hook = Webhook(server);
    house.made(VALIDATING, configuration("c", &[hook.entry("x.example.com", json!({}))])).await;
    house.made(CONFIG_MAPS, map("m", json!({}))).await;
    assert_eq!(*called.lock().unwrap(), Some(201));
}

#[tokio::test]
async fn r163_custom_objects_and_definitions_are_asked_about() {
    let house = House::new().await;
    let hook = Webhook::start(|request| match request["object"]["spec"].get("size") {
        None => patch(json!([
            { "op": "add", "path": "/spec/size", "value": 3 },
            { "op": "add", "path": "/spec/strange", "value": true },
        ])),
        Some(_) => json!({}),
    })
    .await;
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "size": { "type": "integer" }, "shape": { "type": "string", "default": "round" } } } } });
    let definition = json!({ "metadata": { "name": "widgets.example.com" }, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] } });
    house.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let entry = hook.entry("x.example.com", rules(json!({ "apiGroups": ["example.com"] })));
    house.made(MUTATING, configuration("c", &[entry])).await;
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "w" }, "spec": {} });
    let made = house.made(path, widget).await;
    assert_eq!(made["spec"], json!({ "size": 3, "shape": "round" }), "defaulted and pruned");
}

#[tokio::test]
async fn r59_a_generated_name_is_given_after_those_who_change() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({})).await;
    let entry = hook.entry("x.example.com", json!({}));
    house.made(MUTATING, configuration("m", std::slice::from_ref(&entry))).await;
    house.made(VALIDATING, configuration("v", &[entry])).await;
    let made = house.made(CONFIG_MAPS, json!({ "metadata": { "generateName": "m-" } })).await;
    let [mutating, validating] = hook.asked().try_into().unwrap();
    assert!(mutating.get("name").is_none(), "{mutating}");
    assert_eq!(validating["object"]["metadata"]["name"], made["metadata"]["name"]);
}

#[tokio::test]
async fn r161_what_the_server_writes_by_itself_is_asked_about() {
    const NAME: &str = "extension-apiserver-authentication";
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({})).await;
    house.made(VALIDATING, configuration("c", &[hook.entry("a.example.com", json!({}))])).await;
    let path = format!("/api/v1/namespaces/kube-system/configmaps/{NAME}");
    house.delete(&path).await.with(200);
    house.until(&path, 200).await;
    let [made] = hook.asked().try_into().unwrap();
    assert_eq!((&made["name"], &made["operation"]), (&json!(NAME), &json!("CREATE")));
    assert_eq!(made["userInfo"]["username"], "system:apiserver");
}

/// AdmissionWebhook: listing, patching and updating configurations, match conditions, everything but `skip-me`.
#[tokio::test]
async fn r162_a_changed_configuration_counts_from_its_write_on() {
    let house = House::new().await;
    let hook = Webhook::start(|_| json!({ "allowed": false })).await;
    let refused = async |name: &str| {
        let answer = house.post(CONFIG_MAPS, map(name, json!({}))).await;
        if answer.code == 201 {
            house.delete(&format!("{CONFIG_MAPS}/{name}")).await.with(200);
        }
        answer.code == 400
    };
    for kind in [VALIDATING, MUTATING] {
        for name in ["a", "b"] {
            let entry = hook.entry(&format!("{name}.example.com"), json!({}));
            let mut whole = configuration(name, &[entry]);
            whole["metadata"]["labels"] = json!({ "set": "both" });
            house.made(kind, whole).await;
        }
        let both = format!("{kind}?labelSelector=set%3Dboth");
        assert_eq!(names(&house.get(&both).await.with(200)), ["a", "b"]);
        assert!(refused("m").await, "{kind}");
        house.delete(&both).await.with(200);
        assert_eq!(names(&house.get(&both).await.with(200)), Vec::<String>::new());
        assert!(!refused("m").await, "{kind}: both are gone");

        house.made(kind, configuration("c", &[hook.entry("c.example.com", json!({}))])).await;
        let path = format!("{kind}/c");
        let mut whole = house.get(&path).await.with(200);
        whole["webhooks"][0]["rules"][0]["operations"] = json!(["UPDATE"]);
        house.put(&path, whole).await.with(200);
        assert!(!refused("m").await, "{kind}: nobody asks about what is created");
        let at = "/webhooks/0/rules/0/operations";
        let create = json!([{ "op": "replace", "path": at, "value": ["CREATE"] }]);
        house.patch(&path, JSON_PATCH, create).await.with(200);
        assert!(refused("m").await, "{kind}");

        for skipped in ["skip-me", "other"] {
            let mut whole = house.get(&path).await.with(200);
            let expression = format!("object.metadata.name != '{skipped}'");
            let conditions = json!([{ "name": "all-but-one", "expression": expression }]);
            whole["webhooks"][0]["matchConditions"] = conditions.clone();
            let changed = house.put(&path, whole).await.with(200);
            assert_eq!(changed["webhooks"][0]["matchConditions"], conditions);
            assert!(!refused(skipped).await && refused("m").await, "{kind} {skipped}");
        }
        house.delete(&path).await.with(200);
    }
}

/// AdmissionWebhook: to deny pods and ConfigMaps, custom resources in each of their writes, definitions.
#[tokio::test]
async fn r163_what_a_webhook_denies_stays_as_it_was() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    let house = House::new().await;
    let definition = |plural: &str, kind: &str| {
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        let version = json!({ "name": "v1", "served": true, "storage": true,
            "schema": { "openAPIV3Schema": schema } });
        json!({ "metadata": { "name": format!("{plural}.example.com") }, "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": plural, "kind": kind }, "versions": [version] } })
    };
    let widget = |name: &str| json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name } });
    house.made(DEFINITIONS, definition("widgets", "Widget")).await;
    for (collection, body) in
        [(CONFIG_MAPS, map("kept", json!({}))), (PODS, pod("kept")), (WIDGETS, widget("kept"))]
    {
        house.made(collection, body).await;
    }
    let hook = Webhook::start(|_| json!({ "allowed": false, "status": { "message": "no" } })).await;
    let entry = hook.entry("deny.example.com", rules(json!({})));
    house.made(VALIDATING, configuration("c", &[entry])).await;
    let denied = |answer: Answer| {
        assert_eq!(answer.code, 400, "{}", answer.text());
        assert!(answer.text().contains("denied the request: no"), "{}", answer.text());
    };
    for (collection, body) in [
        (CONFIG_MAPS, map("new", json!({}))),
        (PODS, pod("new")),
        (WIDGETS, widget("new")),
        (DEFINITIONS, definition("gadgets", "Gadget")),
    ] {
        let path = format!("{collection}/{}", body["metadata"]["name"].as_str().unwrap());
        denied(house.post(collection, body).await);
        house.get(&path).await.fails(404, "NotFound");
    }
    for collection in [CONFIG_MAPS, PODS, WIDGETS] {
        let path = format!("{collection}/kept");
        let before = house.get(&path).await.with(200);
        let mut whole = before.clone();
        whole["metadata"]["labels"]["changed"] = "yes".into();
        denied(house.put(&path, whole).await);
        let labels = json!({ "metadata": { "labels": { "changed": "yes" } } });
        denied(house.merge(&path, labels).await);
        denied(house.delete(&path).await);
        assert_eq!(house.get(&path).await.with(200), before);
    }
}
