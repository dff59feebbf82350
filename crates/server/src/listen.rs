//! The socket: TLS, HTTP/1.1 and HTTP/2, graceful end.
//!
//! ```text
//!   accept ──► TLS (time limit) ──► ALPN h2 | http/1.1 ──► one task per connection ──► ApiServer::call
//!                                                              ▲
//!   stop ── no new connections, GOAWAY, idle ones close ───────┘   cut what is left after the grace
//! ```
//!
//! Nothing here looks inside a request: who may do what is decided behind [`ApiServer::call`].

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::api::{ApiServer, Peer};
use crate::body::{Body, full};

mod connections;
mod tls;

pub(crate) use connections::BusyGuard;
use connections::{ConnectionGuard, Connections, LOOK_EVERY};
use tls::ClientCertificate;
pub use tls::{Tls, TlsError};

/// How long requests may run on after the stop signal before their connection is cut.
pub const GRACE: Duration = Duration::from_secs(5);

/// How long a client may take for the TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// How long an HTTP/1.1 client may take for a request head; hyper counts idle time as well.
const HEAD_LIMIT: Duration = Duration::from_secs(90);
/// How long a connection that gives way may take for a request that has just begun.
const LAST_REQUEST_LIMIT: Duration = Duration::from_secs(60);
/// How long a client may leave what was sent to it where it is.
const STALLED_MILLISECONDS: u32 = 30_000;
/// How long accepting rests when the system has no file descriptor left.
const ACCEPT_REST: Duration = Duration::from_millis(50);

// The settings table of spec/dependencies.md, section 2.1.
const STREAMS_MAX: u32 = 250;
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
const FRAME_BYTES_MAX: u32 = 256 * 1024;
const HEADER_LIST_BYTES_MAX: u32 = 64 * 1024;
const SEND_BUFFER_BYTES: usize = 64 * 1024;
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_LIMIT: Duration = Duration::from_secs(20);
/// Bounds the head of an HTTP/1.1 request; a longer one is answered with 431.
const HTTP1_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// Serves until `stop` turns true or its sender is gone; returns how many connections had to be cut.
///
/// Watches are not ended here: whoever built the [`ApiServer`] gave it the same `stop`, and each watch
/// ends its body at an event boundary (api-server R9).
pub async fn serve(
    listener: TcpListener,
    tls: Tls,
    api: Arc<ApiServer>,
    stop: watch::Receiver<bool>,
) -> usize {
    let bounds =
        ConnectionLimits { connections: api.limits.connections, ..ConnectionLimits::default() };
    let answer = move |request, peer: Arc<Peer>| {
        let api = Arc::clone(&api);
        async move { api.call(request, &peer).await }
    };
    serve_with(listener, tls, stop, bounds, answer).await
}

/// How many there may be, and how long.
struct ConnectionLimits {
    connections: usize,
    /// How often is looked for clients that take nothing.
    look_every: Duration,
    grace: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits { connections: usize::MAX, look_every: LOOK_EVERY, grace: GRACE }
    }
}

/// [`serve`] with any handler behind the socket.
async fn serve_with<H, F>(
    listener: TcpListener,
    tls: Tls,
    mut stop: watch::Receiver<bool>,
    ConnectionLimits { connections: most, look_every, grace }: ConnectionLimits,
    answer: H,
) -> usize
where
    H: Fn(Request<Incoming>, Arc<Peer>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let acceptor = TlsAcceptor::from(tls.config());
    let server = Arc::new(Protocols::new());
    let mut connections = JoinSet::new();
    let places = Connections::new(most);
    let mut look = tokio::time::interval(look_every);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, address)) => {
                    let Some(held) = places.add() else {
                        tracing::debug!(most, "no room for one more connection");
                        continue;
                    };
                    let connection = ConnectionContext {
                        server: Arc::clone(&server),
                        tls: tls.clone(),
                        stop: stop.clone(),
                        address: address.ip(),
                        answer: answer.clone(),
                        held,
                    };
                    connections.spawn(connection.run(socket, acceptor.clone()));
                }
                Err(error) => rest_after(&error).await,
            },
            _ = look.tick() => {
                let stalled = places.cut_stalled();
                if stalled > 0 {
                    tracing::debug!(stalled, "connections are cut: their clients take nothing");
                }
            }
            // Ended connections leave the set as they end, or it would grow for ever.
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    end(connections, grace).await
}

/// Waits for the connections to end by themselves, then cuts the rest.
async fn end(mut connections: JoinSet<()>, grace: Duration) -> usize {
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all).await.is_ok() {
        return 0;
    }
    let left = connections.len();
    tracing::warn!(connections = left, "connections were cut: they did not end within the grace");
    connections.shutdown().await;
    left
}

/// Resolves when the end has been asked for.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone can never ask again, so it counts as having asked.
    let _ = stop.wait_for(|requested| *requested).await;
}

/// Accepting fails for one connection or for want of file descriptors; neither may end the server.
async fn rest_after(error: &io::Error) {
    let of_one_connection = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    );
    if !of_one_connection {
        tracing::warn!(%error, "a connection could not be accepted");
        tokio::time::sleep(ACCEPT_REST).await;
    }
}

/// One hyper configuration per protocol.
///
/// TLS has agreed on the protocol already, so the automatic builder need not wait for the first
/// bytes: a client that sends none falls under the limits of its protocol.
struct Protocols {
    http1: auto::Builder<TokioExecutor>,
    http2: auto::Builder<TokioExecutor>,
}

impl Protocols {
    fn new() -> Protocols {
        let mut http1 = auto::Builder::new(TokioExecutor::new()).http1_only();
        http1
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .title_case_headers(true)
            .max_buf_size(HTTP1_BUFFER_BYTES_MAX);
        let mut http2 = auto::Builder::new(TokioExecutor::new()).http2_only();
        http2
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES_MAX)
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_LIMIT);
        Protocols { http1, http2 }
    }
}

/// What one connection needs to live.
struct ConnectionContext<H> {
    server: Arc<Protocols>,
    tls: Tls,
    stop: watch::Receiver<bool>,
    address: IpAddr,
    answer: H,
    held: Arc<ConnectionGuard>,
}

impl<H, F> ConnectionContext<H>
where
    H: Fn(Request<Incoming>, Arc<Peer>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    /// From the raw socket to the last byte; every failure concerns this client only.
    async fn run(mut self, socket: TcpStream, acceptor: TlsAcceptor) {
        // Without it, small answers wait for the client's delayed acknowledgement.
        let _ = socket.set_nodelay(true);
        // What the system holds for a client that takes nothing is let go as well.
        let _ = sockopt::set_tcp_user_timeout(&socket, STALLED_MILLISECONDS);
        let activity = self.held.activity();
        let handshake = tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(socket));
        let stream = tokio::select! {
            () = stopped(&mut self.stop) => return,
            () = activity.gives_way() => return,
            done = handshake => match done {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
                Err(_) => return tracing::debug!("TLS handshake took too long"),
            },
        };
        // Boxed because hyper's connection is large and most of a task's life is spent in it.
        Box::pin(self.talk(stream)).await;
    }

    async fn talk(mut self, stream: TlsStream<TcpStream>) {
        let (_, session) = stream.get_ref();
        let http2 = session.alpn_protocol() == Some(b"h2");
        let shown = self.tls.judge(session.peer_certificates());
        let peer = match shown {
            ClientCertificate::Trusted(der) => Peer::new(Some(&der)),
            ClientCertificate::None => Peer::new(None),
            ClientCertificate::Untrusted => Peer::untrusted(),
        };
        let peer = Arc::new(peer.at(self.address));
        let answer = self.answer;
        let activity = self.held.activity();
        let held = self.held;
        let service = service_fn(move |mut request: Request<Incoming>| {
            let busy = held.request();
            // Whoever turns the connection into something else keeps its place with it.
            request.extensions_mut().insert(busy.clone());
            // Boxed because hyper keeps room for it as long as the connection lives, and it is large.
            let reply = Box::pin(answer(request, Arc::clone(&peer)));
            async move { Ok::<_, Infallible>(busy.until_sent(or_500(reply).await)) }
        });
        let builder = if http2 { &self.server.http2 } else { &self.server.http1 };
        let mut connection =
            pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let result = tokio::select! {
            result = connection.as_mut() => result,
            () = stopped(&mut self.stop) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = activity.gives_way() => {
                // A request that has just begun is still answered.
                connection.as_mut().graceful_shutdown();
                tokio::time::timeout(LAST_REQUEST_LIMIT, connection).await.unwrap_or(Ok(()))
            }
            // There is nothing to be said to somebody who does not listen.
            () = activity.stalled() => return,
        };
        if let Err(error) = result {
            tracing::debug!(error, "connection ended early");
        }
    }
}

/// Runs a handler; if it panics, this request alone is answered with 500.
async fn or_500<F: Future<Output = Response<Body>>>(handler: F) -> Response<Body> {
    let mut handler = pin!(handler);
    std::future::poll_fn(|context| {
        // Unwind safety: the handler is not polled again, and what it shares with other requests
        // sits behind channels and atomics that a panic cannot leave half changed.
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(context)));
        polled.unwrap_or_else(|_| {
            tracing::error!("a request handler panicked; the client got 500");
            Poll::Ready(internal_error())
        })
    })
    .await
}

fn internal_error() -> Response<Body> {
    status(
        StatusCode::INTERNAL_SERVER_ERROR,
        concat!(
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#,
            r#""message":"Internal error occurred: the request handler failed","#,
            r#""reason":"InternalError","#,
            r#""details":{"causes":[{"message":"the request handler failed"}]},"code":500}"#,
            "\n"
        ),
    )
}

fn status(code: StatusCode, body: &'static str) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests;
