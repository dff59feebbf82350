//! A token among the protocols of a WebSocket: pages in a browser cannot send an Authorization header.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};

const BEARER: &str = "base64url.bearer.authorization.k8s.io.";

/// The token of a request that becomes a WebSocket, if it brings one there (R151).
pub(super) fn token(headers: &HeaderMap) -> Result<Option<Cow<'static, str>>, &'static str> {
    if !is_websocket(headers) {
        return Ok(None);
    }
    let mut encoded = protocols(headers).filter_map(|protocol| protocol.strip_prefix(BEARER));
    let Some(token) = encoded.next() else { return Ok(None) };
    if encoded.next().is_some() {
        return Err("there is more than one token among the protocols");
    }
    let token = BASE64_URL_SAFE_NO_PAD.decode(token).ok().and_then(|t| String::from_utf8(t).ok());
    let token = token.ok_or("the token among the protocols cannot be read")?;
    if token.is_empty() {
        return Ok(None);
    }
    // One protocol must be left that the answer can name.
    if without_token(headers).is_none() {
        return Err("there is no protocol beside the token");
    }
    Ok(Some(token.into()))
}

/// The protocols without the token, which is for nobody but this server.
pub(crate) fn without_token(headers: &HeaderMap) -> Option<HeaderValue> {
    let others: Vec<&str> = protocols(headers).filter(|one| !one.starts_with(BEARER)).collect();
    HeaderValue::from_str(&others.join(",")).ok().filter(|value| !value.is_empty())
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let lists = values.filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim)
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let says = |name, word: &str| {
        let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        texts.into_iter().any(|text| text.to_ascii_lowercase().contains(word))
    };
    says(CONNECTION, "upgrade") && says(UPGRADE, "websocket")
}
