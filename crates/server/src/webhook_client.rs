//! A server of users as a `clientConfig` names it: where it is, whom it must prove to be, and one call of it.
//!
//! Admission webhooks and conversion webhooks are both reached so. What is asked, and what an answer
//! means, never lives here.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use serde_json::Value;
use tenure_machinery::validate::text;
use tenure_machinery::{Object, ObjectExt};
use tenure_outbound::{CallError, Connect, HttpsClient, TlsSettings, full};

use crate::fair;

/// The port of a service that names none.
const PORT: i64 = 443;
/// The longest text of somebody else's that is shown.
const SHOWN_BYTES_MAX: usize = 512;

/// How a webhook is called.
#[derive(Clone, Copy)]
pub(crate) struct CallSettings {
    /// What the caller calls itself.
    pub(crate) agent: &'static str,
    pub(crate) limit: Duration,
    /// The longest answer that is read.
    pub(crate) answer_bytes_max: usize,
}

/// Why a webhook gave no answer.
#[derive(Debug)]
pub(crate) enum WebhookCallError {
    /// Its settings cannot be used.
    Settings(String),
    /// It was called in vain.
    Failed(String),
}

impl std::fmt::Display for WebhookCallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WebhookCallError::Settings(why) | WebhookCallError::Failed(why) => f.write_str(why),
        }
    }
}

/// See the head of this file.
pub(crate) struct WebhookClient {
    /// Without the timeout, which is added to each call.
    url: String,
    tls: TlsSettings,
    /// Made for the first call, kept while the configuration stands.
    client: OnceLock<Result<HttpsClient, String>>,
}

impl WebhookClient {
    /// The webhook of a `clientConfig`.
    pub(crate) fn new(target: &Object) -> WebhookClient {
        let (url, server_name) = address(target);
        let authorities = STANDARD.decode(text(target, "caBundle")).unwrap_or_default();
        // A bundle of white space is none.
        let authorities =
            if authorities.trim_ascii().is_empty() { Vec::new() } else { authorities };
        let tls = TlsSettings { authorities, server_name, ..TlsSettings::default() };
        WebhookClient { url, tls, client: OnceLock::new() }
    }

    /// Posts a review; answers what came back with success.
    pub(crate) async fn post(
        &self,
        connect: &Arc<dyn Connect>,
        settings: CallSettings,
        body: Bytes,
    ) -> Result<Bytes, WebhookCallError> {
        let made = self.client.get_or_init(|| {
            HttpsClient::new(self.tls.clone(), Arc::clone(connect))
                .map_err(|error| error.to_string())
        });
        let client = made.as_ref().map_err(|why| WebhookCallError::Settings(why.clone()))?;
        // Rounded up: a moment that was waited before is not told.
        let seconds = settings.limit.as_secs() + u64::from(settings.limit.subsec_nanos() > 0);
        let url = format!("{}?timeout={seconds}s", self.url);
        let request = Request::post(&url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, settings.agent)
            .body(full(body))
            .map_err(|error| WebhookCallError::Failed(error.to_string()))?;
        // Whoever waits here works elsewhere.
        fair::rest();
        let called = client.call(request, settings.limit, settings.answer_bytes_max).await;
        let (status, body) =
            called.map_err(|error| WebhookCallError::Failed(of_call(&url, &error)))?;
        match status.is_success() {
            true => Ok(body),
            false => Err(WebhookCallError::Failed(of_status(status, &body))),
        }
    }

    #[cfg(test)]
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    #[cfg(test)]
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.tls.server_name.as_deref()
    }
}

/// The URL of a webhook, and the name that its server proves where that is not the host.
fn address(target: &Object) -> (String, Option<String>) {
    if let Some(url) = target.get("url").and_then(Value::as_str) {
        return (url.to_owned(), None);
    }
    let none = Object::new();
    let service = target.map_at(&["service"]).unwrap_or(&none);
    let host = format!("{}.{}.svc", text(service, "name"), text(service, "namespace"));
    let port = service.int_at(&["port"]).unwrap_or(PORT);
    let path = text(service, "path").trim_start_matches('/');
    (format!("https://{host}:{port}/{path}"), Some(host))
}

fn of_call(url: &str, error: &CallError) -> String {
    format!("Post {url:?}: {error}")
}

/// What an answer without success says about itself.
fn of_status(status: StatusCode, body: &[u8]) -> String {
    let said: Option<Value> = serde_json::from_slice(body).ok();
    let message = said.as_ref().and_then(|said| said.get("message")?.as_str());
    let text = String::from_utf8_lossy(body);
    let text = message.unwrap_or_else(|| text.trim());
    let text = text.get(..text.floor_char_boundary(SHOWN_BYTES_MAX)).unwrap_or_default();
    match (status, text) {
        (StatusCode::NOT_FOUND, "" | "404 page not found") => {
            "the server could not find the requested resource".to_owned()
        }
        (status, "") => format!("the webhook answered {status}"),
        (status, text) => format!("the webhook answered {status}: {text}"),
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use super::*;

    fn client(config: &Value) -> WebhookClient {
        WebhookClient::new(config.as_object().unwrap())
    }

    #[test]
    fn r163_a_service_is_called_by_its_name_and_proves_it() {
        let service = json!({"name": "hooks", "namespace": "ns"});
        let of = |service: &Value| client(&json!({"service": service}));
        let plain = of(&service);
        assert_eq!(plain.url(), "https://hooks.ns.svc:443/");
        assert_eq!(plain.server_name(), Some("hooks.ns.svc"));
        let mut full = service.clone();
        full["path"] = json!("/a/b");
        full["port"] = json!(8443);
        assert_eq!(of(&full).url(), "https://hooks.ns.svc:8443/a/b");
    }

    #[test]
    fn r163_a_url_stands_as_it_is() {
        let plain = client(&json!({"url": "https://127.0.0.1:9443/mutate"}));
        assert_eq!(plain.url(), "https://127.0.0.1:9443/mutate");
        assert_eq!(plain.server_name(), None);
    }

    #[test]
    fn r129_a_bundle_of_white_space_is_none() {
        let blank = client(&json!({"url": "https://a", "caBundle": STANDARD.encode(" \n")}));
        assert!(blank.tls.authorities.is_empty());
    }
}
