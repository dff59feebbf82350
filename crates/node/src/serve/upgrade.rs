//! How a request becomes a stream: WebSocket or SPDY, and which protocol on top of it (R126, R129, R131).

use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::NodeErrorResponse;
use super::body::{Body, full};

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_VERSIONS: HeaderName =
    HeaderName::from_static("x-accepted-stream-protocol-versions");

/// What a client wants a connection to become.
pub(super) enum Upgrade {
    /// A WebSocket; the names of subprotocols as the client lists them.
    Socket {
        /// What the answer is made from.
        key: String,
        /// Names of subprotocols.
        asked: String,
    },
    /// SPDY/3.1; the names of protocols in the client's order.
    Spdy(Vec<String>),
}

/// Reads what the client wants.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Upgrade, NodeErrorResponse> {
    let all = |name: &HeaderName| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.collect::<Vec<_>>().join(",")
    };
    let upgrade = all(&UPGRADE).to_ascii_lowercase();
    if !all(&CONNECTION).to_ascii_lowercase().contains("upgrade") || upgrade.is_empty() {
        return Err(NodeErrorResponse::bad("Upgrade request required"));
    }
    if upgrade.contains("websocket") {
        let key = all(&SEC_WEBSOCKET_KEY);
        if key.is_empty() || all(&SEC_WEBSOCKET_VERSION) != "13" {
            return Err(NodeErrorResponse::bad("unable to upgrade: not a WebSocket of version 13"));
        }
        return Ok(Upgrade::Socket { key, asked: all(&SEC_WEBSOCKET_PROTOCOL) });
    }
    if !upgrade.contains("spdy/3.1") {
        return Err(NodeErrorResponse::bad(
            "unable to upgrade: neither WebSocket nor SPDY/3.1 was asked for",
        ));
    }
    let versions = all(&PROTOCOL_VERSION);
    let versions = versions.split(',').map(str::trim).filter(|name| !name.is_empty());
    let versions: Vec<String> = versions.map(str::to_owned).collect();
    if versions.is_empty() {
        let why = "unable to upgrade: header X-Stream-Protocol-Version does not exist in request";
        return Err(NodeErrorResponse::bad(why));
    }
    Ok(Upgrade::Spdy(versions))
}

/// Whether a request that can be answered without wants a WebSocket.
pub(super) fn is_to_socket(headers: &HeaderMap) -> bool {
    matches!(wanted(headers), Ok(Upgrade::Socket { .. }))
}

/// 101 for a WebSocket.
pub(super) fn to_socket(key: &str, protocol: Option<&'static str>) -> Response<Body> {
    let mut response = switching("websocket");
    let headers = response.headers_mut();
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    }
    if let Some(protocol) = protocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    response
}

/// 101 for SPDY.
pub(super) fn to_spdy(protocol: &'static str) -> Response<Body> {
    let mut response = switching("SPDY/3.1");
    response.headers_mut().insert(PROTOCOL_VERSION, HeaderValue::from_static(protocol));
    response
}

/// 403 for a client that speaks none of the protocols.
pub(super) fn no_common(asked: &str, offered: &[&'static str]) -> Response<Body> {
    let why = format!(
        "unable to upgrade: unable to negotiate protocol: client supports [{asked}], server accepts {offered:?}"
    );
    let mut response = Response::new(full(why));
    *response.status_mut() = StatusCode::FORBIDDEN;
    for name in offered {
        response.headers_mut().append(ACCEPTED_VERSIONS, HeaderValue::from_static(name));
    }
    response
}

/// 101.
pub(super) fn switching(to: &'static str) -> Response<Body> {
    let mut response = Response::new(full(""));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(to));
    response
}
