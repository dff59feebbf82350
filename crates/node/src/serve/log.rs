//! Logs over HTTP: which instance is meant, and how long the answer goes on (R116–R124).

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use jiff::{SignedDuration, Timestamp};
use tenure_streams::channel;
use tokio::sync::mpsc;

use super::body::{live, with_type};
use super::socket::Socket;
use super::upgrade::{self, Upgrade};
use super::{Answered, NodeErrorResponse, QueryParameters, Service};
use crate::clock;
use crate::logs::{LogChunk, LogReadOptions, LogReader, LogStream};
use crate::pods::{InstanceView, KnownContainer, Pods};

/// A container that has ended may have lines on their way to its file.
const LAST_LINES: Duration = Duration::from_millis(20);

/// Answers `/containerLogs/{namespace}/{pod}/{container}`.
pub(super) async fn answer(
    service: &Arc<Service>,
    request: Request<Incoming>,
    namespace: &str,
    pod: &str,
    container: &str,
) -> Answered {
    let query = &QueryParameters::of(&request);
    let wanted = wanted(query)?;
    let known = service
        .pods
        .find(namespace, pod)
        .ok_or_else(|| NodeErrorResponse::missing(format!("pod {pod:?} does not exist")))?;
    let Some(of) = known.container(container) else {
        let why = format!("container {container:?} not found in pod {pod:?}");
        return Err(NodeErrorResponse::missing(why));
    };
    let instance =
        instance(of, pod, query.flag("previous")).map_err(NodeErrorResponse::bad)?.clone();
    let life = Life {
        pods: service.pods.clone(),
        uid: known.key.uid.clone(),
        container: container.to_owned(),
        id: instance.id.clone(),
    };
    let root = service.logs.clone();
    let opened = tokio::task::spawn_blocking(move || LogReader::open(&root, &instance.log, wanted));
    let reader = opened.await.map_err(io::Error::other).flatten().map_err(|error| {
        NodeErrorResponse(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the log cannot be read: {error}"),
        )
    })?;
    let follow = query.flag("follow").then_some(life);
    if upgrade::is_to_socket(request.headers()) {
        return on_socket(request, |out| send(Arc::clone(service), reader, follow, out));
    }
    let (out, body) = live();
    tokio::spawn(send(Arc::clone(service), reader, follow, out));
    Ok(with_type(StatusCode::OK, "text/plain", body))
}

/// Answers 101 and sends on a WebSocket what else would be the body (R123a).
fn on_socket<F>(
    mut request: Request<Incoming>,
    start: impl FnOnce(mpsc::Sender<io::Result<Bytes>>) -> F,
) -> Answered
where
    F: Future<Output = ()> + Send + 'static,
{
    let Upgrade::Socket { key, asked } = upgrade::wanted(request.headers())? else {
        return Err(NodeErrorResponse::bad("unable to upgrade: a log is sent on a WebSocket only"));
    };
    let Some((text, name)) = channel::negotiate_one_way(&asked) else {
        return Ok(upgrade::no_common(&asked, &channel::ONE_WAY));
    };
    let (out, pieces) = mpsc::channel(2);
    let sending = start(out);
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(connection) = upgraded.await else { return };
        let socket = Socket::start(TokioIo::new(connection), text).await;
        // With the socket ends what feeds it.
        tokio::join!(sending, carry(socket, text, pieces));
    });
    Ok(upgrade::to_socket(&key, name))
}

/// Sends pieces as messages until there are no more, or the client leaves; what it says is passed over.
async fn carry(mut socket: Socket, text: bool, mut pieces: mpsc::Receiver<io::Result<Bytes>>) {
    // As upstream does: the client learns that it is heard before there is anything to say.
    let mut next = Some(Ok(Bytes::new()));
    while let Some(Ok(piece)) = next {
        if socket.out.send(channel::encode_one_way(text, piece)).await.is_err() {
            return;
        }
        next = loop {
            tokio::select! {
                piece = pieces.recv() => break piece,
                said = socket.incoming.recv() => {
                    if said.is_none() {
                        return;
                    }
                }
            }
        };
    }
    socket.close().await;
}

/// The instance whose log is meant, or why there is none (R120, R123).
fn instance<'a>(
    of: &'a KnownContainer,
    pod: &str,
    previous: bool,
) -> Result<&'a InstanceView, String> {
    let name = &of.name;
    if previous {
        let none = || format!("previous terminated container {name:?} in pod {pod:?} not found");
        return of.previous.as_ref().ok_or_else(none);
    }
    // An instance that was made and never ran has no log; the one before it may.
    let ran = of.current.as_ref().filter(|current| current.ran());
    ran.or(of.previous.as_ref()).ok_or_else(|| {
        let why = match of.waiting.as_str() {
            "ErrImagePull" => "image can't be pulled",
            "ImagePullBackOff" => "trying and failing to pull image",
            "" => {
                return format!(
                    "container {name:?} in pod {pod:?} is waiting to start - no logs yet"
                );
            }
            reason => reason,
        };
        format!("container {name:?} in pod {pod:?} is waiting to start: {why}")
    })
}

fn wanted(query: &QueryParameters) -> Result<LogReadOptions, NodeErrorResponse> {
    let invalid = || {
        NodeErrorResponse(
            StatusCode::UNPROCESSABLE_ENTITY,
            "{\"message\": \"Invalid request.\"}".into(),
        )
    };
    let undecodable = || NodeErrorResponse::bad("{\"message\": \"Unable to decode query.\"}");
    let number = |name: &str, least: i64| match query.get(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => {
            let number: i64 = text.parse().map_err(|_| undecodable())?;
            if number < least { Err(invalid()) } else { Ok(Some(number)) }
        }
    };
    let seconds = number("sinceSeconds", 1)?;
    let time = match query.get("sinceTime").filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(text.parse::<Timestamp>().map_err(|_| undecodable())?),
    };
    let since = match (seconds, time) {
        (Some(_), Some(_)) => return Err(invalid()),
        (Some(seconds), None) => {
            // A time before all times is as good as none.
            clock::timestamp().checked_sub(SignedDuration::from_secs(seconds)).ok()
        }
        (None, time) => time,
    };
    let source = match query.get("stream") {
        None | Some("" | "All") => None,
        Some("Stdout") => Some(LogStream::Stdout),
        Some("Stderr") => Some(LogStream::Stderr),
        Some(_) => return Err(invalid()),
    };
    let tail = number("tailLines", 0)?;
    if source.is_some() && tail.is_some() {
        return Err(invalid());
    }
    Ok(LogReadOptions {
        since,
        timestamps: query.flag("timestamps"),
        tail: tail.and_then(|lines| u64::try_from(lines).ok()),
        limit: number("limitBytes", 1)?.and_then(|bytes| u64::try_from(bytes).ok()),
        source,
    })
}

/// What tells whether a followed container still lives.
struct Life {
    pods: Pods,
    uid: String,
    container: String,
    id: String,
}

impl Life {
    /// Whether nothing more will be written: the instance has ended, or another is in its place.
    fn ended(&self) -> bool {
        let Some(pod) = self.pods.by_uid(&self.uid) else { return true };
        let current = pod.container(&self.container).and_then(|of| of.current.as_ref());
        !current.is_some_and(|current| current.id == self.id && !current.ended())
    }
}

/// Sends a log until its end, its limit, or until the client leaves.
async fn send(
    service: Arc<Service>,
    reader: LogReader,
    follow: Option<Life>,
    out: mpsc::Sender<io::Result<Bytes>>,
) {
    let mut reader = reader;
    let changes = follow.as_ref().map(|_| service.watcher.follow(reader.folder()));
    let mut lives = follow.as_ref().map(|life| life.pods.changes());
    let mut last_look = false;
    loop {
        // Both are asked before the file is read, so that nothing written meanwhile is missed.
        let mut changed = std::pin::pin!(changes.as_ref().and_then(|changes| changes.notified()));
        if let Some(changed) = changed.as_mut().as_pin_mut() {
            changed.enable();
        }
        let ended = follow.as_ref().is_none_or(Life::ended);
        let piece = match read(reader).await {
            Ok((back, piece)) => {
                reader = back;
                piece
            }
            Err(error) => {
                let _ = out.send(Err(error)).await;
                return;
            }
        };
        match piece {
            LogChunk::Bytes(bytes) => {
                last_look = false;
                if out.send(Ok(bytes)).await.is_err() {
                    return;
                }
                continue;
            }
            LogChunk::Limit => return,
            LogChunk::End if ended && (last_look || follow.is_none()) => return,
            LogChunk::End => {}
        }
        if ended {
            last_look = true;
            tokio::time::sleep(LAST_LINES).await;
            continue;
        }
        let patience = changes.as_ref().map_or(LAST_LINES, |changes| changes.patience());
        let pods_changed = async {
            match &mut lives {
                Some(lives) => drop(lives.changed().await),
                None => std::future::pending().await,
            }
        };
        let file_changed = async {
            match changed.as_mut().as_pin_mut() {
                Some(changed) => changed.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = out.closed() => return,
            () = file_changed => {}
            () = pods_changed => {}
            () = tokio::time::sleep(patience) => {}
        }
    }
}

/// Reads beside the other tasks: a disk may be slow.
async fn read(mut reader: LogReader) -> io::Result<(LogReader, LogChunk)> {
    let reading = tokio::task::spawn_blocking(move || {
        let piece = reader.next_piece();
        (reader, piece)
    });
    let (reader, piece) = reading.await.map_err(io::Error::other)?;
    Ok((reader, piece?))
}
