//! From a URL to a connection: a stream to its host, and TLS on top.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use crate::tls::{self, TlsSettings};

/// How long a server may take until TLS stands; a call that has less time ends earlier.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// The port of a URL that names none.
const HTTPS: u16 = 443;

/// A connection, before TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection in the making.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>;

/// How a host is reached.
pub trait Connect: Send + Sync + 'static {
    /// Reaches a port of a host.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a>;
}

/// Over the network of this machine, by the names that it knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Connect for Direct {
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a> {
        Box::pin(async move {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let socket = TcpStream::connect((bare.unwrap_or(host), port)).await?;
            socket.set_nodelay(true)?;
            Ok(Box::new(socket) as Box<dyn Stream>)
        })
    }
}

/// Makes the connections of a client.
#[derive(Clone)]
pub(crate) struct TlsConnect {
    connect: Arc<dyn Connect>,
    settings: Arc<TlsSettings>,
    tls: TlsConnector,
}

impl TlsConnect {
    pub(crate) fn new(
        connect: Arc<dyn Connect>,
        settings: TlsSettings,
        config: rustls::ClientConfig,
    ) -> TlsConnect {
        let tls = TlsConnector::from(Arc::new(config));
        TlsConnect { connect, settings: Arc::new(settings), tls }
    }

    async fn reach(self, uri: Uri) -> io::Result<TokioIo<TlsConnection>> {
        let host = uri.host().unwrap_or_default();
        let port = uri.port_u16().unwrap_or(HTTPS);
        let name = tls::server_name(&self.settings, host).map_err(io::Error::other)?;
        let reached = async {
            let stream = self.connect.connect(host, port).await?;
            self.tls.connect(name, stream).await
        };
        let late = |_| {
            let why = format!("{host}:{port} does not answer");
            io::Error::new(io::ErrorKind::TimedOut, why)
        };
        let stream = tokio::time::timeout(CONNECT_LIMIT, reached).await.map_err(late)?;
        let stream = stream
            .map_err(|error| io::Error::new(error.kind(), format!("{host}:{port}: {error}")))?;
        Ok(TokioIo::new(TlsConnection(stream)))
    }
}

impl Service<Uri> for TlsConnect {
    type Response = TokioIo<TlsConnection>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<TlsConnection>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().reach(uri))
    }
}

/// A connection with TLS, which tells the pool what is spoken on it.
pub(crate) struct TlsConnection(TlsStream<Box<dyn Stream>>);

impl Connection for TlsConnection {
    fn connected(&self) -> Connected {
        let (_, session) = self.0.get_ref();
        match session.alpn_protocol() {
            Some(b"h2") => Connected::new().negotiated_h2(),
            _ => Connected::new(),
        }
    }
}

impl AsyncRead for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for TlsConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
