//! Rules of spec/api-server.md: what policies take as parameters.

use serde_json::{Value, json};

use crate::house::{House, JSON, MERGE, peer};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// A policy over ConfigMaps that takes parameters of this kind, and tells what is in them.
fn policy(name: &str, kind: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": {
        "paramKind": { "apiVersion": "v1", "kind": kind },
        "matchConstraints": { "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["configmaps"],
        }] },
        "validations": [{ "expression": "false", "messageExpression": "string(params.data.x)" }],
    } })
}

fn binding(name: &str, policy: &str, chosen: Value) -> Value {
    let mut spec = json!({ "policyName": policy, "validationActions": ["Deny"] });
    spec.as_object_mut().unwrap().extend(chosen.as_object().unwrap().clone());
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// As `who`, who may write policies and bindings and what `rules` say.
async fn writer(house: &House, who: &str, rules: Value) {
    const ACCESS: &str = "/apis/rbac.authorization.k8s.io/v1";
    let mut all = vec![json!({
        "verbs": ["*"], "apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"],
    })];
    all.extend(rules.as_array().unwrap().iter().cloned());
    let role = json!({ "metadata": { "name": who }, "rules": all });
    house.made(&format!("{ACCESS}/clusterroles"), role).await;
    let group = "rbac.authorization.k8s.io";
    let bound = json!({
        "metadata": { "name": who },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": who },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": who }],
    });
    house.made(&format!("{ACCESS}/clusterrolebindings"), bound).await;
}

#[tokio::test]
async fn r161a_parameters_are_for_writers_who_may_read_them() {
    let house = House::new().await;
    writer(&house, "blind", json!([])).await;
    let named = json!([{
        "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["known"],
    }]);
    writer(&house, "named", named).await;
    let all = json!([{ "verbs": ["get", "list"], "apiGroups": [""], "resources": ["secrets"] }]);
    writer(&house, "reader", all).await;
    let ask = async |who: &str, method: &str, path: &str, body: &Value| {
        let kind = if method == "PATCH" { MERGE } else { JSON };
        let who = peer(who, &[]);
        house.ask_as(&who, method, path, &[("content-type", kind)], body.to_string()).await
    };
    let spy = policy("spy", "Secret");
    for who in ["blind", "named"] {
        let refused = ask(who, "POST", POLICIES, &spy).await.fails(422, "Invalid");
        assert_eq!(refused["details"]["causes"][0]["field"], "spec.paramKind", "{who}: {refused}");
    }
    let absent = policy("absent", "NoSuchKind");
    ask("reader", "POST", POLICIES, &absent).await.fails(422, "Invalid");
    ask("reader", "POST", POLICIES, &spy).await.with(201);
    // Who changes something else hands nothing on.
    let path = format!("{POLICIES}/spy");
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    ask("blind", "PATCH", &path, &labels).await.with(200);

    let chosen = |name: &str| {
        json!({ "paramRef": {
        "name": name, "namespace": "default", "parameterNotFoundAction": "Deny",
    } })
    };
    let selected = json!({ "paramRef": { "selector": {}, "parameterNotFoundAction": "Deny" } });
    for (who, name, policy, spec, wanted) in [
        ("blind", "b1", "spy", chosen("known"), 422),
        ("named", "b2", "spy", chosen("other"), 422),
        ("named", "b3", "spy", chosen("known"), 201),
        ("named", "b4", "spy", selected.clone(), 422),
        ("reader", "b5", "spy", selected, 201),
        ("reader", "b6", "not-there", chosen("known"), 422),
    ] {
        let answer = ask(who, "POST", BINDINGS, &binding(name, policy, spec)).await;
        assert_eq!(answer.code, wanted, "{who} {name}: {}", answer.text());
    }
    // A binding is not turned to another object, or another policy, either.
    let other = json!({ "spec": { "paramRef": { "name": "other" } } });
    ask("named", "PATCH", &format!("{BINDINGS}/b3"), &other).await.fails(422, "Invalid");
    ask("named", "PATCH", &format!("{BINDINGS}/b3"), &labels).await.with(200);
}
