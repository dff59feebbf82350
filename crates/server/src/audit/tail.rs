//! A response body whose end is written down, and what went out with it where that is asked for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;

use super::entry::fits;
use super::{AuditEvent, AuditSink};
use crate::body::Body;

/// A body with a line to say when it ends or is dropped.
pub(super) struct Tail {
    body: Body,
    line: Option<(Arc<AuditSink>, Box<AuditEvent>)>,
    /// What went out so far, if it is to be written down.
    kept: Option<BytesMut>,
}

impl Tail {
    pub(super) fn new(
        body: Body,
        audit: Arc<AuditSink>,
        entry: Box<AuditEvent>,
        keep: bool,
    ) -> Tail {
        Tail { body, line: Some((audit, entry)), kept: keep.then(BytesMut::new) }
    }

    pub(super) fn boxed(self) -> Body {
        BodyExt::boxed_unsync(self)
    }

    fn keep(&mut self, bytes: &Bytes) {
        let Some(kept) = &mut self.kept else { return };
        if fits(kept.len().saturating_add(bytes.len())) {
            kept.extend_from_slice(bytes);
            return;
        }
        self.kept = None;
        if let Some((_, entry)) = &mut self.line {
            entry.truncated = true;
        }
    }

    fn end(&mut self) {
        let Some((audit, mut entry)) = self.line.take() else { return };
        if let Some(kept) = self.kept.take() {
            entry.response = kept.freeze();
        }
        audit.say(entry);
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.end();
    }
}

impl http_body::Body for Tail {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(bytes) = frame.data_ref() {
                    let bytes = bytes.clone();
                    self.keep(&bytes);
                }
            }
            Poll::Ready(_) => self.end(),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
