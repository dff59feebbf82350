//! Requests to an API server, by path: objects are JSON, and no type of theirs is known here.

use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::{Value, json};

use crate::ServerVersion;

/// The name under which objects are written.
const MANAGER: &str = "tenure";
/// How many objects one answer holds.
const PAGE: usize = 500;

/// A request that failed.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path} failed")]
pub struct ApiError {
    method: &'static str,
    path: String,
    #[source]
    source: Box<kube::Error>,
}

impl ApiError {
    fn new(method: &'static str, path: &str, source: kube::Error) -> ApiError {
        ApiError { method, path: path.to_owned(), source: Box::new(source) }
    }

    /// The code of the answer; none where there was no answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match &*self.source {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }

    /// What the server said, or why it could not be asked.
    #[must_use]
    pub fn reason(&self) -> String {
        match &*self.source {
            kube::Error::Api(status) => status.message.clone(),
            error => error.to_string(),
        }
    }
}

async fn send(
    client: &kube::Client,
    method: &'static str,
    path: &str,
    kind: &str,
    body: Vec<u8>,
) -> Result<Value, ApiError> {
    let failed = |error| ApiError::new(method, path, error);
    let request = Request::builder().method(method).uri(path);
    let request = request.header(ACCEPT, "application/json").header(CONTENT_TYPE, kind);
    let request = request.body(body).map_err(|error| failed(kube::Error::HttpError(error)))?;
    client.request(request).await.map_err(failed)
}

/// One object, or another document.
pub(crate) async fn get(client: &kube::Client, path: &str) -> Result<Value, ApiError> {
    send(client, "GET", path, "application/json", Vec::new()).await
}

/// Writes an object by server-side apply, over whatever others wrote to the same fields.
pub(crate) async fn apply(
    client: &kube::Client,
    path: &str,
    object: &Value,
    dry_run: bool,
) -> Result<Value, ApiError> {
    let dry = if dry_run { "&dryRun=All" } else { "" };
    let path = format!("{path}?fieldManager={MANAGER}&force=true{dry}");
    let body = object.to_string().into_bytes();
    send(client, "PATCH", &path, "application/apply-patch+yaml", body).await
}

/// Creates an object, or has a review answered.
pub(crate) async fn create(
    client: &kube::Client,
    path: &str,
    object: &Value,
) -> Result<Value, ApiError> {
    send(client, "POST", path, "application/json", object.to_string().into_bytes()).await
}

/// Removes whatever has the name; what is not there is gone.
pub(crate) async fn delete_any(client: &kube::Client, path: &str) -> Result<(), ApiError> {
    match send(client, "DELETE", path, "application/json", Vec::new()).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(404) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Replaces an object by one that names the version it was made from.
pub(crate) async fn replace(
    client: &kube::Client,
    path: &str,
    object: &Value,
) -> Result<Value, ApiError> {
    send(client, "PUT", path, "application/json", object.to_string().into_bytes()).await
}

/// Removes the object that was seen, and none that took its name since. Whether it was there.
pub(crate) async fn delete(client: &kube::Client, path: &str, uid: &str) -> Result<bool, ApiError> {
    let options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
        "preconditions": { "uid": uid },
    });
    let done = send(client, "DELETE", path, "application/json", options.to_string().into_bytes());
    match done.await {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// All objects under a path that a selector of labels chooses; an empty one chooses all. None where the
/// server knows no such kind.
pub(crate) async fn list(
    client: &kube::Client,
    path: &str,
    labels: &str,
) -> Result<Vec<Value>, ApiError> {
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let labels = escaped(labels);
        let page =
            format!("{path}?limit={PAGE}&labelSelector={labels}&continue={}", escaped(&next));
        let mut answer = match get(client, &page).await {
            Ok(answer) => answer,
            Err(error) if error.code() == Some(404) => return Ok(found),
            // Too slow for its own list: what is there now is read from the beginning.
            Err(error) if error.code() == Some(410) && !next.is_empty() => {
                found.clear();
                next.clear();
                continue;
            }
            Err(error) => return Err(error),
        };
        // Servers written in Go answer an empty list with `null`.
        if let Some(Value::Array(items)) = answer.get_mut("items").map(Value::take) {
            found.extend(items);
        }
        next = text(&answer, "/metadata/continue").to_owned();
        if next.is_empty() {
            return Ok(found);
        }
    }
}

/// The version that a server says it is of.
///
/// # Errors
/// It does not answer, or says no version.
pub async fn server_version(client: &kube::Client) -> Result<Option<ServerVersion>, ApiError> {
    let answer = get(client, "/version").await?;
    Ok(text(&answer, "/gitVersion").parse().ok())
}

pub(crate) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A value as it stands in a query.
fn escaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
