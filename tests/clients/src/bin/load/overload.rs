//! One user who asks for too much: how long others wait meanwhile, and how much memory it costs.
//!
//! Whoever asks for too much does so on a thread of its own that steps back behind all others, because
//! a client elsewhere would not take the server's processors. For the same reason whoever measures goes
//! before all others, where the system allows it: a client elsewhere would not wait for them. And whoever
//! asks for too much leaves a part of the machine idle, because a machine without room is shared by the
//! system's clock and not by the server.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::wire::{Answer, Connection};
use tenure_client_tests::{Access, Server};
use tokio::task::{LocalSet, spawn_local};

use super::files::percentile;
use super::measure::{Measure, OBJECTS, config_map, fill, megabytes, milliseconds};
use super::revocation::post;

/// How much longer a quiet user may wait while somebody else asks for too much.
const SLOWER_MAX: f64 = 5.0;
/// Requests of the quiet user in one measure.
const QUIET_REQUESTS: usize = 2_400;
const QUIET_PAUSE: Duration = Duration::from_millis(2);
/// Connections of whoever asks for too much.
const GREEDY_CLIENTS: usize = 64;
/// So many hundredths of the machine stay idle beside them.
const IDLE: u64 = 20;
const IDLE_LOOK: Duration = Duration::from_millis(100);
/// How long it takes until that is so.
const SETTLES: Duration = Duration::from_secs(2);
const WATCHES: usize = 10_000;
/// Objects and their size in a list of 100 MB.
const LIST_OBJECTS: usize = 1_000;
const LIST_OBJECT_BYTES: usize = 100_000;
const QUOTA_OBJECTS: usize = 100_000;
const QUOTA_BYTES: u64 = 2 << 30;

/// What somebody asks for again and again.
#[derive(Clone, Copy)]
enum Greed {
    Gets,
    Lists,
    Indented,
    Writes,
}

impl Greed {
    async fn ask(self, connection: &mut Connection, number: usize) -> Result<Answer> {
        match self {
            Greed::Gets => connection.send("GET", &format!("{OBJECTS}/m-2"), None).await,
            Greed::Lists => connection.send("GET", OBJECTS, None).await,
            Greed::Indented => {
                connection.send("GET", &format!("{OBJECTS}?pretty=true"), None).await
            }
            Greed::Writes => {
                let path = format!("{OBJECTS}/m-{}", 10 + number % 1_000);
                let patch = format!(r#"{{"data":{{"n":"{number}"}}}}"#);
                let kind = "application/merge-patch+json";
                connection.send_as("PATCH", &path, kind, Some(patch.as_bytes())).await
            }
        }
    }
}

/// A quiet user's gets and writes, alone and beside each kind of greed.
pub(super) async fn fairness() -> Result<Vec<Measure>> {
    let server = Server::start(&["--ephemeral", "--nodes", "0"])?;
    // Not before, or the server would take it over.
    step_forward();
    let admin = server.access()?;
    fill(&admin, 5_000, 500).await?;
    let quiet = account(&server, "quiet").await?;
    let greedy = account(&server, "greedy").await?;
    let mut rows = Vec::new();
    let names = [
        (Greed::Gets, "overload: others' p99 beside a flood of gets"),
        (Greed::Lists, "overload: others' p99 beside a flood of lists of 5,000"),
        (Greed::Indented, "overload: others' p99 beside a flood of indented lists of 5,000"),
        (Greed::Writes, "overload: others' p99 beside a flood of writes"),
    ];
    for (greed, name) in names {
        // Before and after, because a machine is not equally fast all the time.
        let before = waits(&quiet).await?;
        let flood = Flood::start(&greedy, greed);
        tokio::time::sleep(SETTLES).await;
        let beside = waits(&quiet).await;
        let (answered, refused) = flood.end()?;
        let (beside, after) = (beside?, waits(&quiet).await?);
        let alone = before.max(after);
        let times = beside.as_secs_f64() / alone.as_secs_f64();
        rows.push(Measure {
            name,
            target: format!("≤ {SLOWER_MAX:.0} × alone"),
            measured: format!(
                "{times:.1} × ({:.1} ms, alone {:.1}); {answered} of the flood answered, {refused} refused",
                milliseconds(beside),
                milliseconds(alone),
            ),
            met: times <= SLOWER_MAX,
        });
    }
    Ok(rows)
}

/// The p99 of a get and a write in turn.
async fn waits(quiet: &Access) -> Result<Duration> {
    let mut connection = quiet.connect().await?;
    let patch = r#"{"data":{"n":"1"}}"#;
    let path = format!("{OBJECTS}/m-1");
    let mut times = Vec::new();
    for number in 0..QUIET_REQUESTS {
        tokio::time::sleep(QUIET_PAUSE).await;
        let begin = Instant::now();
        let answer = if number % 2 == 0 {
            connection.send("GET", &path, None).await?
        } else {
            let kind = "application/merge-patch+json";
            connection.send_as("PATCH", &path, kind, Some(patch.as_bytes())).await?
        };
        times.push(begin.elapsed());
        ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    }
    Ok(percentile(&mut times, 99))
}

/// Somebody who asks for more than their share until told to end.
struct Flood {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Result<(usize, usize)>>,
}

impl Flood {
    fn start(access: &Access, greed: Greed) -> Flood {
        let end = Arc::new(AtomicBool::new(false));
        let (access, ended) = (access.clone(), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            step_back()?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, flood(&access, greed, &ended))
        });
        Flood { end, thread }
    }

    /// How many requests were answered, and how many of them with 429.
    fn end(self) -> Result<(usize, usize)> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the flood failed"))?
    }
}

/// This thread takes the processor only when nobody else wants it, and leaves it at once.
///
/// Niceness is not enough for that: a thread that runs keeps the processor for its slice of some milliseconds.
fn step_back() -> Result<()> {
    scheduled("--idle", "0")
}

/// This thread takes the processor at once. Only administrators may do that.
fn step_forward() {
    let _ = scheduled("--rr", "1");
}

/// Puts this thread under a policy of the system's scheduler.
fn scheduled(policy: &str, priority: &str) -> Result<()> {
    let me = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut chrt = Command::new("chrt");
    let status = chrt.args([policy, "--pid", priority, &me]).stderr(Stdio::null()).status()?;
    ensure!(status.success(), "chrt {policy}");
    Ok(())
}

async fn flood(access: &Access, greed: Greed, ended: &Arc<AtomicBool>) -> Result<(usize, usize)> {
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let pause = Arc::new(AtomicU64::new(1));
    let room = spawn_local(leave_room(Arc::clone(&pause), Arc::clone(ended)));
    let mut clients = Vec::new();
    for client in 0..GREEDY_CLIENTS {
        let (access, ended, counts) = (access.clone(), Arc::clone(ended), Arc::clone(&counts));
        let pause = Arc::clone(&pause);
        clients.push(spawn_local(async move {
            let mut connection = access.connect().await?;
            let mut number = 0_usize;
            while !ended.load(Ordering::Relaxed) {
                number += 1;
                tokio::time::sleep(Duration::from_millis(pause.load(Ordering::Relaxed))).await;
                let answer = greed.ask(&mut connection, client * 1_000_000 + number).await?;
                let counted = if answer.code == 429 { &counts.1 } else { &counts.0 };
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), anyhow::Error>(())
        }));
    }
    for client in clients {
        client.await??;
    }
    room.await??;
    Ok((counts.0.load(Ordering::Relaxed), counts.1.load(Ordering::Relaxed)))
}

/// Finds how many milliseconds each client must pause so that a part of the machine stays idle.
async fn leave_room(pause: Arc<AtomicU64>, ended: Arc<AtomicBool>) -> Result<()> {
    let (mut all, mut idle) = processor_time()?;
    while !ended.load(Ordering::Relaxed) {
        tokio::time::sleep(IDLE_LOOK).await;
        let (all_now, idle_now) = processor_time()?;
        let share = (idle_now - idle) * 100 / (all_now - all).max(1);
        (all, idle) = (all_now, idle_now);
        let now = pause.load(Ordering::Relaxed);
        let next = if share < IDLE { now + now / 4 + 1 } else { now - now / 10 };
        pause.store(next.clamp(1, 1_000), Ordering::Relaxed);
    }
    Ok(())
}

/// All of the processors' time since the start, and what of it was idle, in hundredths of a second.
fn processor_time() -> Result<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let first = text.lines().next().context("an empty /proc/stat")?;
    let times: Vec<u64> = first.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let idle = times.iter().skip(3).take(2).sum();
    Ok((times.iter().take(8).sum(), idle))
}

/// An account in a namespace of its own, which may read and write ConfigMaps.
async fn account(server: &Server, name: &str) -> Result<Access> {
    let mut admin = server.access()?.connect().await?;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let named = json!({ "metadata": { "name": name } });
    post(&mut admin, "/api/v1/namespaces", &named).await?;
    let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
    post(&mut admin, &accounts, &named).await?;
    let binding = json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": name, "name": name }],
    });
    post(&mut admin, &format!("{rbac}/namespaces/default/rolebindings"), &binding).await?;
    let given =
        post(&mut admin, &format!("{accounts}/{name}/token"), &json!({ "spec": {} })).await?;
    let token = given.pointer("/status/token").and_then(Value::as_str).context("a token")?;
    Access::bearer(server.kubeconfig(), token)
}

/// The memory of a server over time, looked at four times a second.
struct Curve {
    end: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

impl Curve {
    fn start(server: &Server) -> Curve {
        let end = Arc::new(AtomicBool::new(false));
        let (ended, process) = (Arc::clone(&end), server.id());
        let thread = std::thread::spawn(move || {
            let mut seen = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                seen.extend(Server::resident_bytes_of(process));
                std::thread::sleep(Duration::from_millis(250));
            }
            seen
        });
        Curve { end, thread }
    }

    fn end(self) -> Result<Vec<u64>> {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("nobody looked at the memory"))
    }
}

/// At most forty steps from no memory to the most that was seen.
fn drawn(curve: &[u64]) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const WIDTH: usize = 40;
    let most = curve.iter().copied().max().unwrap_or(1).max(1);
    let part = curve.len().div_ceil(WIDTH).max(1);
    let step = |bytes: u64| {
        let index = usize::try_from(bytes * 7 / most).unwrap_or(0);
        STEPS.get(index).copied().unwrap_or('█')
    };
    curve.chunks(part).map(|part| step(part.iter().copied().max().unwrap_or(0))).collect()
}

fn most(curve: &[u64]) -> f64 {
    megabytes(curve.iter().copied().max().unwrap_or(0))
}

fn row(name: &'static str, limit: f64, curve: &[u64]) -> Measure {
    let seen = most(curve);
    Measure {
        name,
        target: format!("≤ {limit:.0} MB"),
        measured: format!("{seen:.0} MB {}", drawn(curve)),
        met: seen <= limit,
    }
}

/// Ten thousand watches that see nothing, each on a connection of its own.
pub(super) async fn watches() -> Result<Vec<Measure>> {
    let server = Server::start(&["--ephemeral", "--nodes", "0"])?;
    let idle = account(&server, "idle").await?;
    let quiet = account(&server, "quiet").await?;
    fill(&server.access()?, 10, 500).await?;
    let alone = waits(&quiet).await?;
    let before = server.resident_bytes()?;
    let curve = Curve::start(&server);
    let mut watches = Vec::with_capacity(WATCHES);
    for number in 0..WATCHES {
        let path = format!("{OBJECTS}?watch=true&fieldSelector=metadata.name%3Dnone-{number}");
        watches.push(idle.connect().await?.watch(&path).await?);
    }
    let beside = waits(&quiet).await?;
    let curve = curve.end()?;
    #[expect(clippy::cast_precision_loss, reason = "kilobytes need few digits")]
    let each = server.resident_bytes()?.saturating_sub(before) as f64 / WATCHES as f64 / 1000.0;
    drop(watches);
    Ok(vec![
        row("overload: memory with 10,000 idle watches", 500.0, &curve),
        Measure::at_most("overload: one idle watch with its connection", 45.0, each, "KB"),
        Measure::at_most(
            "overload: others' p99 beside 10,000 idle watches",
            SLOWER_MAX * milliseconds(alone).max(1.0),
            milliseconds(beside),
            "ms",
        ),
    ])
}

/// Lists of 100 MB in a loop, by clients that read them and by clients that do not.
pub(super) async fn lists() -> Result<Vec<Measure>> {
    let server = Server::start(&["--ephemeral", "--nodes", "0"])?;
    fill(&server.access()?, LIST_OBJECTS, LIST_OBJECT_BYTES).await?;
    let greedy = account(&server, "greedy").await?;
    let full = megabytes(server.resident_bytes()?);
    let curve = Curve::start(&server);
    let flood = Flood::start(&greedy, Greed::Lists);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let answered = flood.end()?;
    let read = curve.end()?;
    eprintln!("  {answered:?} lists answered and refused");
    let curve = Curve::start(&server);
    let mut silent = Vec::new();
    for _ in 0..GREEDY_CLIENTS {
        let mut connection = greedy.connect().await?;
        connection.write(&connection.request("GET", OBJECTS, b"")).await?;
        silent.push(connection);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(silent);
    let unread = curve.end()?;
    eprintln!("  {full:.0} MB before");
    Ok(vec![
        row("overload: memory, 64 clients list 100 MB in a loop", full + 300.0, &read),
        row("overload: memory, 64 clients ask for 100 MB and read nothing", full + 300.0, &unread),
    ])
}

/// A hundred thousand objects of 100 KB against a store that may hold a fifth of them.
pub(super) async fn quota() -> Result<Vec<Measure>> {
    let bytes = QUOTA_BYTES.to_string();
    let server = Server::start(&["--ephemeral", "--nodes", "0", "--store-quota", &bytes])?;
    let access = server.access()?;
    let curve = Curve::start(&server);
    let mut connection = access.connect().await?;
    let (mut stored, mut refused) = (0, 0);
    for number in 0..QUOTA_OBJECTS {
        let body = config_map(&format!("m-{number}"), LIST_OBJECT_BYTES);
        let answer = connection.send("POST", OBJECTS, Some(body.as_bytes())).await?;
        match answer.code {
            201 => stored += 1,
            500 if String::from_utf8_lossy(&answer.body).contains("StoreQuotaExceeded") => {
                refused += 1;
            }
            _ => anyhow::bail!("{}", String::from_utf8_lossy(&answer.body)),
        }
    }
    for (method, code) in [("GET", 200), ("DELETE", 200), ("GET", 404)] {
        let answer = connection.send(method, &format!("{OBJECTS}/m-1"), None).await?;
        ensure!(answer.code == code, "{method}: {}", String::from_utf8_lossy(&answer.body));
    }
    let again = config_map("again", LIST_OBJECT_BYTES);
    let answer = connection.send("POST", OBJECTS, Some(again.as_bytes())).await?;
    ensure!(answer.code == 201, "no room after a deletion: {}", answer.code);
    let curve = curve.end()?;
    eprintln!("  {stored} stored, {refused} refused");
    Ok(vec![row("overload: memory at a quota of 2 GiB, 100,000 × 100 KB", 3_000.0, &curve)])
}
