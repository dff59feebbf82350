//! Streams of bytes between a client and an endpoint: halves end one by one, a reset on one side is one on the
//! other, and a slow side slows the other (N13).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::table::{Backends, Listener, Target};
use super::{Shared, is_refused};

/// What is carried at once in each direction.
const BUFFER: usize = 64 << 10;
/// How long an endpoint may take to answer at all.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long accepting waits when there is no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);

/// Accepts for as long as the listener is open; connections that were made go on without it.
pub(super) fn serve(
    shared: Arc<Shared>,
    listener: Listener,
    socket: TcpListener,
    target: watch::Receiver<Arc<Target>>,
) -> AbortHandle {
    let accepting = async move {
        loop {
            match socket.accept().await {
                Ok((client, from)) => {
                    let (shared, target) = (Arc::clone(&shared), Arc::clone(&target.borrow()));
                    tokio::spawn(async move {
                        let ip = from.ip();
                        match dial(&shared, listener, &target, ip).await {
                            Ok(server) => carry(client, server).await,
                            Err(error) => {
                                tracing::debug!(%error, ?listener, "nobody answers");
                                reset(&client);
                            }
                        }
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, ?listener, "no connection could be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::spawn(accepting).abort_handle()
}

/// A connection to whoever answers first.
async fn dial(
    shared: &Shared,
    listener: Listener,
    target: &Target,
    client: IpAddr,
) -> io::Result<TcpStream> {
    let endpoints = match &target.backends {
        Backends::Endpoints(endpoints) => endpoints,
        Backends::Server => {
            let (host, port) = &shared.server;
            let dialling = TcpStream::connect((host.as_str(), *port));
            return within(dialling).await;
        }
    };
    let mut problem = io::Error::from(io::ErrorKind::ConnectionRefused);
    for endpoint in shared.affinities.order(listener, target, endpoints, client) {
        match within(to(shared, endpoint)).await {
            Ok(stream) => {
                shared.affinities.given(listener, target, client, endpoint);
                return Ok(stream);
            }
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

/// Pods are dialled in the node's network; others as the machine does it (N44).
async fn to(shared: &Shared, endpoint: SocketAddr) -> io::Result<TcpStream> {
    if shared.network.has(endpoint.ip()) {
        return shared.network.connect(endpoint).await;
    }
    if is_refused(endpoint.ip()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    TcpStream::connect(endpoint).await
}

async fn within(dialling: impl Future<Output = io::Result<TcpStream>>) -> io::Result<TcpStream> {
    match tokio::time::timeout(CONNECT_MAX, dialling).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Carries bytes until both sides are done.
pub(crate) async fn carry(mut one: TcpStream, mut other: TcpStream) {
    for stream in [&one, &other] {
        // What cannot be hastened comes a little later.
        let _ = stream.set_nodelay(true);
    }
    let carried =
        tokio::io::copy_bidirectional_with_sizes(&mut one, &mut other, BUFFER, BUFFER).await;
    if carried.is_err() {
        reset(&one);
        reset(&other);
    }
}

/// Has the other side see a reset when the connection is dropped.
pub(crate) fn reset(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO));
}
