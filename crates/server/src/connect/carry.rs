//! Carries a request to a node and its answer back, or a connection that has become something else.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tenure_machinery::Failure;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::sync::watch;
use tokio::time::Sleep;

use super::{NodeTarget, head};
use crate::api::ApiServer;
use crate::audit::AuditGuard;
use crate::body::{Body, full};
use crate::fair::BudgetGuard;
use crate::listen::BusyGuard;
use crate::metrics::InFlightGuard;
use crate::permit::Hold;
use crate::read::get;

/// What is carried at once, in each direction of an upgraded connection.
const CARRY_BYTES: usize = 16 * 1024;
/// The longest sentence of a node that is passed on.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// How long a node may take to begin its answer, or to say what is wrong (R133e).
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// Sends a request to a node over a connection of its own.
pub(super) async fn send(
    api: &ApiServer,
    target: &NodeTarget,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Incoming>, Failure> {
    // A node's owner says where it is: what is found there is for the log, not for who asks (R133d).
    let failed = |error: &dyn std::fmt::Display| {
        let node = &target.node;
        tracing::warn!(node, %error, "a node cannot be reached");
        Failure::internal(format!("error dialing backend: node {node:?} cannot be reached"))
    };
    let dialer = api.dialer.get().ok_or_else(|| failed(&"no node can be reached from here"))?;
    let nodes = api.kinds.current().find("", "v1", "nodes").cloned();
    let nodes = nodes.ok_or_else(crate::api::no_such_resource)?;
    let node = {
        let record = get::stored(&api.world.current(), &nodes, "", &target.node)?;
        nodes.read(&record)?
    };
    let wire = dialer.dial(&target.node, &node).await.map_err(|error| failed(&error))?;
    let request = head(method, &target.path, &target.node, headers, &body)?
        .body(Full::new(body))
        .map_err(|_| Failure::bad_request("the path cannot be passed on to a node"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(wire)).await.map_err(|e| failed(&e))?;
    // It ends with the answer: when the client leaves, its body is dropped and the wire closes.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "the connection to a node ended early");
        }
    });
    let answered = tokio::time::timeout(ANSWER_LIMIT, sender.send_request(request)).await;
    answered.map_err(|_| failed(&"it does not answer"))?.map_err(|error| failed(&error))
}

/// Sends a request to a node and gives its answer as it is. If both sides switch to another protocol,
/// their bytes are carried until one of them ends.
pub(super) async fn through(
    api: &ApiServer,
    target: NodeTarget,
    method: &Method,
    headers: HeaderMap,
    body: Bytes,
    held: RelayContext,
) -> Result<Response<Body>, Failure> {
    Ok(relay(api, send(api, &target, method.clone(), headers, body).await?, held))
}

/// What a client holds while it is answered.
pub(super) struct RelayContext {
    pub(super) upgrade: OnUpgrade,
    /// The place of its connection, which it keeps when the connection becomes a stream (R243).
    pub(super) place: Option<BusyGuard>,
    /// Its place in the count of open requests.
    pub(super) running: InFlightGuard,
    /// Its part of the connections to nodes (R241).
    pub(super) open: Option<BudgetGuard>,
    /// Its last line in the audit log, if that comes with the end of a stream.
    pub(super) ending: Option<AuditGuard>,
    /// What lets it go on; the stream ends with it (R260).
    pub(super) hold: Hold,
    /// When an answer that is no stream has taken too long, if it may.
    pub(super) late: Option<Pin<Box<Sleep>>>,
}

/// Gives an answer as it is, and carries the bytes of what the connection may have become.
pub(super) fn relay(
    api: &ApiServer,
    mut answered: Response<Incoming>,
    held: RelayContext,
) -> Response<Body> {
    if answered.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (mut parts, rest) = answered.into_parts();
        parts.headers.remove(CONNECTION);
        parts.headers.remove(TRANSFER_ENCODING);
        return Response::from_parts(parts, self::body(rest, api.stop.clone(), held));
    }
    let RelayContext { upgrade, place, running, open, ending, mut hold, late: _ } = held;
    let theirs = hyper::upgrade::on(&mut answered);
    let mut stop = api.stop.clone();
    tokio::spawn(async move {
        let _held = (place, running, open, ending);
        let (Ok(client), Ok(node)) = tokio::join!(upgrade, theirs) else { return };
        let (mut client, mut node) = (TokioIo::new(client), TokioIo::new(node));
        let carried =
            copy_bidirectional_with_sizes(&mut client, &mut node, CARRY_BYTES, CARRY_BYTES);
        tokio::select! {
            biased;
            () = hold.ended() => {}
            _ = stop.wait_for(|requested| *requested) => {}
            carried = carried => {
                if let Err(error) = carried {
                    tracing::debug!(%error, "a stream to a node broke");
                }
            }
        }
    });
    let (parts, _) = answered.into_parts();
    Response::from_parts(parts, full(""))
}

/// A node's answer as a body of ours; ends when the server does, and with the right to it.
pub(super) fn body(from: Incoming, stop: watch::Receiver<bool>, held: RelayContext) -> Body {
    let RelayContext { running, open, mut hold, late, .. } = held;
    let ended: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let mut stop = stop;
        tokio::select! {
            () = hold.ended() => {}
            _ = stop.wait_for(|requested| *requested) => {}
        }
    });
    Carried { from, ended, late, _held: (running, open) }.boxed_unsync()
}

/// A short sentence out of a node's answer.
pub(super) async fn text(from: Incoming) -> String {
    let read = Limited::new(from, TEXT_BYTES_MAX).collect();
    match tokio::time::timeout(ANSWER_LIMIT, read).await {
        Ok(Ok(collected)) => String::from_utf8_lossy(&collected.to_bytes()).into_owned(),
        Ok(Err(error)) => format!("the answer of the node could not be read: {error}"),
        Err(_) => "the answer of the node does not end".to_owned(),
    }
}

struct Carried {
    from: Incoming,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    late: Option<Pin<Box<Sleep>>>,
    _held: (InFlightGuard, Option<BudgetGuard>),
}

impl http_body::Body for Carried {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        // First, so that nothing is carried after the end.
        if self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        // An error, so that nobody takes a part for the whole.
        if self.late.as_mut().is_some_and(|late| late.as_mut().poll(context).is_ready()) {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        let frame = Pin::new(&mut self.from).poll_frame(context);
        frame.map(|frame| frame.map(|frame| frame.map_err(io::Error::other)))
    }
}
