//! Facts about a node's pods for whoever asks: the list, and figures that are known without measuring.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::body::{Body, full, with_type};
use crate::pods::{KnownPod, Pods};

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
    let text = format!(
        "# HELP kubelet_running_pods Pods that have a running sandbox.\n\
         # TYPE kubelet_running_pods gauge\n\
         kubelet_running_pods {}\n\
         # HELP kubelet_running_containers Containers by their state.\n\
         # TYPE kubelet_running_containers gauge\n\
         kubelet_running_containers{{container_state=\"running\"}} {running}\n\
         # HELP tenure_downward_owner_references_pods Pods that read their owner references.\n\
         # TYPE tenure_downward_owner_references_pods gauge\n\
         tenure_downward_owner_references_pods {readers}\n",
        all.iter().filter(|pod| pod.sandbox.is_some()).count(),
    );
    let text = text + &tenure_supervise::metrics("tenure_task_restarts_total");
    with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", full(text))
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
