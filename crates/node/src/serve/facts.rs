//! Facts about a node's pods for whoever asks: the list, and figures that are known without measuring.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::body::{Body, full, with_type};
use crate::pods::Pods;

/// Every pod of the node as a PodList.
pub(super) fn pods(pods: &Pods) -> Value {
    let items: Vec<Value> =
        pods.all().iter().map(|pod| Value::Object((*pod.object).clone())).collect();
    json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items })
}

/// The summary that upstream's tools read; nothing is measured yet, so pods have names and no figures.
pub(super) fn summary(node: &str, pods: &Pods) -> Value {
    let pods: Vec<Value> = pods
        .all()
        .iter()
        .map(|pod| {
            let names = pod.containers.iter().map(|container| json!({ "name": container.name }));
            json!({
                "podRef": { "name": pod.key.name, "namespace": pod.key.namespace, "uid": pod.key.uid },
                "containers": names.collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({ "node": { "nodeName": node }, "pods": pods })
}

/// Counts for Prometheus.
pub(super) fn metrics(pods: &Pods) -> Response<Body> {
    let all = pods.all();
    let running = all
        .iter()
        .flat_map(|pod| &pod.containers)
        .filter(|container| container.current.as_ref().is_some_and(|current| current.runs()))
        .count();
    let text = format!(
        "# HELP kubelet_running_pods Pods that have a running sandbox.\n\
         # TYPE kubelet_running_pods gauge\n\
         kubelet_running_pods {}\n\
         # HELP kubelet_running_containers Containers by their state.\n\
         # TYPE kubelet_running_containers gauge\n\
         kubelet_running_containers{{container_state=\"running\"}} {running}\n",
        all.iter().filter(|pod| pod.sandbox.is_some()).count(),
    );
    with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", full(text))
}
