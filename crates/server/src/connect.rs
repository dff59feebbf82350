//! Requests that are answered by a node: logs, commands, attachments, forwarded ports, and whatever a
//! node itself or a pod on it serves (spec/downward-api.md R116, R123, R125, R129–R133).
//!
//! ```text
//!   client ──► authorized, pod and container found ──► Dialer ──► the node's agent
//!          ◄────────── one answer, or one upgraded connection, carried as it is ──────────►
//! ```
//!
//! Frames of streams are never looked at here. Requests that another API server answers are passed on in
//! `aggregated`.

mod aggregated;
mod carry;
mod dial;
mod options;
mod proxy;
mod service;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use serde_json::Value;
use tenure_machinery::{Failure, NodePath, Object, ObjectExt, ResourcePath};

use crate::admit::policy::{self, AdmissionAttributes};
use crate::admit::{self, Operation};
use crate::api::{
    ApiServer, RequestLine, body_bytes_max, check_path, fits, header, no_such_resource, offers,
    read_body,
};
use crate::audit::AuditGuard;
use crate::authenticate::{User, websocket};
use crate::body::{Body, full};
use crate::fair::BudgetGuard;
use crate::internal;
use crate::listen::BusyGuard;
use crate::permit::Permit;
use crate::read::get;
use crate::registry::ServedKind;
use crate::response;

pub(crate) use aggregated::{ForwardedRequest, RemoteUser, may_pass};
pub use dial::{Connecting, Dialer, NODE_CLIENT, NodeConnection, NodeDialer};
pub(crate) use service::ServiceConnect;

/// How long the body of a request may take that is passed on.
const BODY_LIMIT: Duration = Duration::from_secs(60);

pub(crate) use aggregated::answer as forward;

/// What a client wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectSubresource {
    /// `pods/log`.
    Log,
    /// `pods/exec`.
    Exec,
    /// `pods/attach`.
    Attach,
    /// `pods/portforward`.
    Forward,
    /// `nodes/proxy`.
    Node,
    /// `pods/proxy`.
    Pod,
    /// `services/proxy`.
    Service,
}

/// The methods that are passed on to what is behind a proxy.
const PROXY_METHODS: [Method; 7] = [
    Method::DELETE,
    Method::GET,
    Method::HEAD,
    Method::OPTIONS,
    Method::PATCH,
    Method::POST,
    Method::PUT,
];

impl ConnectSubresource {
    /// Whether the rest of the path belongs to whoever is behind it.
    fn is_proxy(self) -> bool {
        matches!(
            self,
            ConnectSubresource::Node | ConnectSubresource::Pod | ConnectSubresource::Service
        )
    }
}

/// The door that a path leads to, if it leads to a node.
pub(crate) fn connect_subresource(path: &ResourcePath) -> Option<ConnectSubresource> {
    if !path.group.is_empty() || path.name.is_empty() {
        return None;
    }
    match (path.resource.as_str(), path.subresource.as_str()) {
        ("pods", "log") => Some(ConnectSubresource::Log),
        ("pods", "exec") => Some(ConnectSubresource::Exec),
        ("pods", "attach") => Some(ConnectSubresource::Attach),
        ("pods", "portforward") => Some(ConnectSubresource::Forward),
        ("nodes", "proxy") => Some(ConnectSubresource::Node),
        ("pods", "proxy") => Some(ConnectSubresource::Pod),
        ("services", "proxy") => Some(ConnectSubresource::Service),
        _ => None,
    }
}

/// A request on its way to a node.
pub(crate) struct ConnectRequest<'a> {
    pub(crate) subresource: ConnectSubresource,
    pub(crate) path: &'a ResourcePath,
    pub(crate) line: &'a RequestLine,
    pub(crate) parts: &'a http::request::Parts,
    pub(crate) user: &'a Arc<User>,
    pub(crate) permit: Permit,
    /// The connection, if the client wants to speak something else on it.
    pub(crate) upgrade: OnUpgrade,
    /// Held until the stream ends.
    pub(crate) ending: AuditGuard,
    /// The client's part of the connections to nodes, likewise.
    pub(crate) open: Option<BudgetGuard>,
}

impl ConnectRequest<'_> {
    /// What is held while the request is answered, or what it became goes on; `resource` is what it counts as.
    fn held(self, api: &ApiServer, permit: &Permit, resource: &str) -> carry::RelayContext {
        carry::RelayContext {
            upgrade: self.upgrade,
            place: self.parts.extensions.get::<BusyGuard>().cloned(),
            running: api.metrics.long_running("CONNECT", "", resource),
            open: self.open,
            ending: Some(self.ending),
            hold: permit.hold(&api.world),
            late: None,
        }
    }
}

/// Where a request goes: a node, and a path there.
struct NodeTarget {
    node: String,
    path: String,
}

/// Answers a request that leads to a node.
pub(crate) async fn answer<B>(
    api: &ApiServer,
    call: ConnectRequest<'_>,
    body: B,
) -> Result<Response<Body>, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (path, method) = (call.path, &call.line.method);
    let registry = api.kinds.current();
    let served = registry
        .find(&path.group, &path.version, &path.resource)
        .filter(|served| fits(path, served.kind.namespaced))
        .filter(|_| !path.deeper || call.subresource.is_proxy())
        .ok_or_else(no_such_resource)?;
    check_path(served, path)?;
    let taken = if call.subresource.is_proxy() {
        PROXY_METHODS.contains(method)
    } else {
        offers(served, path, call.line.verb(), method)
    };
    if !taken {
        return Err(Failure::method_not_allowed(&method.as_str().to_lowercase(), &path.resource));
    }
    match call.subresource {
        ConnectSubresource::Log => log(api, served, call).await,
        ConnectSubresource::Node | ConnectSubresource::Pod | ConnectSubresource::Service => {
            // What is behind a proxy may want a body; streams have none before they are streams.
            let (_charge, body) = if call.line.mutating() {
                let charge = api.shares.bytes(call.user, body_bytes_max(&body))?;
                (charge, sent(body).await?)
            } else {
                (None, Bytes::new())
            };
            enforce(api, served, &call).await?;
            call.permit.check(&api.world)?;
            match call.subresource {
                ConnectSubresource::Node => node(api, served, call, body).await,
                _ => proxy::answer(api, served, call, body).await,
            }
        }
        ConnectSubresource::Exec | ConnectSubresource::Attach | ConnectSubresource::Forward => {
            stream(api, served, call).await
        }
    }
}

/// A body that is passed on, if it comes in time: a sender that stalls holds nothing for ever (R133e).
async fn sent<B>(body: B) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let late = |_| Failure::new(504, "Timeout", "the body of the request took too long");
    tokio::time::timeout(BODY_LIMIT, read_body(body)).await.map_err(late)?
}

/// A log, as text (R116, R123), or on a WebSocket (R123a).
async fn log(
    api: &ApiServer,
    served: &ServedKind,
    call: ConnectRequest<'_>,
) -> Result<Response<Body>, Failure> {
    let options = options::log(call.line.query(), &call.path.name)?;
    let pod = pod(api, served, call.path)?;
    let container = container(&pod, call.line.query().text("container"))?;
    let Some(node) = node_name(&pod) else {
        // Nobody has taken the pod yet, so there is nothing to read and nothing wrong.
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    };
    must_be_real(api, node)?;
    let place = place(&call.path.namespace, &call.path.name);
    let container = options::escape(&container);
    let path = format!("/containerLogs/{place}/{container}?{options}");
    let target = NodeTarget { node: node.to_owned(), path };
    let headers = if wants_socket(&call.parts.headers) {
        forwarded(&call.parts.headers)
    } else {
        HeaderMap::new()
    };
    let response = carry::send(api, &target, Method::GET, headers, Bytes::new()).await?;
    let permit = call.permit.clone();
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(carry::relay(api, response, call.held(api, &permit, "pods")));
    }
    if !response.status().is_success() {
        return Err(log_failure(response, &call.path.name).await);
    }
    let body = carry::body(response.into_body(), api.stop.clone(), call.held(api, &permit, "pods"));
    Ok(response::respond(StatusCode::OK, "text/plain", body))
}

/// What the node says is wrong, as upstream passes it on.
async fn log_failure(response: Response<hyper::body::Incoming>, name: &str) -> Failure {
    let code = response.status();
    let text = carry::text(response.into_body()).await;
    match code {
        StatusCode::BAD_REQUEST => Failure::bad_request(text),
        // It speaks none of the protocols that the client asked for.
        StatusCode::FORBIDDEN => Failure::new(403, "Forbidden", text),
        StatusCode::NOT_FOUND => {
            let message =
                format!("the server could not find the requested resource ( pods/log {name})");
            Failure::new(404, "NotFound", message).about("", "pods/log", name)
        }
        _ => Failure::internal(text),
    }
}

/// A command, an attachment or forwarded ports.
async fn stream(
    api: &ApiServer,
    served: &Arc<ServedKind>,
    call: ConnectRequest<'_>,
) -> Result<Response<Body>, Failure> {
    // A WebSocket begins with GET, and reading is not what it does (R132).
    let permit = call.permit.also("create").await?;
    enforce(api, served, &call).await?;
    permit.check(&api.world)?;
    let pod = pod(api, served, call.path)?;
    let place = place(&call.path.namespace, &call.path.name);
    let path = match call.subresource {
        ConnectSubresource::Forward => {
            format!("/portForward/{place}?{}", options::forward(call.line.query())?)
        }
        _ => {
            let container = container(&pod, call.line.query().text("container"))?;
            let container = options::escape(&container);
            let what =
                if call.subresource == ConnectSubresource::Attach { "attach" } else { "exec" };
            let commands = call.subresource == ConnectSubresource::Exec;
            format!("/{what}/{place}/{container}?{}", options::streams(call.line.query(), commands))
        }
    };
    let Some(node) = node_name(&pod) else {
        let name = &call.path.name;
        return Err(Failure::bad_request(format!("pod {name} does not have a host assigned")));
    };
    must_be_real(api, node)?;
    if !wants_upgrade(&call.parts.headers) {
        return Err(Failure::bad_request("Upgrade request required"));
    }
    let target = NodeTarget { node: node.to_owned(), path };
    let (line, headers) = (call.line, forwarded(&call.parts.headers));
    let held = call.held(api, &permit, "pods");
    carry::through(api, target, &line.method, headers, Bytes::new(), held).await
}

/// Asks the policies whether a connection may be opened.
async fn enforce(
    api: &ApiServer,
    served: &Arc<ServedKind>,
    call: &ConnectRequest<'_>,
) -> Result<(), Failure> {
    if api.admission.is_empty() {
        return Ok(());
    }
    let path = call.path;
    let mut request = internal::request(served, &path.namespace, &path.name, "");
    path.subresource.clone_into(&mut request.subresource);
    request.user = Arc::clone(call.user);
    let kind = options::kind(call.subresource);
    let mut options = options::object(call.line.query(), call.subresource, kind);
    if let Some(path) = policy::proxied_path(path, call.line.path()) {
        options.insert("path".to_owned(), path.into());
    }
    let subject = AdmissionAttributes {
        operation: Operation::Connect,
        old: None,
        new: None,
        dry_run: false,
        kind: Some(("", "v1", kind)),
        options: None,
    };
    let requested = options.clone();
    admit::review(api, &mut request, subject, Some(&mut options)).await?;
    match options == requested {
        true => Ok(()),
        // What is not done must not look as if it were.
        false => Err(Failure::internal("admission may not change the options of a connection")),
    }
}

/// Anything that a node serves.
async fn node(
    api: &ApiServer,
    served: &Arc<ServedKind>,
    call: ConnectRequest<'_>,
    body: Bytes,
) -> Result<Response<Body>, Failure> {
    get::stored(&api.world.current(), served, "", &call.path.name)?;
    if let Some(redirect) = proxy::redirect(&call) {
        return Ok(redirect);
    }
    let (path, query) = proxy::rest(&call.parts.uri, 5);
    let Some(path) = NodePath::parse(&path) else {
        return Err(Failure::bad_request("the path cannot be passed on to a node"));
    };
    // What runs something on a node needs the right to create, whatever the method is (R132a).
    let permit =
        if path.streams() { call.permit.also("create").await? } else { call.permit.clone() };
    let path = format!("{path}{query}");
    let target = NodeTarget { node: call.path.name.clone(), path };
    let (line, headers) = (call.line, forwarded(&call.parts.headers));
    let held = call.held(api, &permit, "nodes");
    carry::through(api, target, &line.method, headers, body, held).await
}

fn pod(api: &ApiServer, served: &ServedKind, path: &ResourcePath) -> Result<Object, Failure> {
    let state = api.world.current();
    let record = get::stored(&state, served, &path.namespace, &path.name)?;
    served.read(&record)
}

/// A node that only simulates its pods has nothing to read, to run or to reach (R160).
fn must_be_real(api: &ApiServer, node: &str) -> Result<(), Failure> {
    let state = api.world.current();
    let simulated = state
        .get(&format!("/registry/minions/{node}"))
        .is_some_and(|node| node.label("tenure.dev/runtime") == Some("none"));
    if !simulated {
        return Ok(());
    }
    let why = format!("node {node:?} only simulates its pods: nothing of them runs");
    Err(Failure::new(501, "NotImplemented", why))
}

fn node_name(pod: &Object) -> Option<&str> {
    pod.str_at(&["spec", "nodeName"]).filter(|name| !name.is_empty())
}

fn place(namespace: &str, pod: &str) -> String {
    format!("{}/{}", options::escape(namespace), options::escape(pod))
}

/// The container that is meant, in the words of upstream where it is not clear (R123).
fn container(pod: &Object, requested: &str) -> Result<String, Failure> {
    let name = pod.name();
    let names = |list: &str| -> Vec<String> {
        let containers = pod.list_at(&["spec", list]).iter();
        let names = containers.filter_map(|one| one.get("name").and_then(Value::as_str));
        names.map(str::to_owned).collect()
    };
    let all = || ["initContainers", "containers", "ephemeralContainers"].map(names).concat();
    if !requested.is_empty() {
        return if all().iter().any(|own| own == requested) {
            Ok(requested.to_owned())
        } else {
            Err(Failure::bad_request(format!("container {requested} is not valid for pod {name}")))
        };
    }
    match names("containers").as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            Err(Failure::bad_request(format!("a container name must be specified for pod {name}")))
        }
        _ => Err(Failure::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{}]",
            all().join(" ")
        ))),
    }
}

pub(crate) fn wants_upgrade(headers: &HeaderMap) -> bool {
    let connection = header(headers, CONNECTION.as_str()).unwrap_or_default();
    connection.to_ascii_lowercase().contains("upgrade") && headers.contains_key(UPGRADE)
}

/// Whether what can be answered as it is should come on a WebSocket (R123a).
fn wants_socket(headers: &HeaderMap) -> bool {
    let upgrade = header(headers, UPGRADE.as_str()).unwrap_or_default();
    wants_upgrade(headers) && upgrade.to_ascii_lowercase().contains("websocket")
}

/// The headers that concern the node. Who asks is settled here and stays here.
fn forwarded(headers: &HeaderMap) -> HeaderMap {
    const KEPT: [&str; 5] =
        ["x-stream-protocol-version", "accept", "accept-encoding", "user-agent", "origin"];
    let keep = |name: &HeaderName| {
        let text = name.as_str();
        *name == CONNECTION
            || *name == UPGRADE
            || *name == CONTENT_TYPE
            || text.starts_with("sec-websocket-")
            || KEPT.contains(&text)
    };
    carried(headers, keep)
}

/// Some of the headers, and never a token among the protocols of a WebSocket.
fn carried(headers: &HeaderMap, keep: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| keep(name) && *name != SEC_WEBSOCKET_PROTOCOL);
    let mut kept: HeaderMap = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
    if let Some(protocols) = websocket::without_token(headers) {
        kept.insert(SEC_WEBSOCKET_PROTOCOL, protocols);
    }
    kept
}

/// The head of a request to a node.
fn head(
    method: Method,
    path: &str,
    node: &str,
    headers: HeaderMap,
    body: &Bytes,
) -> Result<http::request::Builder, Failure> {
    let mut request = http::Request::builder().method(method).uri(path);
    let Some(all) = request.headers_mut() else {
        return Err(Failure::bad_request("the path cannot be passed on to a node"));
    };
    *all = headers;
    if let Ok(host) = HeaderValue::from_str(node) {
        all.insert(HOST, host);
    }
    if !body.is_empty() {
        all.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Ok(request)
}
