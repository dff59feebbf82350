//! Each right is taken away in turn: what it is for fails and says so, everything else goes on (A75).

use std::time::Duration;

use serde_json::{Value, json};
use tenure_attach::AccessAttachment;

use super::{INGRESSES, RBAC, attached, edge, furnished, ingress, reads, reads_become};
use crate::town::{JSON, MERGE, Town};

async fn rules(town: &Town, role: &str) -> Vec<Value> {
    town.get(&format!("{RBAC}/{role}")).await["rules"].as_array().unwrap().clone()
}

async fn set_rules(town: &Town, role: &str, rules: &[Value]) {
    let (code, said) =
        town.send("PATCH", &format!("{RBAC}/{role}"), MERGE, &json!({ "rules": rules })).await;
    assert_eq!(code, 200, "{said}");
}

/// Waits until readiness names a reason.
async fn says(running: &AccessAttachment, part: &str) {
    for _ in 0..1_000 {
        if running.problems().iter().any(|line| line.contains(part)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never said: {part}: {:?}", running.problems());
}

async fn is_well(running: &AccessAttachment) {
    for _ in 0..1_000 {
        if running.problems().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not well: {:?}", running.problems());
}

#[tokio::test(flavor = "multi_thread")]
async fn a75_without_the_right_to_write_nothing_new_is_written_and_nothing_goes() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let running = attached(&town, "one").await;
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    reads_become(&edge, "default", "a", 200).await;
    is_well(&running).await;
    let role = "clusterroles/tenure-synthesis-edge";
    let whole = rules(&town, role).await;
    set_rules(&town, role, &whole[..1]).await;
    town.made(INGRESSES, &ingress("more", "mine", &["b"])).await;
    says(&running, "tenure-ref-edge-0").await;
    assert_eq!(reads(&edge, "default", "b").await, 403);
    assert_eq!(reads(&edge, "default", "a").await, 200);
    set_rules(&town, role, &whole).await;
    reads_become(&edge, "default", "b", 200).await;
    is_well(&running).await;
    // The right to put in what it does not hold.
    set_rules(&town, role, &whole[..2]).await;
    town.made(INGRESSES, &ingress("again", "mine", &["c"])).await;
    says(&running, "tenure-ref-edge-0").await;
    assert_eq!(reads(&edge, "default", "c").await, 403);
    set_rules(&town, role, &whole).await;
    reads_become(&edge, "default", "c", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a75_without_the_right_to_read_roles_stand_as_they_are() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let running = attached(&town, "one").await;
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    reads_become(&edge, "default", "a", 200).await;
    is_well(&running).await;
    running.leave().await;
    for (role, at, part) in [
        ("clusterroles/tenure-access", 0, "referencestrategies"),
        ("clusterroles/tenure-access", 1, "ingresses"),
        ("clusterroles/tenure-synthesis-edge", 0, "roles"),
    ] {
        let whole = rules(&town, role).await;
        let mut less = whole.clone();
        less.remove(at);
        set_rules(&town, role, &less).await;
        let running = attached(&town, "two").await;
        says(&running, part).await;
        assert_eq!(reads(&edge, "default", "a").await, 200, "without {part}");
        set_rules(&town, role, &whole).await;
        is_well(&running).await;
        assert_eq!(reads(&edge, "default", "a").await, 200);
        running.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a75_without_its_lease_it_does_not_write() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let role = "namespaces/tenure-system/roles/tenure-access";
    let whole = rules(&town, role).await;
    set_rules(&town, role, &[]).await;
    let running = attached(&town, "one").await;
    says(&running, "leases").await;
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(reads(&edge, "default", "a").await, 403);
    set_rules(&town, role, &whole).await;
    reads_become(&edge, "default", "a", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a23_without_the_policy_nothing_is_written() {
    let town = furnished().await;
    let edge = edge(&town).await;
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/access-synthesis.tenure.dev";
    let (code, _) = town.send("DELETE", path, JSON, &Value::Null).await;
    assert_eq!(code, 200);
    let running = attached(&town, "one").await;
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    says(&running, "the policy access-synthesis.tenure.dev is not in force").await;
    assert_eq!(reads(&edge, "default", "a").await, 403);
    town.apply_all(&super::printed()).await;
    reads_become(&edge, "default", "a", 200).await;
}
