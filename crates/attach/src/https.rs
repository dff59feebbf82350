//! Webhooks of API servers: HTTPS, with HTTP/2 where that is spoken, certificates that are followed, and bounds on
//! everything. What an answer says is decided elsewhere.

mod tls;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::probe;
use crate::status::ProcessStatus;

use tls::FollowedTls;
pub use tls::{WebhookFiles, WebhookTlsError};

/// So many connections at once; API servers hold a few each.
const CONNECTIONS: usize = 256;
/// How long a handshake may take, and the head of a request.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// The longest review that is read: two objects of the size that a server takes.
const BODY_MAX: usize = 8 << 20;
/// How often it is looked whether a file has changed.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How a webhook is served.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Where API servers ask.
    pub serve: SocketAddr,
    /// What is shown to them, and who they must be.
    pub files: WebhookFiles,
    /// Where it answers `/livez`, `/readyz` and `/metrics`; nowhere without one.
    pub listen: Option<SocketAddr>,
}

/// Why a webhook could not be served.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// Its files cannot be used.
    #[error(transparent)]
    Tls(#[from] WebhookTlsError),
    /// An address cannot be listened on.
    #[error("nothing can be served at `{address}`")]
    Address {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// Who answers reviews.
pub(crate) trait WebhookAnswers: Send + Sync {
    /// Where they are posted.
    fn path(&self) -> &'static str;

    /// The answer to a review; none where it is none.
    fn answer(&self, body: &[u8]) -> Option<Vec<u8>>;
}

/// Serves until the tasks are dropped; gives the address.
pub(crate) async fn start(
    settings: &WebhookSettings,
    answers: Arc<dyn WebhookAnswers>,
    status: Arc<dyn ProcessStatus>,
    tasks: &mut JoinSet<()>,
) -> Result<SocketAddr, WebhookError> {
    let tls = Arc::new(FollowedTls::read(settings.files.clone())?);
    let (listener, address) = bind(settings.serve).await?;
    if let Some(wanted) = settings.listen {
        let (listener, _) = bind(wanted).await?;
        tasks.spawn(probe::serve(listener, status));
    }
    tasks.spawn(follow_files(Arc::clone(&tls)));
    tasks.spawn(serve(listener, tls, answers));
    Ok(address)
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), WebhookError> {
    let failed = |source| WebhookError::Address { address, source };
    let listener = probe::listen(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

async fn follow_files(tls: Arc<FollowedTls>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match tls.look() {
            Ok(true) => tracing::info!("a new certificate is shown"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the certificate of before is shown on"),
        }
    }
}

async fn serve(listener: TcpListener, tls: Arc<FollowedTls>, answers: Arc<dyn WebhookAnswers>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    // Whatever goes on for a connection ends with the server.
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (acceptor, answers) = (TlsAcceptor::from(tls.config()), Arc::clone(&answers));
                open.spawn(async move {
                    connection(stream, acceptor, answers).await;
                    drop(permit);
                });
            }
            // No more files, say: a moment later there may be.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, answers: Arc<dyn WebhookAnswers>) {
    // An answer is small and somebody waits for it.
    let _ = stream.set_nodelay(true);
    let greeted = tokio::time::timeout(GREETING_LIMIT, acceptor.accept(stream)).await;
    let stream = match greeted {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::warn!(%error, "somebody without a certificate asked"),
        Err(_) => return,
    };
    let service = service_fn(move |request: Request<Incoming>| {
        let answers = Arc::clone(&answers);
        async move { Ok::<_, Infallible>(respond(request, &*answers).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(GREETING_LIMIT);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1_000);
    // Whoever leaves in the middle of it is not to be told.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(
    request: Request<Incoming>,
    answers: &dyn WebhookAnswers,
) -> Response<Full<Bytes>> {
    if request.uri().path() != answers.path() {
        return plain(StatusCode::NOT_FOUND, "not found\n");
    }
    if request.method() != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "a review is posted\n");
    }
    let Ok(body) = Limited::new(request.into_body(), BODY_MAX).collect().await else {
        return plain(StatusCode::BAD_REQUEST, "the review is too long, or did not come whole\n");
    };
    let Some(answer) = answers.answer(&body.to_bytes()) else {
        return plain(StatusCode::BAD_REQUEST, "this is no review that is answered here\n");
    };
    let mut response = Response::new(Full::new(Bytes::from(answer)));
    let kind = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}

fn plain(code: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = code;
    response
}
