//! A WebSocket as two short queues: messages in, messages out. What they mean is said elsewhere.
//!
//! Reading never waits for writing, so pings are answered while output is stuck (R128).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};

use crate::spdy::{CloseGuard, StreamClosed};

/// Clients send standard input in one message, however much they have.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Messages that wait for the socket; they are short.
const QUEUE: usize = 4;
/// What waits for the socket in the library.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;
/// How often the other side is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// How long the other side may take to close once everything is said.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
/// How much is read from a tunnel at once.
const TUNNEL_BYTES: usize = 32 * 1024;

/// A WebSocket; dropping it ends it.
pub(super) struct Socket {
    /// What the other side sends; ends with it.
    pub(super) incoming: mpsc::Receiver<Bytes>,
    /// Where our messages go.
    pub(super) out: Sender,
    ended: watch::Receiver<bool>,
    /// Ends the tasks with the last who could want them.
    end: Arc<CloseGuard>,
}

/// Sends messages; clones send on the same socket.
#[derive(Clone)]
pub(super) struct Sender {
    queue: mpsc::Sender<Message>,
    text: bool,
}

impl Sender {
    /// Sends one message, once there is room.
    pub(super) async fn send(&self, message: Bytes) -> Result<(), StreamClosed> {
        let message = if self.text {
            // Messages of text protocols are base64, so this cannot fail.
            Message::Text(message.try_into().map_err(|_| StreamClosed)?)
        } else {
            Message::Binary(message)
        };
        self.queue.send(message).await.map_err(|_| StreamClosed)
    }
}

impl Socket {
    /// Takes a connection on which a WebSocket was agreed; `text` if its protocol is one of text.
    pub(super) async fn start<T>(connection: T, text: bool) -> Socket
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_BYTES_MAX))
            .max_frame_size(Some(MESSAGE_BYTES_MAX))
            .write_buffer_size(0)
            .max_write_buffer_size(MESSAGE_BYTES_MAX + WRITE_BUFFER_BYTES);
        let socket = WebSocketStream::from_raw_socket(connection, Role::Server, Some(config)).await;
        let (sink, stream) = socket.split();
        let (queue, outgoing) = mpsc::channel(QUEUE);
        // One, for it may be a long one.
        let (arrived, incoming) = mpsc::channel(1);
        let (end, ended) = CloseGuard::new();
        tokio::spawn({
            let (end, mut ended) = (end.flag(), ended.clone());
            async move {
                tokio::select! {
                    () = receive(stream, arrived) => {}
                    _ = ended.wait_for(|ended| *ended) => {}
                }
                end.send_replace(true);
            }
        });
        tokio::spawn({
            let (end, mut ended) = (end.flag(), ended.clone());
            async move {
                let sent = tokio::select! {
                    sent = send(sink, outgoing) => sent,
                    _ = ended.wait_for(|ended| *ended) => Ok(()),
                };
                if sent.is_err() {
                    end.send_replace(true);
                }
            }
        });
        Socket { incoming, out: Sender { queue, text }, ended, end: Arc::new(end) }
    }

    /// Resolves when the other side is gone.
    pub(super) fn gone(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.ended.clone();
        async move {
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// Closes as one should, and waits a little for the other side to do the same.
    pub(super) async fn close(self) {
        let Socket { mut incoming, out, mut ended, end } = self;
        let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let _ = out.queue.send(Message::Close(Some(normal))).await;
        drop(out);
        let closed = async {
            while incoming.recv().await.is_some() {}
            let _ = ended.wait_for(|ended| *ended).await;
        };
        let _ = tokio::time::timeout(CLOSE_LIMIT, closed).await;
        drop(end);
    }

    /// The socket as a tunnel: the bytes of its messages, one after the other (R129).
    pub(super) fn tunnel(self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(2 * TUNNEL_BYTES);
        let (mut read, mut write) = tokio::io::split(ours);
        let Socket { mut incoming, out, ended, end } = self;
        let kept = Arc::clone(&end);
        tokio::spawn(async move {
            let _kept = kept;
            while let Some(bytes) = incoming.recv().await {
                if write.write_all(&bytes).await.is_err() {
                    // Nobody listens in the tunnel; what still comes is passed over.
                    continue;
                }
            }
            let _ = write.shutdown().await;
        });
        tokio::spawn(async move {
            let mut buffer = vec![0; TUNNEL_BYTES];
            while let Ok(count @ 1..) = read.read(&mut buffer).await {
                let bytes = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
                if out.send(bytes).await.is_err() {
                    return;
                }
            }
            let (_, incoming) = mpsc::channel(1);
            Socket { incoming, out, ended, end }.close().await;
        });
        theirs
    }
}

async fn receive<T>(
    mut stream: futures::stream::SplitStream<WebSocketStream<T>>,
    arrived: mpsc::Sender<Bytes>,
) where
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = stream.next().await {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Text(text) => text.into(),
            // The library answers pings and closes; it says so by the end of the stream.
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) | Message::Frame(_) => continue,
        };
        // Nobody may want it any more; the other side is still heard out.
        let _ = arrived.send(bytes).await;
    }
}

/// Sends until nobody can send any more. Fails when the other side is gone, which it may learn by a
/// ping that nobody takes.
async fn send<T>(
    mut sink: futures::stream::SplitSink<WebSocketStream<T>, Message>,
    mut outgoing: mpsc::Receiver<Message>,
) -> Result<(), StreamClosed>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let mut ping = tokio::time::interval(PING_EVERY);
    ping.reset();
    loop {
        let message = tokio::select! {
            message = outgoing.recv() => message,
            _ = ping.tick() => Some(Message::Ping(Bytes::new())),
        };
        let Some(message) = message else { return Ok(()) };
        let closes = message.is_close();
        sink.send(message).await.map_err(|_| StreamClosed)?;
        if closes {
            return Ok(());
        }
    }
}
