//! What is behind a Service, and how the server itself reaches it: webhooks and aggregated API servers are
//! named by their Services.
//!
//! ```text
//!   name.namespace.svc:port ──► ready endpoint ──► its pod's node, or its address
//! ```

use std::io;
use std::sync::{OnceLock, Weak};

use hyper_util::rt::TokioIo;
use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_outbound::{Connect, Connecting, Direct, Stream};

use super::proxy;
use crate::api::{ApiServer, no_such_resource};
use crate::read::get;
use crate::registry::ServedKind;

/// What ends the host of a Service.
const SERVICE_SUFFIX: &str = ".svc";

/// Reaches Services through their ready endpoints, and everything else over the network.
#[derive(Default)]
pub(crate) struct ServiceConnect {
    /// Known once the server is put together.
    api: OnceLock<Weak<ApiServer>>,
}

impl ServiceConnect {
    /// Looks Services up in this server from now on.
    pub(crate) fn serve(&self, api: Weak<ApiServer>) {
        let _ = self.api.set(api);
    }
}

impl Connect for ServiceConnect {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a> {
        let Some((name, namespace)) = service(host) else { return Direct.connect(host, port) };
        Box::pin(async move {
            let gone = || io::Error::other("the server is ending");
            let api = self.api.get().and_then(Weak::upgrade).ok_or_else(gone)?;
            stream(&api, namespace, name, port).await
        })
    }
}

/// A ready endpoint of a Service.
pub(super) enum Endpoint {
    /// A port of a pod of the namespace.
    Pod { name: String, port: u16 },
    /// Something that is no pod.
    Address { host: String, port: u16 },
}

/// A connection to one ready endpoint of a Service.
async fn stream(
    api: &ApiServer,
    namespace: &str,
    name: &str,
    port: u16,
) -> io::Result<Box<dyn Stream>> {
    let failed = |failure: Failure| io::Error::other(failure.message);
    let registry = api.kinds.current();
    let services = registry.find("", "v1", "services").ok_or_else(no_such_resource);
    let services = services.map_err(failed)?;
    let state = api.world.current();
    let service = get::stored(&state, services, namespace, name)
        .and_then(|record| services.read(&record))
        .map_err(failed)?;
    if service.str_at(&["spec", "type"]) == Some("ExternalName") {
        let host = service.str_at(&["spec", "externalName"]).unwrap_or_default();
        return Direct.connect(host, port).await;
    }
    let endpoints = endpoints(api, &service, &port.to_string()).map_err(failed)?;
    match choose(api, endpoints, name).map_err(failed)? {
        Endpoint::Address { host, port } => Direct.connect(&host, port).await,
        Endpoint::Pod { name, port } => {
            let wire = proxy::pod_stream(api, namespace, &name, port).await.map_err(failed)?;
            Ok(Box::new(TokioIo::new(wire)))
        }
    }
}

fn unavailable(why: String) -> Failure {
    Failure::new(503, "ServiceUnavailable", why)
}

/// One of the endpoints, whichever, in the words of upstream where there is none.
pub(super) fn choose<T>(api: &ApiServer, mut from: Vec<T>, service: &str) -> Result<T, Failure> {
    if from.is_empty() {
        return Err(unavailable(format!("no endpoints available for service {service:?}")));
    }
    let chosen = usize::try_from(api.chance.seed()).unwrap_or_default() % from.len();
    Ok(from.swap_remove(chosen))
}

/// The ready endpoints of a Service for one of its ports, by number or name.
pub(super) fn endpoints(
    api: &ApiServer,
    service: &Object,
    port: &str,
) -> Result<Vec<Endpoint>, Failure> {
    let (name, namespace) = (service.name(), service.namespace());
    let mut port_name = port.to_owned();
    if let Ok(number) = port.parse::<u64>() {
        let mut ports = service.list_at(&["spec", "ports"]).iter();
        let found = ports.find(|port| port.get("port").and_then(Value::as_u64) == Some(number));
        let found = found.ok_or_else(|| {
            unavailable(format!("no service port {number} found for service {name:?}"))
        })?;
        port_name = found.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    }
    let registry = api.kinds.current();
    let slices = registry.find("discovery.k8s.io", "v1", "endpointslices");
    let slices: &ServedKind = slices.ok_or_else(no_such_resource)?;
    let mut endpoints = Vec::new();
    for record in api.world.current().range(&slices.collection(namespace), None) {
        if record.label("kubernetes.io/service-name") == Some(name) {
            endpoints.extend(ready(&slices.read(record)?, &port_name));
        }
    }
    Ok(endpoints)
}

/// The endpoints of a slice that are ready, with their port of this name.
fn ready(slice: &Object, port: &str) -> Vec<Endpoint> {
    let ports = slice.list_at(&["ports"]).iter().filter_map(Value::as_object);
    let mut of_name = ports.filter(|one| one.str_at(&["name"]).unwrap_or_default() == port);
    let number = of_name.find_map(|one| u16::try_from(one.int_at(&["port"])?).ok());
    let Some(port) = number else { return Vec::new() };
    let endpoints = slice.list_at(&["endpoints"]).iter().filter_map(Value::as_object);
    let ready = endpoints.filter(|one| one.bool_at(&["conditions", "ready"]) != Some(false));
    let endpoint = |one: &Object| {
        if one.str_at(&["targetRef", "kind"]) == Some("Pod") {
            let name = one.str_at(&["targetRef", "name"])?.to_owned();
            return Some(Endpoint::Pod { name, port });
        }
        let host = one.list_at(&["addresses"]).first()?.as_str()?.to_owned();
        Some(Endpoint::Address { host, port })
    };
    ready.filter_map(endpoint).collect()
}

/// `name.namespace.svc` as name and namespace.
fn service(host: &str) -> Option<(&str, &str)> {
    let (name, namespace) = host.strip_suffix(SERVICE_SUFFIX)?.split_once('.')?;
    let plain = !name.is_empty() && !namespace.is_empty() && !namespace.contains('.');
    plain.then_some((name, namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r163_hosts_of_services_are_told_from_others() {
        assert_eq!(service("hooks.ns.svc"), Some(("hooks", "ns")));
        for other in
            ["127.0.0.1", "hooks.example.com", "a.b.c.svc", ".ns.svc", "hooks.svc", "a..svc"]
        {
            assert_eq!(service(other), None, "{other}");
        }
    }
}
