//! Facts about a node's pods for whoever asks: the list, and figures that are known without measuring.

use std::sync::Arc;

use http::{Response, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tenure_supervise::{ProcessCollector, TaskRestartCollector};

use super::body::{Body, full, with_type};
use crate::pods::{KnownPod, Pods};

/// The media type of [`metrics`].
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    container_state: &'static str,
}

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
    let reads = |pod: &&Arc<KnownPod>| {
        let spec = pod.object.get("spec").and_then(Value::as_object);
        spec.is_some_and(tenure_downward::field::uses_owner_references)
    };
    let readers = all.iter().filter(reads).count();
    let sandboxes = all.iter().filter(|pod| pod.sandbox.is_some()).count();
    let mut registry = Registry::default();
    registry.register(
        "kubelet_running_pods",
        "Pods that have a running sandbox",
        ConstGauge::new(sandboxes as u64),
    );
    let containers = Family::<StateLabels, Gauge>::default();
    let labels = StateLabels { container_state: "running" };
    containers.get_or_create(&labels).set(i64::try_from(running).unwrap_or(i64::MAX));
    registry.register("kubelet_running_containers", "Containers by their state", containers);
    registry.register(
        "tenure_downward_owner_references_pods",
        "Pods that read their owner references",
        ConstGauge::new(readers as u64),
    );
    registry.register_collector(Box::new(ProcessCollector));
    registry.register_collector(Box::new(TaskRestartCollector));
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    with_type(StatusCode::OK, OPEN_METRICS, full(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_gauge_counts_pods_that_read_their_owner_references() {
        use http_body_util::BodyExt as _;
        let pods = Pods::default();
        for (uid, path) in [("a", "metadata.ownerReferences"), ("b", "metadata.name"), ("c", "")] {
            let item = json!({"path": "f", "fieldRef": {"fieldPath": path}});
            let volume = json!({"name": "v", "downwardAPI": {"items": [item]}});
            let object = json!({"spec": {"volumes": [volume]}}).as_object().cloned();
            let key = crate::runtime::PodKey { uid: uid.into(), ..Default::default() };
            let object = Arc::new(object.unwrap_or_default());
            pods.put(KnownPod { key, object, ..KnownPod::default() });
        }
        let counted = async |pods: &Pods| {
            let body = metrics(pods).into_body().collect().await.unwrap().to_bytes();
            let text = String::from_utf8(body.to_vec()).unwrap();
            let name = "tenure_downward_owner_references_pods ";
            text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned()
        };
        assert_eq!(counted(&pods).await, "1");
        pods.forget("a");
        assert_eq!(counted(&pods).await, "0");
    }
}
