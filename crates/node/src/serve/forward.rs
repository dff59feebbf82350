//! Ports of pods, forwarded: over SPDY, over SPDY within a WebSocket, and over plain channels
//! (R129–R131).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tenure_streams::channel::{self, ChannelMessage, Protocol};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::socket::{Sender, Socket};
use super::upgrade::{self, Upgrade};
use super::{Answered, NodeErrorResponse, QueryParameters, Service};
use crate::clock;
use crate::pods::KnownPod;
use crate::runtime::{Duplex, RuntimeError};
use crate::spdy::{SpdyConnection, SpdyRole, SpdyStream, StreamClosed, StreamReader, StreamWriter};

/// The SPDY protocol of forwarded ports.
const SPDY: [&str; 1] = ["portforward.k8s.io"];
/// How much is carried at once.
const PIECE_BYTES: usize = 16 * 1024;
/// How long a client may take to open the second stream of a pair.
const PAIR_LIMIT: Duration = Duration::from_secs(30);
/// How long a client may go on writing to a port that has said all.
const REST_LIMIT: Duration = Duration::from_secs(5);
/// Ports that one plain WebSocket may forward: there are 256 channels, two for each.
const PORTS_MAX: usize = 64;

/// Answers `/portForward/{namespace}/{pod}`.
pub(super) async fn answer(
    service: Arc<Service>,
    mut request: Request<Incoming>,
    namespace: &str,
    pod: &str,
) -> Answered {
    let pod = service.pod(namespace, pod)?;
    let wanted = upgrade::wanted(request.headers())?;
    let query = QueryParameters::of(&request);
    let upgraded = hyper::upgrade::on(&mut request);
    let target = Arc::new(PortForwardTarget { service, pod });
    match wanted {
        Upgrade::Spdy(names) => {
            if !names.iter().any(|name| SPDY.contains(&name.as_str())) {
                return Ok(upgrade::no_common(&names.join(" "), &SPDY));
            }
            tokio::spawn(async move {
                let Ok(connection) = upgraded.await else { return };
                pairs(target, SpdyConnection::start(TokioIo::new(connection), SpdyRole::Server))
                    .await;
            });
            Ok(upgrade::to_spdy("portforward.k8s.io"))
        }
        Upgrade::Socket { key, asked }
            if asked.split(',').any(|name| name.trim() == channel::TUNNEL) =>
        {
            tokio::spawn(async move {
                let Ok(connection) = upgraded.await else { return };
                let tunnel = Socket::start(TokioIo::new(connection), false).await.tunnel();
                pairs(target, SpdyConnection::start(tunnel, SpdyRole::Server)).await;
            });
            Ok(upgrade::to_socket(&key, Some(channel::TUNNEL)))
        }
        Upgrade::Socket { key, asked } => {
            let Some((protocol, name)) = channel::negotiate(&asked, &channel::FORWARD) else {
                let offered = [channel::TUNNEL, "v4.channel.k8s.io", "v4.base64.channel.k8s.io"];
                return Ok(upgrade::no_common(&asked, &offered));
            };
            let ports = ports(&query)?;
            tokio::spawn(async move {
                let Ok(connection) = upgraded.await else { return };
                let socket = Socket::start(TokioIo::new(connection), protocol.text()).await;
                channels(target, socket, protocol, &ports).await;
            });
            Ok(upgrade::to_socket(&key, name))
        }
    }
}

/// The ports that plain channels are for.
fn ports(query: &QueryParameters) -> Result<Vec<u16>, NodeErrorResponse> {
    let texts: Vec<&str> = query.all("port").flat_map(|text| text.split(',')).collect();
    if texts.is_empty() {
        return Err(NodeErrorResponse::bad("query parameter \"port\" is required"));
    }
    if texts.len() > PORTS_MAX {
        return Err(NodeErrorResponse::bad(format!(
            "no more than {PORTS_MAX} ports can be forwarded at once"
        )));
    }
    let port = |text: &&str| match text.parse::<u16>() {
        Ok(0) => Err(NodeErrorResponse::bad(format!("port {text:?} must be > 0"))),
        Ok(port) => Ok(port),
        Err(_) => Err(NodeErrorResponse::bad(format!("unable to parse {text:?} as a port"))),
    };
    texts.iter().map(port).collect()
}

/// Whose ports they are.
struct PortForwardTarget {
    service: Arc<Service>,
    pod: Arc<KnownPod>,
}

impl PortForwardTarget {
    async fn connect(&self, port: u16) -> Result<Box<dyn Duplex>, String> {
        let connected = match &self.pod.sandbox {
            Some(sandbox) => self.service.runtime.connect(sandbox, port).await,
            None => Err(RuntimeError::NotFound("the pod's sandbox".into())),
        };
        connected.map_err(|error| self.why(port, &error))
    }

    /// What upstream says of a port that cannot be forwarded.
    fn why(&self, port: u16, error: &dyn std::fmt::Display) -> String {
        let (name, uid) = (&self.pod.key.name, &self.pod.key.uid);
        format!("error forwarding port {port} to pod {name}, uid {uid}: {error}")
    }
}

/// One half of a pair, or both.
struct StreamPair {
    data: Option<SpdyStream>,
    error: Option<SpdyStream>,
    until: Instant,
}

/// Forwards every pair of streams that a client opens, until it leaves.
async fn pairs(target: Arc<PortForwardTarget>, mut connection: SpdyConnection) {
    let mut waiting: BTreeMap<String, StreamPair> = BTreeMap::new();
    let mut running = JoinSet::new();
    let gone = connection.gone();
    let mut gone = std::pin::pin!(gone);
    loop {
        let next = waiting.values().map(|pair| pair.until).min();
        let late = async {
            match next {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let stream = tokio::select! {
            stream = connection.accept() => match stream {
                Some(stream) => stream,
                // Nothing more is opened; what runs goes on until the client is gone.
                None => break,
            },
            () = late => {
                waiting.retain(|_, pair| pair.until > clock::timer_instant());
                continue;
            }
            Some(_) = running.join_next(), if !running.is_empty() => continue,
        };
        let Some(key) = request_id(&stream) else { continue };
        let fresh =
            || StreamPair { data: None, error: None, until: clock::timer_instant() + PAIR_LIMIT };
        let pair = waiting.entry(key.clone()).or_insert_with(fresh);
        let place = match stream.headers.get("streamType") {
            "data" => &mut pair.data,
            _ => &mut pair.error,
        };
        if place.is_some() {
            tracing::debug!(request = key, "a stream of a pair was opened twice");
            stream.writer.reset().await;
            continue;
        }
        *place = Some(stream);
        if pair.data.is_some()
            && pair.error.is_some()
            && let Some(StreamPair { data: Some(data), error: Some(error), .. }) =
                waiting.remove(&key)
        {
            running.spawn(pair_up(Arc::clone(&target), data, error));
        }
    }
    tokio::select! {
        () = gone.as_mut() => {}
        () = async { while running.join_next().await.is_some() {} } => {}
    }
    connection.close().await;
}

/// Which pair a stream belongs to; old clients do not say, and open the error stream first.
fn request_id(stream: &SpdyStream) -> Option<String> {
    let kind = stream.headers.get("streamType");
    let id = stream.headers.get("requestID");
    match (kind, id) {
        ("data" | "error", id) if !id.is_empty() => Some(id.to_owned()),
        ("error", _) => Some(stream.writer.id().to_string()),
        ("data", _) => stream.writer.id().checked_sub(2).map(|id| id.to_string()),
        _ => None,
    }
}

/// Carries one connection.
async fn pair_up(target: Arc<PortForwardTarget>, data: SpdyStream, error: SpdyStream) {
    let SpdyStream { headers, reader, writer } = data;
    let text = headers.get("port");
    let carried = match text.parse::<u16>() {
        Ok(port @ 1..) => match target.connect(port).await {
            Ok(connection) => carry(
                connection,
                ForwardInput::Stream(reader),
                ForwardOutput::Stream(writer.clone()),
            )
            .await
            .map_err(|error| target.why(port, &error)),
            Err(why) => Err(why),
        },
        _ => Err(format!("{text:?} is not a port")),
    };
    match carried {
        Ok(()) => writer.finish().await,
        Err(why) => {
            tracing::debug!(why, "a port was not forwarded");
            let _ = error.writer.write(why.into()).await;
            writer.reset().await;
        }
    }
    error.writer.finish().await;
}

enum ForwardInput {
    Stream(StreamReader),
    Queue(mpsc::Receiver<Bytes>),
}

impl ForwardInput {
    async fn read(&mut self) -> Option<Bytes> {
        match self {
            ForwardInput::Stream(stream) => stream.read().await,
            ForwardInput::Queue(queue) => queue.recv().await,
        }
    }
}

enum ForwardOutput {
    Stream(StreamWriter),
    Channel(Sender, Protocol, u8),
}

impl ForwardOutput {
    /// Resolves when the client wants nothing more of this port.
    async fn gone(&self) {
        match self {
            ForwardOutput::Stream(stream) => stream.gone().await,
            // Plain channels end with their connection only.
            ForwardOutput::Channel(..) => std::future::pending().await,
        }
    }

    async fn write(&self, bytes: Bytes) -> Result<(), StreamClosed> {
        match self {
            ForwardOutput::Stream(stream) => stream.write(bytes).await,
            ForwardOutput::Channel(out, protocol, number) => {
                out.send(protocol.encode(*number, &bytes)).await
            }
        }
    }
}

/// Carries bytes both ways; each side may end before the other. Fails where the runtime says that it
/// could not reach the port after all; a peer that hangs up is no failure.
async fn carry(
    port: Box<dyn Duplex>,
    mut input: ForwardInput,
    output: ForwardOutput,
) -> io::Result<()> {
    let (mut read, mut write) = tokio::io::split(port);
    let inward = async {
        while let Some(bytes) = input.read().await {
            if write.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = write.shutdown().await;
    };
    let outward = async {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let count = match read.read(&mut buffer).await {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if hung_up(&error) => break,
                Err(error) => return Err(error),
            };
            let bytes = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
            if output.write(bytes).await.is_err() {
                return Ok(());
            }
        }
        if let ForwardOutput::Stream(stream) = &output {
            stream.clone().finish().await;
        }
        Ok(())
    };
    let both = async {
        let mut inward = std::pin::pin!(inward);
        let mut outward = std::pin::pin!(outward);
        tokio::select! {
            () = inward.as_mut() => outward.await,
            carried = outward.as_mut() => {
                if carried.is_ok() {
                    let _ = tokio::time::timeout(REST_LIMIT, inward).await;
                }
                carried
            }
        }
    };
    // A port that says nothing and never hangs up is held only while its client wants it.
    tokio::select! {
        carried = both => carried,
        () = output.gone() => Ok(()),
    }
}

fn hung_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof
    )
}

/// Forwards the ports that a plain WebSocket is for: channel 2i carries data, 2i+1 errors (R130).
async fn channels(
    target: Arc<PortForwardTarget>,
    mut socket: Socket,
    protocol: Protocol,
    ports: &[u16],
) {
    let mut running = JoinSet::new();
    let mut queues = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let Ok(data) = u8::try_from(2 * index) else { break };
        let out = socket.out.clone();
        for number in [data, data + 1] {
            let _ = out.send(protocol.encode(number, &port.to_le_bytes())).await;
        }
        let (queue, input) = mpsc::channel(2);
        queues.push(queue);
        let (target, port) = (Arc::clone(&target), *port);
        running.spawn(async move {
            let carried = match target.connect(port).await {
                Ok(connection) => {
                    let output = ForwardOutput::Channel(out.clone(), protocol, data);
                    carry(connection, ForwardInput::Queue(input), output)
                        .await
                        .map_err(|error| target.why(port, &error))
                }
                Err(why) => Err(why),
            };
            if let Err(why) = carried {
                let _ = out.send(protocol.encode(data + 1, why.as_bytes())).await;
            }
        });
    }
    loop {
        let message = tokio::select! {
            message = socket.incoming.recv() => message,
            ended = running.join_next() => {
                if ended.is_none() || running.is_empty() { break }
                continue;
            }
        };
        let Some(message) = message else { break };
        if let ChannelMessage::Data(number, bytes) = protocol.decode(message)
            && number % 2 == 0
            && let Some(queue) = queues.get(usize::from(number / 2))
        {
            // A port that reads no more makes its client wait, and only its own.
            let _ = queue.send(bytes).await;
        }
    }
    running.shutdown().await;
    socket.close().await;
}
