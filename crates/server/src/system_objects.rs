//! What every cluster has, whoever deletes it: its namespaces, the Service `kubernetes` with its endpoints, and what
//! others verify the server by (R79).
//!
//! Here is what they say. They are made when the server starts, in `bootstrap`, and again by engine `workload`.

use serde_json::{Value, json};

use crate::admit::first_service_address;
use crate::api::ApiServer;
use crate::write::ensure::DesiredObject;

/// Namespaces that every cluster has.
pub(crate) const NAMESPACES: [&str; 4] =
    ["default", "kube-system", "kube-public", "kube-node-lease"];

/// A namespace to be made.
pub(crate) fn namespace(name: &str) -> DesiredObject {
    within("", "", "namespaces", json!({ "metadata": { "name": name } }))
}

/// Those in namespaces; with each whether it is put right when somebody edits it. The Service may be edited, as
/// upstream lets it.
pub(crate) fn namespaced(api: &ApiServer) -> [(DesiredObject, bool); 4] {
    [
        (authentication(api), false),
        (service(api), false),
        (endpoints(api), true),
        (slice(api), true),
    ]
}

fn within(
    namespace: &str,
    group: &'static str,
    resource: &'static str,
    object: Value,
) -> DesiredObject {
    DesiredObject { group, resource, namespace: namespace.to_owned(), object }
}

fn authentication(api: &ApiServer) -> DesiredObject {
    let config = json!({
        "metadata": { "name": "extension-apiserver-authentication" },
        "data": { "client-ca-file": api.authority_pem },
    });
    within("kube-system", "", "configmaps", config)
}

fn service(api: &ApiServer) -> DesiredObject {
    let address = first_service_address().to_string();
    let port = api.address.port();
    let object = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "clusterIP": address,
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": port }],
            "type": "ClusterIP",
        },
    });
    within("default", "", "services", object)
}

/// Loopback may not stand in endpoints, so a server on loopback names the first service address.
fn reachable(api: &ApiServer) -> String {
    let address = api.address.ip();
    if address.is_loopback() || address.is_unspecified() {
        first_service_address().to_string()
    } else {
        address.to_string()
    }
}

fn endpoints(api: &ApiServer) -> DesiredObject {
    let object = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
        },
        "subsets": [{
            "addresses": [{ "ip": reachable(api) }],
            "ports": [{ "name": "https", "port": api.address.port(), "protocol": "TCP" }],
        }],
    });
    within("default", "", "endpoints", object)
}

fn slice(api: &ApiServer) -> DesiredObject {
    let object = json!({
        "metadata": {
            "name": "kubernetes",
            "labels": { "kubernetes.io/service-name": "kubernetes" },
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": [reachable(api)], "conditions": { "ready": true } }],
        "ports": [{ "name": "https", "port": api.address.port(), "protocol": "TCP" }],
    });
    within("default", "discovery.k8s.io", "endpointslices", object)
}
