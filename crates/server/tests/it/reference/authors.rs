//! Rules of spec/referential-authorization.md: who may write the three kinds (R100–R107).

use serde_json::json;
use tenure_server::reference::ReferenceOptions;

use super::*;

const READ: [&str; 3] = ["get", "list", "watch"];

/// The message of a refusal.
fn refused(answer: Answer) -> String {
    answer.fails(403, "Forbidden")["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn r100_r101_author_without_access_is_told_what_is_missing() {
    let house = house().await;
    let rules = [writes(), rule(&["get"], "", "secrets", &["acme-tls"])];
    let alice = user(&house, "alice", "prod-tls", &rules).await;
    let message = refused(house.post_as(&alice, GRANTS, &grant("g", &["acme-tls", "b"])).await);
    assert_eq!(
        message,
        "referencegrants.reference.authorization.k8s.io \"g\" is forbidden: user \"alice\" \
         (groups=[\"system:authenticated\"]) cannot grant access not held: list,watch secrets \
         \"acme-tls\" in namespace \"prod-tls\"; get,list,watch secrets \"b\" in namespace \"prod-tls\""
    );
    house.get(&format!("{GRANTS}/g")).await.fails(404, "NotFound");
}

#[tokio::test]
async fn author_without_access_forbidden() {
    let house = house().await;
    let alice = user(&house, "alice", "prod-tls", &[writes()]).await;
    refused(house.post_as(&alice, GRANTS, &grant("g", &["acme-tls"])).await);
    // Rights elsewhere do not help.
    let rules = [rule(&READ, "", "secrets", &[])];
    let role = json!({ "metadata": { "name": "elsewhere" }, "rules": rules });
    house.made(&format!("{RBAC}/namespaces/prod/roles"), role).await;
    let binding = json!({
        "metadata": { "name": "elsewhere" },
        "roleRef": { "kind": "Role", "name": "elsewhere" },
        "subjects": [{ "kind": "User", "name": "alice" }],
    });
    house.made(&format!("{RBAC}/namespaces/prod/rolebindings"), binding).await;
    refused(house.post_as(&alice, GRANTS, &grant("g", &["acme-tls"])).await);
}

#[tokio::test]
async fn r100_d21_an_author_with_access_may_grant() {
    let house = house().await;
    let named = [writes(), rule(&READ, "", "secrets", &["acme-tls"])];
    let alice = user(&house, "alice", "prod-tls", &named).await;
    house.post_as(&alice, GRANTS, &grant("g", &["acme-tls"])).await.with(201);
    refused(house.post_as(&alice, GRANTS, &grant("h", &["other"])).await);
    let broad = [writes(), rule(&READ, "", "secrets", &[])];
    let bob = user(&house, "bob", "prod-tls", &broad).await;
    house.post_as(&bob, GRANTS, &grant("h", &["other"])).await.with(201);
}

#[tokio::test]
async fn r100_what_lives_in_no_namespace_is_asked_of_the_cluster() {
    let house = house().await;
    let rules = [writes(), rule(&READ, "", "nodes", &[])];
    let alice = user(&house, "alice", "prod-tls", &rules).await;
    let nodes = with(grant("g", &["n"]), "/target/resource", json!("nodes"));
    let message = refused(house.post_as(&alice, GRANTS, &nodes).await);
    assert!(message.ends_with("get,list,watch nodes \"n\" at the cluster scope"), "{message}");
}

#[tokio::test]
async fn author_update_rechecked() {
    let house = house().await;
    let rules = [writes(), rule(&READ, "", "secrets", &["a"])];
    let alice = user(&house, "alice", "prod-tls", &rules).await;
    let path = format!("{GRANTS}/g");
    let made = house.post_as(&alice, GRANTS, &grant("g", &["a"])).await.with(201);
    let wider = with(made.clone(), "/target/names", json!(["a", "b"]));
    refused(house.put_as(&alice, &path, &wider).await);
    // The resulting object counts, however it came about.
    let patch = json!({ "target": { "names": ["b"] } }).to_string();
    refused(house.ask_as(&alice, "PATCH", &path, &[("content-type", MERGE)], patch).await);
    // Also what stays the same is granted anew.
    house.put(&path, wider).await.with(200);
    let labels = json!({ "metadata": { "labels": { "a": "b" } } }).to_string();
    refused(house.ask_as(&alice, "PATCH", &path, &[("content-type", MERGE)], labels).await);
    // What remains is checked when names go.
    let fewer = json!({ "target": { "names": ["a"] } }).to_string();
    house.ask_as(&alice, "PATCH", &path, &[("content-type", MERGE)], fewer).await.with(200);
}

#[tokio::test]
async fn gc_only_update_not_checked() {
    let house = house().await;
    let collector = user(&house, "collector", "prod-tls", &[writes()]).await;
    let made = house.made(GRANTS, grant("g", &["a"])).await;
    let path = format!("{GRANTS}/g");
    let owners = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u" }]);
    for change in [
        json!({ "metadata": { "ownerReferences": owners } }),
        json!({ "metadata": { "finalizers": ["example.com/a"] } }),
        json!({ "metadata": { "finalizers": null, "ownerReferences": null } }),
        json!({}),
    ] {
        let headers = [("content-type", MERGE)];
        house.ask_as(&collector, "PATCH", &path, &headers, change.to_string()).await.with(200);
    }
    let now = house.get(&path).await.with(200);
    house.put_as(&collector, &path, &now).await.with(200);
    let annotated = with(now, "/metadata/annotations", json!({ "a": "b" }));
    refused(house.put_as(&collector, &path, &annotated).await);
    assert_eq!(made["target"]["names"], json!(["a"]));
}

#[tokio::test]
async fn r102_what_is_not_checked() {
    let house = house().await;
    let alice = user(&house, "alice", "prod-tls", &[writes()]).await;
    house.post_as(&alice, GRANTS, &grant("empty", &[])).await.with(201);
    house.made(GRANTS, grant("g", &["a"])).await;
    let path = format!("{GRANTS}/g");
    house.ask_as(&alice, "DELETE", &path, &[], "").await.with(200);
}

#[tokio::test]
async fn r103_masters_and_those_who_may_escalate_pass() {
    let house = house().await;
    house.made(GRANTS, grant("by-master", &["a"])).await;
    let group = "reference.authorization.k8s.io";
    let rules = [writes(), rule(&["escalate"], group, "referencegrants", &[])];
    let alice = user(&house, "alice", "prod-tls", &rules).await;
    house.post_as(&alice, GRANTS, &grant("g", &["a"])).await.with(201);
    let rules = [
        writes(),
        rule(&["escalate"], group, "clusterreferenceconsumers", &[]),
        rule(&["escalate"], group, "referencestrategies", &["s"]),
    ];
    let bob = user(&house, "bob", "", &rules).await;
    house.post_as(&bob, CONSUMERS, &consumer("c")).await.with(201);
    house.post_as(&bob, STRATEGIES, &strategy("s")).await.with(201);
    refused(house.post_as(&bob, STRATEGIES, &strategy("t")).await);
}

#[tokio::test]
async fn r105_consumers_and_strategies_need_the_whole_cluster() {
    let house = house().await;
    let rules = [writes(), rule(&["get", "list"], "", "secrets", &[])];
    let alice = user(&house, "alice", "", &rules).await;
    for (path, body) in [(CONSUMERS, consumer("x")), (STRATEGIES, strategy("x"))] {
        let message = refused(house.post_as(&alice, path, &body).await);
        assert!(
            message.ends_with("cannot grant access not held: watch secrets in all namespaces"),
            "{message}"
        );
    }
    let rules = [writes(), rule(&READ, "", "secrets", &[])];
    let bob = user(&house, "bob", "", &rules).await;
    house.post_as(&bob, CONSUMERS, &consumer("x")).await.with(201);
    house.post_as(&bob, STRATEGIES, &strategy("x")).await.with(201);
    let more = with(
        house.get(&format!("{CONSUMERS}/x")).await.with(200),
        "/references/0/target/resource",
        json!("configmaps"),
    );
    refused(house.put_as(&bob, &format!("{CONSUMERS}/x"), &more).await);
}

#[tokio::test]
async fn r105_the_check_can_be_switched_off_but_not_that_of_grants() {
    let settings = ReferenceOptions { unchecked_consumers: true, ..ReferenceOptions::default() };
    let house = furnished(House::referring(settings).await).await;
    let alice = user(&house, "alice", "", &[writes()]).await;
    house.post_as(&alice, CONSUMERS, &consumer("c")).await.with(201);
    house.post_as(&alice, STRATEGIES, &strategy("s")).await.with(201);
    refused(house.post_as(&alice, GRANTS, &grant("g", &["a"])).await);
}

#[tokio::test]
async fn r106_default_roles_read_grants_or_write_them() {
    let house = house().await;
    for (role, may_read, may_write) in
        [("view", true, false), ("edit", true, false), ("admin", true, true)]
    {
        let binding = json!({
            "metadata": { "name": role },
            "roleRef": { "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "User", "name": role }],
        });
        house.made(&format!("{RBAC}/namespaces/prod-tls/rolebindings"), binding).await;
        let who = peer(role, &[]);
        let read = house.ask_as(&who, "GET", GRANTS, &[], "").await;
        assert_eq!(read.code == 200, may_read, "{role}");
        let write = house.post_as(&who, GRANTS, &grant(&format!("by-{role}"), &["a"])).await;
        assert_eq!(write.code == 201, may_write, "{role}: {}", write.text());
        for cluster in [STRATEGIES, CONSUMERS] {
            let read = house.ask_as(&who, "GET", cluster, &[], "").await;
            assert_eq!(read.code, 403, "{role}");
        }
    }
}

#[tokio::test]
async fn r107_a_grant_outlives_the_rights_of_its_author() {
    let house = house().await;
    let rules = [writes(), rule(&READ, "", "secrets", &["a"])];
    let alice = user(&house, "alice", "prod-tls", &rules).await;
    house.post_as(&alice, GRANTS, &grant("g", &["a"])).await.with(201);
    let binding = format!("{RBAC}/namespaces/prod-tls/rolebindings/alice");
    house.delete(&binding).await.with(200);
    let stored = house.get(&format!("{GRANTS}/g")).await.with(200);
    assert_eq!(stored["target"]["names"], json!(["a"]));
}
