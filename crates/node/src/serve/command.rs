//! Commands in containers and attachments to them: whatever the client speaks, its streams are joined to
//! a session of the runtime (R125–R128, R131).
//!
//! ```text
//!   WebSocket channels ─┐                    ┌─ stdin, resize ─►
//!                       ├─► Client ──► talk ─┤                    Session
//!   SPDY streams ───────┘                    └◄ stdout, stderr, exit
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tenure_streams::channel::{self, ChannelMessage, Protocol, Sizes};
use tenure_streams::outcome::CommandOutcome;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};

use super::socket::{Sender, Socket};
use super::upgrade::{self, Upgrade};
use super::{Answered, NodeErrorResponse, QueryParameters, Service};
use crate::runtime::{OutputReader, RuntimeError, Session, StdinWriter, Streams};
use crate::spdy::{SpdyConnection, SpdyRole, StreamClosed, StreamReader, StreamWriter};

/// How much output is carried at once.
const OUTPUT_BYTES: usize = 16 * 1024;
/// Input that waits for a process.
const INPUT_QUEUE: usize = 1;
/// How long a client may take to open its streams.
const STREAMS_LIMIT: Duration = Duration::from_secs(30);
/// A command that has ended may leave others behind that keep its output open; silence this long is
/// taken for the end.
const SILENCE: Duration = Duration::from_millis(500);

/// How long the command of a client that has left may go on: what was written last may still be read. Tools
/// that copy files leave as soon as they have written.
const LAST_INPUT_LIMIT: Duration = Duration::from_secs(3);

/// A session on which nothing moves for this long is ended (R128); looked at in quarters.
const IDLE_LIMIT: Duration = Duration::from_secs(4 * 60 * 60);

/// The SPDY protocols of commands, the best first.
const SPDY: [&str; 4] =
    ["v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"];

/// What is to be joined to the client.
enum Job {
    Exec { container: String, command: Vec<String> },
    Attach { container: String },
}

/// Answers `/exec/{namespace}/{pod}/{container}`.
pub(super) async fn exec(
    service: Arc<Service>,
    request: Request<Incoming>,
    namespace: &str,
    pod: &str,
    container: &str,
) -> Answered {
    let query = QueryParameters::of(&request);
    let streams = streams(&query)?;
    let command: Vec<String> = query.all("command").map(str::to_owned).collect();
    let (container, _) = running(&service, namespace, pod, container)?;
    join(service, request, streams, streams, Job::Exec { container, command })
}

/// Answers `/attach/{namespace}/{pod}/{container}`.
pub(super) async fn attach(
    service: Arc<Service>,
    request: Request<Incoming>,
    namespace: &str,
    pod: &str,
    container: &str,
) -> Answered {
    let asked = streams(&QueryParameters::of(&request))?;
    let (container, tty) = running(&service, namespace, pod, container)?;
    // Whether a process has a terminal was settled when it was started.
    let given = Streams { tty, stderr: asked.stderr && !tty, ..asked };
    join(service, request, asked, given, Job::Attach { container })
}

fn streams(query: &QueryParameters) -> Result<Streams, NodeErrorResponse> {
    let tty = query.flag("tty");
    let streams = Streams {
        stdin: query.flag("input"),
        stdout: query.flag("output"),
        stderr: query.flag("error") && !tty,
        tty,
    };
    if !streams.stdin && !streams.stdout && !streams.stderr {
        return Err(NodeErrorResponse::bad("you must specify at least 1 of stdin, stdout, stderr"));
    }
    Ok(streams)
}

/// The id of a container that runs, and whether it has a terminal.
fn running(
    service: &Service,
    namespace: &str,
    pod: &str,
    name: &str,
) -> Result<(String, bool), NodeErrorResponse> {
    let pod = service.pod(namespace, pod)?;
    let container = pod.container(name);
    let current = container.and_then(|container| container.current.as_ref());
    let id = current.filter(|current| current.runs()).map(|current| current.id.clone());
    let why = || format!("container not found ({name:?})");
    let id = id.ok_or_else(|| NodeErrorResponse(StatusCode::INTERNAL_SERVER_ERROR, why()))?;
    Ok((id, container.is_some_and(|container| container.tty)))
}

/// Answers 101 and joins the client to the job once the connection is ours.
fn join(
    service: Arc<Service>,
    mut request: Request<Incoming>,
    asked: Streams,
    given: Streams,
    job: Job,
) -> Answered {
    let wanted = upgrade::wanted(request.headers())?;
    let upgraded = hyper::upgrade::on(&mut request);
    match wanted {
        Upgrade::Socket { key, asked: names } => {
            let Some((protocol, name)) = channel::negotiate(&names, &channel::COMMAND) else {
                return Ok(upgrade::no_common(&names, &channel::COMMAND.map(Protocol::name)));
            };
            tokio::spawn(async move {
                let Ok(connection) = upgraded.await else { return };
                let socket = Socket::start(TokioIo::new(connection), protocol.text()).await;
                let client = socket_client(socket, protocol, asked).await;
                serve(&service, client, given, job).await;
            });
            Ok(upgrade::to_socket(&key, name))
        }
        Upgrade::Spdy(names) => {
            let found = names.iter().find_map(|name| SPDY.into_iter().find(|own| own == name));
            let Some(protocol) = found else {
                return Ok(upgrade::no_common(&names.join(" "), &SPDY));
            };
            tokio::spawn(async move {
                let Ok(connection) = upgraded.await else { return };
                let connection = SpdyConnection::start(TokioIo::new(connection), SpdyRole::Server);
                match spdy_client(connection, protocol, asked).await {
                    Some(client) => serve(&service, client, given, job).await,
                    None => tracing::debug!("a client did not open its streams"),
                }
            });
            Ok(upgrade::to_spdy(protocol))
        }
    }
}

/// Runs the job with the client's streams until one of them ends.
async fn serve(service: &Service, client: CommandClient, streams: Streams, job: Job) {
    let CommandClient { input, sizes, output, gone } = client;
    let what = match job {
        Job::Exec { .. } => "error executing command in container",
        Job::Attach { .. } => "error attaching to container",
    };
    let work = async {
        let session = match &job {
            Job::Exec { container, command } => {
                service.runtime.exec(container, command, streams).await
            }
            Job::Attach { container } => service.runtime.attach(container, streams).await,
        };
        let ended = match session {
            Ok(session) => talk(session, input, sizes, &output).await?,
            Err(error) => Err(error),
        };
        Ok::<_, StreamClosed>(match (ended, &job) {
            (Ok(code), Job::Exec { .. }) => CommandOutcome::of_code(code),
            (Ok(_), Job::Attach { .. }) => CommandOutcome::Success,
            (Err(error), _) => CommandOutcome::Failed(format!("{what}: {error}")),
        })
    };
    let is_command = matches!(job, Job::Exec { .. });
    // Whatever belongs to the session is dropped with the work, and that ends a command.
    let outcome = {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            outcome = &mut work => outcome,
            () = gone => {
                if is_command {
                    let _ = tokio::time::timeout(LAST_INPUT_LIMIT, work).await;
                }
                return;
            }
        }
    };
    if let Ok(outcome) = outcome {
        output.end(&outcome).await;
    }
}

/// Carries bytes both ways until the process has ended and its output is told.
async fn talk(
    session: Session,
    input: Option<StdinSource>,
    sizes: mpsc::Receiver<(u16, u16)>,
    output: &CommandOutput,
) -> Result<Result<i32, RuntimeError>, StreamClosed> {
    let Session { stdin, stdout, stderr, resize, exit } = session;
    let (end, ended) = watch::channel(false);
    let moved = AtomicBool::new(false);
    let exit = async {
        let code = exit.await;
        end.send_replace(true);
        Ok::<_, StreamClosed>(code)
    };
    let work = async {
        let outputs = futures::future::try_join(
            carry_out(stdout, channel::STDOUT, output, ended.clone(), &moved),
            carry_out(stderr, channel::STDERR, output, ended.clone(), &moved),
        );
        futures::future::try_join(exit, outputs).await.map(|(code, _)| code)
    };
    let aside = async {
        tokio::join!(carry_in(input, stdin, &moved), carry_sizes(sizes, resize));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        code = work => code,
        () = aside => Err(StreamClosed),
        () = idle(&moved) => Err(StreamClosed),
    }
}

/// Resolves when nothing has moved for a long time.
async fn idle(moved: &AtomicBool) {
    let mut quiet = 0;
    while quiet < 4 {
        tokio::time::sleep(IDLE_LIMIT / 4).await;
        quiet = if moved.swap(false, Ordering::Relaxed) { 0 } else { quiet + 1 };
    }
}

async fn carry_in(input: Option<StdinSource>, mut stdin: Option<StdinWriter>, moved: &AtomicBool) {
    let Some(mut input) = input else { return };
    while let Some(bytes) = input.read().await {
        moved.store(true, Ordering::Relaxed);
        let Some(writer) = &mut stdin else { continue };
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            // The process reads no more; the client may still say what it likes.
            stdin = None;
        }
    }
    if let Some(mut stdin) = stdin {
        let _ = stdin.shutdown().await;
    }
}

async fn carry_sizes(mut sizes: mpsc::Receiver<(u16, u16)>, resize: mpsc::Sender<(u16, u16)>) {
    while let Some(size) = sizes.recv().await {
        if resize.send(size).await.is_err() {
            return;
        }
    }
}

async fn carry_out(
    from: Option<OutputReader>,
    channel: u8,
    output: &CommandOutput,
    mut ended: watch::Receiver<bool>,
    moved: &AtomicBool,
) -> Result<(), StreamClosed> {
    let Some(mut from) = from else { return Ok(()) };
    let mut buffer = vec![0; OUTPUT_BYTES];
    loop {
        let silence = async {
            let _ = ended.wait_for(|ended| *ended).await;
            tokio::time::sleep(SILENCE).await;
        };
        let read = tokio::select! {
            biased;
            read = from.read(&mut buffer) => read,
            () = silence => return Ok(()),
        };
        // A terminal whose process is gone answers with an error; both are the end.
        let Ok(count @ 1..) = read else { return Ok(()) };
        let bytes = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
        moved.store(true, Ordering::Relaxed);
        output.write(channel, bytes).await?;
    }
}

/// A client, whatever it speaks.
struct CommandClient {
    /// `None` if it was not asked for.
    input: Option<StdinSource>,
    sizes: mpsc::Receiver<(u16, u16)>,
    output: CommandOutput,
    gone: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What a client writes for the process.
enum StdinSource {
    Queue(mpsc::Receiver<Bytes>),
    Stream(StreamReader),
}

impl StdinSource {
    async fn read(&mut self) -> Option<Bytes> {
        match self {
            StdinSource::Queue(queue) => queue.recv().await,
            StdinSource::Stream(stream) => stream.read().await,
        }
    }
}

/// Where a client reads what the process writes.
enum CommandOutput {
    Socket {
        out: Sender,
        protocol: Protocol,
        socket: watch::Sender<bool>,
    },
    Spdy {
        connection: SpdyConnection,
        stdout: Option<StreamWriter>,
        stderr: Option<StreamWriter>,
        error: StreamWriter,
        status: bool,
    },
}

impl CommandOutput {
    async fn write(&self, channel: u8, bytes: Bytes) -> Result<(), StreamClosed> {
        match self {
            CommandOutput::Socket { out, protocol, .. } => {
                out.send(protocol.encode(channel, &bytes)).await
            }
            CommandOutput::Spdy { stdout, stderr, .. } => {
                let stream = if channel == channel::STDERR { stderr } else { stdout };
                match stream {
                    Some(stream) => stream.write(bytes).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Says how it ended, and closes.
    async fn end(self, outcome: &CommandOutcome) {
        let say = |status: bool| if status { outcome.status() } else { outcome.sentence().into() };
        match self {
            CommandOutput::Socket { out, protocol, socket } => {
                let said = say(protocol.outcome_is_status());
                if !said.is_empty() {
                    let _ = out.send(protocol.encode(channel::ERROR, &said)).await;
                }
                drop(out);
                // Whoever keeps the socket closes it, and says so by its end.
                socket.send_replace(true);
                socket.closed().await;
            }
            CommandOutput::Spdy { connection, stdout, stderr, error, status } => {
                let _ = error.write(say(status).into()).await;
                for stream in [Some(error), stdout, stderr].into_iter().flatten() {
                    stream.finish().await;
                }
                connection.close().await;
            }
        }
    }
}

/// Sorts the messages of a WebSocket by their channels.
async fn socket_client(socket: Socket, protocol: Protocol, asked: Streams) -> CommandClient {
    let (input, queue) = mpsc::channel(INPUT_QUEUE);
    let (resize, sizes) = mpsc::channel(1);
    let (close, mut closing) = watch::channel(false);
    let gone = Box::pin(socket.gone());
    let out = socket.out.clone();
    if protocol != Protocol::V5 {
        // Older clients wait for a first message.
        let first = match (asked.stdout, asked.stderr) {
            (true, _) => channel::STDOUT,
            (false, true) => channel::STDERR,
            (false, false) => channel::ERROR,
        };
        let _ = out.send(protocol.encode(first, &[])).await;
    }
    tokio::spawn(async move {
        let mut socket = socket;
        let mut input = asked.stdin.then_some(input);
        loop {
            let message = tokio::select! {
                message = socket.incoming.recv() => message,
                _ = closing.wait_for(|close| *close) => break,
            };
            let Some(message) = message else { return };
            let sorted = async {
                match protocol.decode(message) {
                    ChannelMessage::Data(channel::STDIN, bytes) if !bytes.is_empty() => {
                        if let Some(input) = &input {
                            let _ = input.send(bytes).await;
                        }
                    }
                    ChannelMessage::Data(channel::RESIZE, bytes) => {
                        if let Some(size) = channel::terminal_size(&bytes) {
                            let _ = resize.send(size).await;
                        }
                    }
                    ChannelMessage::Close(channel::STDIN) => return Some(true),
                    ChannelMessage::Broken => return None,
                    ChannelMessage::Data(..)
                    | ChannelMessage::Close(_)
                    | ChannelMessage::Nothing => {}
                }
                Some(false)
            };
            let closes_input = tokio::select! {
                sorted = sorted => sorted,
                _ = closing.wait_for(|close| *close) => break,
            };
            match closes_input {
                Some(true) => input = None,
                Some(false) => {}
                None => break,
            }
        }
        drop(input);
        socket.close().await;
    });
    CommandClient {
        input: asked.stdin.then_some(StdinSource::Queue(queue)),
        sizes,
        output: CommandOutput::Socket { out, protocol, socket: close },
        gone,
    }
}

/// Waits for the streams that a client must open; `None` if it does not.
async fn spdy_client(
    mut connection: SpdyConnection,
    protocol: &'static str,
    asked: Streams,
) -> Option<CommandClient> {
    let resizes = asked.tty && matches!(protocol, "v4.channel.k8s.io" | "v3.channel.k8s.io");
    let wanted = [true, asked.stdin, asked.stdout, asked.stderr, resizes];
    let mut missing = wanted.into_iter().filter(|wanted| *wanted).count();
    let (resize, sizes) = mpsc::channel(1);
    let (mut input, mut stdout, mut stderr, mut error) = (None, None, None, None);
    let limit = tokio::time::sleep(STREAMS_LIMIT);
    let mut limit = std::pin::pin!(limit);
    while missing > 0 {
        let stream = tokio::select! {
            stream = connection.accept() => stream?,
            () = limit.as_mut() => return None,
        };
        match stream.headers.get("streamType") {
            "error" => error = Some(stream.writer),
            "stdin" => input = Some(StdinSource::Stream(stream.reader)),
            "stdout" => stdout = Some(stream.writer),
            "stderr" => stderr = Some(stream.writer),
            "resize" => drop(tokio::spawn(read_sizes(stream.reader, resize.clone()))),
            _ => continue,
        }
        missing -= 1;
    }
    let gone = Box::pin(connection.gone());
    let status = protocol == "v4.channel.k8s.io";
    let output = CommandOutput::Spdy { connection, stdout, stderr, error: error?, status };
    Some(CommandClient { input, sizes, output, gone })
}

async fn read_sizes(mut stream: StreamReader, resize: mpsc::Sender<(u16, u16)>) {
    let mut sizes = Sizes::default();
    while let Some(bytes) = stream.read().await {
        for size in sizes.push(&bytes) {
            if resize.send(size).await.is_err() {
                return;
            }
        }
    }
}
