//! HorizontalPodAutoscalers behind a whole API server. Rules of spec/workload-controllers.md.

use serde_json::{Value, json};

use crate::estate::*;
use crate::workloads::{PODS, SETS, pods_of, set};

const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const MEASURED: &str = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";
const LONG_AGO: &str = "2020-01-01T00:00:00Z";

/// PodMetrics as objects of a CustomResourceDefinition, as tests without a metrics server have them.
fn definition() -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "metadata": {"name": "pods.metrics.k8s.io", "annotations": {
            "api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {
            "group": "metrics.k8s.io", "scope": "Namespaced",
            "names": {"plural": "pods", "singular": "pod", "kind": "PodMetrics",
                      "listKind": "PodMetricsList"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn autoscaler(target: Value) -> Value {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 10,
        "metrics": [{"type": "Resource", "resource": cpu}]}})
}

fn target() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"})
}

fn condition(autoscaler: &Value, kind: &str) -> (String, String) {
    let conditions = autoscaler["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    let text = |name: &str| found[name].as_str().unwrap().to_owned();
    (text("status"), text("reason"))
}

async fn two_pods_that_request_a_processor(estate: &Estate) {
    let mut web = set("web", 2);
    let requests = json!({"requests": {"cpu": "1"}});
    web["spec"]["template"]["spec"]["containers"][0]["resources"] = requests;
    estate.house.made(SETS, web).await;
    estate.settle().await;
    for pod in pods_of(estate, "web").await {
        let path = format!("{PODS}/{}/status", pod["metadata"]["name"].as_str().unwrap());
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO});
        let status = json!({"status": {
            "phase": "Running", "startTime": LONG_AGO, "conditions": [ready]}});
        estate.house.merge(&path, status).await.with(200);
    }
}

#[tokio::test]
async fn ha3_metrics_that_a_definition_serves_scale_a_workload() {
    let estate = Estate::new().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    estate.house.made(definitions, definition()).await;
    two_pods_that_request_a_processor(&estate).await;
    for pod in pods_of(&estate, "web").await {
        let metadata = json!({"name": pod["metadata"]["name"], "labels": {"app": "web"}});
        let containers = json!([{"name": "c", "usage": {"cpu": "1", "memory": "1Mi"}}]);
        let measured = json!({"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": metadata, "timestamp": "2026-01-01T00:00:00Z", "window": "30s",
            "containers": containers});
        estate.house.made(MEASURED, measured).await;
    }
    let made = estate.house.post(AUTOSCALERS, autoscaler(target())).await;
    assert!(!made.headers.contains_key("warning"), "R255: it is acted on");
    estate.settle().await;
    let scaled = estate.house.get(&format!("{AUTOSCALERS}/web")).await.with(200);
    assert_eq!(condition(&scaled, "ScalingActive"), ("True".into(), "ValidMetricFound".into()));
    let web = estate.house.get(&format!("{SETS}/web")).await.with(200);
    assert_eq!(web["spec"]["replicas"], 4, "{scaled}");
    assert_eq!(pods_of(&estate, "web").await.len(), 4);
    let writers = web["metadata"]["managedFields"].as_array().unwrap();
    let of_scale = writers.iter().find(|writer| writer["subresource"] == "scale").unwrap();
    assert_eq!(of_scale["manager"], "kube-controller-manager");
    let told = loop {
        // Events are written behind the controllers.
        let events = estate.house.get("/api/v1/namespaces/default/events").await.with(200);
        let all = events["items"].as_array().unwrap();
        match all.iter().find(|event| event["reason"] == "SuccessfulRescale") {
            Some(told) => break told.clone(),
            None => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
        }
    };
    assert_eq!(told["source"]["component"], "horizontal-pod-autoscaler");
}

#[tokio::test]
async fn ha3_without_a_metrics_api_the_conditions_say_so() {
    let estate = Estate::new().await;
    two_pods_that_request_a_processor(&estate).await;
    estate.house.made(AUTOSCALERS, autoscaler(target())).await;
    estate.settle().await;
    let seen = estate.house.get(&format!("{AUTOSCALERS}/web")).await.with(200);
    assert_eq!(condition(&seen, "AbleToScale"), ("True".into(), "SucceededGetScale".into()));
    let failed = ("False".into(), "FailedGetResourceMetric".into());
    assert_eq!(condition(&seen, "ScalingActive"), failed);
    let message = seen["status"]["conditions"][1]["message"].as_str().unwrap();
    assert!(message.ends_with("the requested resource (get pods.metrics.k8s.io)"), "{message}");
    assert_eq!(seen["status"]["currentReplicas"], 2);
    let lost = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "lost"});
    let lost = json!({"spec": {"scaleTargetRef": lost}});
    estate.house.merge(&format!("{AUTOSCALERS}/web"), lost).await.with(200);
    estate.settle().await;
    let seen = estate.house.get(&format!("{AUTOSCALERS}/web")).await.with(200);
    assert_eq!(condition(&seen, "AbleToScale"), ("False".into(), "FailedGetScale".into()));
}
