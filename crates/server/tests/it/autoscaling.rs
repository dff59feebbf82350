//! Two versions of one autoscaler: stored as v2, shown as v1 as well.

use serde_json::json;

use crate::house::{House, names};

const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

#[tokio::test]
async fn an_autoscaler_of_either_version_is_seen_in_both() {
    let house = House::new().await;
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" });
    let old = json!({
        "metadata": { "name": "a" },
        "spec": { "maxReplicas": 3, "scaleTargetRef": target, "targetCPUUtilizationPercentage": 50 },
    });
    let made = house.made(V1, old).await;
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 50);
    let new = house.get(&format!("{V2}/a")).await.with(200);
    assert_eq!(new["apiVersion"], "autoscaling/v2");
    assert_eq!(new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50);
    assert_eq!(new["metadata"]["uid"], made["metadata"]["uid"]);
    let memory = json!({ "spec": { "metrics": [{ "type": "Resource", "resource": {
        "name": "memory", "target": { "type": "AverageValue", "averageValue": "1Gi" } } }] } });
    house.merge(&format!("{V2}/a"), memory.clone()).await.with(200);
    let shown = house.get(&format!("{V1}/a")).await.with(200);
    assert!(shown["spec"].get("targetCPUUtilizationPercentage").is_none());
    let kept = &shown["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"];
    assert!(kept.as_str().unwrap().contains("targetAverageValue"), "{kept}");
    house.put(&format!("{V1}/a"), shown).await.with(200);
    let back = house.get(&format!("{V2}/a")).await.with(200);
    assert_eq!(back["spec"]["metrics"], memory["spec"]["metrics"]);
    assert!(back["metadata"].get("annotations").is_none(), "{back}");
    assert_eq!(names(&house.get(V1).await.with(200)), ["a"]);
    let wrong = json!({ "metadata": { "name": "b" },
        "spec": { "maxReplicas": 0, "scaleTargetRef": back["spec"]["scaleTargetRef"] } });
    house.post(V1, wrong).await.fails(422, "Invalid");
}
