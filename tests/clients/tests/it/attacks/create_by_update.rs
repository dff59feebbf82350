//! PUT and apply create only for whoever may create.

use serde_json::{Value, json};
use tenure_client_tests::Server;

use super::caller::{Caller, RBAC, RBAC_GROUP};

/// What an attacker would like to have, each at a name where nothing is. PUT creates the kinds for which
/// it does so upstream; to the others it answers 404 whoever asks.
fn wanted() -> [(String, Value); 7] {
    let namespaced = format!("{RBAC}/namespaces/default");
    let role_ref = json!({"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": "mallory"});
    let subjects = json!([{"apiGroup": RBAC_GROUP, "kind": "User", "name": "mallory"}]);
    let object = |api_version: &str, kind: &str, more: Value| {
        let mut object = json!({
            "apiVersion": api_version, "kind": kind, "metadata": {"name": "planted"},
        });
        for (member, value) in more.as_object().unwrap() {
            object[member] = value.clone();
        }
        object
    };
    let rbac = format!("{RBAC_GROUP}/v1");
    let bound = json!({"roleRef": role_ref, "subjects": subjects});
    [
        (
            "/api/v1/namespaces/default/configmaps/planted".to_owned(),
            object("v1", "ConfigMap", json!({"data": {"k": "v"}})),
        ),
        (
            "/api/v1/namespaces/default/secrets/planted".to_owned(),
            object("v1", "Secret", json!({"stringData": {"k": "v"}})),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/planted".to_owned(),
            object("coordination.k8s.io/v1", "Lease", json!({"spec": {"holderIdentity": "me"}})),
        ),
        ("/api/v1/nodes/planted".to_owned(), object("v1", "Node", json!({}))),
        (format!("{namespaced}/rolebindings/planted"), object(&rbac, "RoleBinding", bound.clone())),
        (format!("{RBAC}/clusterrolebindings/planted"), object(&rbac, "ClusterRoleBinding", bound)),
        (
            "/apis/attacks.example.com/v1/namespaces/default/things/planted".to_owned(),
            object("attacks.example.com/v1", "Thing", json!({"spec": {"size": 1}})),
        ),
    ]
}

/// Whether PUT creates such a thing for those who may.
fn is_made_by_put(path: &str) -> bool {
    path.contains("bindings") || path.contains("leases")
}

/// What those are answered who may not create.
fn refusal(path: &str, way: &str) -> u16 {
    if way.starts_with("PUT") && !is_made_by_put(path) { 404 } else { 403 }
}

/// A definition whose objects have a status of their own.
fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "things.attacks.example.com"},
        "spec": {
            "group": "attacks.example.com", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": open}, "subresources": {"status": {}},
            }],
        },
    })
}

async fn server() -> (Server, Caller) {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin.create(definitions, definition()).await;
    let things = "/apis/attacks.example.com/v1/namespaces/default/things";
    for _ in 0..200 {
        if admin.get(things).await.code == 200 {
            return (server, admin);
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the definition is never served");
}

/// Every right but `create`.
fn everything_but_create() -> Value {
    let verbs = [
        "get",
        "list",
        "watch",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "bind",
        "escalate",
    ];
    json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}])
}

/// All ways to write to a name: what was sent, and what was answered.
async fn write_all_ways(caller: &Caller, path: &str, object: &Value) -> Vec<(String, u16, Value)> {
    let mut ways = Vec::new();
    for query in ["", "?dryRun=All", "?fieldValidation=Strict"] {
        let answer = caller.send("PUT", &format!("{path}{query}"), object).await;
        ways.push((format!("PUT {path}{query}"), answer.code, answer.json));
    }
    for query in ["fieldManager=m", "fieldManager=m&force=true", "fieldManager=m&dryRun=All"] {
        let answer = caller.apply(&format!("{path}?{query}"), object).await;
        ways.push((format!("apply {path}?{query}"), answer.code, answer.json));
    }
    ways
}

#[tokio::test]
async fn who_may_not_create_makes_nothing_by_put_or_apply() {
    let (_server, admin) = server().await;
    let mallory = admin.user_with("mallory", everything_but_create()).await;
    for (path, object) in wanted() {
        for (way, code, answer) in write_all_ways(&mallory, &path, &object).await {
            assert_eq!(code, refusal(&path, &way), "{way}: {answer}");
            let there = admin.get(&path).await;
            assert_eq!(there.code, 404, "{way} made {}", there.json);
        }
        // The other patches never create, and a subresource has nothing to hang on.
        for kind in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
            let answer = mallory.send_as("PATCH", &path, kind, &object).await;
            assert!([404, 415].contains(&answer.code), "{kind} {path}: {}", answer.json);
        }
        let status = format!("{path}/status");
        for (way, code, answer) in write_all_ways(&mallory, &status, &object).await {
            assert!((400..500).contains(&code), "{way}: {code} {answer}");
        }
        admin.get(&path).await.expect(404, &path);
    }
}

#[tokio::test]
async fn a_right_to_create_other_names_or_things_creates_nothing_here() {
    let (_server, admin) = server().await;
    let rules = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["update", "patch", "bind"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create"], "resourceNames": ["other"]},
        {"apiGroups": ["*"], "resources": ["*/status"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]},
    ]);
    let mallory = admin.user_with("mallory", rules).await;
    for (path, object) in wanted() {
        for (way, code, answer) in write_all_ways(&mallory, &path, &object).await {
            assert_eq!(code, refusal(&path, &way), "{way}: {answer}");
        }
        admin.get(&path).await.expect(404, &path);
    }
}

#[tokio::test]
async fn who_may_create_does_so_by_put_and_apply() {
    let (_server, admin) = server().await;
    let by_name = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["update", "patch", "bind"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create"], "resourceNames": ["planted"]},
    ]);
    let alice = admin.user_with("mallory", by_name).await;
    for (path, object) in wanted() {
        alice.apply(&format!("{path}?fieldManager=m"), &object).await.expect(201, &path);
        admin.delete(&path).await.expect(200, &path);
        let (put, there) = if is_made_by_put(&path) { (201, 200) } else { (404, 404) };
        alice.send("PUT", &path, &object).await.expect(put, &path);
        admin.get(&path).await.expect(there, &path);
    }
}
