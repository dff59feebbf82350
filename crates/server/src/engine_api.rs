//! What clients may ask of the engines that run beside the server (ownership R171, section 21).
//!
//! The server knows no engine: a driver gives it a [`EngineApi`], and without one the paths do not exist.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use tenure_core::Revision;
use tenure_machinery::Failure;

use crate::api::{ApiServer, RequestLine, not_found_text};
use crate::authenticate::User;
use crate::authorize::Consultation;
use crate::body::{Body, full};
use crate::permit::Permit;
use crate::response;

/// The ownership graph, under upstream's name.
const GRAPH: &str = "/debug/controllers/garbage-collector-controller/graph";
/// Waits until the engines have nothing left to do.
const SETTLE: &str = "/tenure/settle";
/// The files of pods on simulated nodes (spec/downward-api.md R162).
const VOLUMES: &str = "/debug/simulated/volumes";
/// How long a client waits at most, unless it says less.
const SETTLE_MOST: Duration = Duration::from_secs(30);

/// An answer on its way.
pub type Asking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The engines beside the server, as far as clients may ask.
pub trait EngineApi: Send + Sync {
    /// The ownership graph as Graphviz DOT; with uids, only what is connected to them.
    fn graph(&self, uids: Vec<String>) -> Asking<'_, String>;
    /// Waits until everything up to a revision, and all that followed from it, is done; or says who does
    /// not do its work.
    fn settle(&self, upto: Revision) -> Asking<'_, Result<Revision, String>>;
    /// Each that works beside the server, and why it does not, if so.
    fn health(&self) -> Vec<(&'static str, Result<(), String>)>;
    /// The volumes of a pod on a simulated node, with their files.
    fn volumes(&self, namespace: &str, name: &str) -> Option<serde_json::Value>;
    /// How much there is to do, as Prometheus reads it.
    fn metrics(&self) -> String;
}

/// Whether a path leads to the engines.
pub(crate) fn leads_to(path: &str) -> bool {
    matches!(path, GRAPH | SETTLE | VOLUMES)
}

/// Answers such a path.
pub(crate) async fn answer(
    api: &ApiServer,
    user: &User,
    permit: &Permit,
    line: &RequestLine,
) -> Result<Response<Body>, Failure> {
    let Some(engines) = api.engines.get() else { return Ok(not_found_text()) };
    let wanted = if line.path() == SETTLE { Method::POST } else { Method::GET };
    if line.method != wanted {
        let method = line.method.as_str().to_lowercase();
        return Err(Failure::method_not_allowed(&method, line.path()));
    }
    if line.path() == SETTLE {
        let limit = line.query().timeout()?.unwrap_or(SETTLE_MOST).min(SETTLE_MOST);
        let settled = engines.settle(api.world.current().revision());
        let late = |_| Failure::new(504, "Timeout", "the engines are still at work");
        let settled = tokio::time::timeout(limit, settled).await.map_err(late)?;
        let revision = settled.map_err(Failure::internal)?;
        // It may have taken long.
        permit.check(&api.world)?;
        return Ok(response::text(StatusCode::OK, format!("settled at revision {revision}\n")));
    }
    if line.path() == VOLUMES {
        let (namespace, name) = (line.query().text("namespace"), line.query().text("pod"));
        must_read_volumes(api, user, namespace).await?;
        let Some(volumes) = engines.volumes(namespace, name) else {
            let why = format!("no pod {namespace}/{name} is on a simulated node");
            return Err(Failure::new(404, "NotFound", why));
        };
        let mut response = Response::new(full(Bytes::from(volumes.to_string())));
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        return Ok(response);
    }
    let uids = line.query().all("uid").map(str::to_owned).collect();
    let graph = engines.graph(uids).await;
    permit.check(&api.world)?;
    let mut response = Response::new(full(Bytes::from(graph)));
    let dot = HeaderValue::from_static("text/vnd.graphviz");
    response.headers_mut().insert(CONTENT_TYPE, dot);
    Ok(response)
}

/// Files are made of what pods mention, so whoever sees them must be able to read all of that there: a
/// right to paths says nothing about namespaces (spec/downward-api.md R162).
async fn must_read_volumes(api: &ApiServer, user: &User, namespace: &str) -> Result<(), Failure> {
    for resource in ["pods", "configmaps", "secrets"] {
        let requested = tenure_rbac::RequestAttributes::Resource {
            verb: "get",
            group: "",
            resource,
            subresource: "",
            namespace,
            name: "",
        };
        Consultation::default().must(&api.access, user, &requested).await?;
    }
    Ok(())
}
