//! Requests that another server answers, because an APIService names it (R131a–R131c).
//!
//! ```text
//!   client ──► authorized here ──► path and query as they were authorized, who asks in headers
//!          ◄── streamed both ways, or one upgraded connection ──► HTTPS ──► name.namespace.svc
//! ```
//!
//! What bodies say is never looked at here.

mod passed_body;
mod remote_user;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, LOCATION, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tenure_machinery::{Failure, NodePath};
use tenure_outbound::{Connect, HttpsClient};

use super::{carried, carry, wants_upgrade};
use crate::aggregate::{RemoteApi, Speaks};
use crate::api::{ApiServer, RequestLine};
use crate::audit::AuditGuard;
use crate::authenticate::User;
use crate::body::Body;
use crate::fair::BudgetGuard;
use crate::listen::BusyGuard;
use crate::permit::Permit;
use crate::response;
use crate::route::Route;

pub(crate) use remote_user::RemoteUser;

/// How long a list of resources may take: every client waits for it.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(5);
/// How long any other request may take that is no stream (R7).
const REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// How long a stream may take to begin.
const STREAM_LIMIT: Duration = Duration::from_secs(600);
/// What clients are told whose server is not there, in the words of upstream.
const UNAVAILABLE: &str = "service unavailable";
/// Likewise where it sends them elsewhere.
const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";

/// A request on its way to another server.
pub(crate) struct ForwardedRequest<'a> {
    pub(crate) line: &'a RequestLine,
    pub(crate) parts: &'a http::request::Parts,
    pub(crate) user: &'a Arc<User>,
    pub(crate) permit: Permit,
    /// The connection, if the client wants to speak something else on it.
    pub(crate) upgrade: OnUpgrade,
    /// Held until the stream ends, if it may become one.
    pub(crate) ending: Option<AuditGuard>,
    /// The id of the request, as its answer has it.
    pub(crate) audit_id: &'a str,
    /// The client's part of what is passed on, likewise.
    pub(crate) open: Option<BudgetGuard>,
}

/// Answers a request by way of the server that serves its group.
pub(crate) async fn answer<B>(
    api: &ApiServer,
    remote: &RemoteApi,
    call: ForwardedRequest<'_>,
    body: B,
) -> Result<Response<Body>, Failure>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if !remote.is_available() {
        return Ok(failed(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE));
    }
    let path = passed_path(call.line, call.parts.uri.path())?;
    let upgrades = wants_upgrade(&call.parts.headers) && call.parts.version == Version::HTTP_11;
    let speaks = if upgrades { Speaks::Upgrades } else { Speaks::Http };
    let connect: Arc<dyn Connect> = api.admission.connect();
    let client = match remote.client(speaks, api.front_proxy.as_ref(), &connect) {
        Ok(client) => client,
        Err(why) => return Ok(failed(StatusCode::INTERNAL_SERVER_ERROR, why)),
    };
    let request = Request::builder()
        .method(call.line.method.clone())
        .uri(format!("https://{}{path}", remote.authority))
        .body(passed_body::passed(body))
        .map_err(|_| Failure::bad_request("the path cannot be passed on"))?;
    let (mut head, body) = request.into_parts();
    head.headers = passed_headers(&call.parts.headers, upgrades, call.audit_id);
    RemoteUser::of(call.user).put(&mut head.headers).map_err(Failure::internal)?;
    let limit = time_limit(call.line, upgrades)?;
    let mut late = Box::pin(tokio::time::sleep(limit));
    let request = Request::from_parts(head, body);
    let answered = tokio::select! {
        biased;
        answered = send(client, request) => answered,
        () = &mut late => {
            let why = format!("error trying to reach service: no answer within {limit:?}");
            return Ok(failed(StatusCode::GATEWAY_TIMEOUT, &why));
        }
    };
    let answered = match answered {
        Ok(answered) => answered,
        Err(why) => {
            tracing::debug!(api = remote.name, why, "an aggregated API server cannot be reached");
            let why = format!("error trying to reach service: {why}");
            return Ok(failed(StatusCode::SERVICE_UNAVAILABLE, &why));
        }
    };
    let switches = answered.status() == StatusCode::SWITCHING_PROTOCOLS;
    if switches && !upgrades {
        let why = "error trying to reach service: it switches protocols unasked";
        return Ok(failed(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    if answered.status().is_redirection() && answered.headers().contains_key(LOCATION) {
        return Ok(failed(StatusCode::BAD_GATEWAY, REDIRECTED));
    }
    let streams = is_stream(call.line) || upgrades;
    let held = carry::RelayContext {
        upgrade: call.upgrade,
        place: call.parts.extensions.get::<BusyGuard>().cloned(),
        running: api.metrics.long_running("CONNECT", "", "apiservices"),
        open: call.open,
        ending: call.ending,
        hold: call.permit.hold(&api.world),
        late: (!streams).then_some(late),
    };
    Ok(carry::relay(api, without_hops(answered, switches), held))
}

async fn send(
    client: &HttpsClient,
    request: Request<tenure_outbound::RequestBody>,
) -> Result<Response<Incoming>, String> {
    client.send(request).await.map_err(|error| error.to_string())
}

/// What upstream says as text rather than as a Status.
fn failed(code: StatusCode, why: &str) -> Response<Body> {
    response::text(code, format!("{why}\n"))
}

/// The path and query that were authorized, written in the one way that nobody reads as another.
fn passed_path(line: &RequestLine, raw: &str) -> Result<String, Failure> {
    let refused = || Failure::bad_request("the path cannot be passed on");
    // An empty segment is one here, and none to many servers.
    if line.path().trim_matches('/').contains("//") {
        return Err(refused());
    }
    let path = NodePath::parse(raw).ok_or_else(refused)?;
    let query = line.query().encoded();
    Ok(if query.is_empty() { path.to_string() } else { format!("{path}?{query}") })
}

/// Whether an answer goes on for as long as client and server like.
fn is_stream(line: &RequestLine) -> bool {
    let subresource = line.resource().map_or("", |path| path.subresource.as_str());
    let prefixed = line.resource().is_some_and(|path| path.prefix.is_some());
    line.verb() == "watch"
        || prefixed
        || matches!(subresource, "log" | "exec" | "attach" | "portforward" | "proxy")
}

fn time_limit(line: &RequestLine, upgrades: bool) -> Result<Duration, Failure> {
    if upgrades || is_stream(line) {
        return Ok(STREAM_LIMIT);
    }
    let most = match line.route() {
        Route::GroupVersion(..) => DISCOVERY_LIMIT,
        _ => REQUEST_LIMIT,
    };
    Ok(line.query().timeout()?.unwrap_or(most).min(most))
}

/// The headers that concern the other server. Who asks is said anew, by this server alone.
fn passed_headers(from: &HeaderMap, upgrades: bool, audit_id: &str) -> HeaderMap {
    let named = named_hops(from);
    let keep = |name: &HeaderName| {
        let switches = *name == CONNECTION || *name == UPGRADE;
        if switches {
            return upgrades;
        }
        !is_hop(name)
            && !named.contains(name)
            && *name != HOST
            && *name != CONTENT_LENGTH
            && !is_credential(name)
    };
    let mut headers = carried(from, keep);
    if upgrades {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
    if let Ok(id) = HeaderValue::from_str(audit_id) {
        headers.insert("audit-id", id);
    }
    headers
}

/// Whether a header is about one connection and none of the next.
fn is_hop(name: &HeaderName) -> bool {
    [TE, TRAILER, TRANSFER_ENCODING, PROXY_AUTHENTICATE].contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "http2-settings" | "expect")
}

/// Headers that `Connection` names as being about one connection.
fn named_hops(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let words = values.flat_map(|value| value.split(',')).map(str::trim);
    words.filter_map(|word| HeaderName::from_bytes(word.as_bytes()).ok()).collect()
}

/// Whether a header says who asks, or could be taken to say so: some servers read `_` as `-`.
fn is_credential(name: &HeaderName) -> bool {
    let read = name.as_str().replace('_', "-");
    *name == AUTHORIZATION
        || *name == PROXY_AUTHORIZATION
        || read.starts_with("x-remote-")
        || read.starts_with("impersonate-")
        || read.starts_with("x-forwarded-")
        || matches!(read.as_str(), "forwarded" | "audit-id")
}

/// An answer without what is about the connection to the other server.
fn without_hops(mut answered: Response<Incoming>, switches: bool) -> Response<Incoming> {
    let named = named_hops(answered.headers());
    let headers = answered.headers_mut();
    let about: Vec<HeaderName> = headers.keys().filter(|name| is_hop(name)).cloned().collect();
    for name in about.into_iter().chain(named) {
        if !switches || name != UPGRADE {
            headers.remove(name);
        }
    }
    if !switches {
        headers.remove(UPGRADE);
    }
    answered
}

/// Whether a method can be passed on: others are about connections, not about what is served.
pub(crate) fn may_pass(method: &Method) -> bool {
    *method != Method::CONNECT && *method != Method::TRACE
}

#[cfg(test)]
mod tests;
