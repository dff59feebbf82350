//! `kill -9` under concurrent writes, again and again on one folder. After every restart each
//! acknowledged write is there, byte for byte, and no resourceVersion ever means two things.
//!
//! `TENURE_CRASH_ROUNDS` sets the number of rounds.

mod cascade;
mod rollout;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_client_tests::{Access, Connection, Server};
use tokio::task::JoinSet;

const WRITERS: u64 = 4;
/// Few names, so that the same objects are created, changed and deleted many times.
const NAMES: u64 = 12;
const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";

/// What a client knows of one object: its revision and its value, or that there is none.
type State = Option<(u64, String)>;

/// What one writer was told before the server died.
struct Told {
    /// The last acknowledged state of each object it owns.
    states: BTreeMap<String, State>,
    /// Every acknowledged revision: the object and its value (none: deleted).
    revisions: Vec<(u64, (String, Option<String>))>,
    /// The write that got no answer: what the object may hold now.
    unanswered: Option<(String, Option<String>)>,
}

fn rounds() -> u32 {
    std::env::var("TENURE_CRASH_ROUNDS")
        .map_or(15, |text| text.parse().expect("a number of rounds"))
}

#[test]
fn no_acknowledged_write_is_lost() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Box::pin(run(rounds())));
}

async fn run(rounds: u32) {
    let folder = tempfile::TempDir::new().unwrap();
    let mut states: BTreeMap<String, State> = BTreeMap::new();
    let mut revisions: HashMap<u64, (String, Option<String>)> = HashMap::new();
    let mut since = 0;
    let (begin, mut writes) = (Instant::now(), 0);
    for round in 0..rounds {
        let server = Server::durable(folder.path()).unwrap();
        let access = server.access().unwrap();
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let mine = |name: &String| name.starts_with(&format!("w{writer}-"));
            let mine = states.iter().filter(|(name, _)| mine(name));
            let mine = mine.map(|(name, state)| (name.clone(), state.clone())).collect();
            let seed = u64::from(round) * WRITERS + writer + 1;
            writers.spawn(write(
                access.clone(),
                writer,
                mine,
                Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            ));
        }
        // Between 40 and 239 ms, so that the end meets every phase of a commit and of recovery.
        let lifetime = 40 + u64::from(round).wrapping_mul(7919) % 200;
        tokio::time::sleep(Duration::from_millis(lifetime)).await;
        server.kill().unwrap();

        let mut unanswered = Vec::new();
        while let Some(told) = writers.join_next().await {
            let told = told.unwrap();
            writes += told.revisions.len();
            for (revision, what) in told.revisions {
                remember(&mut revisions, revision, what, round);
            }
            states.extend(told.states);
            unanswered.extend(told.unanswered);
        }
        let server = Server::durable(folder.path()).unwrap();
        let access = server.access().unwrap();
        let now = check(&access, &mut states, &unanswered, &mut revisions, round).await;
        if since > 0 {
            resume(&access, since, now, &revisions).await;
        }
        since = now;
        server.kill().unwrap();
    }
    assert!(writes > rounds as usize, "only {writes} writes in {rounds} rounds");
    println!("{rounds} rounds, {writes} acknowledged writes, {} s", begin.elapsed().as_secs());
}

/// One revision may mean one thing only, before and after any crash.
fn remember(
    revisions: &mut HashMap<u64, (String, Option<String>)>,
    revision: u64,
    what: (String, Option<String>),
    round: u32,
) {
    if let Some(before) = revisions.insert(revision, what.clone()) {
        assert_eq!(before, what, "round {round}: revision {revision} means two things");
    }
}

/// Creates, patches and deletes until the server dies.
async fn write(
    access: Access,
    writer: u64,
    states: BTreeMap<String, State>,
    mut random: Random,
) -> Told {
    let mut told = Told { states, revisions: Vec::new(), unanswered: None };
    let Ok(mut connection) = access.connect().await else { return told };
    loop {
        let name = format!("w{writer}-{}", random.next() % NAMES);
        let known = told.states.get(&name).cloned().flatten();
        let value = format!("{}-{}", random.next(), "x".repeat((random.next() % 2000) as usize));
        let value = match (&known, random.next() % 4) {
            (Some(_), 0) => None,
            _ => Some(value),
        };
        let Ok(answer) = act(&mut connection, &name, known.is_some(), value.as_deref()).await
        else {
            told.unanswered = Some((name, value));
            return told;
        };
        let body = answer.json().unwrap();
        assert!(answer.code < 300, "{name}: {body}");
        match value {
            Some(value) => {
                let revision = revision_of(&body);
                assert_eq!(body["data"]["k"], value.as_str());
                told.revisions.push((revision, (name.clone(), Some(value.clone()))));
                told.states.insert(name, Some((revision, value)));
            }
            None => {
                told.states.insert(name, None);
            }
        }
    }
}

async fn act(
    connection: &mut Connection,
    name: &str,
    exists: bool,
    value: Option<&str>,
) -> anyhow::Result<tenure_client_tests::Answer> {
    let one = format!("{OBJECTS}/{name}");
    match value {
        None => connection.send("DELETE", &one, None).await,
        Some(value) if exists => {
            let body = json!({"data": {"k": value}}).to_string();
            let merge = "application/merge-patch+json";
            connection.send_as("PATCH", &one, merge, Some(body.as_bytes())).await
        }
        Some(value) => {
            let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": {"k": value}});
            connection.send("POST", OBJECTS, Some(body.to_string().as_bytes())).await
        }
    }
}

/// Compares what the server has with what the writers were told; the revision of the list.
async fn check(
    access: &Access,
    states: &mut BTreeMap<String, State>,
    unanswered: &[(String, Option<String>)],
    revisions: &mut HashMap<u64, (String, Option<String>)>,
    round: u32,
) -> u64 {
    let list = access.once("GET", OBJECTS, None).await.unwrap().json().unwrap();
    let mut found: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        let name = item["metadata"]["name"].as_str().unwrap();
        if name.starts_with('w') {
            let value = item["data"]["k"].as_str().unwrap().to_owned();
            found.insert(name.to_owned(), (revision_of(item), value));
        }
    }
    let list_revision = revision_of(&list);
    for (name, (revision, value)) in &found {
        assert!(*revision <= list_revision, "round {round}: {name} is newer than its list");
        remember(revisions, *revision, (name.clone(), Some(value.clone())), round);
        states.entry(name.clone()).or_insert(None);
    }
    for (name, state) in states.iter_mut() {
        let now = found.get(name).cloned();
        if now == *state {
            continue;
        }
        // Only a write without an answer may have happened or not.
        let open = unanswered.iter().find(|(open, _)| open == name);
        let Some((_, value)) = open else {
            panic!("round {round}: {name} was acknowledged as {state:?} and is {now:?}");
        };
        let same = now.as_ref().map(|(_, value)| value) == value.as_ref();
        assert!(same, "round {round}: {name} was {state:?}, became perhaps {value:?}, is {now:?}");
        let newer = match (&now, &*state) {
            (Some((new, _)), Some((old, _))) => new > old,
            _ => true,
        };
        assert!(newer, "round {round}: {name} went back from {state:?} to {now:?}");
        *state = now;
    }
    list_revision
}

/// Watches from an old revision: all acknowledged writes since then in order, or an honest 410.
async fn resume(
    access: &Access,
    since: u64,
    now: u64,
    revisions: &HashMap<u64, (String, Option<String>)>,
) {
    let expected: Vec<u64> = {
        let mut all: Vec<u64> =
            revisions.keys().copied().filter(|r| (since + 1..=now).contains(r)).collect();
        all.sort_unstable();
        all
    };
    let Some(last) = expected.last().copied() else { return };
    let path = format!("{OBJECTS}?watch=true&resourceVersion={since}&timeoutSeconds=10");
    let mut events = match access.connect().await.unwrap().watch(&path).await {
        Ok(events) => events,
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains(": 410 ") && text.contains("Expired"), "{text}");
            return;
        }
    };
    let (mut seen, mut before) = (Vec::new(), since);
    while before < last {
        let event = events.event().await.unwrap().expect("the watch ended before its last event");
        let object = &event["object"];
        if event["type"] == "ERROR" {
            assert_eq!((&object["code"], &object["reason"]), (&json!(410), &json!("Expired")));
            return;
        }
        let revision = revision_of(object);
        assert!(revision > before, "{revision} after {before}");
        before = revision;
        if let Some((name, value)) = revisions.get(&revision) {
            assert_eq!(object["metadata"]["name"], name.as_str());
            assert_eq!(object["data"]["k"].as_str(), value.as_deref());
            seen.push(revision);
        }
    }
    assert_eq!(seen, expected, "a watch from {since} left out a write");
}

fn revision_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Waits until the engines have nothing left to do.
async fn settle(access: &Access) {
    for _ in 0..4 {
        let answer = access.once("POST", "/tenure/settle", None).await.unwrap();
        match answer.code {
            200 => return,
            504 => {}
            code => panic!("{code} {}", String::from_utf8_lossy(&answer.body)),
        }
    }
    panic!("the engines never settle");
}

async fn get(access: &Access, path: &str) -> Value {
    access.once("GET", path, None).await.unwrap().json().unwrap()
}

/// Numbers that repeat from run to run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
