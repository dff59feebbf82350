//! Response bodies: whole, in slices, or as they happen.

use std::collections::VecDeque;
use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::Response;
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tokio::sync::mpsc;

use crate::fair::BudgetGuard;

/// What every handler answers with.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// A body that is there already.
#[must_use]
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body that somebody answers for while it is on its way (R241).
pub struct BudgetedBody {
    body: Body,
    _charge: BudgetGuard,
}

/// A mark on a response whose body is counted already.
#[derive(Clone)]
struct IsCounted;

impl BudgetedBody {
    /// A response that holds what it was charged with until its body is gone.
    pub(crate) fn held(
        mut response: Response<Body>,
        charge: Option<BudgetGuard>,
    ) -> Response<Body> {
        response.extensions_mut().insert(IsCounted);
        let Some(charge) = charge else { return response };
        response.map(|body| BodyExt::boxed_unsync(BudgetedBody { body, _charge: charge }))
    }

    /// How many bytes a response may bring that nobody answers for yet.
    pub(crate) fn bytes_of(response: &Response<Body>) -> u64 {
        if response.extensions().get::<IsCounted>().is_some() {
            return 0;
        }
        http_body::Body::size_hint(response.body()).upper().unwrap_or_default()
    }
}

impl http_body::Body for BudgetedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How much of a sliced body is gathered before it is handed to the socket.
const GATHER_BYTES: usize = 128 * 1024;

/// A body made of many shared slices, gathered into chunks only as the socket takes them.
pub struct Slices {
    slices: VecDeque<Bytes>,
    left: u64,
}

impl Slices {
    /// Takes the slices in order.
    #[must_use]
    pub fn new(slices: VecDeque<Bytes>) -> Slices {
        let left = slices.iter().map(|s| s.len() as u64).sum();
        Slices { slices, left }
    }

    /// How many bytes there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.left
    }

    /// As a response body.
    #[must_use]
    pub fn boxed(self) -> Body {
        BodyExt::boxed_unsync(self)
    }

    /// As a gzip response body.
    #[must_use]
    pub fn gzipped(self) -> Body {
        let encoder = GzEncoder::new(Vec::new(), Compression::new(1));
        BodyExt::boxed_unsync(Gzipped { slices: self, encoder: Some(encoder) })
    }

    fn gather(&mut self) -> Option<Bytes> {
        let first = self.slices.pop_front()?;
        if first.len() >= GATHER_BYTES || self.slices.is_empty() {
            self.left -= first.len() as u64;
            return Some(first);
        }
        let mut chunk = BytesMut::with_capacity(GATHER_BYTES);
        chunk.extend_from_slice(&first);
        while let Some(next) = self.slices.front() {
            if chunk.len() + next.len() > GATHER_BYTES {
                break;
            }
            chunk.extend_from_slice(next);
            self.slices.pop_front();
        }
        self.left -= chunk.len() as u64;
        Some(chunk.freeze())
    }
}

impl http_body::Body for Slices {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(self.gather().map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.slices.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

struct Gzipped {
    slices: Slices,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl http_body::Body for Gzipped {
    type Data = Bytes;
    type Error = std::io::Error;

    /// What is left holds that much memory until it is sent, however short it becomes.
    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_upper(self.slices.left.saturating_add(GATHER_BYTES as u64));
        hint
    }

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        loop {
            match self.slices.gather() {
                Some(chunk) => {
                    let Some(encoder) = self.encoder.as_mut() else { return Poll::Ready(None) };
                    if let Err(error) = encoder.write_all(&chunk) {
                        return Poll::Ready(Some(Err(error)));
                    }
                    let written = std::mem::take(encoder.get_mut());
                    if !written.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(written.into()))));
                    }
                }
                None => {
                    let Some(encoder) = self.encoder.take() else { return Poll::Ready(None) };
                    return Poll::Ready(Some(
                        encoder.finish().map(|rest| Frame::data(rest.into())),
                    ));
                }
            }
        }
    }
}

/// A part of a body that is sent as it happens.
pub(crate) struct Chunk {
    pub(crate) bytes: Bytes,
    /// Held until the socket asks for what comes next (R241).
    pub(crate) charge: Option<BudgetGuard>,
}

/// A body that is sent as it happens; ends when the sender is dropped.
pub(crate) struct StreamingBody {
    chunks: mpsc::Receiver<Chunk>,
    given: Option<BudgetGuard>,
}

impl StreamingBody {
    /// The body and the end to feed it. The queue is short: a client that stops reading makes the sender
    /// wait, and nothing piles up.
    pub(crate) fn channel() -> (mpsc::Sender<Chunk>, Body) {
        let (sender, chunks) = mpsc::channel(2);
        (sender, BodyExt::boxed_unsync(StreamingBody { chunks, given: None }))
    }
}

impl http_body::Body for StreamingBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        // Whoever asks for more has taken what was given.
        self.given = None;
        let next = self.chunks.poll_recv(cx);
        next.map(|next| {
            let Chunk { bytes, charge } = next?;
            self.given = charge;
            Some(Ok(Frame::data(bytes)))
        })
    }
}
