//! Services behind a whole API server. Rules of spec/workload-controllers.md.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::estate::*;
use crate::house::*;

/// How many Services are made over one pod.
const SERVICES_MADE: usize = 30;
/// What upstream's suite allows for half of them.
const HALF_WITHIN: Duration = Duration::from_secs(20);

#[tokio::test]
async fn es1_a_new_service_soon_has_the_pod_that_is_ready() {
    let estate = Estate::new().await;
    estate.house.made("/api/v1/nodes", named("n")).await;
    let path = estate.house.bound(pod("web")).await;
    let status = json!({ "status": {
        "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{ "ip": "10.1.2.3" }],
        "conditions": [{ "type": "Ready", "status": "True" }],
    }});
    estate.house.merge(&format!("{path}/status"), status).await.with(200);
    estate.settle().await;
    let mut waits = Vec::new();
    for number in 0..SERVICES_MADE {
        let name = format!("s{number}");
        let spec = json!({ "selector": { "app": "a" }, "ports": [{ "port": 80 }] });
        let begin = Instant::now();
        estate.house.made(SERVICES, json!({ "metadata": { "name": name }, "spec": spec })).await;
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let path = format!("{slices}?labelSelector=kubernetes.io%2Fservice-name%3D{name}");
        let address = "/items/0/endpoints/0/addresses/0";
        estate
            .house
            .until_looks(&path, |list| list.pointer(address) == Some(&json!("10.1.2.3")))
            .await;
        waits.push(begin.elapsed());
    }
    waits.sort_unstable();
    assert!(waits[SERVICES_MADE / 2] < HALF_WITHIN, "{waits:?}");
}
