//! Who may write grants, consumers and strategies (A40, A41), and what nobody may make of a written Role (A23).

use serde_json::{Value, json};

use super::{GROUP, RBAC, consumer, established, furnished, printed, strategy};
use crate::town::{JSON, MERGE, Town, send};

const GRANTS: &str =
    "/apis/reference.authorization.k8s.io/v1alpha1/namespaces/default/referencegrants";

fn grant(name: &str, names: &[String]) -> Value {
    json!({
        "apiVersion": "reference.authorization.k8s.io/v1alpha1", "kind": "ReferenceGrant",
        "metadata": { "name": name },
        "origin": { "group": "networking.k8s.io", "resource": "ingresses", "namespace": "shop" },
        "target": { "group": "", "resource": "secrets", "names": names },
        "purpose": "tls-serving",
    })
}

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Lets a user do something by a role of its own.
async fn let_user(town: &Town, user: &str, rule: Value) {
    let name = format!("{user}-{}", rule["resources"][0].as_str().unwrap());
    let role = json!({ "metadata": { "name": name }, "rules": [rule] });
    town.made(&format!("{RBAC}/clusterroles"), &role).await;
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    town.made(&format!("{RBAC}/clusterrolebindings"), &binding).await;
}

async fn installed() -> Town {
    let town = Town::start().await;
    town.apply_all(&printed()).await;
    established(&town).await;
    town
}

fn writes(plural: &str, verbs: &[&str]) -> Value {
    json!({ "apiGroups": ["reference.authorization.k8s.io"], "resources": [plural], "verbs": verbs })
}

const WRITE: [&str; 4] = ["get", "create", "update", "patch"];

#[tokio::test(flavor = "multi_thread")]
async fn a40_an_author_of_a_grant_holds_every_name_with_three_verbs() {
    let town = installed().await;
    let sixteen: Vec<String> = (0..16).map(|n| format!("n{n}")).collect();
    let_user(&town, "alice", writes("referencegrants", &WRITE)).await;
    let_user(
        &town,
        "alice",
        json!({ "apiGroups": [""], "resources": ["secrets"],
        "resourceNames": sixteen, "verbs": ["get", "list", "watch"] }),
    )
    .await;
    let alice = town.cluster.client_as("alice", &[]);
    let mut wrong = sixteen.clone();
    wrong[15] = "foreign".into();
    let (code, said) = send(&alice, "POST", GRANTS, JSON, &grant("g", &wrong)).await;
    assert_eq!(code, 403, "{said}");
    let whole =
        "cannot grant access not held: get secrets in namespace \\\"default\\\": \\\"foreign\\\"";
    assert!(said.to_string().contains(whole), "{said}");
    let (code, said) = send(&alice, "POST", GRANTS, JSON, &grant("g", &sixteen)).await;
    assert_eq!(code, 201, "{said}");
    // What says nothing new is not looked at, and what is taken back neither.
    let (code, said) = send(
        &alice,
        "PATCH",
        &format!("{GRANTS}/g"),
        MERGE,
        &json!({ "metadata": { "labels": { "a": "b" } } }),
    )
    .await;
    assert_eq!(code, 200, "{said}");
    let more = json!({ "target": { "names": ["n0", "foreign"] } });
    let (code, said) = send(&alice, "PATCH", &format!("{GRANTS}/g"), MERGE, &more).await;
    assert_eq!(code, 403, "{said}");
    // Two verbs of three.
    let_user(&town, "bob", writes("referencegrants", &WRITE)).await;
    let_user(
        &town,
        "bob",
        json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"] }),
    )
    .await;
    let bob = town.cluster.client_as("bob", &[]);
    let (code, said) = send(&bob, "POST", GRANTS, JSON, &grant("h", &named(&["a"]))).await;
    assert_eq!(code, 403, "{said}");
    assert!(said.to_string().contains("watch secrets"), "{said}");
    let (code, said) = send(&bob, "POST", GRANTS, JSON, &grant("h", &[])).await;
    assert_eq!(code, 201, "nothing is granted: {said}");
    // Who may escalate need not hold it.
    let_user(&town, "carol", writes("referencegrants", &["create", "escalate"])).await;
    let carol = town.cluster.client_as("carol", &[]);
    let (code, said) = send(&carol, "POST", GRANTS, JSON, &grant("i", &wrong)).await;
    assert_eq!(code, 201, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a40_authors_of_consumers_and_strategies_hold_targets_everywhere() {
    let town = installed().await;
    let mut strategy = strategy();
    strategy["versions"] = json!([
        { "version": "v1beta1", "references": [{ "path": ".a", "purpose": "p", "target": { "group": "", "resource": "configmaps" } }] },
        strategy["versions"][0],
    ]);
    let objects =
        [("clusterreferenceconsumers", consumer("mine", "a")), ("referencestrategies", strategy)];
    for (at, (plural, mut object)) in objects.into_iter().enumerate() {
        let user = format!("dave{at}");
        let dave = town.cluster.client_as(&user, &[]);
        let path = format!("{GROUP}/{plural}");
        let_user(&town, &user, writes(plural, &WRITE)).await;
        let_user(&town, &user, json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"] })).await;
        let (code, said) = send(&dave, "POST", &path, JSON, &object).await;
        assert_eq!(code, 403, "{plural}: {said}");
        assert!(
            said.to_string().contains("cannot give what you do not hold everywhere: get secrets"),
            "{said}"
        );
        let_user(&town, &user, json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"] })).await;
        let (code, said) = send(&dave, "POST", &path, JSON, &object).await;
        assert_eq!(code, 201, "{plural}: {said}");
        // The collector, which holds none of it, must get through with what says nothing new.
        let erin = format!("erin{at}");
        let_user(&town, &erin, writes(plural, &["patch", "get"])).await;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let patch = json!({ "metadata": { "labels": { "a": "b" } } });
        let erin = town.cluster.client_as(&erin, &[]);
        let (code, said) = send(&erin, "PATCH", &format!("{path}/{name}"), MERGE, &patch).await;
        assert_eq!(code, 200, "{plural}: {said}");
        // More than can be looked at needs another right.
        let list = if at == 0 { "/references" } else { "/versions/0/references" };
        let one = object.pointer(list).unwrap()[0].clone();
        let many: Vec<Value> = (0..25)
            .map(|n| {
                let mut one = one.clone();
                one["purpose"] = format!("p{n}").into();
                one
            })
            .collect();
        *object.pointer_mut(list).unwrap() = many.into();
        object["metadata"]["name"] = "many".into();
        let (code, said) = send(&dave, "POST", &path, JSON, &object).await;
        assert_eq!(code, 422, "{plural}: {said}");
        assert!(
            said.to_string().contains("more than 24 references need the verb escalate"),
            "{said}"
        );
        let (code, said) = town.create(&path, &object).await;
        assert_eq!(code, 201, "{plural}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a41_the_subject_of_a_consumer_writes_no_grants() {
    let town = furnished().await;
    let_user(&town, "alice", writes("referencegrants", &WRITE)).await;
    let all =
        json!({ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"] });
    let_user(&town, "alice", all.clone()).await;
    let alice = town.cluster.client_as("alice", &["readers"]);
    let (code, said) = send(&alice, "POST", GRANTS, JSON, &grant("g", &named(&["a"]))).await;
    assert_eq!(code, 201, "{said}");
    for (name, subject) in [
        ("by-name", json!({ "kind": "User", "name": "alice" })),
        ("by-group", json!({ "kind": "Group", "name": "readers" })),
    ] {
        let mut object = consumer(name, "a");
        object["subject"] = subject;
        town.made(&format!("{GROUP}/clusterreferenceconsumers"), &object).await;
        let (code, said) = send(&alice, "POST", GRANTS, JSON, &grant("h", &named(&["a"]))).await;
        assert_eq!(code, 403, "{said}");
        let whole =
            format!("the subject of ClusterReferenceConsumer \\\"{name}\\\" may not write grants");
        assert!(said.to_string().contains(&whole), "{said}");
        let (code, _) = town
            .send(
                "DELETE",
                &format!("{GROUP}/clusterreferenceconsumers/{name}"),
                JSON,
                &Value::Null,
            )
            .await;
        assert_eq!(code, 200);
    }
    let (code, said) = send(&alice, "POST", GRANTS, JSON, &grant("h", &named(&["a"]))).await;
    assert_eq!(code, 201, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a23_nobody_opens_a_role_of_ours_not_even_an_administrator() {
    let town = furnished().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = |name: &str, rule: Value| json!({ "metadata": { "name": name }, "rules": [rule] });
    let closed = json!({ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"] });
    let dry = |path: &str| format!("{path}?dryRun=All");
    let (code, said) = town.create(&dry(&roles), &role("tenure-ref-x-0", closed.clone())).await;
    assert_eq!(code, 201, "{said}");
    for (at, value) in [
        ("resourceNames", json!([])),
        ("resourceNames", json!(["a", ""])),
        ("verbs", json!(["get", "update"])),
        ("verbs", json!(["*"])),
        ("apiGroups", json!(["*"])),
        ("resources", json!(["*"])),
        ("resources", json!(["pods/exec"])),
    ] {
        let mut open = closed.clone();
        open[at] = value;
        let (code, said) = town.create(&dry(&roles), &role("tenure-ref-x-0", open.clone())).await;
        assert_eq!(code, 422, "{open}: {said}");
        assert!(said.to_string().contains("access-synthesis.tenure.dev"), "{said}");
        let (code, said) = town.create(&dry(&roles), &role("another", open)).await;
        assert_eq!(code, 201, "{said}");
    }
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let binding = |role: &str, kind: &str, group: &str| {
        json!({
            "metadata": { "name": "tenure-ref-x-0" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }],
        })
    };
    for (role, kind, group, wanted) in [
        ("tenure-ref-x-0", "Role", "readers", 201),
        ("tenure-ref-x-1", "Role", "readers", 422),
        ("tenure-ref-x-0", "ClusterRole", "readers", 422),
        ("tenure-ref-x-0", "Role", "system:authenticated", 422),
    ] {
        let (code, said) = town.create(&dry(&bindings), &binding(role, kind, group)).await;
        assert_eq!(code, wanted, "{role} {kind} {group}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a21_a23_the_account_writes_roles_of_its_consumers_and_no_others() {
    let town = furnished().await;
    let ours = town.cluster.service_account_client("tenure-system", "tenure-access").await.unwrap();
    let role = |name: &str, labels: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": { "name": name, "labels": labels },
            "rules": [{ "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["get"] }],
        })
    };
    let label = json!({ "app.kubernetes.io/managed-by": "tenure" });
    let roles = format!("{RBAC}/namespaces/default/roles");
    let apply = async |name: &str, labels: Value| {
        let path = format!("{roles}/{name}?fieldManager=tenure&force=true");
        send(&ours, "PATCH", &path, "application/apply-patch+yaml", &role(name, labels)).await
    };
    assert_eq!(apply("tenure-ref-edge-0", label.clone()).await.0, 200);
    for name in ["tenure-ref-other-0", "tenure-ref-edge-4", "admin-of-all"] {
        assert_eq!(apply(name, label.clone()).await.0, 403, "{name}");
    }
    let (code, said) = apply("tenure-ref-edge-1", json!({})).await;
    assert_eq!(code, 422, "without its label: {said}");
    let (code, _) = send(&ours, "POST", &roles, JSON, &role("tenure-ref-edge-2", label)).await;
    assert_eq!(code, 403, "a POST has no name");
    let bindings = format!(
        "{RBAC}/namespaces/default/rolebindings/tenure-ref-edge-0?fieldManager=tenure&force=true"
    );
    let binding = |role: &str, kind: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "tenure-ref-edge-0", "labels": { "app.kubernetes.io/managed-by": "tenure" } },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
            "subjects": [{ "kind": "ServiceAccount", "namespace": "default", "name": "edge" }],
        })
    };
    let apply = async |object: Value| {
        send(&ours, "PATCH", &bindings, "application/apply-patch+yaml", &object).await.0
    };
    assert_eq!(apply(binding("cluster-admin", "ClusterRole")).await, 403);
    assert_eq!(apply(binding("tenure-ref-edge-0", "Role")).await, 200);
    for path in [
        "/api/v1/namespaces/default/secrets/a",
        "/api/v1/secrets",
        "/api/v1/namespaces/default/configmaps",
    ] {
        assert_eq!(send(&ours, "GET", path, JSON, &Value::Null).await.0, 403, "{path}");
    }
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/access-synthesis.tenure.dev";
    assert_eq!(send(&ours, "DELETE", policies, JSON, &Value::Null).await.0, 403);
}
