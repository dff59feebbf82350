//! Rules of spec/api-server.md: admission policies and the engines of this process.

use serde_json::{Value, json};

use crate::estate::*;
use crate::house::*;

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn rule(groups: &[&str], resources: &[&str]) -> Value {
    json!({ "apiGroups": groups, "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": resources })
}

/// A bound policy that lays this over what is written.
async fn changing(estate: &Estate, name: &str, rule: Value, expression: &str) {
    let mutation = json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } });
    let spec = json!({ "matchConstraints": { "resourceRules": [rule] }, "mutations": [mutation],
        "reinvocationPolicy": "Never" });
    let body = json!({ "metadata": { "name": name }, "spec": spec });
    estate.house.made(&format!("{GROUP}/mutatingadmissionpolicies"), body).await;
    let binding = json!({ "metadata": { "name": name }, "spec": { "policyName": name } });
    estate.house.made(&format!("{GROUP}/mutatingadmissionpolicybindings"), binding).await;
}

#[tokio::test]
async fn r164a_what_the_controllers_write_is_changed_like_a_clients() {
    let estate = Estate::new().await;
    let mark = "Object{metadata: Object.metadata{labels: {'marked-by': 'policy'}}}";
    changing(&estate, "pods", rule(&[""], &["pods"]), mark).await;
    estate.house.made(DEPLOYMENTS, deployment("web")).await;
    estate.settle().await;
    let pods = estate.house.get(PODS).await.with(200);
    assert_eq!(pods["items"].as_array().unwrap().len(), 1);
    assert_eq!(pods["items"][0]["metadata"]["labels"]["marked-by"], "policy");
}

#[tokio::test]
async fn r164a_edits_of_the_collector_are_changed_and_the_cascade_ends() {
    let estate = Estate::new().await;
    let owner = estate.map("owner", &[]).await;
    estate.map("orphan", &[to(&owner)]).await;
    estate.map("child", &[to(&owner)]).await;
    let seen = "Object{data: {'seen': request.userInfo.username}}";
    changing(&estate, "maps", rule(&[""], &["configmaps"]), seen).await;
    // Orphaning edits the dependents; finalizers go with the last edit of the owner.
    estate.end("owner", "Orphan").await;
    estate.settle().await;
    let left = estate.left(CONFIG_MAPS).await;
    assert!(left.contains(&"child".to_owned()) && !left.contains(&"owner".to_owned()), "{left:?}");
    let orphan = estate.house.get(&format!("{CONFIG_MAPS}/orphan")).await.with(200);
    assert_eq!(
        orphan["data"]["seen"],
        "system:serviceaccount:kube-system:generic-garbage-collector"
    );
    assert!(orphan["metadata"]["ownerReferences"].is_null());
}

#[tokio::test]
async fn r164d_types_of_a_policy_are_checked_against_what_it_matches() {
    let estate = Estate::new().await;
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "size": { "type": "integer" } } } } });
    let definition = json!({ "metadata": { "name": "widgets.example.com" }, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
        "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }] } });
    estate.house.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
    let policies = format!("{GROUP}/validatingadmissionpolicies");
    let path = format!("{policies}/p");
    let rules = [
        rule(&["apps"], &["deployments", "deployments/scale", "replicasets"]),
        rule(&["example.com"], &["widgets"]),
        rule(&["*"], &["pods"]),
    ];
    let spec = |validations: Value| {
        json!({ "matchConstraints": { "resourceRules": rules }, "validations": validations,
            "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
            "variables": [{ "name": "spec", "expression": "object.spec" }] })
    };
    let sound = json!([
        { "expression": "object.metadata.labels.all(k, k != '') && params.data.size() > 0" },
        { "expression": "request.kind.kind != 'x' && (oldObject == null || has(oldObject.spec))" },
    ]);
    estate.house.made(&policies, json!({ "metadata": { "name": "p" }, "spec": spec(sound) })).await;
    estate.settle().await;
    let status = estate.house.get(&path).await.with(200)["status"].clone();
    assert_eq!(status, json!({ "observedGeneration": 1, "typeChecking": {} }));
    let wrong = json!([
        { "expression": "object.spec.replicas > 1", "messageExpression": "'count ' + object.spec.replicas" },
        { "expression": "variables.spec.paused || params.data.a.b == 1" },
    ]);
    let body = json!({ "spec": { "validations": wrong } });
    estate.house.merge(&path, body).await.with(200);
    estate.settle().await;
    let policy = estate.house.get(&path).await.with(200);
    assert_eq!(policy["status"]["observedGeneration"], 2);
    let warnings = policy["status"]["typeChecking"]["expressionWarnings"].as_array().unwrap();
    let of = |field: &str| {
        let found = warnings.iter().find(|one| one["fieldRef"] == field);
        found.map(|one| one["warning"].as_str().unwrap()).unwrap_or_default()
    };
    let first = of("spec.validations[0].expression");
    assert!(
        first.starts_with(
            "example.com/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'replicas'"
        ),
        "{first}"
    );
    assert!(!first.contains("apps/v1"), "{first}");
    let message = of("spec.validations[0].messageExpression");
    assert!(message.starts_with("apps/v1, Kind=Deployment: ERROR: "), "{message}");
    assert!(message.contains("applied to '(string, int)'"), "{message}");
    let second = of("spec.validations[1].expression");
    assert!(second.contains("apps/v1, Kind=ReplicaSet: ERROR"), "{second}");
    assert!(second.contains("undefined field 'paused'"), "{second}");
    assert!(second.contains("type 'string' does not support field selection"), "{second}");
}
