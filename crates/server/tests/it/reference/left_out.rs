//! The kinds of references left out, so that definitions may define them (R3a).

use serde_json::json;

use super::{CONSUMERS, DEFINITIONS, GRANTS, GROUP, STRATEGIES};
use crate::house::*;

/// A definition of one of the kinds, as it is installed on any cluster.
fn definition(plural: &str, kind: &str, scope: &str) -> serde_json::Value {
    let free = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "metadata": {
            "name": format!("{plural}.reference.authorization.k8s.io"),
            "annotations": { "api-approved.kubernetes.io": "unapproved, a test" },
        },
        "spec": {
            "group": "reference.authorization.k8s.io", "scope": scope,
            "names": { "plural": plural, "kind": kind },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": free },
            }],
        },
    })
}

#[tokio::test]
async fn r3a_kinds_that_are_left_out_can_be_defined() {
    let house = House::without_references().await;
    house.get(GROUP).await.with(404);
    house.get(GRANTS).await.with(404);
    house.get("/apis/reference.tenure.dev/v1alpha1").await.with(404);
    house.made(NAMESPACES, named("prod-tls")).await;
    for (plural, kind, scope) in [
        ("referencegrants", "ReferenceGrant", "Namespaced"),
        ("referencestrategies", "ReferenceStrategy", "Cluster"),
        ("clusterreferenceconsumers", "ClusterReferenceConsumer", "Cluster"),
    ] {
        house.made(DEFINITIONS, definition(plural, kind, scope)).await;
    }
    house.until(GRANTS, 200).await;
    // What the built-in kinds would refuse is none of anybody's business.
    let version = "reference.authorization.k8s.io/v1alpha1";
    let free = |kind: &str, name: &str| {
        json!({
            "apiVersion": version, "kind": kind, "metadata": { "name": name }, "anything": { "goes": 1 },
        })
    };
    house.made(GRANTS, free("ReferenceGrant", "g")).await;
    house.made(STRATEGIES, free("ReferenceStrategy", "s")).await;
    let consumer = json!({
        "apiVersion": version, "kind": "ClusterReferenceConsumer",
        "metadata": { "name": "c" },
        "subject": { "kind": "User", "name": "jane" },
        "references": [{
            "origin": { "group": "", "resource": "pods" }, "target": { "group": "", "resource": "secrets" },
            "purpose": "p",
        }],
    });
    house.made(CONSUMERS, consumer).await;
    let list = house.get(GRANTS).await;
    assert_eq!(list.json["items"][0]["anything"]["goes"], 1, "{list:?}");
    assert_eq!(list.json["kind"], "ReferenceGrantList");
    house.delete(&format!("{GRANTS}/g")).await.with(200);
    let jane = peer("jane", &[]);
    let refused = house.ask_as(&jane, "GET", &format!("{SECRETS}/x"), &[], "").await;
    assert_eq!(refused.code, 403, "nothing is decided by them");
}
