//! Roles that follow references, end to end: what the consumer may read with its own token.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::town::MERGE;

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/tenure-ref-edge-0";

#[tokio::test(flavor = "multi_thread")]
async fn a20_a_consumer_reads_what_is_referenced_and_nothing_else() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let _running = attached(&town, "one").await;
    assert_eq!(reads(&edge, "default", "a").await, 403);
    town.made(INGRESSES, &ingress("web", "mine", &["a", "absent"])).await;
    reads_become(&edge, "default", "a", 200).await;
    reads_become(&edge, "default", "absent", 404).await;
    for (path, code) in [
        ("secrets/b", 403),
        ("secrets", 403),
        ("secrets?fieldSelector=metadata.name%3Da", 200),
        ("secrets?fieldSelector=metadata.name%3Db", 403),
        ("configmaps/a", 403),
    ] {
        let path = format!("/api/v1/namespaces/default/{path}");
        let (found, said) = send(&edge, "GET", &path, "application/json", &Value::Null).await;
        assert_eq!(found, code, "{path}: {said}");
    }
    let (code, _) = send(
        &edge,
        "DELETE",
        "/api/v1/namespaces/default/secrets/a",
        "application/json",
        &Value::Null,
    )
    .await;
    assert_eq!(code, 403, "it may read");
    let role = town.get(ROLE).await;
    let rules = json!([{ "apiGroups": [""], "resources": ["secrets"],
        "resourceNames": ["-", "a", "absent"], "verbs": ["get", "list", "watch"] }]);
    assert_eq!(role["rules"], rules);
    assert_eq!(role["metadata"]["ownerReferences"][0]["name"], "edge");
    // Another class is not this consumer's.
    town.made(INGRESSES, &ingress("other", "theirs", &["b"])).await;
    town.made(INGRESSES, &ingress("more", "mine", &["c"])).await;
    reads_become(&edge, "default", "c", 200).await;
    assert_eq!(reads(&edge, "default", "b").await, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_a_revocation_holds_within_what_is_promised() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let _running = attached(&town, "one").await;
    let path = format!("{INGRESSES}/web");
    let no_class = json!({ "spec": { "ingressClassName": "theirs" } });
    for round in 0..3 {
        town.made(INGRESSES, &ingress("web", "mine", &["a", "b"])).await;
        reads_become(&edge, "default", "a", 200).await;
        reads_become(&edge, "default", "b", 200).await;
        // One name of two, then the other by its class or with its object.
        let one = json!({ "spec": { "tls": [{ "secretName": "b" }] } });
        let (code, said) = town.send("PATCH", &path, MERGE, &one).await;
        assert_eq!(code, 200, "{said}");
        let took = reads_become(&edge, "default", "a", 403).await;
        assert!(took < PROMISE, "{took:?}");
        assert_eq!(reads(&edge, "default", "b").await, 200);
        if round == 1 {
            town.send("PATCH", &path, MERGE, &no_class).await;
        } else {
            remove(&town, &path).await;
        }
        let took = reads_become(&edge, "default", "b", 403).await;
        assert!(took < PROMISE, "{took:?}");
        if round == 1 {
            remove(&town, &path).await;
        }
    }
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    reads_become(&edge, "default", "a", 200).await;
    remove(&town, &format!("{GROUP}/clusterreferenceconsumers/edge")).await;
    let took = reads_become(&edge, "default", "a", 403).await;
    assert!(took < PROMISE, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a20_a_grant_opens_another_namespace_until_it_goes() {
    let town = furnished().await;
    town.made("/api/v1/namespaces", &json!({ "metadata": { "name": "certs" } })).await;
    let wild = json!({ "metadata": { "name": "wild" } });
    town.made("/api/v1/namespaces/certs/secrets", &wild).await;
    let mut apart = strategy();
    apart["versions"][0]["references"][0]["path"] = ".metadata.annotations.name".into();
    let (code, said) = town.apply(&format!("{GROUP}/referencestrategies/ingresses"), &apart).await;
    assert!(code < 300, "{said}");
    let edge = edge(&town).await;
    let _running = attached(&town, "one").await;
    let mut web = ingress("web", "mine", &[]);
    web["metadata"]["annotations"] = json!({ "name": "a" });
    town.made(INGRESSES, &web).await;
    reads_become(&edge, "default", "a", 200).await;
    let far = json!({ "metadata": { "annotations": { "name": "wild", "namespace": "certs" } } });
    let (code, said) = town.send("PATCH", &format!("{INGRESSES}/web"), MERGE, &far).await;
    assert_eq!(code, 200, "{said}");
    reads_become(&edge, "default", "a", 403).await;
    assert_eq!(reads(&edge, "certs", "wild").await, 403, "nobody there agreed");
    let grant = json!({
        "apiVersion": V1ALPHA1, "kind": "ReferenceGrant", "metadata": { "name": "g" },
        "origin": { "group": "networking.k8s.io", "resource": "ingresses", "namespace": "default" },
        "target": { "group": "", "resource": "secrets", "names": ["wild"] },
        "purpose": "tls-serving",
    });
    let grants = format!("{GROUP}/namespaces/certs/referencegrants");
    town.made(&grants, &grant).await;
    reads_become(&edge, "certs", "wild", 200).await;
    remove(&town, &format!("{grants}/g")).await;
    let took = reads_become(&edge, "certs", "wild", 403).await;
    assert!(took < PROMISE, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_what_an_administrator_changes_is_undone() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let _running = attached(&town, "one").await;
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    reads_become(&edge, "default", "a", 200).await;
    let binding = ROLE.replace("/roles/", "/rolebindings/");
    remove(&town, &binding).await;
    let took = reads_become(&edge, "default", "a", 200).await;
    assert!(took < PROMISE, "{took:?}");
    remove(&town, ROLE).await;
    reads_become(&edge, "default", "a", 200).await;
    // Another name in the Role, which the policy lets pass.
    let more = json!({ "rules": [{ "apiGroups": [""], "resources": ["secrets"],
        "resourceNames": ["-", "a", "b"], "verbs": ["get"] }] });
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let (code, said) = town.send("PATCH", ROLE, MERGE, &more).await;
    assert_eq!(code, 200, "{said}");
    reads_become(&edge, "default", "b", 403).await;
    assert_eq!(reads(&edge, "default", "a").await, 200);
    // Without its label it is still known.
    let bare = json!({ "metadata": { "labels": null } });
    let (code, said) = town.send("PATCH", ROLE, MERGE, &bare).await;
    assert_eq!(code, 200, "{said}");
    town.until(ROLE, "labelled", |role| role["metadata"]["labels"][MANAGED_BY.0] == MANAGED_BY.1)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a80_one_of_two_writes_and_the_other_takes_over() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/tenure-system/leases/tenure-access";
    let first = attached(&town, "first").await;
    town.until(lease, "held", |lease| lease["spec"]["holderIdentity"] == "first").await;
    let second = attached(&town, "second").await;
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    reads_become(&edge, "default", "a", 200).await;
    assert_eq!(town.get(lease).await["spec"]["holderIdentity"], "first");
    first.leave().await;
    town.until(lease, "taken over", |lease| lease["spec"]["holderIdentity"] == "second").await;
    remove(&town, &format!("{INGRESSES}/web")).await;
    reads_become(&edge, "default", "a", 403).await;
    assert_eq!(second.problems(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a86_roles_stand_while_nothing_runs_and_are_put_right_after() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let running = attached(&town, "one").await;
    town.made(INGRESSES, &ingress("web", "mine", &["a", "b"])).await;
    reads_become(&edge, "default", "b", 200).await;
    running.leave().await;
    let less = json!({ "spec": { "tls": [{ "secretName": "c" }, { "secretName": "b" }] } });
    town.send("PATCH", &format!("{INGRESSES}/web"), MERGE, &less).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(reads(&edge, "default", "a").await, 200, "revocation waits");
    let _again = attached(&town, "two").await;
    reads_become(&edge, "default", "a", 403).await;
    reads_become(&edge, "default", "c", 200).await;
    assert_eq!(reads(&edge, "default", "b").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a24_with_a_thousand_origins_a_change_is_there_in_time() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let _running = attached(&town, "one").await;
    for n in 0..1_000 {
        let secret = format!("s{n}");
        town.made(INGRESSES, &ingress(&format!("i{n}"), "mine", &[&secret])).await;
    }
    let took = reads_become(&edge, "default", "s999", 404).await;
    assert!(took < PROMISE, "{took:?}");
    for n in [0, 499, 500, 998] {
        remove(&town, &format!("{INGRESSES}/i{n}")).await;
        let took = reads_become(&edge, "default", &format!("s{n}"), 403).await;
        println!("revoked after {took:?}");
        assert!(took < PROMISE, "{took:?}");
    }
    assert_eq!(reads(&edge, "default", "s1").await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a92_killed_again_and_again_it_writes_what_references_give() {
    let town = furnished().await;
    let edge = edge(&town).await;
    for round in 0..100_usize {
        // Dropped in the middle of its work, and started again under the same name.
        let running = attached(&town, "one").await;
        let name = format!("i{}", round % 4);
        let path = format!("{INGRESSES}/{name}");
        if round % 8 < 4 {
            let secrets = [format!("s{round}"), "a".to_owned()];
            town.made(INGRESSES, &ingress(&name, "mine", &[&secrets[0], &secrets[1]])).await;
        } else {
            remove(&town, &path).await;
        }
        tokio::time::sleep(Duration::from_millis((round as u64 * 37) % 100)).await;
        drop(running);
    }
    let _running = attached(&town, "one").await;
    for (secret, code) in [
        ("s96", 404),
        ("s97", 404),
        ("s98", 404),
        ("s99", 404),
        ("a", 200),
        ("s8", 403),
        ("s88", 403),
    ] {
        reads_become(&edge, "default", secret, code).await;
    }
}
