//! A SPDY/3.1 connection in either role: streams with headers over anything that carries bytes.
//!
//! ```text
//!   socket ──► reader task ──► one short queue for each stream ──► StreamReader
//!   socket ◄── writer task ◄── one short queue for all streams ◄── StreamWriter
//! ```
//!
//! Nobody minds windows here, as nobody does on the other end: when a queue is full the reader task
//! waits, and with it the sender behind the socket. What streams are for is never known here.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tenure_streams::spdy::{
    CANCEL, Decoder, Encoder, Headers, PROTOCOL_ERROR, REFUSED_STREAM, SpdyFrame,
};
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf,
};
use tokio::sync::{mpsc, watch};

/// How many bytes are read from a socket at once; no queued piece is longer.
const READ_BYTES: usize = 16 * 1024;
/// Pieces that wait for the reader of a stream.
const STREAM_QUEUE: usize = 4;
/// Frames that wait for the socket.
const WRITE_QUEUE: usize = 8;
/// Streams that were opened and not yet taken.
const ACCEPT_QUEUE: usize = 8;
/// Streams that there may be at once, those included that say nothing more and that somebody still holds.
const STREAMS_MAX: usize = 512;
/// How often the other side is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// How long the other side may take to close once everything is said.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// Which end of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpdyRole {
    /// Opens odd streams.
    Client,
    /// Opens even streams.
    Server,
}

/// A connection; dropping it ends it at once, [`SpdyConnection::close`] as one should.
pub struct SpdyConnection {
    accepted: mpsc::Receiver<SpdyStream>,
    frames: mpsc::Sender<SpdyFrame>,
    table: Arc<StreamTable>,
    next: AtomicU32,
    ended: watch::Receiver<bool>,
    /// Ends the tasks with the connection.
    end: CloseGuard,
}

/// Whether a connection has ended; it has when this is dropped.
pub(crate) struct CloseGuard(Arc<watch::Sender<bool>>);

impl CloseGuard {
    pub(crate) fn new() -> (CloseGuard, watch::Receiver<bool>) {
        let (end, ended) = watch::channel(false);
        (CloseGuard(Arc::new(end)), ended)
    }

    pub(crate) fn flag(&self) -> Arc<watch::Sender<bool>> {
        Arc::clone(&self.0)
    }
}

impl Drop for CloseGuard {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

/// The streams of a connection.
#[derive(Default)]
struct StreamTable {
    // INVARIANT: a stream is here until its reader and all its writers are dropped, whatever the other
    // side says: what counts is what it makes us hold.
    open: Mutex<BTreeMap<u32, StreamEntry>>,
}

struct StreamEntry {
    /// `None` once the other side writes no more.
    bytes: Option<mpsc::Sender<Bytes>>,
    reset: watch::Sender<bool>,
}

/// A place among the streams, until this is dropped.
struct StreamGuard {
    id: u32,
    table: Arc<StreamTable>,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.table.lock().remove(&self.id);
    }
}

impl StreamTable {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, StreamEntry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The other side writes no more on a stream.
    fn finish(&self, stream: u32) {
        if let Some(entry) = self.lock().get_mut(&stream) {
            entry.bytes = None;
        }
    }
}

/// One stream: bytes both ways, and what it is for.
pub struct SpdyStream {
    /// What its opener says it is for.
    pub headers: Headers,
    /// What the other side writes.
    pub reader: StreamReader,
    /// What we write.
    pub writer: StreamWriter,
}

/// What the other side writes on a stream.
pub struct StreamReader {
    bytes: mpsc::Receiver<Bytes>,
    _place: Arc<StreamGuard>,
}

/// What we write on a stream. Dropping it without [`StreamWriter::finish`] says nothing to anybody.
#[derive(Clone)]
pub struct StreamWriter {
    frames: mpsc::Sender<SpdyFrame>,
    reset: watch::Receiver<bool>,
    place: Arc<StreamGuard>,
}

/// The other side is gone, or has reset the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the other side of the stream is gone")]
pub struct StreamClosed;

impl From<StreamClosed> for io::Error {
    fn from(gone: StreamClosed) -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, gone)
    }
}

impl SpdyConnection {
    /// Takes a socket on which SPDY was agreed.
    pub fn start<T>(socket: T, role: SpdyRole) -> SpdyConnection
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = tokio::io::split(socket);
        let (frames, queue) = mpsc::channel(WRITE_QUEUE);
        let (accept, accepted) = mpsc::channel(ACCEPT_QUEUE);
        let (end, ended) = CloseGuard::new();
        let table = Arc::new(StreamTable::default());
        let reader = FrameReader {
            role,
            table: Arc::clone(&table),
            // Weak, so that the writer ends when nobody but the reader could write.
            frames: frames.downgrade(),
            accept: Some(accept),
            last: 0,
        };
        let first = if role == SpdyRole::Client { 1 } else { 2 };
        let writer = FrameWriter { ping: first, encoder: Encoder::default(), ended: ended.clone() };
        tokio::spawn({
            let (mut reader, mut ended, end) = (reader, ended.clone(), end.flag());
            async move {
                let read = tokio::select! {
                    read = reader.run(read) => read,
                    _ = ended.wait_for(|ended| *ended) => Ok(()),
                };
                if let Err(error) = read {
                    tracing::debug!(%error, "a SPDY connection broke");
                }
                reader.table.lock().clear();
                drop(reader);
                end.send_replace(true);
            }
        });
        let flag = end.flag();
        tokio::spawn(async move {
            if writer.run(write, queue).await.is_err() {
                flag.send_replace(true);
            }
        });
        SpdyConnection { accepted, frames, table, next: AtomicU32::new(first), ended, end }
    }

    /// The next stream the other side opens; `None` when it has gone.
    pub async fn accept(&mut self) -> Option<SpdyStream> {
        self.accepted.recv().await
    }

    /// Opens a stream.
    pub async fn open(&self, headers: Headers) -> Result<SpdyStream, StreamClosed> {
        if *self.ended.borrow() {
            return Err(StreamClosed);
        }
        let id = self.next.fetch_add(2, Ordering::Relaxed);
        let stream = stream(id, headers.clone(), &self.table, &self.frames);
        let frame = SpdyFrame::Open { stream: id, headers, fin: false, unidirectional: false };
        self.frames.send(frame).await.map_err(|_| StreamClosed)?;
        Ok(stream)
    }

    /// Resolves when the other side is gone.
    pub fn gone(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ended = self.ended.clone();
        async move {
            // A task that is gone can say nothing more, so it counts as having said it.
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }

    /// Says that nothing more comes, and waits a little for the other side to close.
    ///
    /// A socket closed with bytes unread would take with it what the other side has not read yet.
    pub async fn close(self) {
        let SpdyConnection { accepted, frames, mut ended, end, .. } = self;
        drop(accepted);
        let _ = frames.send(SpdyFrame::GoAway { last: 0, status: 0 }).await;
        drop(frames);
        let _ = tokio::time::timeout(CLOSE_LIMIT, ended.wait_for(|ended| *ended)).await;
        drop(end);
    }
}

fn stream(
    id: u32,
    headers: Headers,
    table: &Arc<StreamTable>,
    frames: &mpsc::Sender<SpdyFrame>,
) -> SpdyStream {
    let (sender, bytes) = mpsc::channel(STREAM_QUEUE);
    let (told, reset) = watch::channel(false);
    table.lock().insert(id, StreamEntry { bytes: Some(sender), reset: told });
    let place = Arc::new(StreamGuard { id, table: Arc::clone(table) });
    SpdyStream {
        headers,
        reader: StreamReader { bytes, _place: Arc::clone(&place) },
        writer: StreamWriter { frames: frames.clone(), reset, place },
    }
}

impl StreamReader {
    /// The next piece; `None` when the other side writes no more.
    pub async fn read(&mut self) -> Option<Bytes> {
        self.bytes.recv().await
    }
}

impl StreamWriter {
    /// The number of the stream.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.place.id
    }

    /// Resolves when the other side has reset the stream, or is gone: it wants neither direction.
    pub async fn gone(&self) {
        let _ = self.reset.clone().wait_for(|reset| *reset).await;
    }

    /// Writes, once there is room.
    pub async fn write(&self, bytes: Bytes) -> Result<(), StreamClosed> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.send(SpdyFrame::Data { stream: self.id(), bytes, fin: false }).await
    }

    /// Says that nothing more comes on this stream.
    pub async fn finish(self) {
        let fin = SpdyFrame::Data { stream: self.id(), bytes: Bytes::new(), fin: true };
        let _ = self.send(fin).await;
    }

    /// Ends the stream in both directions.
    pub async fn reset(self) {
        let _ = self.send(SpdyFrame::Reset { stream: self.id(), status: CANCEL }).await;
    }

    async fn send(&self, frame: SpdyFrame) -> Result<(), StreamClosed> {
        if *self.reset.borrow() {
            return Err(StreamClosed);
        }
        self.frames.send(frame).await.map_err(|_| StreamClosed)
    }
}

struct FrameReader {
    role: SpdyRole,
    table: Arc<StreamTable>,
    frames: mpsc::WeakSender<SpdyFrame>,
    /// `None` once no more streams are taken.
    accept: Option<mpsc::Sender<SpdyStream>>,
    /// The last stream that was opened.
    last: u32,
}

impl FrameReader {
    async fn run<T: AsyncRead>(&mut self, mut socket: ReadHalf<T>) -> io::Result<()> {
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = socket.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            decoder.push(buffer.get(..count).unwrap_or_default());
            while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
                self.take(frame).await;
            }
        }
    }

    async fn take(&mut self, frame: SpdyFrame) {
        match frame {
            SpdyFrame::Open { stream, headers, fin, unidirectional: _ } => {
                self.opened(stream, headers, fin).await;
            }
            SpdyFrame::Data { stream, bytes, fin } => {
                let queue = self.table.lock().get(&stream).and_then(|entry| entry.bytes.clone());
                if let Some(queue) = queue.filter(|_| !bytes.is_empty()) {
                    // Nobody may want them any more; then they are passed over.
                    let _ = queue.send(bytes).await;
                }
                if fin {
                    self.table.finish(stream);
                }
            }
            SpdyFrame::Reply { stream, fin, .. } | SpdyFrame::Headers { stream, fin, .. } => {
                if fin {
                    self.table.finish(stream);
                }
            }
            SpdyFrame::Reset { stream, .. } => {
                self.table.finish(stream);
                if let Some(entry) = self.table.lock().get(&stream) {
                    entry.reset.send_replace(true);
                }
            }
            SpdyFrame::Ping { id } => {
                let ours = (id % 2 == 0) == (self.role == SpdyRole::Server);
                if !ours {
                    self.answer(SpdyFrame::Ping { id }).await;
                }
            }
            SpdyFrame::GoAway { .. } => self.accept = None,
            SpdyFrame::Settings | SpdyFrame::Window { .. } => {}
        }
    }

    async fn opened(&mut self, id: u32, headers: Headers, fin: bool) {
        let theirs = (id % 2 == 1) == (self.role == SpdyRole::Server);
        if !theirs || id <= self.last {
            return self.answer(SpdyFrame::Reset { stream: id, status: PROTOCOL_ERROR }).await;
        }
        self.last = id;
        let full = self.table.lock().len() >= STREAMS_MAX;
        let (Some(frames), Some(accept), false) = (self.frames.upgrade(), &self.accept, full)
        else {
            return self.answer(SpdyFrame::Reset { stream: id, status: REFUSED_STREAM }).await;
        };
        let stream = stream(id, headers, &self.table, &frames);
        if fin {
            self.table.finish(id);
        }
        let reply = SpdyFrame::Reply { stream: id, headers: Headers::default(), fin: false };
        let _ = frames.send(reply).await;
        let _ = accept.send(stream).await;
    }

    async fn answer(&self, frame: SpdyFrame) {
        if let Some(frames) = self.frames.upgrade() {
            let _ = frames.send(frame).await;
        }
    }
}

struct FrameWriter {
    /// The number of the next ping.
    ping: u32,
    encoder: Encoder,
    ended: watch::Receiver<bool>,
}

impl FrameWriter {
    /// Writes frames until nobody can make any more, then closes our side. Fails when the other side is
    /// gone, which it may learn by a ping that nobody takes.
    async fn run<T: AsyncWrite>(
        mut self,
        mut socket: WriteHalf<T>,
        mut queue: mpsc::Receiver<SpdyFrame>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut ping = tokio::time::interval(PING_EVERY);
        ping.reset();
        let mut ended = self.ended.clone();
        loop {
            let first = tokio::select! {
                frame = queue.recv() => frame,
                _ = ping.tick() => Some(self.next_ping()),
                _ = ended.wait_for(|ended| *ended) => None,
            };
            let Some(first) = first else { break };
            self.encoder.encode(&first, &mut bytes);
            while bytes.len() < READ_BYTES
                && let Ok(frame) = queue.try_recv()
            {
                self.encoder.encode(&frame, &mut bytes);
            }
            tokio::select! {
                written = socket.write_all(&bytes) => written?,
                _ = ended.wait_for(|ended| *ended) => break,
            }
            socket.flush().await?;
            bytes.clear();
        }
        socket.shutdown().await
    }

    fn next_ping(&mut self) -> SpdyFrame {
        let id = self.ping;
        self.ping = id.checked_add(2).unwrap_or(id % 2 + 2);
        SpdyFrame::Ping { id }
    }
}
