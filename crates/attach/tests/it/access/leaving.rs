//! Install, use and uninstall leave the cluster as it was (A85).

use serde_json::{Value, json};
use tenure_attach::AttachFeature;
use tenure_attach::uninstall::{InstalledObject, installed, uninstall};

use super::{
    GROUP, INGRESSES, attached, consumer, edge, established, ingress, printed, reads, reads_become,
    strategy,
};
use crate::town::{JSON, Town};

const ACCESS: AttachFeature = AttachFeature::Access;

#[tokio::test(flavor = "multi_thread")]
async fn a85_access_leaves_nothing_behind() {
    let town = Town::start().await;
    town.made(
        "/api/v1/namespaces/default/serviceaccounts",
        &json!({ "metadata": { "name": "edge" } }),
    )
    .await;
    town.made("/api/v1/namespaces/default/secrets", &json!({ "metadata": { "name": "a" } })).await;
    let before = town.inventory().await;
    town.apply_all(&printed()).await;
    established(&town).await;
    town.made(&format!("{GROUP}/referencestrategies"), &strategy()).await;
    town.made(&format!("{GROUP}/clusterreferenceconsumers"), &consumer("edge", "mine")).await;
    let edge = edge(&town).await;
    let running = attached(&town, "one").await;
    town.made(INGRESSES, &ingress("web", "mine", &["a"])).await;
    reads_become(&edge, "default", "a", 200).await;
    running.leave().await;
    let mut removed = Vec::new();
    let mut tell = |object: &InstalledObject| removed.push(object.to_string());
    uninstall(&town.client, ACCESS, false, &mut tell).await.unwrap();
    assert_eq!(reads(&edge, "default", "a").await, 403);
    let at = |part: &str| removed.iter().position(|line| line.contains(part)).unwrap();
    assert!(at("deployments.apps") < at("default/tenure-ref-edge-0"), "{removed:?}");
    assert!(
        at("rolebindings.rbac.authorization.k8s.io default/tenure-ref-edge-0")
            < at("roles.rbac.authorization.k8s.io default/tenure-ref-edge-0")
    );
    assert!(
        at("default/tenure-ref-edge-0")
            < at("clusterroles.rbac.authorization.k8s.io tenure-synthesis-edge")
    );
    assert!(removed.last().unwrap().ends_with("namespaces tenure-system"), "{removed:?}");
    assert!(
        !town.get(&format!("{GROUP}/referencestrategies")).await["items"]
            .as_array()
            .unwrap()
            .is_empty(),
        "objects of users stay"
    );
    uninstall(&town.client, ACCESS, true, &mut |_| {}).await.unwrap();
    let (code, _) = town.send("DELETE", &format!("{INGRESSES}/web"), JSON, &Value::Null).await;
    assert_eq!(code, 200);
    town.until("/api/v1/namespaces", "gone", |list| !list.to_string().contains("tenure-system"))
        .await;
    let groups = |list: &Value| !list.to_string().contains("reference.authorization.k8s.io");
    town.until("/apis", "no kinds", groups).await;
    assert_eq!(town.inventory().await, before);
    assert_eq!(installed(&town.client, ACCESS, true).await.unwrap(), []);
}
