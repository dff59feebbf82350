//! Rules of spec/api-server.md: a request that is refused has written nothing (R142a). Each way to write
//! beside the plain one is refused by whoever comes last, and the store is where it was.

use serde_json::{Value, json};
use tenure_server::Peer;

use crate::house::*;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Forbids operations on resources, with all their subresources.
async fn forbid(house: &House, groups: &[&str], resources: &[&str], operations: &[&str]) {
    let rule = json!({
        "apiGroups": groups, "apiVersions": ["*"], "operations": operations, "resources": resources,
    });
    let policy = json!({
        "metadata": { "name": "never" },
        "spec": {
            "matchConstraints": { "resourceRules": [rule] },
            "validations": [{ "expression": "false", "message": "never" }],
        },
    });
    house.made(&format!("{GROUP}/validatingadmissionpolicies"), policy).await;
    let binding = json!({
        "metadata": { "name": "never" },
        "spec": { "policyName": "never", "validationActions": ["Deny"] },
    });
    house.made(&format!("{GROUP}/validatingadmissionpolicybindings"), binding).await;
}

/// A running pod on node `n` that a budget of one disruption covers.
async fn guarded(house: &House) -> String {
    let budget = json!({
        "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "a" } } },
    });
    house.made(BUDGETS, budget).await;
    let allowed = json!({ "status": {
        "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
        "observedGeneration": 1,
    } });
    house.merge(&format!("{BUDGETS}/b/status"), allowed).await.with(200);
    let path = house.bound(pod("p")).await;
    let running = json!({ "status": {
        "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }],
    } });
    house.merge(&format!("{path}/status"), running).await.with(200);
    path
}

/// Insists that a request is refused with this code and that nothing was written.
async fn refused(
    house: &House,
    peer: &Peer,
    (method, path, media): (&str, &str, &str),
    body: Value,
    code: u16,
) {
    let before = house.revision();
    let answer =
        house.ask_as(peer, method, path, &[("content-type", media)], body.to_string()).await;
    assert_eq!(answer.code, code, "{method} {path}: {}", answer.text());
    assert_eq!(house.revision(), before, "{method} {path} was refused and wrote all the same");
}

#[tokio::test]
async fn r142a_an_eviction_by_another_node_spends_nothing() {
    let house = House::new().await;
    let path = guarded(&house).await;
    let evict = format!("{path}/eviction");
    let stranger = peer("system:node:other", &["system:nodes"]);
    refused(&house, &stranger, ("POST", &evict, JSON), json!({}), 403).await;
    let budget = house.get(&format!("{BUDGETS}/b")).await.with(200);
    assert_eq!(budget["status"]["disruptionsAllowed"], 1);
    assert_eq!(budget["status"].get("disruptedPods"), None);
    let conditions = house.get(&path).await.with(200)["status"]["conditions"].to_string();
    assert!(!conditions.contains("DisruptionTarget"), "{conditions}");
    let own = peer("system:node:n", &["system:nodes"]);
    let body = named("p").to_string();
    house.ask_as(&own, "POST", &evict, &[("content-type", JSON)], body).await.with(201);
}

#[tokio::test]
async fn r142a_an_eviction_with_a_broken_precondition_spends_nothing() {
    let house = House::new().await;
    let evict = format!("{}/eviction", guarded(&house).await);
    for precondition in [json!({ "uid": "another" }), json!({ "resourceVersion": "1" })] {
        let body = json!({
            "metadata": { "name": "p" }, "deleteOptions": { "preconditions": precondition },
        });
        refused(&house, admin(), ("POST", &evict, JSON), body, 409).await;
    }
    let before = house.revision();
    house.made(&format!("{evict}?dryRun=All"), json!({})).await;
    let body = json!({ "deleteOptions": { "dryRun": ["All"] } });
    house.made(&evict, body).await;
    assert_eq!(house.revision(), before, "a dry run wrote");
}

#[tokio::test]
async fn r142a_an_eviction_that_a_policy_refuses_spends_nothing() {
    let house = House::new().await;
    let evict = format!("{}/eviction", guarded(&house).await);
    forbid(&house, &[""], &["pods/eviction"], &["CREATE"]).await;
    refused(&house, admin(), ("POST", &evict, JSON), named("p"), 422).await;
}

#[tokio::test]
async fn r142a_an_eviction_is_one_step_for_whoever_watches() {
    let house = House::new().await;
    let path = guarded(&house).await;
    let before = house.revision();
    let mut budgets = house.watch(&format!("{BUDGETS}?watch=1&resourceVersion={before}")).await;
    let mut pods = house.watch(&format!("{PODS}?watch=1&resourceVersion={before}")).await;
    house.made(&format!("{path}/eviction"), json!({})).await;
    let (budget, pod) = (budgets.next().await.unwrap(), pods.next().await.unwrap());
    assert_eq!(version(&budget["object"]), version(&pod["object"]));
    assert_eq!(budget["object"]["status"]["disruptionsAllowed"], 0);
    assert!(pod["object"]["metadata"]["deletionTimestamp"].is_string());
    assert!(pod["object"]["status"]["conditions"].to_string().contains("DisruptionTarget"));
    // A second one finds it going and changes nothing.
    let before = house.revision();
    house.made(&format!("{path}/eviction"), json!({})).await;
    assert_eq!(house.revision(), before);
}

#[tokio::test]
async fn r142a_a_pod_that_goes_at_once_says_first_why() {
    let house = House::new().await;
    house.made(PODS, pod("pending")).await;
    let before = house.revision();
    let mut pods = house.watch(&format!("{PODS}?watch=1&resourceVersion={before}")).await;
    house.made(&format!("{PODS}/pending/eviction"), json!({})).await;
    let (first, last) = (pods.next().await.unwrap(), pods.next().await.unwrap());
    assert_eq!(
        (brief(&first), brief(&last)),
        ("MODIFIED pending".into(), "DELETED pending".into())
    );
    for event in [first, last] {
        let conditions = event["object"]["status"]["conditions"].to_string();
        assert!(conditions.contains("EvictionByEvictionAPI"), "{conditions}");
    }
}

#[tokio::test]
async fn r142a_pods_are_not_changed_by_what_is_refused() {
    let house = House::new().await;
    house.made(PODS, pod("p")).await;
    house.made(PODS, pod("free")).await;
    house.made(&format!("{PODS}/p/binding"), json!({ "target": { "name": "n" } })).await;
    forbid(&house, &[""], &["pods", "pods/*", "bindings"], &["*"]).await;
    let binding = json!({ "metadata": { "name": "free" }, "target": { "name": "n" } });
    let debug = json!({ "spec": { "ephemeralContainers": [{ "name": "d", "image": "i" }] } });
    let resources = json!({ "requests": { "cpu": "2" } });
    let resize = json!({ "spec": { "containers": [{ "name": "c", "resources": resources }] } });
    for (method, path, media, body) in [
        ("POST", format!("{PODS}/free/binding"), JSON, binding.clone()),
        ("POST", "/api/v1/namespaces/default/bindings".to_owned(), JSON, binding),
        ("PATCH", format!("{PODS}/p/ephemeralcontainers"), STRATEGIC, debug),
        ("PATCH", format!("{PODS}/p/resize"), STRATEGIC, resize),
        ("PATCH", format!("{PODS}/p/status"), MERGE, json!({ "status": { "message": "m" } })),
        ("DELETE", format!("{PODS}/p"), JSON, json!({ "propagationPolicy": "Foreground" })),
        ("DELETE", format!("{PODS}/p"), JSON, json!({ "gracePeriodSeconds": 0 })),
        ("DELETE", format!("{PODS}?labelSelector=app%3Da"), JSON, json!({})),
    ] {
        refused(&house, admin(), (method, &path, media), body, 422).await;
    }
}

#[tokio::test]
async fn r142a_a_scale_that_is_refused_leaves_its_parent() {
    let house = House::new().await;
    house.made(DEPLOYMENTS, deployment("d")).await;
    forbid(&house, &["apps"], &["deployments/scale"], &["UPDATE"]).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let body = json!({ "spec": { "replicas": 5 } });
    refused(&house, admin(), ("PATCH", &path, MERGE), body, 422).await;
}

#[tokio::test]
async fn r142a_a_namespace_keeps_its_finalizers_when_finalize_is_refused() {
    let house = House::new().await;
    house.made(NAMESPACES, named("going")).await;
    let path = format!("{NAMESPACES}/going");
    forbid(&house, &[""], &["namespaces", "namespaces/*"], &["*"]).await;
    let mut body = house.get(&path).await.with(200);
    body["spec"]["finalizers"] = json!([]);
    refused(&house, admin(), ("PUT", &format!("{path}/finalize"), JSON), body, 422).await;
    refused(&house, admin(), ("DELETE", &path, JSON), json!({}), 422).await;
}

#[tokio::test]
async fn r142a_an_approval_that_is_refused_decides_nothing() {
    let house = House::new().await;
    let key = rcgen::KeyPair::generate().unwrap();
    let asked = rcgen::CertificateParams::new(Vec::new()).unwrap().serialize_request(&key).unwrap();
    let pem = asked.pem().unwrap();
    use base64::Engine as _;
    let body = json!({
        "metadata": { "name": "c" },
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(pem),
            "signerName": "example.com/own", "usages": ["client auth"],
        },
    });
    let mut made = house.made(REQUESTS, body).await;
    forbid(&house, &["certificates.k8s.io"], &["certificatesigningrequests/*"], &["*"]).await;
    made["status"] = json!({ "conditions": [{ "type": "Approved", "status": "True" }] });
    for part in ["approval", "status"] {
        let path = format!("{REQUESTS}/c/{part}");
        refused(&house, admin(), ("PUT", &path, JSON), made.clone(), 422).await;
    }
}

#[tokio::test]
async fn r142a_a_token_that_is_refused_leaves_nothing() {
    let house = House::new().await;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let node = peer("system:node:n", &["system:nodes"]);
    refused(&house, &node, ("POST", path, JSON), json!({ "spec": {} }), 403).await;
    let short = json!({ "spec": { "expirationSeconds": 1 } });
    refused(&house, admin(), ("POST", path, JSON), short, 422).await;
}
