//! Pods and services behind the server (`pods/proxy`, `services/proxy`): HTTP with one port of a pod, over
//! the pod's node.
//!
//! ```text
//!   …/pods/[http:]NAME[:PORT]/proxy/PATH ───────────────────────────────► node ──► port of the pod
//!   …/services/[http:]NAME[:PORT]/proxy/PATH ──► one ready endpoint ──┘
//! ```
//!
//! The node gives a plain connection to the port; the request is spoken here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, HOST, LOCATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::Full;
use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};

use super::service::{self, Endpoint};
use super::{
    ConnectRequest, ConnectSubresource, NodeTarget, carried, carry, head, node_name, place,
    wants_upgrade,
};
use crate::api::{ApiServer, no_such_resource};
use crate::body::{Body, full};
use crate::read::get;
use crate::registry::ServedKind;

/// How long a program in a pod may take to begin its answer: some hold requests until there is news (R133e).
const BACKEND_LIMIT: Duration = Duration::from_secs(600);

/// A port of a pod, and the node that it is on.
struct Backend {
    node: String,
    pod: String,
    port: u16,
}

/// Passes a request on to a pod, or to a pod behind a service.
pub(super) async fn answer(
    api: &ApiServer,
    served: &ServedKind,
    call: ConnectRequest<'_>,
    body: Bytes,
) -> Result<Response<Body>, Failure> {
    let kind = if call.subresource == ConnectSubresource::Pod { "pod" } else { "service" };
    let requested = ProxyTarget::parse(&call.path.name).ok_or_else(|| {
        Failure::bad_request(format!("invalid {kind} request {:?}", call.path.name))
    })?;
    if requested.tls {
        return Err(Failure::bad_request("only http can be spoken to what is behind this proxy"));
    }
    let namespace = &call.path.namespace;
    let backend = match call.subresource {
        ConnectSubresource::Pod => of_pod(api, served, namespace, requested.name, requested.port)?,
        _ => of_service(api, served, namespace, &requested)?,
    };
    if let Some(redirect) = redirect(&call) {
        return Ok(redirect);
    }
    let wire = reach(api, namespace, &backend).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(wire).await.map_err(|error| unreachable(&error))?;
    // It ends with the answer, as the one to the node does.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "the connection to a pod ended early");
        }
    });
    let headers = passed_on(&call.parts.headers);
    let host = format!("{}:{}", backend.pod, backend.port);
    let (path, query) = rest(&call.parts.uri, 7);
    let path = format!("{path}{query}");
    let request = head(call.line.method.clone(), &path, &host, headers, &body)?
        .body(Full::new(body))
        .map_err(|_| Failure::bad_request("the path cannot be passed on"))?;
    let answered = tokio::time::timeout(BACKEND_LIMIT, sender.send_request(request)).await;
    let answered = answered.map_err(|_| unreachable(&"it does not answer"))?;
    let answered = answered.map_err(|error| unreachable(&error))?;
    let (path, permit) = (call.path, call.permit.clone());
    Ok(carry::relay(api, answered, call.held(api, &permit, &path.resource)))
}

/// The answer to a reader whose path ends with `proxy`: relative links of what is read there would lead
/// elsewhere (R133g).
pub(super) fn redirect(call: &ConnectRequest<'_>) -> Option<Response<Body>> {
    let (path, query) = (call.parts.uri.path(), call.parts.uri.query());
    let reads = matches!(call.line.method, Method::GET | Method::HEAD);
    if call.path.deeper || !reads || !path.ends_with("/proxy") || wants_upgrade(&call.parts.headers)
    {
        return None;
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let place = HeaderValue::try_from(format!("{path}/{query}")).ok()?;
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(LOCATION, place);
    Some(response)
}

/// What is left of a path after so many segments, and its query with its question mark: as they came,
/// escapes and all.
pub(super) fn rest(uri: &Uri, segments: usize) -> (String, String) {
    let mut path = uri.path().trim_start_matches('/');
    for _ in 0..segments {
        path = behind_slash(path);
    }
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    (format!("/{path}"), query)
}

/// What follows the first slash; an escaped one ends a segment too, as where the path was taken apart.
fn behind_slash(path: &str) -> &str {
    let slash = |at: &usize| {
        let from = path.get(*at..).unwrap_or_default();
        from.starts_with('/') || from.get(..3).is_some_and(|text| text.eq_ignore_ascii_case("%2f"))
    };
    let behind = path.char_indices().map(|(at, _)| at).find(slash).and_then(|at| {
        let from = path.get(at..)?;
        from.strip_prefix('/').or_else(|| from.get(3..))
    });
    behind.unwrap_or_default()
}

/// `[scheme:]name[:port]`.
#[derive(Debug, PartialEq, Eq)]
struct ProxyTarget<'a> {
    tls: bool,
    name: &'a str,
    port: &'a str,
}

impl ProxyTarget<'_> {
    fn parse(text: &str) -> Option<ProxyTarget<'_>> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match *parts.as_slice() {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        let known = matches!(scheme, "" | "http" | "https");
        (known && !name.is_empty()).then_some(ProxyTarget { tls: scheme == "https", name, port })
    }
}

/// The port of a pod; its first one where none is named.
fn of_pod(
    api: &ApiServer,
    pods: &ServedKind,
    namespace: &str,
    name: &str,
    port: &str,
) -> Result<Backend, Failure> {
    let record = get::stored(&api.world.current(), pods, namespace, name)?;
    let pod = pods.read(&record)?;
    let Some(node) = node_name(&pod) else {
        return Err(Failure::bad_request(format!("pod {name} does not have a host assigned")));
    };
    let port = match port {
        "" => first_port(&pod).unwrap_or(80),
        text => text.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
            Failure::bad_request(format!("`{text}` is not the number of a port of pod {name}"))
        })?,
    };
    Ok(Backend { node: node.to_owned(), pod: name.to_owned(), port })
}

fn first_port(pod: &Object) -> Option<u16> {
    let containers = pod.list_at(&["spec", "containers"]).iter().filter_map(Value::as_object);
    let mut ports = containers.flat_map(|container| container.list_at(&["ports"]));
    ports.find_map(|port| port.get("containerPort")?.as_u64()?.try_into().ok())
}

/// A pod that is a ready endpoint of a service.
fn of_service(
    api: &ApiServer,
    services: &ServedKind,
    namespace: &str,
    requested: &ProxyTarget<'_>,
) -> Result<Backend, Failure> {
    let record = get::stored(&api.world.current(), services, namespace, requested.name)?;
    let endpoints = service::endpoints(api, &services.read(&record)?, requested.port)?;
    // Whoever may use this proxy need not be able to reach all that the server can reach.
    let pods_only = endpoints.into_iter().filter_map(|endpoint| match endpoint {
        Endpoint::Pod { name, port } => Some((name, port)),
        Endpoint::Address { .. } => None,
    });
    let (pod, port) = service::choose(api, pods_only.collect(), requested.name)?;
    of_pod(api, &*pods(api)?, namespace, &pod, &port.to_string())
}

fn pods(api: &ApiServer) -> Result<Arc<ServedKind>, Failure> {
    api.kinds.current().find("", "v1", "pods").cloned().ok_or_else(no_such_resource)
}

/// A plain connection to a port of a pod, for the server itself.
pub(super) async fn pod_stream(
    api: &ApiServer,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<hyper::upgrade::Upgraded, Failure> {
    let backend = of_pod(api, &*pods(api)?, namespace, name, &port.to_string())?;
    reach(api, namespace, &backend).await
}

/// A connection to the port, given by the node.
async fn reach(
    api: &ApiServer,
    namespace: &str,
    backend: &Backend,
) -> Result<hyper::upgrade::Upgraded, Failure> {
    let path = format!("/portProxy/{}/{}", place(namespace, &backend.pod), backend.port);
    let target = NodeTarget { node: backend.node.clone(), path };
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("tcp"));
    let mut answered = carry::send(api, &target, Method::GET, headers, Bytes::new()).await?;
    if answered.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(unreachable(&carry::text(answered.into_body()).await));
    }
    hyper::upgrade::on(&mut answered).await.map_err(|error| unreachable(&error))
}

fn unreachable(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(503, "ServiceUnavailable", format!("error trying to reach service: {why}"))
}

/// The headers that concern who is behind the proxy. Who asks is settled here and stays here.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let upgrade = wants_upgrade(headers);
    let keep = |name: &HeaderName| {
        let hop = [TRANSFER_ENCODING, TE, TRAILER, HOST].contains(name)
            || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "content-length");
        let switches = *name == CONNECTION || *name == UPGRADE;
        let secret = *name == AUTHORIZATION || name.as_str().starts_with("impersonate-");
        !hop && !secret && (upgrade || !switches)
    };
    carried(headers, keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_behind_a_proxy_goes_on_as_it_came() {
        for (segments, path, wanted) in [
            (7, "/api/v1/namespaces/proxy/pods/proxy/proxy/a%2Fb/?c=d", "/a%2Fb/?c=d"),
            (7, "/api/v1/namespaces/n/pods/web:80/proxy", "/"),
            (7, "/api/v1/namespaces/n/pods/web/proxy?x", "/?x"),
            (5, "/api/v1/nodes/proxy/proxy/healthz", "/healthz"),
            (5, "/api/v1/nodes/n/proxy/", "/"),
        ] {
            let (path, query) = rest(&path.parse().unwrap(), segments);
            assert_eq!(format!("{path}{query}"), wanted, "{path}");
        }
    }

    #[test]
    fn a_name_may_have_a_scheme_and_a_port() {
        let requested = |tls, name, port| Some(ProxyTarget { tls, name, port });
        assert_eq!(ProxyTarget::parse("web"), requested(false, "web", ""));
        assert_eq!(ProxyTarget::parse("web:80"), requested(false, "web", "80"));
        assert_eq!(ProxyTarget::parse("https:web:"), requested(true, "web", ""));
        assert_eq!(ProxyTarget::parse("ftp:web:21"), None);
        assert_eq!(ProxyTarget::parse("a:b:c:d"), None);
        assert_eq!(ProxyTarget::parse(":80"), None);
    }
}
