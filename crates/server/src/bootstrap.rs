//! The objects every cluster starts with (R79).

use serde_json::{Value, json};
use tenure_machinery::Failure;

use crate::admit::first_service_address;
use crate::api::Api;
use crate::follow;
use crate::internal::ensure;

const AGENT: &str = "kube-apiserver";

/// Creates what is missing. When this returns, a pod can be created in `default` at the first try.
///
/// Objects that do not rely on each other are proposed together and share a flush.
pub async fn bootstrap(api: &Api) -> Result<(), Failure> {
    let [first, second, third, fourth] = follow::SYSTEM_NAMESPACES;
    tokio::try_join!(
        follow::make_namespace(api, first),
        follow::make_namespace(api, second),
        follow::make_namespace(api, third),
        follow::make_namespace(api, fourth),
        critical(api, "system-cluster-critical", 2_000_000_000),
        critical(api, "system-node-critical", 2_000_001_000),
    )?;
    let authentication = json!({
        "metadata": { "name": "extension-apiserver-authentication" },
        "data": { "client-ca-file": api.authority_pem },
    });
    tokio::try_join!(
        follow::fill_namespace(api, first),
        follow::fill_namespace(api, second),
        follow::fill_namespace(api, third),
        follow::fill_namespace(api, fourth),
        ensure(api, "", "configmaps", "kube-system", authentication, AGENT),
        ensure(api, "", "services", "default", service(api), AGENT),
        ensure(api, "", "endpoints", "default", endpoints(api), AGENT),
        ensure(api, "discovery.k8s.io", "endpointslices", "default", slice(api), AGENT),
    )?;
    Ok(())
}

async fn critical(api: &Api, name: &str, value: i64) -> Result<(), Failure> {
    let class = json!({
        "metadata": { "name": name },
        "value": value,
        "description": "For pods without which the cluster or a node does not work.",
    });
    ensure(api, "scheduling.k8s.io", "priorityclasses", "", class, AGENT).await
}

fn service(api: &Api) -> Value {
    let address = first_service_address().to_string();
    let port = api.address.port();
    json!({
        "metadata": {
            "name": "kubernetes",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "clusterIP": address,
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": port }],
            "type": "ClusterIP",
        },
    })
}

/// Loopback may not stand in endpoints, so a server on loopback names the first service address.
fn reachable(api: &Api) -> String {
    let address = api.address.ip();
    if address.is_loopback() || address.is_unspecified() {
        first_service_address().to_string()
    } else {
        address.to_string()
    }
}

fn endpoints(api: &Api) -> Value {
    json!({
        "metadata": {
            "name": "kubernetes",
            "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
        },
        "subsets": [{
            "addresses": [{ "ip": reachable(api) }],
            "ports": [{ "name": "https", "port": api.address.port(), "protocol": "TCP" }],
        }],
    })
}

fn slice(api: &Api) -> Value {
    json!({
        "metadata": {
            "name": "kubernetes",
            "labels": { "kubernetes.io/service-name": "kubernetes" },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [reachable(api)], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": api.address.port(), "protocol": "TCP" }],
    })
}
