//! Streams of exec, attach and port-forward as a runtime serves them: SPDY/3.1 at an address that it
//! names for one use (R153). WebSocket is not spoken: there the end of input cannot be told.
//!
//! ```text
//!   Session ◄── pipes ──► one task ◄── frames ──► the runtime
//! ```

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, Empty};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tenure_streams::outcome::CommandOutcome;
use tenure_streams::spdy::Headers;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadBuf,
};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::runtime::{Duplex, RuntimeError, Session, Streams};
use crate::spdy::{SpdyConnection, SpdyRole, SpdyStream, StreamReader, StreamWriter};

/// What a pipe holds before its writer waits.
const PIPE: usize = 64 * 1024;
/// What is read from a pipe at once.
const PIECE: usize = 16 * 1024;
/// A runtime's words about how it ended.
const WORDS_MAX: usize = 64 * 1024;

/// Opens the streams of a process.
pub(super) async fn session(address: &str, streams: Streams) -> Result<Session, RuntimeError> {
    let mut wire = StreamingConnection::open(address, "v4.channel.k8s.io").await?;
    let error = wire.stream(&[("streamType", "error")]).await?;
    let stdin = wire.wanted(streams.stdin, "stdin").await?;
    let stdout = wire.wanted(streams.stdout, "stdout").await?;
    let stderr = wire.wanted(streams.stderr && !streams.tty, "stderr").await?;
    let sizes = wire.wanted(streams.tty, "resize").await?;
    let (resize, receiver) = mpsc::channel(4);
    if let Some(stream) = sizes {
        wire.pumps.push(write_sizes(receiver, stream.writer).boxed());
    }
    let stdin = stdin.map(|stream| wire.writer(stream.writer));
    let stdout = stdout.map(|stream| wire.reader(stream.reader));
    let stderr = stderr.map(|stream| wire.reader(stream.reader));
    let guard = wire.run();
    Ok(Session {
        stdin: stdin.map(|pipe| Box::new(pipe) as _),
        stdout: stdout.map(|pipe| Box::new(pipe) as _),
        stderr: stderr.map(|pipe| Box::new(pipe) as _),
        resize,
        exit: exit(error.reader, guard).boxed(),
    })
}

/// Opens a connection to a port of a sandbox.
pub(super) async fn forward(address: &str, port: u16) -> Result<Box<dyn Duplex>, RuntimeError> {
    let mut wire = StreamingConnection::open(address, "portforward.k8s.io").await?;
    let port = port.to_string();
    let kind = |kind| [("streamType", kind), ("port", &*port), ("requestID", "0")];
    let error = wire.stream(&kind("error")).await?;
    error.writer.finish().await;
    let data = wire.stream(&kind("data")).await?;
    let read = wire.reader(data.reader);
    let write = wire.writer(data.writer);
    let guard = wire.run();
    Ok(Box::new(Forward { read, write, why: why(error.reader).boxed(), _guard: guard }))
}

/// How a process ended, by what the runtime says last.
async fn exit(error: StreamReader, guard: AbortGuard) -> Result<i32, RuntimeError> {
    let words = read_words(error).await;
    // What is still on its way to the other pipes arrives without us.
    guard.leave();
    if words.is_empty() {
        return Err(RuntimeError::Away("the runtime closed the streams before the end".into()));
    }
    match CommandOutcome::read(&words) {
        CommandOutcome::Success => Ok(0),
        CommandOutcome::Code(code) => Ok(code),
        CommandOutcome::Failed(why) => Err(RuntimeError::Failed(why)),
    }
}

async fn why(error: StreamReader) -> String {
    String::from_utf8_lossy(&read_words(error).await).into_owned()
}

async fn read_words(mut stream: StreamReader) -> Vec<u8> {
    let mut words = Vec::new();
    while let Some(piece) = stream.read().await {
        words.extend_from_slice(&piece);
        words.truncate(WORDS_MAX);
    }
    words
}

/// Tells sizes of the terminal as they come.
async fn write_sizes(mut sizes: mpsc::Receiver<(u16, u16)>, to: StreamWriter) {
    while let Some((columns, rows)) = sizes.recv().await {
        let size = format!("{{\"Width\":{columns},\"Height\":{rows}}}\n");
        if to.write(size.into()).await.is_err() {
            return;
        }
    }
}

/// Ends a connection when its user is gone.
struct AbortGuard(Option<AbortHandle>);

impl AbortGuard {
    /// Lets it come to its own end.
    fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// A forwarded connection. Where the runtime could not connect, reading says why.
struct Forward {
    read: DuplexStream,
    write: DuplexStream,
    why: BoxFuture<'static, String>,
    _guard: AbortGuard,
}

impl AsyncRead for Forward {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.read).poll_read(context, buffer);
        if !matches!(polled, Poll::Ready(Ok(()))) || buffer.filled().len() > before {
            return polled;
        }
        // The end: a good one if nothing is said about it.
        let Poll::Ready(why) = self.why.poll_unpin(context) else { return Poll::Pending };
        self.why = std::future::ready(why.clone()).boxed();
        if why.is_empty() { polled } else { Poll::Ready(Err(io::Error::other(why))) }
    }
}

impl AsyncWrite for Forward {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.write).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.write).poll_shutdown(context)
    }
}

/// A connection whose streams are opened before bytes are carried.
struct StreamingConnection {
    connection: SpdyConnection,
    /// What carries bytes between pipes and streams.
    pumps: Vec<BoxFuture<'static, ()>>,
}

impl StreamingConnection {
    async fn open(address: &str, protocol: &str) -> Result<StreamingConnection, RuntimeError> {
        let socket = upgrade(address, protocol).await?;
        Ok(StreamingConnection {
            connection: SpdyConnection::start(socket, SpdyRole::Client),
            pumps: Vec::new(),
        })
    }

    async fn stream(&mut self, headers: &[(&str, &str)]) -> Result<SpdyStream, RuntimeError> {
        let opened = self.connection.open(Headers::new(headers)).await;
        opened.map_err(|gone| RuntimeError::Away(gone.to_string()))
    }

    /// A stream of a kind, if it is wanted.
    async fn wanted(
        &mut self,
        wanted: bool,
        kind: &str,
    ) -> Result<Option<SpdyStream>, RuntimeError> {
        if wanted { self.stream(&[("streamType", kind)]).await.map(Some) } else { Ok(None) }
    }

    /// A pipe that holds what the runtime writes.
    fn reader(&mut self, mut from: StreamReader) -> DuplexStream {
        let (ours, mut theirs) = tokio::io::duplex(PIPE);
        let pump = async move {
            while let Some(bytes) = from.read().await {
                if theirs.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        };
        self.pumps.push(pump.boxed());
        ours
    }

    /// A pipe whose bytes, and whose end, go to the runtime.
    fn writer(&mut self, to: StreamWriter) -> DuplexStream {
        let (ours, mut theirs) = tokio::io::duplex(PIPE);
        let pump = async move {
            let mut piece = BytesMut::with_capacity(PIECE);
            while let Ok(1..) = theirs.read_buf(&mut piece).await {
                if to.write(piece.split().freeze()).await.is_err() {
                    return;
                }
                piece.reserve(PIECE);
            }
            to.finish().await;
        };
        self.pumps.push(pump.boxed());
        ours
    }

    /// Carries bytes until the runtime closes the connection or the guard says so.
    fn run(self) -> AbortGuard {
        let task = tokio::spawn(async move {
            let gone = self.connection.gone();
            // When all pipes are at their end, the runtime closes.
            tokio::join!(futures::future::join_all(self.pumps), gone);
        });
        AbortGuard(Some(task.abort_handle()))
    }
}

/// Asks for the connection to become SPDY.
async fn upgrade(address: &str, protocol: &str) -> Result<TokioIo<Upgraded>, RuntimeError> {
    let broken = |why: String| RuntimeError::Failed(format!("streams of the runtime: {why}"));
    let uri: http::Uri =
        address.parse().map_err(|error| broken(format!("`{address}`: {error}")))?;
    let (Some(authority), Some("http")) = (uri.authority(), uri.scheme_str()) else {
        return Err(broken(format!("`{address}` is not an address with http")));
    };
    let port = authority.port_u16().unwrap_or(80);
    let host = authority.host().trim_matches(['[', ']']);
    let socket = TcpStream::connect((host, port)).await;
    let socket = socket.map_err(|error| broken(format!("{authority}: {error}")))?;
    // Keys are small and each should arrive at once.
    let _ = socket.set_nodelay(true);
    let request = http::Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header("Host", authority.as_str())
        .header("Connection", "Upgrade")
        .header("Upgrade", "SPDY/3.1")
        .header("X-Stream-Protocol-Version", protocol)
        .body(Empty::<Bytes>::new())
        .map_err(|error| broken(error.to_string()))?;
    let socket = TokioIo::new(socket);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(socket)
        .await
        .map_err(|error| broken(error.to_string()))?;
    tokio::spawn(connection.with_upgrades());
    let response = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
    if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
        let status = response.status();
        let body = response.into_body().collect().await.map(|body| body.to_bytes());
        let text = String::from_utf8_lossy(&body.unwrap_or_default()).trim().to_owned();
        return Err(broken(format!("{status}: {text}")));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(|error| broken(error.to_string()))?;
    Ok(TokioIo::new(upgraded))
}
