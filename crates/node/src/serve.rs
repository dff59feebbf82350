//! What a node answers to the API server: logs, commands, attachments, forwarded ports, and a few facts
//! (R133). Statuses and decisions are made elsewhere; here they are only read.
//!
//! ```text
//!   in memory, or TLS with a checked certificate ──► Service ──► /containerLogs    logs
//!                                                                /exec /attach     Runtime sessions
//!                                                                /portForward      Runtime connections
//!                                                                /portProxy        one of them, plain
//!                                                                /pods /healthz /metrics /stats/summary
//! ```
//!
//! A connection owns everything that is done for it: when the client leaves, its commands end, its
//! files are closed and its queues are dropped. No queue is longer than a few pieces.

mod body;
mod command;
mod connections;
mod facts;
mod forward;
#[doc(hidden)]
pub mod fuzzing;
mod listen;
mod log;
mod port;
mod socket;
mod upgrade;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tenure_machinery::NodePath;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::logs::Watcher;
use crate::pods::{KnownPod, Pods};
use crate::runtime::ContainerRuntime;

pub use body::Body;
pub use listen::{AccessRejection, ClientIdentity, Listener, NodeAuthorizer, RequiredAccess};

use body::{json, text};

/// How long a client may take for the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// Answers requests about the pods of one node.
pub struct Service {
    pub(crate) node: String,
    pub(crate) runtime: Arc<dyn ContainerRuntime>,
    pub(crate) pods: Pods,
    pub(crate) logs: PathBuf,
    pub(crate) watcher: Watcher,
}

/// A refusal in the words of a node: a code and a sentence.
pub(crate) struct NodeErrorResponse(pub(crate) StatusCode, pub(crate) String);

impl NodeErrorResponse {
    pub(crate) fn bad(why: impl Into<String>) -> NodeErrorResponse {
        NodeErrorResponse(StatusCode::BAD_REQUEST, why.into())
    }

    pub(crate) fn missing(why: impl Into<String>) -> NodeErrorResponse {
        NodeErrorResponse(StatusCode::NOT_FOUND, why.into())
    }
}

/// What a handler gives.
pub(crate) type Answered = Result<Response<Body>, NodeErrorResponse>;

impl Service {
    /// A service for one node whose logs lie below `logs`. Needs a running Tokio.
    #[must_use]
    pub fn new(
        node: impl Into<String>,
        runtime: Arc<dyn ContainerRuntime>,
        pods: Pods,
        logs: PathBuf,
    ) -> Arc<Service> {
        let watcher = Watcher::start();
        Arc::new(Service { node: node.into(), runtime, pods, logs, watcher })
    }

    /// Speaks HTTP/1.1 on a connection whose other end may do everything: the API server of the same
    /// process, which has asked its own rules (R133).
    pub async fn serve<T>(self: Arc<Service>, connection: T)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.serve_with(connection, |_| std::future::ready(Ok(()))).await;
    }

    /// Speaks HTTP/1.1 on a connection; every request is put before `gate` first.
    pub(crate) async fn serve_with<T, G, F>(self: Arc<Service>, connection: T, gate: G)
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        G: Fn(RequiredAccess) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), NodeErrorResponse>> + Send + 'static,
    {
        let answer = service_fn(move |request: Request<Incoming>| {
            // Judged and routed by one and the same path (R133a).
            let path = NodePath::parse(request.uri().path());
            let allowed = path.as_ref().map(|path| gate(RequiredAccess::of(&request, path)));
            let service = Arc::clone(&self);
            async move {
                let answered = match (path, allowed) {
                    (Some(path), Some(allowed)) => match allowed.await {
                        Ok(()) => service.call(request, &path).await,
                        Err(refused) => Err(refused),
                    },
                    _ => Err(NodeErrorResponse::bad("the path cannot be read\n")),
                };
                Ok::<_, Infallible>(
                    answered.unwrap_or_else(|NodeErrorResponse(code, why)| text(code, why)),
                )
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .serve_connection(TokioIo::new(connection), answer)
            .with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the node ended early");
        }
    }

    async fn call(self: Arc<Service>, request: Request<Incoming>, path: &NodePath) -> Answered {
        let parts = path.segments();
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let streams = matches!(*request.method(), Method::GET | Method::POST);
        match parts.as_slice() {
            ["healthz"] | ["healthz", "ping" | "log" | "syncloop"] if reads => {
                Ok(text(StatusCode::OK, "ok"))
            }
            ["pods" | "runningpods"] if reads => Ok(json(&facts::pods(&self.pods))),
            ["metrics"] if reads => Ok(facts::metrics(&self.pods)),
            ["stats", "summary"] if reads => Ok(json(&facts::summary(&self.node, &self.pods))),
            ["containerLogs", namespace, pod, container] if reads => {
                log::answer(&self, request, namespace, pod, container).await
            }
            ["exec", namespace, pod, container] | ["exec", namespace, pod, _, container]
                if streams =>
            {
                command::exec(self, request, namespace, pod, container).await
            }
            ["attach", namespace, pod, container] | ["attach", namespace, pod, _, container]
                if streams =>
            {
                command::attach(self, request, namespace, pod, container).await
            }
            ["portForward", namespace, pod] | ["portForward", namespace, pod, _] if streams => {
                forward::answer(self, request, namespace, pod).await
            }
            ["portProxy", namespace, pod, port] if streams => {
                port::answer(Arc::clone(&self), request, namespace, pod, port).await
            }
            _ => Err(NodeErrorResponse::missing("404 page not found\n")),
        }
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<Arc<KnownPod>, NodeErrorResponse> {
        self.pods
            .find(namespace, name)
            .ok_or_else(|| NodeErrorResponse::missing("pod does not exist"))
    }
}

/// The parameters of a request, decoded.
pub(crate) struct QueryParameters(Vec<(String, String)>);

impl QueryParameters {
    pub(crate) fn of<B>(request: &Request<B>) -> QueryParameters {
        let text = request.uri().query().unwrap_or_default();
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text: &str| percent_decode(&text.replace('+', " "));
            (decode(name), decode(value))
        });
        QueryParameters(pairs.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is set, as `1` or `true`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some("1" | "true" | "True" | "TRUE" | "t" | "T"))
    }
}

/// Decodes `%41`; broken escapes stay as they are.
fn percent_decode(text: &str) -> String {
    let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if let (b'%', [high, low, after @ ..]) = (first, after)
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            out.push(high << 4 | low);
            rest = after;
        } else {
            out.push(first);
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
