//! A client inside this process: it asks the server's own API as a service account of `kube-system`.
//!
//! Its requests are routed, authorized, admitted and audited like anybody's, and go where anybody's go: to what is
//! stored here, or to a server behind an APIService. Only the socket is missing. What is asked, and what an
//! answer means, is not decided here.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use serde_json::Value;
use tenure_machinery::{Failure, Object, ObjectExt};

use crate::api::{ApiServer, Peer};
use crate::internal_writer::InternalWriter;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
/// Longer answers are refused: whoever measures pods fills no memory.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// What is said where nothing is served.
const NOTHING_SERVED: &str = "the server could not find the requested resource";

/// Asks the server's own API.
pub struct InternalClient {
    api: Arc<ApiServer>,
    peer: Peer,
}

impl InternalClient {
    /// A client with the rights of this account in `kube-system`.
    #[must_use]
    pub fn new(writer: &InternalWriter, account: &str) -> InternalClient {
        let peer = Peer::account("kube-system", account);
        InternalClient { api: Arc::clone(writer.api()), peer }
    }

    /// Reads a path.
    ///
    /// # Errors
    /// What any client would be told.
    pub async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, "kube-controller-manager", path, Bytes::new()).await
    }

    /// Puts an object at a path.
    ///
    /// # Errors
    /// What any client would be told.
    pub async fn put(&self, agent: &str, path: &str, object: &Object) -> Result<Value, Failure> {
        let body = serde_json::to_vec(object).map_err(Failure::internal)?;
        self.call(Method::PUT, agent, path, body.into()).await
    }

    /// Merges a patch into the object at a path.
    ///
    /// # Errors
    /// What any client would be told.
    pub async fn merge(&self, agent: &str, path: &str, patch: &Value) -> Result<Value, Failure> {
        let body = serde_json::to_vec(patch).map_err(Failure::internal)?;
        self.call(Method::PATCH, agent, path, body.into()).await
    }

    /// Deletes the object at a path.
    ///
    /// # Errors
    /// What any client would be told.
    pub async fn delete(&self, agent: &str, path: &str, options: &Value) -> Result<Value, Failure> {
        let body = serde_json::to_vec(options).map_err(Failure::internal)?;
        self.call(Method::DELETE, agent, path, body.into()).await
    }

    async fn call(
        &self,
        method: Method,
        agent: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Value, Failure> {
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header(ACCEPT, JSON)
            .header(CONTENT_TYPE, if method == Method::PATCH { MERGE } else { JSON })
            .header(USER_AGENT, agent)
            .body(Full::new(body))
            .map_err(|error| Failure::bad_request(format!("{path:?} is no path: {error}")))?;
        let answer = Box::pin(self.api.call(request, &self.peer)).await;
        let code = answer.status();
        let bytes = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let bytes = bytes
            .map_err(|error| Failure::internal(format!("the answer could not be read: {error}")))?
            .to_bytes();
        let value: Option<Value> = serde_json::from_slice(&bytes).ok();
        if code.is_success() {
            return value.ok_or_else(|| Failure::internal("the answer is no JSON"));
        }
        Err(refusal(code, value.as_ref().and_then(Value::as_object)))
    }
}

/// What a response with an error says; one that is no Status says nothing but its code.
fn refusal(code: StatusCode, status: Option<&Object>) -> Failure {
    let status = status.filter(|status| status.str_at(&["kind"]) == Some("Status"));
    let text = |name| status.and_then(|status| status.str_at(&[name])).map(str::to_owned);
    let message = text("message").unwrap_or_else(|| match code {
        StatusCode::NOT_FOUND => NOTHING_SERVED.to_owned(),
        code => format!("the server answered {code}"),
    });
    let reason = text("reason").unwrap_or_else(|| match code {
        StatusCode::NOT_FOUND => "NotFound".to_owned(),
        _ => String::new(),
    });
    Failure { reason: reason.into(), ..Failure::new(code.as_u16(), "", message) }
}
