//! What every cluster has, whoever deletes it: its namespaces, the Service `kubernetes` with its endpoints, and what
//! others verify the server by (R79).
//!
//! Here is what they say. They are made when the server starts, in `bootstrap`, and again by engine `workload`.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_openapi::priority;

use crate::admit::SERVICE_RANGE_NAME;
use crate::api::ApiServer;
use crate::registry::Registry;
use crate::write::ensure::DesiredObject;

/// The ConfigMap by which others verify who asks.
pub(crate) const AUTHENTICATION: &str = "extension-apiserver-authentication";
/// Says that an APIService is managed, and for how long.
pub(crate) const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// It is put right when the server starts, and not before the next start.
pub(crate) const AT_START: &str = "onstart";

/// Namespaces that every cluster has.
pub(crate) const NAMESPACES: [&str; 4] =
    ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The group of networks.
pub(crate) const NETWORKING: &str = "networking.k8s.io";

/// What protects it (workload-controllers SV1).
const SERVICE_RANGE_FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// Where the addresses of Services come from at first.
pub(crate) fn service_addresses(api: &ApiServer) -> DesiredObject {
    let object = json!({
        // As its controller would leave it, which so has nothing to do at a start.
        "metadata": { "name": SERVICE_RANGE_NAME, "finalizers": [SERVICE_RANGE_FINALIZER] },
        "spec": { "cidrs": [api.service_range.to_string()] },
    });
    within("", NETWORKING, "servicecidrs", object)
}

/// A namespace to be made.
pub(crate) fn namespace(name: &str) -> DesiredObject {
    within("", "", "namespaces", json!({ "metadata": { "name": name } }))
}

/// Those in namespaces; with each whether it is put right when somebody edits it. The Service may be edited, as
/// upstream lets it.
pub(crate) fn namespaced(api: &ApiServer) -> [(DesiredObject, bool); 4] {
    [(authentication(api), true), (service(api), false), (endpoints(api), true), (slice(api), true)]
}

fn within(
    namespace: &str,
    group: &'static str,
    resource: &'static str,
    object: Value,
) -> DesiredObject {
    DesiredObject { group, resource, namespace: namespace.to_owned(), object }
}

/// By what servers of other API groups know who asks: certificates of this cluster, and the headers of whoever
/// shows the certificate of the front proxy (R131d).
fn authentication(api: &ApiServer) -> DesiredObject {
    let mut config = json!({
        "metadata": { "name": AUTHENTICATION },
        "data": { "client-ca-file": api.client_authority_pem },
    });
    if let (Some(front_proxy), Some(Value::Object(data))) =
        (&api.front_proxy, config.get_mut("data"))
    {
        let names = json!([front_proxy.name]).to_string();
        for (key, value) in [
            ("requestheader-client-ca-file", front_proxy.authority_pem.as_str()),
            ("requestheader-allowed-names", &names),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ] {
            data.insert(key.to_owned(), value.into());
        }
    }
    within("kube-system", "", "configmaps", config)
}

/// The APIServices of what this server has without a definition, as they are at a start (R131g).
pub(crate) fn api_services(kinds: &Registry) -> Vec<DesiredObject> {
    let mut names = BTreeSet::new();
    let mut wanted = Vec::new();
    for served in kinds.kinds().iter().filter(|served| served.custom.is_none()) {
        let (group, version) = (served.kind.group.as_ref(), served.kind.version.as_ref());
        let Some(place) = priority::builtin(group, version) else { continue };
        let name = format!("{version}.{group}");
        if !names.insert(name.clone()) {
            continue;
        }
        let mut spec = json!({
            "version": version,
            "groupPriorityMinimum": place.group, "versionPriority": place.version,
        });
        if let (false, Value::Object(spec)) = (group.is_empty(), &mut spec) {
            spec.insert("group".to_owned(), group.into());
        }
        let labels = json!({ MANAGED: AT_START });
        let object = json!({ "metadata": { "name": name, "labels": labels }, "spec": spec });
        wanted.push(within("", "apiregistration.k8s.io", "apiservices", object));
    }
    wanted
}

fn service(api: &ApiServer) -> DesiredObject {
    let address = api.service_range.first().to_string();
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
        api.service_range.first().to_string()
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
