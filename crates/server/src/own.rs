//! The server's own objects: the Service `kubernetes` with its endpoints, and what others verify it by (R79).
//!
//! ```text
//!   start, or one of them gone ──► made again      endpoints edited ──► as they were
//! ```
//!
//! What else every cluster starts with is in `bootstrap`; namespaces and what fills them are in `follow`.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_world::{Change, Guard, Write};

use crate::admit::first_service_address;
use crate::api::Api;
use crate::internal::{Wanted, ensure_all, find};
use crate::write::commit::{Extras, draft, propose};

const AGENT: &str = "kube-apiserver";

/// Where they are kept.
const SERVICE: &str = "/registry/services/specs/default/kubernetes";
const ENDPOINTS: &str = "/registry/services/endpoints/default/kubernetes";
const SLICE: &str = "/registry/endpointslices/default/kubernetes";
const AUTHENTICATION: &str = "/registry/configmaps/kube-system/extension-apiserver-authentication";

/// Whether a change may have made one of them wrong. The Service may be edited, as upstream lets it.
pub(crate) fn touches(change: &Change) -> bool {
    match &*change.key {
        ENDPOINTS | SLICE => true,
        SERVICE | AUTHENTICATION => change.after.is_none(),
        _ => false,
    }
}

/// All of them, as they are made.
pub(crate) fn all(api: &Api) -> [Wanted; 4] {
    [authentication(api), service(api), endpoints(api), slice(api)]
}

/// Makes those that are missing, and has the endpoints say where the server is.
pub(crate) async fn settle(api: &Api) -> Result<(), Failure> {
    ensure_all(api, all(api).into(), AGENT).await?;
    correct(api, endpoints(api)).await?;
    correct(api, slice(api)).await
}

/// At a start the server may have another address than before, which the Service names too.
pub(crate) async fn settle_at_start(api: &Api) -> Result<(), Failure> {
    correct(api, service(api)).await?;
    settle(api).await
}

/// Puts what an object says about the server right, and leaves the rest of it alone.
async fn correct(api: &Api, wanted: Wanted) -> Result<(), Failure> {
    let served = find(api, wanted.group, wanted.resource)?;
    let state = api.world.current();
    let record = state.get(&served.key(&wanted.namespace, "kubernetes"));
    let Some(record) = record.filter(|record| !record.deleting()) else { return Ok(()) };
    let Value::Object(wanted) = wanted.object else { return Ok(()) };
    let mut object = served.read(record)?;
    if !put_right(&mut object, &wanted) {
        return Ok(());
    }
    let key = Arc::clone(record.key());
    let own = Guard::At { key: Arc::clone(&key), revision: Some(record.revision()) };
    let write = Write::Put { key, draft: draft(&served, &object)? };
    // A lost race comes by again as a change.
    propose(&api.world, own, write, Extras::default()).await.map(|_| ())
}

/// Whether something was wrong. Lists count as wholes; metadata and the cluster IP, which stay, do not.
fn put_right(object: &mut Object, wanted: &Object) -> bool {
    let mut wrong = false;
    for (name, value) in wanted.iter().filter(|(name, _)| *name != "metadata") {
        if name == "spec" {
            let Some(spec) = value.as_object() else { continue };
            let says = spec.iter().filter(|(name, _)| *name != "clusterIP");
            let says: Object = says.map(|(name, value)| (name.clone(), value.clone())).collect();
            wrong |= put_right(object.map_mut("spec"), &says);
        } else if !object.get(name).is_some_and(|stored| says_as(stored, value)) {
            object.insert(name.clone(), value.clone());
            wrong = true;
        }
    }
    wrong
}

/// Whether what is stored says what is wanted, whatever defaults stand beside.
fn says_as(stored: &Value, wanted: &Value) -> bool {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, value)| stored.get(name).is_some_and(|stored| says_as(stored, value))),
        (Value::Array(stored), Value::Array(wanted)) => {
            stored.len() == wanted.len()
                && stored.iter().zip(wanted).all(|(stored, wanted)| says_as(stored, wanted))
        }
        _ => stored == wanted,
    }
}

fn within(namespace: &str, group: &'static str, resource: &'static str, object: Value) -> Wanted {
    Wanted { group, resource, namespace: namespace.to_owned(), object }
}

fn authentication(api: &Api) -> Wanted {
    let config = json!({
        "metadata": { "name": "extension-apiserver-authentication" },
        "data": { "client-ca-file": api.authority_pem },
    });
    within("kube-system", "", "configmaps", config)
}

fn service(api: &Api) -> Wanted {
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
fn reachable(api: &Api) -> String {
    let address = api.address.ip();
    if address.is_loopback() || address.is_unspecified() {
        first_service_address().to_string()
    } else {
        address.to_string()
    }
}

fn endpoints(api: &Api) -> Wanted {
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

fn slice(api: &Api) -> Wanted {
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
