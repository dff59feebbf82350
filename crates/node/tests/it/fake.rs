//! A runtime that plays scripts instead of running anything, and a node around it. No test lives here.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::json;
use tenure_node::pods::{InstanceView, KnownContainer, KnownPod, Pods};
use tenure_node::runtime::{
    Container, ContainerConfig, ContainerLimits, ContainerRuntime, ContainerState, Duplex, Image,
    ImageWanted, PodKey, Ran, RuntimeError, RuntimeFuture, RuntimeInfo, Sandbox, SandboxConfig,
    Session, Streams,
};
use tenure_node::serve::Service;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::{broadcast, mpsc, oneshot};

/// What a pipe of a script holds.
const PIPE: usize = 4096;

/// Plays scripts.
#[derive(Default)]
pub(crate) struct Fake {
    /// How many scripts play now.
    pub(crate) playing: Arc<AtomicUsize>,
    /// How many bytes scripts have written.
    pub(crate) written: Arc<AtomicUsize>,
}

struct Playing(Arc<AtomicUsize>);

impl Drop for Playing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The far ends of a session.
struct Stage {
    stdin: Option<DuplexStream>,
    stdout: Option<DuplexStream>,
    stderr: Option<DuplexStream>,
    sizes: mpsc::Receiver<(u16, u16)>,
    written: Arc<AtomicUsize>,
}

impl Stage {
    async fn out(&mut self, text: &[u8]) -> bool {
        let Some(stdout) = &mut self.stdout else { return true };
        let done = stdout.write_all(text).await.is_ok();
        self.written.fetch_add(text.len(), Ordering::SeqCst);
        done
    }

    async fn err(&mut self, text: &[u8]) {
        if let Some(stderr) = &mut self.stderr {
            stderr.write_all(text).await.unwrap();
        }
    }

    /// Plays the script and says its exit code.
    async fn play(mut self, command: &[String]) -> i32 {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["echo", rest @ ..] => {
                self.out(format!("{}\n", rest.join(" ")).as_bytes()).await;
                0
            }
            ["exit", code] => code.parse().unwrap(),
            ["both"] => {
                self.out(b"to stdout\n").await;
                self.err(b"to stderr\n").await;
                3
            }
            ["cat"] => {
                let mut stdin = self.stdin.take().unwrap();
                let mut buffer = vec![0; PIPE];
                while let Ok(count @ 1..) = stdin.read(&mut buffer).await {
                    if !self.out(&buffer[..count]).await {
                        return 1;
                    }
                }
                0
            }
            ["flood", size] => {
                let (mut left, piece) = (size.parse::<usize>().unwrap(), [b'x'; 1000]);
                while left > 0 {
                    let part = left.min(piece.len());
                    if !self.out(&piece[..part]).await {
                        return 1;
                    }
                    left -= part;
                }
                0
            }
            ["size"] => {
                let (columns, rows) = self.sizes.recv().await.unwrap();
                self.out(format!("{columns}x{rows}").as_bytes()).await;
                0
            }
            ["take"] => {
                // Reads slowly, and counts once there is nothing more.
                let (mut stdin, mut total) = (self.stdin.take().unwrap(), 0);
                let mut buffer = vec![0; PIPE];
                while let Ok(count @ 1..) = stdin.read(&mut buffer).await {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    total += count;
                }
                self.written.fetch_add(total, Ordering::SeqCst);
                0
            }
            ["leave"] => {
                // A process left behind keeps the output open for ever.
                self.out(b"left").await;
                std::mem::forget(self.stdout.take());
                0
            }
            // Never reads, never writes, never ends.
            _ => std::future::pending().await,
        }
    }
}

impl Fake {
    fn session(&self, command: Vec<String>, streams: Streams) -> Session {
        let pipe = |wanted: bool| wanted.then(|| duplex(PIPE)).unzip();
        let (stdin, stdin_far) = pipe(streams.stdin);
        let (stdout, stdout_far) = pipe(streams.stdout);
        let (stderr, stderr_far) = pipe(streams.stderr);
        let (resize, sizes) = mpsc::channel(1);
        let stage = Stage {
            stdin: stdin_far,
            stdout: stdout_far,
            stderr: stderr_far,
            sizes,
            written: Arc::clone(&self.written),
        };
        self.playing.fetch_add(1, Ordering::SeqCst);
        let playing = Playing(Arc::clone(&self.playing));
        let (done, exit) = oneshot::channel();
        let task = tokio::spawn(async move {
            let _playing = playing;
            let _ = done.send(stage.play(&command).await);
        });
        // A command ends with its session.
        struct Abort(tokio::task::JoinHandle<()>);
        impl Drop for Abort {
            fn drop(&mut self) {
                self.0.abort();
            }
        }
        let task = Abort(task);
        Session {
            stdin: stdin.map(|end| Box::new(end) as _),
            stdout: stdout.map(|end| Box::new(end) as _),
            stderr: stderr.map(|end| Box::new(end) as _),
            resize,
            exit: async move {
                let _task = task;
                exit.await.map_err(|_| RuntimeError::Failed("the script broke".into()))
            }
            .boxed(),
        }
    }
}

/// What no test asks of this runtime.
fn unscripted<'a, T: Send + 'a>() -> RuntimeFuture<'a, T> {
    async { Err(RuntimeError::Refused("not in the script".into())) }.boxed()
}

impl ContainerRuntime for Fake {
    fn about(&self) -> RuntimeFuture<'_, RuntimeInfo> {
        async { Ok(RuntimeInfo::default()) }.boxed()
    }
    fn image<'a>(&'a self, _: &'a ImageWanted) -> RuntimeFuture<'a, Image> {
        unscripted()
    }
    fn run_sandbox<'a>(&'a self, _: &'a SandboxConfig) -> RuntimeFuture<'a, Sandbox> {
        unscripted()
    }
    fn stop_sandbox<'a>(&'a self, _: &'a str) -> RuntimeFuture<'a, ()> {
        unscripted()
    }
    fn remove_sandbox<'a>(&'a self, _: &'a str) -> RuntimeFuture<'a, ()> {
        unscripted()
    }
    fn create<'a>(&'a self, _: &'a str, _: &'a ContainerConfig) -> RuntimeFuture<'a, String> {
        unscripted()
    }
    fn start<'a>(&'a self, _: &'a str) -> RuntimeFuture<'a, ()> {
        unscripted()
    }
    fn update<'a>(&'a self, _: &'a str, _: &'a ContainerLimits) -> RuntimeFuture<'a, ()> {
        unscripted()
    }
    fn stop<'a>(&'a self, _: &'a str, _: Option<&'a str>, _: Duration) -> RuntimeFuture<'a, ()> {
        unscripted()
    }
    fn remove<'a>(&'a self, _: &'a str) -> RuntimeFuture<'a, ()> {
        unscripted()
    }
    fn list(&self) -> RuntimeFuture<'_, Vec<Sandbox>> {
        async { Ok(Vec::new()) }.boxed()
    }
    fn status<'a>(&'a self, _: &'a str) -> RuntimeFuture<'a, Container> {
        unscripted()
    }
    fn changes(&self) -> broadcast::Receiver<String> {
        broadcast::channel(1).1
    }
    fn run<'a>(&'a self, _: &'a str, _: &'a [String], _: Duration) -> RuntimeFuture<'a, Ran> {
        unscripted()
    }

    fn exec<'a>(
        &'a self,
        container: &'a str,
        command: &'a [String],
        streams: Streams,
    ) -> RuntimeFuture<'a, Session> {
        assert_eq!(container, "c-1");
        async move {
            if command.first().is_some_and(|word| word == "missing") {
                return Err(RuntimeError::CannotRun("no such file".into()));
            }
            Ok(self.session(command.to_vec(), streams))
        }
        .boxed()
    }

    fn attach<'a>(&'a self, container: &'a str, streams: Streams) -> RuntimeFuture<'a, Session> {
        assert_eq!(container, "c-1");
        async move { Ok(self.session(vec!["cat".into()], streams)) }.boxed()
    }

    fn connect<'a>(&'a self, sandbox: &'a str, port: u16) -> RuntimeFuture<'a, Box<dyn Duplex>> {
        assert_eq!(sandbox, "s-1");
        async move {
            if port == 81 {
                return Err(RuntimeError::Failed("connection refused".into()));
            }
            let (near, mut far) = duplex(PIPE);
            let playing = (port == 82).then(|| {
                self.playing.fetch_add(1, Ordering::SeqCst);
                Playing(Arc::clone(&self.playing))
            });
            tokio::spawn(async move {
                if let Some(_playing) = playing {
                    // Says a little for as long as anybody could hear it.
                    while far.write_all(b".").await.is_ok() {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    return;
                }
                let mut heard = Vec::new();
                far.read_to_end(&mut heard).await.unwrap();
                far.write_all(format!("port {port} heard ").as_bytes()).await.unwrap();
                far.write_all(&heard).await.unwrap();
            });
            Ok(Box::new(near) as Box<dyn Duplex>)
        }
        .boxed()
    }
}

/// A node with one pod `shop/web` whose container `main` runs and whose container `slow` waits.
pub(crate) struct Node {
    pub(crate) service: Arc<Service>,
    pub(crate) runtime: Arc<Fake>,
    pub(crate) pods: Pods,
    pub(crate) folder: tempfile::TempDir,
}

impl Node {
    pub(crate) fn new() -> Node {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Arc::new(Fake::default());
        let pods = Pods::default();
        let root = folder.path().to_owned();
        let service = Service::new("here", Arc::clone(&runtime) as _, pods.clone(), root);
        let node = Node { service, runtime, pods, folder };
        node.put(ContainerState::Running { started: jiff::Timestamp::UNIX_EPOCH });
        node
    }

    /// The log of an instance of `main`.
    pub(crate) fn log(&self, attempt: u32) -> PathBuf {
        self.folder.path().join(format!("shop_web_u-1/main/{attempt}.log"))
    }

    /// Says what the container does.
    pub(crate) fn put(&self, state: ContainerState) {
        let instance = |attempt: u32, state| InstanceView {
            id: format!("c-{attempt}"),
            attempt,
            state,
            log: self.log(attempt),
        };
        let ended = ContainerState::Exited {
            started: jiff::Timestamp::UNIX_EPOCH,
            finished: jiff::Timestamp::UNIX_EPOCH,
            code: 1,
            reason: "Error".into(),
            message: String::new(),
        };
        let main = KnownContainer {
            name: "main".into(),
            current: Some(instance(1, state)),
            previous: Some(instance(0, ended)),
            ..KnownContainer::default()
        };
        let waits = |name: &str, waiting: &str| KnownContainer {
            name: name.into(),
            waiting: waiting.into(),
            ..KnownContainer::default()
        };
        let object = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1"}});
        let object = object.as_object().unwrap().clone();
        self.pods.put(KnownPod {
            key: PodKey { namespace: "shop".into(), name: "web".into(), uid: "u-1".into() },
            object: Arc::new(object),
            sandbox: Some("s-1".into()),
            containers: vec![
                main,
                waits("slow", "ContainerCreating"),
                waits("bad", "ErrImagePull"),
                waits("worse", "ImagePullBackOff"),
                waits("odd", ""),
            ],
        });
    }

    /// Says that the container has ended.
    pub(crate) fn end(&self) {
        self.put(ContainerState::Exited {
            started: jiff::Timestamp::UNIX_EPOCH,
            finished: jiff::Timestamp::UNIX_EPOCH,
            code: 0,
            reason: "Completed".into(),
            message: String::new(),
        });
    }

    /// A connection to the node, as the API server of the same process has one.
    pub(crate) fn dial(&self) -> DuplexStream {
        let (near, far) = duplex(64 * 1024);
        tokio::spawn(Arc::clone(&self.service).serve(far));
        near
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to be that {what}");
}
