//! A body that is passed on while it comes: little of it waits here.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tenure_outbound::{RequestBody, full};
use tokio::sync::mpsc;

/// So many parts wait for the other server.
const PARTS_WAITING: usize = 2;

/// The same body, for a request to somebody else. It ends with that request, also where its sender stalls.
pub(super) fn passed<B>(body: B) -> RequestBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let size = body.size_hint();
    if size.exact() == Some(0) {
        return full(Bytes::new());
    }
    let (sender, receiver) = mpsc::channel(PARTS_WAITING);
    tokio::spawn(async move {
        let mut body = pin!(body);
        loop {
            let next = async { body.frame().await.map(|frame| frame.map_err(io::Error::other)) };
            let frame = tokio::select! {
                frame = next => frame,
                () = sender.closed() => return,
            };
            let part = match frame {
                None => return,
                Some(Err(error)) => Err(error),
                // What stands behind a body is about this connection alone.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Ok(data),
                    Err(_) => continue,
                },
            };
            if sender.send(part).await.is_err() {
                return;
            }
        }
    });
    PassedBody { receiver, left: size }.map_err(Into::into).boxed()
}

struct PassedBody {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    /// What its sender said of its length; a length that is known is passed on.
    left: SizeHint,
}

impl http_body::Body for PassedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let part = self.receiver.poll_recv(context);
        if let Poll::Ready(Some(Ok(data))) = &part
            && let Some(left) = self.left.exact()
        {
            self.left = SizeHint::with_exact(left.saturating_sub(data.len() as u64));
        }
        part.map(|part| part.map(|part| part.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.left
    }
}
