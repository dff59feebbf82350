//! The address where a process that runs answers the kubelet and whoever collects metrics: `/livez`, `/readyz`,
//! `/metrics`. Nothing else is served, and nobody is authenticated: nothing of the cluster is shown but names in
//! reasons.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::status::ProcessStatus;

/// So many are answered at once; others wait.
const CONNECTIONS: usize = 64;
/// How long somebody may take to say what is wanted.
const HEADER_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may last.
const CONNECTION_LIMIT: Duration = Duration::from_secs(60);

/// Answers until it is dropped.
pub(crate) async fn serve(listener: TcpListener, status: Arc<dyn ProcessStatus>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    // Whatever goes on for a connection ends with the server.
    let mut open = JoinSet::new();
    loop {
        while open.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let status = Arc::clone(&status);
                open.spawn(async move {
                    let _ =
                        tokio::time::timeout(CONNECTION_LIMIT, connection(stream, status)).await;
                    drop(permit);
                });
            }
            // No more files, say: a moment later there may be.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Listens on an address.
pub(crate) async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

async fn connection(stream: TcpStream, status: Arc<dyn ProcessStatus>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &*status);
        async move { Ok::<_, Infallible>(answer) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_LIMIT);
    // Whoever leaves in the middle of it is not to be told.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn answer(method: &Method, path: &str, status: &dyn ProcessStatus) -> Response<Full<Bytes>> {
    let (code, text) = match (method, path) {
        (&Method::GET, "/livez") => (StatusCode::OK, "ok\n".to_owned()),
        (&Method::GET, "/readyz") => match status.unready() {
            lines if lines.is_empty() => (StatusCode::OK, "ok\n".to_owned()),
            lines => (StatusCode::SERVICE_UNAVAILABLE, lines.join("\n") + "\n"),
        },
        (&Method::GET, "/metrics") => (StatusCode::OK, status.metrics()),
        _ => (StatusCode::NOT_FOUND, "not found\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let kind = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}
