//! Asks another server whether it is there, and what it serves.
//!
//! ```text
//!   GET /apis/{group}/{version}, up to five times at once ──► the first answer that is one
//!        └──► resources; GET /openapi/v3 ──► the hash of its document; GET /openapi/v2 where it is another
//! ```
//!
//! What an answer means for its APIService is decided elsewhere.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::header::ACCEPT;
use http::{Request, StatusCode};
use serde_json::Value;
use tenure_openapi::remote;
use tenure_openapi::v2::merge;
use tenure_outbound::{Connect, HttpsClient, full};

use super::{RemoteApi, RemoteDiscovery};
use crate::api::ApiServer;
use crate::connect::RemoteUser;

/// How often a server is asked at most before it counts as gone.
const ATTEMPTS: usize = 5;
/// How long one answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long is waited for one answer until another way is tried beside it.
const NEXT_AFTER: Duration = Duration::from_secs(1);
/// How long all of them may take together.
const CHECK_LIMIT: Duration = Duration::from_secs(6);
/// How long is waited for what nobody needs at once.
const INDEX_LIMIT: Duration = Duration::from_secs(1);
/// The longest answer about resources that is read.
const DISCOVERY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The longest index of OpenAPI documents that is read.
const INDEX_BYTES_MAX: usize = 1024 * 1024;
/// The longest document in the older form that is read.
const SWAGGER_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long is waited for it.
const SWAGGER_LIMIT: Duration = Duration::from_secs(3);
/// The longest hash that is taken over.
const HASH_BYTES_MAX: usize = 256;

/// Whether a server answers; what it says of itself is taken over.
///
/// # Errors
/// Why it counts as gone, in words for its APIService.
pub(crate) async fn check(api: &ApiServer, remote: &Arc<RemoteApi>) -> Result<(), String> {
    let answer = ask(api, remote).await;
    let discovery = match &answer {
        Ok(Answered { document, openapi, swagger }) => {
            let resources = document
                .as_ref()
                .and_then(|document| remote::resources(document, &remote.group, &remote.version));
            RemoteDiscovery {
                current: resources.is_some(),
                resources: resources.unwrap_or_default(),
                openapi: openapi.clone(),
                swagger: swagger.clone(),
            }
        }
        Err(_) => RemoteDiscovery::default(),
    };
    api.kinds.learn(remote, discovery);
    answer.map(drop)
}

/// What a server says of itself.
struct Answered {
    /// Its list of resources.
    document: Option<Value>,
    /// The hash of its document.
    openapi: Option<String>,
    /// The part of its older document that is about this version.
    swagger: Option<Arc<Value>>,
}

async fn ask(api: &ApiServer, remote: &RemoteApi) -> Result<Answered, String> {
    let connect: Arc<dyn Connect> = api.admission.connect();
    let client = remote.fresh_client(api.front_proxy.as_ref(), &connect)?;
    let path = format!("/apis/{}/{}", remote.group, remote.version);
    let url = format!("https://{}{path}", remote.authority);
    let late = |_| format!("timed out waiting for {url}");
    let body = tokio::time::timeout(CHECK_LIMIT, first(&client, &url)).await.map_err(late)??;
    // Rubbish is no reason to send nobody there, but nothing is known of what is served.
    let document = serde_json::from_slice(&body).ok();
    let openapi = openapi(&client, remote, path.trim_start_matches('/')).await;
    let known = api.kinds.current().remote.discovery(remote).cloned();
    // The older document is long: it is read again when the other one has changed.
    let same = known.filter(|known| openapi.is_some() && known.openapi == openapi);
    let swagger = match same.and_then(|known| known.swagger.clone()) {
        Some(known) => Some(known),
        None => swagger(&client, remote).await.map(Arc::new),
    };
    Ok(Answered { document, openapi, swagger })
}

/// What the older document of a server says of this version, if it has one.
async fn swagger(client: &HttpsClient, remote: &RemoteApi) -> Option<Value> {
    let url = format!("https://{}/openapi/v2", remote.authority);
    let body = get(client, &url, SWAGGER_BYTES_MAX);
    let body = tokio::time::timeout(SWAGGER_LIMIT, body).await.ok()?.ok()?;
    let (group, version) = (remote.group.clone(), remote.version.clone());
    let read = move || {
        let document: Value = serde_json::from_slice(&body).ok()?;
        merge::part(&document, &group, &version)
    };
    // Reading megabytes takes long.
    tokio::task::spawn_blocking(read).await.ok()?
}

/// The first answer; whoever is slow is overtaken, as one endpoint of several may be gone.
async fn first(client: &HttpsClient, url: &str) -> Result<Bytes, String> {
    let mut running = FuturesUnordered::new();
    running.push(get(client, url, DISCOVERY_BYTES_MAX));
    let mut begun = 1;
    loop {
        let failed = tokio::select! {
            Some(ended) = running.next() => match ended {
                Ok(body) => return Ok(body),
                Err(why) => Some(why),
            },
            () = tokio::time::sleep(NEXT_AFTER), if begun < ATTEMPTS => None,
        };
        if begun < ATTEMPTS {
            begun += 1;
            running.push(get(client, url, DISCOVERY_BYTES_MAX));
        } else if let Some(why) = failed.filter(|_| running.is_empty()) {
            return Err(format!("failing or missing response from {url}: {why}"));
        }
    }
}

async fn get(client: &HttpsClient, url: &str, bytes_max: usize) -> Result<Bytes, String> {
    let mut request = Request::get(url)
        .header(ACCEPT, "application/json")
        .body(full(Bytes::new()))
        .map_err(|error| error.to_string())?;
    RemoteUser::AGGREGATOR.put(request.headers_mut())?;
    let called = client.call(request, ANSWER_LIMIT, bytes_max).await;
    let (status, body) = called.map_err(|error| format!("Get {url:?}: {error}"))?;
    match status {
        StatusCode::OK => Ok(body),
        _ if status.is_success() => Ok(Bytes::new()),
        _ => Err(format!("bad status from {url}: {}", status.as_u16())),
    }
}

/// The hash of the document of this version, if the server has one.
async fn openapi(client: &HttpsClient, remote: &RemoteApi, path: &str) -> Option<String> {
    let url = format!("https://{}/openapi/v3", remote.authority);
    let index = get(client, &url, INDEX_BYTES_MAX);
    let index = tokio::time::timeout(INDEX_LIMIT, index).await.ok()?.ok()?;
    let index: Value = serde_json::from_slice(&index).ok()?;
    let to = index.get("paths")?.get(path)?.get("serverRelativeURL")?.as_str()?;
    let hash = to.split_once("?hash=").map_or("", |(_, hash)| hash);
    let plain =
        hash.len() <= HASH_BYTES_MAX && hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| hash.to_owned())
}
