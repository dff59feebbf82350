//! Rules of spec/referential-authorization.md: revocation is complete under load (R121 to R123). Readers ask and
//! watchers watch all the time, while every leg of the join goes and comes back.
//!
//! ```text
//!   phase   4k granted ──► 4k+1 going ──► 4k+2 revoked ──► 4k+3 coming ──► 4k+4 granted …
//! ```
//!
//! A phase begins with the acknowledgement. What was asked and answered within one that is sure has a sure answer.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use serde_json::json;
use tenure_server::{Body, Peer};

use super::access::{TLS, gateway, gateways_path, town_in};
use super::*;

/// More than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);
const READERS: usize = 4;
const WATCHERS: usize = 3;

const GRANTED: u64 = 0;
const REVOKED: u64 = 2;

/// What everybody shares.
struct Ground {
    house: House,
    contour: Peer,
    phase: AtomicU64,
    /// The last sure phase in which each reader had an answer.
    heard: Vec<AtomicU64>,
    open: AtomicUsize,
    done: AtomicBool,
    answers: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

impl Ground {
    async fn new(house: House) -> Arc<Ground> {
        let (house, contour) = town_in(house).await;
        Arc::new(Ground {
            house,
            contour,
            phase: AtomicU64::new(0),
            heard: (0..READERS).map(|_| AtomicU64::new(u64::MAX)).collect(),
            open: AtomicUsize::new(0),
            done: AtomicBool::new(false),
            answers: AtomicUsize::new(0),
            wrong: Mutex::default(),
        })
    }

    fn phase(&self) -> u64 {
        self.phase.load(Ordering::SeqCst)
    }

    fn next_phase(&self) {
        self.phase.fetch_add(1, Ordering::SeqCst);
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::SeqCst)
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    /// Gets and lists the one Secret for as long as it lasts.
    async fn read(&self, me: usize) {
        let paths =
            [format!("{TLS}/acme-tls"), format!("{TLS}?fieldSelector=metadata.name=acme-tls")];
        for path in paths.iter().cycle() {
            if self.is_done() {
                return;
            }
            let before = self.phase();
            let code = self.house.reads(&self.contour, path).await;
            tokio::task::yield_now().await;
            if self.phase() != before {
                continue;
            }
            match (before % 4, code) {
                (GRANTED, 200) | (REVOKED, 403) => {}
                (GRANTED | REVOKED, code) => {
                    self.wrong(format!("phase {before}: {path} answered {code}"));
                }
                _ => continue,
            }
            self.answers.fetch_add(1, Ordering::SeqCst);
            self.heard[me].store(before, Ordering::SeqCst);
        }
    }

    /// Watches the one Secret whenever that is granted, until the watch is ended.
    async fn watch(&self) {
        let path = format!("{TLS}?watch=1&fieldSelector=metadata.name%3Dacme-tls");
        while !self.is_done() {
            let before = self.phase();
            if before % 4 != GRANTED {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let request = build("GET", &path, &[("accept", JSON)], "");
            let response = self.house.send(&self.contour, request).await;
            self.open.fetch_add(1, Ordering::SeqCst);
            match (response.status().as_u16(), self.phase() == before) {
                (200, true) => self.follow(response.into_body(), before).await,
                (_, false) => {}
                (code, true) => self.wrong(format!("phase {before}: a watch answered {code}")),
            }
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Reads a watch to its end: nothing of a later phase comes, and 403 comes last.
    async fn follow(&self, mut body: Body, since: u64) {
        let (mut rest, mut last) = (Vec::new(), Value::Null);
        loop {
            let frame = tokio::time::timeout(Duration::from_millis(50), body.frame()).await;
            let Ok(frame) = frame else {
                if self.is_done() {
                    return;
                }
                continue;
            };
            let Some(frame) = frame else { break };
            rest.extend(frame.unwrap().into_data().unwrap());
            while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=at).collect();
                last = serde_json::from_slice(&line).unwrap();
                let label = last["object"]["metadata"]["labels"]["phase"].as_str();
                if label.is_some_and(|phase| phase.parse::<u64>().unwrap() > since) {
                    self.wrong(format!("a watch of phase {since} got what came later: {last}"));
                }
            }
        }
        if (&last["type"], &last["object"]["code"]) != (&json!("ERROR"), &json!(403)) {
            self.wrong(format!("a watch of phase {since} ended with {last}"));
        }
    }

    /// Changes the Secret; what it holds now belongs to this phase.
    async fn change_secret(&self) {
        let label = json!({ "metadata": { "labels": { "phase": self.phase().to_string() } } });
        self.house.merge(&format!("{TLS}/acme-tls"), label).await.with(200);
    }

    fn is_fine(&self) -> bool {
        self.wrong.lock().unwrap().is_empty()
    }

    /// Waits until something is so, within reason; not at all once something was wrong.
    async fn until(&self, what: &str, so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !so() && self.is_fine() {
            if begin.elapsed() > LONG {
                return self.wrong(format!("phase {}: not in time: {what}", self.phase()));
            }
            // Leaves the processors to those who are waited for.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn heard_by_all(&self) {
        let phase = self.phase();
        let heard = || self.heard.iter().all(|last| last.load(Ordering::SeqCst) == phase);
        self.until("every reader has an answer", heard).await;
    }

    /// Takes one leg of the join away and puts it back; answers how long open watches lasted. The Secret changes
    /// at once or when everybody has noticed: the first finds watches that are slow to end.
    async fn flip(&self, leg: Leg, changes_at_once: bool) -> Duration {
        self.next_phase();
        leg.take(&self.house).await;
        self.next_phase();
        let revoked = Instant::now();
        if changes_at_once {
            self.change_secret().await;
        } else {
            self.heard_by_all().await;
        }
        self.until("open watches end", || self.open() == 0).await;
        let lasted = revoked.elapsed();
        self.heard_by_all().await;
        if !changes_at_once {
            self.change_secret().await;
        }
        self.next_phase();
        leg.give(&self.house).await;
        self.next_phase();
        self.heard_by_all().await;
        self.until("watches open", || self.open() > 0).await;
        lasted
    }

    /// Flips leg after leg while readers read and watchers watch; stops early when something was wrong.
    async fn hammer(self: &Arc<Ground>, rounds: usize) -> Vec<Duration> {
        let mut tasks = tokio::task::JoinSet::new();
        for me in 0..READERS {
            let ground = Arc::clone(self);
            tasks.spawn(async move { ground.read(me).await });
        }
        for _ in 0..WATCHERS {
            let ground = Arc::clone(self);
            tasks.spawn(async move { ground.watch().await });
        }
        self.heard_by_all().await;
        let mut lasted = Vec::new();
        for round in 0..rounds {
            if !self.is_fine() {
                break;
            }
            let leg = LEGS[round % LEGS.len()];
            lasted.push(self.flip(leg, round / LEGS.len() % 2 == 1).await);
        }
        self.done.store(true, Ordering::SeqCst);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        lasted.sort();
        lasted
    }
}

/// What a join hangs on.
#[derive(Clone, Copy, Debug)]
enum Leg {
    Grant,
    GrantedName,
    Origin,
    Class,
    Strategy,
    Consumer,
}

const LEGS: [Leg; 6] =
    [Leg::Grant, Leg::GrantedName, Leg::Origin, Leg::Class, Leg::Strategy, Leg::Consumer];

impl Leg {
    async fn take(self, house: &House) {
        let answer = match self {
            Leg::Grant => house.delete(&format!("{GRANTS}/prod-gateways")).await,
            Leg::GrantedName => Leg::name(house, "other").await,
            Leg::Origin => house.delete(&format!("{}/web", gateways_path())).await,
            Leg::Class => Leg::class(house, "envoy").await,
            Leg::Strategy => house.delete(&format!("{STRATEGIES}/gateways")).await,
            Leg::Consumer => house.delete(&format!("{CONSUMERS}/contour-gateway")).await,
        };
        answer.with(200);
    }

    async fn give(self, house: &House) {
        let user = json!({ "kind": "User", "name": "contour" });
        let consumer = with(consumer("contour-gateway"), "/subject", user);
        let (answer, code) = match self {
            Leg::Grant => (house.post(GRANTS, grant("prod-gateways", &["acme-tls"])).await, 201),
            Leg::GrantedName => (Leg::name(house, "acme-tls").await, 200),
            Leg::Origin => (house.post(&gateways_path(), gateway("contour")).await, 201),
            Leg::Class => (Leg::class(house, "contour").await, 200),
            Leg::Strategy => (house.post(STRATEGIES, strategy("gateways")).await, 201),
            Leg::Consumer => (house.post(CONSUMERS, consumer).await, 201),
        };
        answer.with(code);
    }

    async fn name(house: &House, name: &str) -> Answer {
        let body = json!({ "target": { "names": [name] } });
        house.merge(&format!("{GRANTS}/prod-gateways"), body).await
    }

    async fn class(house: &House, class: &str) -> Answer {
        let body = json!({ "spec": { "gatewayClassName": class } });
        house.merge(&format!("{}/web", gateways_path()), body).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r121_r122_r123_no_read_begun_after_a_revocation_succeeds_however_many_there_are() {
    const ROUNDS: usize = 150;
    let ground = Ground::new(House::new().await).await;
    let lasted = ground.hammer(ROUNDS).await;
    let wrong = ground.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{} of them: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    let answers = ground.answers.load(Ordering::SeqCst);
    assert!(lasted.len() == ROUNDS && answers >= ROUNDS * 2 * READERS, "{answers} answers");
    println!("{answers} sure answers; watches lasted {:?} (median)", lasted[ROUNDS / 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r122_an_index_that_is_one_commit_late_is_found_out() {
    let ground = Ground::new(House::lagging().await).await;
    // Another change, so that everything before it is told.
    ground.house.config_map("later").await;
    ground.hammer(12).await;
    let wrong = ground.wrong.lock().unwrap();
    assert!(wrong.iter().any(|what| what.ends_with("answered 200")), "{wrong:#?}");
}
