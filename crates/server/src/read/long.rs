//! Long answers: made while they are sent, a part at a time, and let go when nobody reads them.
//!
//! ```text
//!   Parts ─┬─ laid out, compressed ──► made aside, in turn with other users ──► two parts wait ──► socket
//!          │                                                                        └─ nobody takes them: cut off
//!          └─ copied as they are stored ──────────── made as the socket takes them ───────────────► socket
//! ```
//!
//! A client that lists much and reads nothing holds a few parts, not the list. Copying costs less than the
//! encryption that follows it, and less than handing a part from thread to thread.

use std::io;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, HeaderValue, VARY};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::api::ApiServer;
use crate::authenticate::User;
use crate::body::{Body, BudgetedBody};
use crate::clock;
use crate::fair::BudgetGuard;
use crate::offload::OffloadPool;
use crate::read::parts::ListEncoder;
use crate::response;

/// An answer of which nothing is taken for this long is cut off.
const STALLED: Duration = Duration::from_secs(30);
/// An answer that takes longer than this is cut off: it holds a state of the past.
const LONGEST: Duration = Duration::from_secs(120);
/// What is wrong with an answer that ends too early.
const CUT_OFF: &str = "the answer was cut off: it was not read in time";
/// How many parts wait for the socket.
const PARTS_WAITING: usize = 2;

/// A response that is made while it is sent; `size` says how long it is, if that is known, as it is where
/// everything is copied as it is stored.
pub(crate) fn respond(
    api: &ApiServer,
    user: &User,
    parts: ListEncoder,
    size: Option<u64>,
    gzip: bool,
    charge: Option<BudgetGuard>,
) -> Response<Body> {
    let media = parts.media();
    if let Some(left) = size.filter(|_| !gzip) {
        let begin = clock::timer_instant();
        let body = CopiedListBody { parts, left, begin, taken: begin, in_a_row: 0 };
        let response = response::respond(StatusCode::OK, media, BodyExt::boxed_unsync(body));
        return BudgetedBody::held(response, charge);
    }
    let (sender, parts_made) = mpsc::channel(PARTS_WAITING);
    let body = LongResponseBody { parts: parts_made, ended: false };
    let mut response = response::respond(StatusCode::OK, media, BodyExt::boxed_unsync(body));
    if gzip {
        let headers = response.headers_mut();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    let encoder = gzip.then(|| GzEncoder::new(Vec::new(), Compression::new(1)));
    let making = Making { parts, encoder, ended: false };
    let made = send(making, Arc::clone(&api.offload), user.name.clone(), sender);
    tokio::spawn(made);
    BudgetedBody::held(response, charge)
}

/// What the maker of an answer says to the socket.
enum ResponsePart {
    Bytes(Bytes),
    End,
}

/// An answer being made.
struct Making {
    parts: ListEncoder,
    encoder: Option<GzEncoder<Vec<u8>>>,
    ended: bool,
}

impl Making {
    /// The next part and what makes the rest; none if it could not be made.
    ///
    /// At the end nothing is left, so that all there was is let go of here and not by who sends: what a list
    /// of many objects holds takes as long to drop as some answers to make.
    fn step(mut self) -> Option<(ResponsePart, Option<Making>)> {
        match self.next() {
            Some(bytes) => Some((ResponsePart::Bytes(bytes), Some(self))),
            None if self.ended => Some((ResponsePart::End, None)),
            None => None,
        }
    }

    /// The next part; none at the end, or if it could not be made.
    fn next(&mut self) -> Option<Bytes> {
        loop {
            let part = self.parts.next_part();
            let Some(encoder) = self.encoder.as_mut() else {
                self.ended = part.is_none();
                return part;
            };
            let Some(part) = part else {
                let rest = self.encoder.take()?.finish().ok()?;
                // The next look finds no part and no encoder, and that is the end.
                return Some(Bytes::from(rest));
            };
            encoder.write_all(&part).ok()?;
            let written = std::mem::take(encoder.get_mut());
            if !written.is_empty() {
                return Some(Bytes::from(written));
            }
        }
    }
}

/// Makes all parts, as fast as they are taken.
async fn send(
    making: Making,
    offload: Arc<OffloadPool>,
    user: String,
    sender: mpsc::Sender<ResponsePart>,
) {
    let end = clock::timer_instant() + LONGEST;
    let mut making = Some(making);
    while let Some(rest) = making.take() {
        let Some(Some((part, rest))) = offload.go_on(&user, move || rest.step()).await else {
            return;
        };
        making = rest;
        let most = STALLED.min(end.saturating_duration_since(clock::timer_instant()));
        if !matches!(timeout(most, sender.send(part)).await, Ok(Ok(()))) {
            return offload.leave(&user, move || drop(making));
        }
    }
}

/// A list whose items are copied as they are stored, whenever the socket has room for more.
struct CopiedListBody {
    parts: ListEncoder,
    left: u64,
    begin: tokio::time::Instant,
    /// When the last part was taken.
    taken: tokio::time::Instant,
    /// How many parts were given without a look at other work of this thread.
    in_a_row: usize,
}

impl http_body::Body for CopiedListBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.in_a_row == PARTS_WAITING {
            self.in_a_row = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.in_a_row += 1;
        let now = clock::timer_instant();
        if now - self.begin > LONGEST || now - self.taken > STALLED {
            return Poll::Ready(Some(Err(io::Error::other(CUT_OFF))));
        }
        self.taken = now;
        let part = self.parts.next_part();
        if let Some(part) = &part {
            self.left = self.left.saturating_sub(part.len() as u64);
        }
        Poll::Ready(part.map(|part| Ok(Frame::data(part))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The socket's end of what is made aside.
struct LongResponseBody {
    parts: mpsc::Receiver<ResponsePart>,
    ended: bool,
}

impl http_body::Body for LongResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.parts.poll_recv(cx).map(|part| match part {
            Some(ResponsePart::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(ResponsePart::End) => {
                self.ended = true;
                None
            }
            None => {
                self.ended = true;
                Some(Err(io::Error::other(CUT_OFF)))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
