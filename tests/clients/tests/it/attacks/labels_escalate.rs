//! A label hands nobody's rules to an aggregating role without the right to them.

use serde_json::{Value, json};
use tenure_client_tests::Server;

use super::caller::{Answered, Caller, RBAC, RBAC_GROUP};

const LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-view";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// Ways to change the labels, annotations or whatever of an object.
const WAYS: [&str; 6] = ["merge", "strategic", "json", "apply", "force", "put"];

/// Rules that the attacker does not have.
fn strong() -> Value {
    json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}])
}

/// A server with a role `strong`, its bindings, and somebody who may write roles and bindings.
async fn begin(more: Value) -> (Server, Caller, Caller) {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    let nobody = json!({"apiGroup": RBAC_GROUP, "kind": "User", "name": "nobody"});
    admin.bind("strong", strong(), nobody.clone()).await;
    let role = json!({"metadata": {"name": "strong"}, "rules": strong()});
    admin.create(&format!("{RBAC}/namespaces/default/roles"), role).await;
    let binding = json!({
        "metadata": {"name": "strong"}, "subjects": [nobody],
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": "strong"},
    });
    admin.create(&format!("{RBAC}/namespaces/default/rolebindings"), binding).await;
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let mut rules = vec![json!({"apiGroups": [RBAC_GROUP], "resources": ["*"], "verbs": verbs})];
    rules.extend(more.as_array().unwrap().iter().cloned());
    let mallory = admin.user_with("mallory", rules.into()).await;
    (server, admin, mallory)
}

/// Adds members at `pointer` (`/metadata/labels`, …) of an object in one of the ways.
async fn add(caller: &Caller, way: &str, path: &str, member: &str, value: Value) -> Answered {
    let now = caller.get(path).await.expect(200, path);
    let change = json!({"metadata": {member: value}});
    match way {
        "merge" => caller.send_as("PATCH", path, MERGE, &change).await,
        "strategic" => caller.send_as("PATCH", path, STRATEGIC, &change).await,
        "json" => {
            let operations =
                json!([{"op": "add", "path": format!("/metadata/{member}"), "value": value}]);
            caller.send_as("PATCH", path, JSON_PATCH, &operations).await
        }
        "apply" | "force" => {
            let name = &now["metadata"]["name"];
            let mut applied = json!({
                "apiVersion": now["apiVersion"], "kind": now["kind"], "metadata": {"name": name},
            });
            applied["metadata"][member] = value;
            if now["roleRef"].is_object() {
                applied["roleRef"] = now["roleRef"].clone();
            }
            let force = if way == "force" { "&force=true" } else { "" };
            caller.apply(&format!("{path}?fieldManager=mallory{force}"), &applied).await
        }
        _ => {
            let mut whole = now;
            whole["metadata"][member] = value;
            caller.send("PUT", path, &whole).await
        }
    }
}

/// Whether `view` lets its holders read Secrets.
async fn view_has_secrets(admin: &Caller) -> bool {
    let view = admin.get(&format!("{RBAC}/clusterroles/view")).await.expect(200, "view");
    let rules = view["rules"].as_array().unwrap();
    assert!(!rules.is_empty(), "view has rules");
    rules.iter().any(|rule| rule["resources"].as_array().unwrap().contains(&json!("secrets")))
}

#[tokio::test]
async fn a_label_on_a_stronger_role_is_refused_however_it_is_written() {
    let (_server, admin, mallory) = begin(json!([])).await;
    let path = format!("{RBAC}/clusterroles/strong");
    for label in ["view", "edit", "admin"] {
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{label}");
        for way in WAYS {
            let answer = add(&mallory, way, &path, "labels", json!({&label: "true"})).await;
            let told = answer.expect(403, &format!("{way} {label}"));
            let message = told["message"].as_str().unwrap();
            assert!(message.contains("not currently held"), "{way}: {message}");
            let role = admin.get(&path).await.expect(200, "strong");
            assert_eq!(role["metadata"]["labels"], Value::Null, "{way}");
            assert!(!view_has_secrets(&admin).await, "{way}");
        }
    }
    // A role that aggregates hands on what it selects.
    let aggregate = json!({
        "metadata": {"name": "mine"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
    });
    mallory.post(&format!("{RBAC}/clusterroles"), &aggregate).await.expect(403, "aggregation");
    let change = json!({"aggregationRule": aggregate["aggregationRule"]});
    let mine = format!("{RBAC}/clusterroles/mallory");
    mallory.merge(&mine, &change).await.expect(403, "aggregation");
}

#[tokio::test]
async fn nothing_of_a_stronger_role_or_binding_may_be_changed() {
    let (_server, admin, mallory) = begin(json!([])).await;
    for path in [
        format!("{RBAC}/clusterroles/strong"),
        format!("{RBAC}/clusterrolebindings/strong"),
        format!("{RBAC}/namespaces/default/roles/strong"),
        format!("{RBAC}/namespaces/default/rolebindings/strong"),
    ] {
        let before = admin.get(&path).await.expect(200, &path);
        for way in WAYS {
            for member in ["labels", "annotations"] {
                let answer = add(&mallory, way, &path, member, json!({"a": "b"})).await;
                answer.expect(403, &format!("{way} {member} of {path}"));
            }
        }
        if path.contains("bindings") {
            let me = json!([{"apiGroup": RBAC_GROUP, "kind": "User", "name": "mallory"}]);
            let change = json!({"subjects": me});
            for kind in [MERGE, STRATEGIC] {
                mallory.send_as("PATCH", &path, kind, &change).await.expect(403, &path);
            }
            let operations = json!([{"op": "add", "path": "/subjects/-", "value": me[0]}]);
            mallory.send_as("PATCH", &path, JSON_PATCH, &operations).await.expect(403, &path);
            let mut whole = before.clone();
            whole["subjects"] = me.clone();
            mallory.send("PUT", &path, &whole).await.expect(403, &path);
            let applied = json!({
                "apiVersion": before["apiVersion"], "kind": before["kind"],
                "metadata": {"name": "strong"}, "roleRef": before["roleRef"], "subjects": me,
            });
            let apply = format!("{path}?fieldManager=mallory&force=true");
            mallory.apply(&apply, &applied).await.expect(403, &path);
        } else {
            let change =
                json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
            mallory.merge(&path, &change).await.expect(403, &path);
        }
        assert_eq!(admin.get(&path).await.json, before, "{path}");
    }
    let secrets = "/api/v1/namespaces/default/secrets";
    mallory.get(secrets).await.expect(403, secrets);
}

#[tokio::test]
async fn who_may_escalate_or_has_the_rules_may_label() {
    let escalate = json!([
        {"apiGroups": [RBAC_GROUP], "resources": ["clusterroles"], "verbs": ["escalate"],
         "resourceNames": ["strong"]},
    ]);
    for rights in [escalate, strong()] {
        let (_server, admin, alice) = begin(rights.clone()).await;
        let path = format!("{RBAC}/clusterroles/strong");
        for way in WAYS {
            let answer = add(&alice, way, &path, "labels", json!({"a": way})).await;
            // What another manager owns needs force.
            let code = if way == "apply" { 409 } else { 200 };
            answer.expect(code, &format!("{way} with {rights}"));
        }
        assert!(!view_has_secrets(&admin).await);
        add(&alice, "merge", &path, "labels", json!({LABEL: "true"})).await.expect(200, "merge");
        for _ in 0..200 {
            if view_has_secrets(&admin).await {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(view_has_secrets(&admin).await, "a label that is allowed counts");
    }
}
