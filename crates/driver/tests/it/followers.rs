//! The contract of followers, the same over this process's own log and over a mirror of another API
//! server; and what is seen of a follower that panics.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_driver::Controllers;
use tenure_driver::follow::{self, Follower, Task, Want};
use tenure_driver::mirror::Mirror;
use tenure_driver::progress::{FollowerProgress, Load, Observer};
use tenure_server::ServedKinds;
use tenure_server::engine_api::EngineApi;
use tenure_server::internal_writer::{
    Actor, InternalWriteOutcome, InternalWriter, PrepareOutcome, WriteTarget,
};
use tenure_store::MemoryLog;
use tenure_world::{Change, Interest, Record, World, WorldHandle, WorldOptions};
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tracing::field::Field;
use tracing::{Level, Metadata, Subscriber, span};

use crate::estate::*;
use crate::house::*;

const PATIENCE: Duration = Duration::from_secs(20);
const PREFIX: &str = "/registry/configmaps/default/";

/// What came of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Written,
    Moved,
}

/// Where a follower's writes go.
trait Writer {
    /// Labels an object as it stands in a record.
    fn label(&self, record: Arc<Record>) -> Pin<Box<dyn Future<Output = Came>>>;
}

/// Wants a label on every ConfigMap of a namespace.
struct Labeler<W> {
    source: WorldHandle,
    writer: W,
    waiting: VecDeque<Arc<str>>,
    under_way: BTreeSet<Arc<str>>,
    moved: Arc<AtomicU64>,
    starts: Arc<AtomicU64>,
}

impl<W> Labeler<W> {
    fn new(source: WorldHandle, writer: W) -> Labeler<W> {
        Labeler {
            source,
            writer,
            waiting: VecDeque::new(),
            under_way: BTreeSet::new(),
            moved: Arc::default(),
            starts: Arc::default(),
        }
    }

    fn look(&mut self, record: &Record) {
        if record.label("seen").is_none() && !self.waiting.contains(record.key()) {
            self.waiting.push_back(Arc::clone(record.key()));
        }
    }
}

impl<W: Writer> Follower for Labeler<W> {
    type Ended = (Arc<str>, Came);
    type Message = ();

    fn name(&self) -> &'static str {
        "labeler"
    }

    fn start(&mut self, state: &World) -> Vec<Interest> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        self.waiting.clear();
        self.under_way.clear();
        for record in state.range(PREFIX, None) {
            self.look(record);
        }
        vec![Interest::Prefix(PREFIX.into())]
    }

    fn see(&mut self, state: &World, change: &Change) {
        assert!(state.revision() >= change.revision, "the state has the change");
        if let Some(record) = &change.after {
            self.look(record);
        }
    }

    fn hear(&mut self, (): ()) {}

    fn next(&mut self, _now: Instant, _seen: Revision) -> Want<(Arc<str>, Came)> {
        for _ in 0..self.waiting.len() {
            let Some(key) = self.waiting.pop_front() else { break };
            let Some(record) = self.source.current().get(&key).cloned() else { continue };
            if self.under_way.contains(&key) {
                self.waiting.push_back(key);
            } else if record.label("seen").is_none() {
                self.under_way.insert(Arc::clone(&key));
                let label = self.writer.label(record);
                let task: Task<_> = Box::pin(async move { (key, label.await) });
                return Want::Task(task);
            }
        }
        Want::Rest(None)
    }

    fn ended(&mut self, (key, came): (Arc<str>, Came), _now: Instant) {
        self.under_way.remove(&key);
        if came == Came::Moved {
            self.moved.fetch_add(1, Ordering::Relaxed);
            self.waiting.push_back(key);
        }
    }

    fn load(&self) -> Load {
        let depth = self.waiting.len() + self.under_way.len();
        Load { depth, idle: depth == 0, ..Load::default() }
    }
}

/// Writes through this process's own write path.
struct Own(InternalWriter);

impl Writer for Own {
    fn label(&self, record: Arc<Record>) -> Pin<Box<dyn Future<Output = Came>>> {
        let door = self.0.clone();
        Box::pin(async move {
            let actor = Actor { account: "labeler", manager: "labeler" };
            let prepared =
                door.prepare_edit(actor, &WriteTarget::Stored(&record), Vec::new(), |m| {
                    m.insert("labels".into(), json!({ "seen": "yes" }));
                });
            let PrepareOutcome::Ready(ready) = prepared.unwrap() else {
                panic!("nothing to write")
            };
            match door.submit(ready).unwrap().outcome().await.unwrap() {
                InternalWriteOutcome::Moved => Came::Moved,
                InternalWriteOutcome::Stored(_) | InternalWriteOutcome::Gone => Came::Written,
            }
        })
    }
}

/// Writes to another API server, at the version that the mirror shows.
struct Foreign {
    house: Arc<House>,
    mirror: Arc<Mirror>,
}

impl Writer for Foreign {
    fn label(&self, record: Arc<Record>) -> Pin<Box<dyn Future<Output = Came>>> {
        let house = Arc::clone(&self.house);
        let version = self.mirror.version(&record);
        Box::pin(async move {
            let Some(version) = version else {
                // The mirror has yet to hear of it.
                tokio::time::sleep(Duration::from_millis(1)).await;
                return Came::Moved;
            };
            let metadata = json!({ "resourceVersion": version, "labels": { "seen": "yes" } });
            let path = format!("{CONFIG_MAPS}/{}", record.name());
            match house.merge(&path, json!({ "metadata": metadata })).await.code {
                200 | 404 => Came::Written,
                409 => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    Came::Moved
                }
                other => panic!("{other}"),
            }
        })
    }
}

/// Lists and watches another API server, as any client does.
async fn feed(house: Arc<House>, mirror: Arc<Mirror>) {
    let kinds = ServedKinds::new(None).current();
    let maps = kinds.find("", "v1", "configmaps").unwrap();
    let list = house.get(CONFIG_MAPS).await.with(200);
    let items = list["items"].as_array().unwrap().iter();
    let objects: Vec<_> = items.map(|item| item.as_object().unwrap().clone()).collect();
    mirror.replace(maps, &objects).await.unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}");
    let mut stream = house.watch(&path).await;
    while let Some(event) = stream.next_unhurried().await {
        let Value::Object(object) = &event["object"] else { continue };
        let name = object["metadata"]["name"].as_str().unwrap();
        match event["type"].as_str().unwrap() {
            "DELETED" => mirror.gone(maps, "default", name).await.unwrap(),
            _ => mirror.put(maps, object).await.unwrap(),
        }
    }
}

fn empty_world() -> WorldHandle {
    let options =
        WorldOptions { layout: Arc::new(ServedKinds::new(None)), ..WorldOptions::default() };
    tenure_world::open(Box::new(MemoryLog::keeping()), options).unwrap()
}

/// What is logged on the thread that listens.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Subscriber for Heard {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let (mut message, mut fields) = (String::new(), String::new());
        event.record(&mut |field: &Field, value: &dyn Debug| match field.name() {
            "message" => message = format!("{value:?}"),
            name => fields += &format!(" {name}={value:?}"),
        });
        self.0.lock().unwrap().push(format!("{} {message}{fields}", event.metadata().level()));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Waits until something holds.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn all_labelled(house: &House) -> bool {
    let list = house.get(CONFIG_MAPS).await.with(200);
    let items = list["items"].as_array().unwrap();
    !items.is_empty() && items.iter().all(|item| item["metadata"]["labels"]["seen"] == "yes")
}

/// What every source must give: a start, changes, lost races tried again, a start after a panic.
async fn contract<W: Writer + 'static>(house: &House, follower: Labeler<W>) {
    let (starts, moved) = (Arc::clone(&follower.starts), Arc::clone(&follower.moved));
    let (progress, observer) = FollowerProgress::new("labeler");
    let (_messages, inbox) = mpsc::unbounded_channel();
    let source = follower.source.clone();
    let running = tokio::task::spawn_local({
        let source = source.clone();
        async move { follow::run(&source, follower, inbox, progress).await }
    });
    until("what was there is labelled", async || all_labelled(house).await).await;
    for number in 0..50 {
        house.made(CONFIG_MAPS, named(&format!("later-{number}"))).await;
        // Moves while the follower may be writing.
        let data = json!({ "data": { "n": number.to_string() } });
        house.merge(&format!("{CONFIG_MAPS}/later-{number}"), data).await.with(200);
    }
    until("what came later is labelled", async || all_labelled(house).await).await;
    until("it rests", async || idle(&observer, &source)).await;
    assert_eq!(starts.load(Ordering::Relaxed), 1);

    let heard = Heard::default();
    let hearing = tracing::subscriber::set_default(heard.clone());
    observer.plant_panic();
    house.made(CONFIG_MAPS, named("after-a-panic")).await;
    until("it is started again", async || starts.load(Ordering::Relaxed) == 2).await;
    until("it works again", async || all_labelled(house).await).await;
    drop(hearing);
    let said = heard.0.lock().unwrap().join("\n");
    assert!(said.contains("ERROR a follower panicked and is started again"), "{said}");
    assert!(said.contains("follower=\"labeler\" why=\"planted by a test\""), "{said}");
    assert_eq!(observer.now().restarts, 1);
    assert!(observer.now().failed.is_some(), "it is seen for a while");
    until("it counts as well again", async || observer.now().failed.is_none()).await;
    until("it rests again", async || idle(&observer, &source)).await;
    tracing::debug!(moved = moved.load(Ordering::Relaxed), "lost races were tried again");

    source.stop().await.unwrap();
    tokio::time::timeout(PATIENCE, running).await.expect("it ends with its source").unwrap();
    assert!(observer.has_ended());
}

fn idle(observer: &Observer, source: &WorldHandle) -> bool {
    let position = observer.now().position;
    position.load.idle && position.seen >= source.current().revision()
}

#[tokio::test]
async fn a_follower_of_this_process_keeps_the_contract() {
    let test = async {
        let house = House::new().await;
        for name in ["a", "b", "c"] {
            house.made(CONFIG_MAPS, named(name)).await;
        }
        let door = InternalWriter::new(Arc::clone(&house.api));
        contract(&house, Labeler::new(house.world.clone(), Own(door))).await;
    };
    LocalSet::new().run_until(Box::pin(test)).await;
}

#[tokio::test]
async fn a_follower_of_another_api_server_keeps_the_contract() {
    let test = async {
        let house = Arc::new(House::new().await);
        for name in ["a", "b", "c"] {
            house.made(CONFIG_MAPS, named(name)).await;
        }
        let mirror = Arc::new(Mirror::new(empty_world()));
        let feeding = tokio::task::spawn_local(feed(Arc::clone(&house), Arc::clone(&mirror)));
        let writer = Foreign { house: Arc::clone(&house), mirror: Arc::clone(&mirror) };
        contract(&house, Labeler::new(mirror.world().clone(), writer)).await;
        feeding.abort();
    };
    LocalSet::new().run_until(Box::pin(test)).await;
}

#[tokio::test]
async fn a_list_takes_the_mirror_to_what_is_there_now() {
    let mirror = Mirror::new(empty_world());
    let kinds = ServedKinds::new(None).current();
    let maps = kinds.find("", "v1", "configmaps").unwrap();
    let object = |name: &str, version: &str| {
        let metadata = json!({
            "namespace": "default", "name": name, "uid": name, "resourceVersion": version,
        });
        json!({ "metadata": metadata }).as_object().unwrap().clone()
    };
    mirror.replace(maps, &[object("a", "5"), object("b", "6")]).await.unwrap();
    let before = mirror.world().current();
    let b = before.get(&format!("{PREFIX}b")).unwrap();
    assert_eq!(mirror.version(b).as_deref(), Some("6"));
    mirror.replace(maps, &[object("b", "6"), object("c", "9")]).await.unwrap();
    let after = mirror.world().current();
    let names: Vec<&str> = after.range(PREFIX, None).map(|record| record.name()).collect();
    assert_eq!(names, ["b", "c"]);
    let same = after.get(b.key()).unwrap();
    assert_eq!(same.revision(), b.revision(), "what has not moved is no change");
    // What is heard once more is no change either; what moved has another version.
    mirror.put(maps, &object("c", "9")).await.unwrap();
    assert_eq!(mirror.world().current().revision(), after.revision());
    mirror.put(maps, &object("b", "10")).await.unwrap();
    assert_eq!(mirror.version(b), None, "this one has moved on");
    mirror.gone(maps, "default", "b").await.unwrap();
    assert!(mirror.world().current().get(b.key()).is_none());
}

/// What operators see of a follower that panicked just now, for the so manieth time.
async fn is_named(house: &House, name: &str, restarts: u64) {
    for probe in ["/readyz?verbose", "/healthz?verbose"] {
        let answer = house.get(probe).await;
        assert_eq!(answer.code, 500, "{name}");
        assert!(answer.text().contains(&format!("[-]{name} failed")), "{}", answer.text());
    }
    assert_eq!(house.get("/livez").await.code, 200, "a new process would not do better");
    let metrics = house.get("/metrics").await;
    let metrics = metrics.text();
    assert!(metrics.contains(&format!("tenure_follower_up{{name=\"{name}\"}} 0")), "{metrics}");
    let counted = format!("tenure_follower_restarts_total{{name=\"{name}\"}} {restarts}");
    assert!(metrics.contains(&counted), "{metrics}");
}

/// Nobody waits for events to expire, so that is not part of what `settle` waits for.
#[tokio::test]
async fn r43a_the_expiry_of_events_is_named_after_a_panic_and_goes_on() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let controllers = Controllers::named(&["*".to_owned()]).unwrap();
    let controllers = controllers.expiring_events(Duration::from_secs(2));
    let estate = Estate::run_by(House::collecting().await, controllers).await;
    let house = &estate.house;
    let observer =
        || estate.running.engines.observers().find(|o| o.name == "event-expiry").unwrap();
    observer().plant_panic();
    let about = json!({ "kind": "Pod", "namespace": "default", "name": "web" });
    let event = json!({ "metadata": { "name": "e" }, "involvedObject": about, "reason": "R" });
    house.made(EVENTS, event).await;
    until("it is noticed", async || observer().now().restarts == 1).await;
    is_named(house, "event-expiry", 1).await;
    until("all is well again", async || house.get("/readyz").await.code == 200).await;
    until("what was there expires", async || house.get(&format!("{EVENTS}/e")).await.code == 404)
        .await;
}

#[tokio::test]
async fn r43a_a_follower_that_panicked_is_named_and_works_again() {
    let estate = Estate::new().await;
    let house = &estate.house;
    house.made(CONFIG_MAPS, named("owner")).await;
    for name in ["garbage-collector-controller", "retention-controller", "controllers"] {
        let observer = || estate.running.engines.observers().find(|o| o.name == name).unwrap();
        let restarts = observer().now().restarts;
        observer().plant_panic();
        let owner = house.made(CONFIG_MAPS, named("owner-again")).await;
        house.made(CONFIG_MAPS, owned("dependent", &[to(&owner)])).await;
        until("it is noticed", async || observer().now().restarts > restarts).await;

        is_named(house, name, restarts + 1).await;
        let settled = estate.running.engines.settle(house.revision()).await;
        assert!(settled.unwrap_err().contains(name), "nobody is told that all is settled");

        until("all is well again", async || house.get("/readyz").await.code == 200).await;
        house.delete(&format!("{CONFIG_MAPS}/owner-again")).await.with(200);
        estate.settle().await;
        house.get(&format!("{CONFIG_MAPS}/dependent")).await.with(404);
    }
}
