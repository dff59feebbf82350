//! Bodies of a node's answers: whole, or as they happen.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tokio::sync::mpsc;

/// What every handler answers with.
pub type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A body that is there already.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A sentence.
pub(super) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    with_type(code, "text/plain; charset=utf-8", full(text))
}

/// A JSON value.
pub(super) fn json(value: &serde_json::Value) -> Response<Body> {
    with_type(StatusCode::OK, "application/json", full(value.to_string()))
}

pub(super) fn with_type(code: StatusCode, media: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

/// A body that is sent as it happens; ends when the sender is dropped, breaks when it sends an error.
struct ChannelBody {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

/// The body and the end to feed it. The queue is short: a client that stops reading makes the sender
/// wait, and one that leaves closes it.
pub(super) fn live() -> (mpsc::Sender<io::Result<Bytes>>, Body) {
    let (sender, pieces) = mpsc::channel(2);
    (sender, ChannelBody { pieces }.boxed_unsync())
}

impl http_body::Body for ChannelBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.pieces.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
