//! Runs the engines of one process: changes of the world in, intents out through the server's internal writer.
//!
//! ```text
//!            ┌──► collect ──────► engine `ownership` ──┐
//!   World ───┤──► retention ────► engine `retention` ──┼──► InternalWriter ──► World
//!   (follow) └──► controllers ──► engine `workload` ───┤
//!                               event_publisher ◄──────┘
//! ```
//!
//! [`follow`] is the one loop: it runs each [`follow::Follower`], starts it again when it fails, and says
//! how far it is.
//!
//! Threads of its own, so that a large cascade never keeps requests waiting: one on which engines
//! decide and small turns of controllers are carried out, and some for large turns and while much is under way.
//! Engines decide; nothing here knows a rule.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")
)]

mod ahead;
mod api_services;
mod clock;
mod collect;
mod controllers;
pub mod event_expiry;
mod event_publisher;
pub mod follow;
mod intent_executor;
mod metrics;
pub mod mirror;
mod nodes;
mod poll_throttle;
pub mod progress;
mod queue;
mod recorder;
mod retention;
mod retention_facts;
mod retry;
mod shared_retention;
mod simulated_volumes;
mod view;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::Revision;
use tenure_server::engine_api::{Asking, EngineApi};
use tenure_server::internal_writer::InternalWriter;
use tenure_supervise::keep_running;
use tenure_workload::Controller;
use tenure_workload::scheduler::JoinedScheduler;
use tenure_world::{WorldHandle, WriteAvailability};
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use api_services::ApiServices;
use collect::Collector;
use controllers::Workshop;
use event_expiry::EventExpiry;
use event_publisher::EventPublisher;
use metrics::{ControllerMetrics, DriverMetrics, QueueDepths};
use progress::{FollowerProgress, FollowerStatus, Observer, Position};
use retention::Retainer;
use retention_facts::RetentionPrefixes;
use shared_retention::{Counters, Nudge, SharedRetention};

pub use tenure_workload::UnknownController;

/// The name of the collector among the controllers.
const COLLECTOR: [&str; 2] = ["garbage-collector-controller", "garbagecollector"];

/// The name of the retention controller among the controllers.
const RETENTION: [&str; 2] = ["retention-controller", "retention"];

/// The names that [`Controllers::named`] knows, in the order of the alphabet.
#[must_use]
pub fn controller_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = tenure_workload::CONTROLLERS.iter().map(|c| c.alias()).collect();
    names.extend([COLLECTOR, RETENTION].map(|[_, alias]| alias));
    names.sort_unstable();
    names
}

/// Which controllers run.
#[derive(Clone)]
pub struct Controllers {
    list: Vec<&'static dyn Controller>,
    collects: bool,
    nodes: u16,
    /// Whether the retention controller runs.
    keeps: bool,
    /// Whether it makes revisions owners, or takes all such references back.
    retains: bool,
    /// How long events live; for ever, if that is not said.
    event_life: Option<Duration>,
}

impl Controllers {
    /// Reads what `--controllers` says: `*`, `name`, `-name`; the first word that names one decides.
    ///
    /// # Errors
    /// A name is nobody's.
    pub fn named(words: &[String]) -> Result<Controllers, UnknownController> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let elsewhere = |name: &str| COLLECTOR.contains(&name) || RETENTION.contains(&name);
        let mut list = tenure_workload::enabled(&words, elsewhere)?;
        list.extend(tenure_workload::API_SERVER);
        let on = |[name, alias]: [&str; 2]| tenure_workload::table::names(&words, name, alias);
        Ok(Controllers {
            list,
            collects: on(COLLECTOR),
            keeps: on(RETENTION),
            nodes: 0,
            retains: true,
            event_life: None,
        })
    }

    /// As [`Controllers::named`], with so many simulated nodes; where there are any, the scheduler
    /// and their agent run too unless the words turn them off. Where there are none, it begins with
    /// the first node that joins.
    ///
    /// # Errors
    /// A name is nobody's.
    pub fn with_nodes(words: &[String], nodes: u16) -> Result<Controllers, UnknownController> {
        let mut words = words.to_vec();
        if nodes > 0 {
            words.extend(["scheduler", "simulated-node"].map(str::to_owned));
        }
        let mut controllers = Controllers { nodes, ..Controllers::named(&words)? };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let waiting: &'static dyn Controller = &JoinedScheduler;
        let (name, alias) = (waiting.name(), waiting.alias());
        if !controllers.runs(name) && tenure_workload::table::names(&words, name, alias) {
            controllers.list.push(waiting);
        }
        Ok(controllers)
    }

    /// The same, with revisions made owners of what they need, or with all such references taken back
    /// (retention R70).
    #[must_use]
    pub fn retaining(self, retains: bool) -> Controllers {
        Controllers { retains, ..self }
    }

    /// The same, with events deleted so long after they were last written; never, if that is zero.
    #[must_use]
    pub fn expiring_events(self, life: Duration) -> Controllers {
        Controllers { event_life: Some(life).filter(|life| !life.is_zero()), ..self }
    }

    /// Whether the controller of this name is among them, by `--controllers`.
    #[must_use]
    pub fn runs(&self, name: &str) -> bool {
        self.list.iter().any(|controller| controller.name() == name)
    }

    /// Whether revisions are made owners of the ConfigMaps and Secrets they need.
    #[must_use]
    pub fn retains(&self) -> bool {
        self.retains
    }

    /// Whether the collector is among them.
    #[must_use]
    pub fn collects(&self) -> bool {
        self.collects
    }
}

/// The followers of one process, ready to run.
pub struct Driver {
    writer: InternalWriter,
    seed: u64,
    controllers: Controllers,
    progress: [FollowerProgress; 5],
    /// How far the collector is.
    observed: Observer,
    counters: Arc<Counters>,
    metrics: ControllerMetrics,
    /// The line to the collector and the one to the retention controller.
    questions: MessageChannel<collect::CollectorMessage>,
    nudges: MessageChannel<Nudge>,
}

type MessageChannel<T> = (mpsc::UnboundedSender<T>, mpsc::UnboundedReceiver<T>);

/// What clients may ask of a running driver.
pub struct Engines {
    world: WorldHandle,
    /// Nobody reports for a collector that does not run, nor for a retention controller.
    collector: Option<Observer>,
    retainer: Option<Observer>,
    workshop: Observer,
    expiry: Option<Observer>,
    api_services: Observer,
    prefixes: RetentionPrefixes,
    metrics: DriverMetrics,
    questions: mpsc::UnboundedSender<collect::CollectorMessage>,
}

impl Driver {
    /// A driver that writes through this, and what may be asked of it; the seed guards hash tables.
    #[must_use]
    pub fn new(
        writer: InternalWriter,
        seed: u64,
        controllers: Controllers,
    ) -> (Driver, Arc<Engines>) {
        let (collector, collecting) = FollowerProgress::new(collect::NAME);
        let (retainer, retaining) = FollowerProgress::new(retention::NAME);
        let (workshop, working) = FollowerProgress::new(controllers::NAME);
        let (expiry, expiring) = FollowerProgress::new(event_expiry::NAME);
        let (checker, checking) = FollowerProgress::new(api_services::NAME);
        let (counters, metrics) = (Arc::new(Counters::default()), ControllerMetrics::default());
        let (questions, nudges) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let observed = collecting.clone();
        let engines = Engines {
            world: writer.world().clone(),
            collector: controllers.collects.then_some(collecting),
            retainer: controllers.keeps.then_some(retaining),
            workshop: working,
            expiry: controllers.event_life.map(|_| expiring),
            api_services: checking,
            prefixes: RetentionPrefixes::new(&writer.kinds()),
            metrics: DriverMetrics::new(&metrics, &counters),
            questions: questions.0.clone(),
        };
        let progress = [collector, retainer, workshop, expiry, checker];
        let driver = Driver {
            writer,
            seed,
            controllers,
            progress,
            observed,
            counters,
            metrics,
            questions,
            nudges,
        };
        (driver, Arc::new(engines))
    }

    /// Decides on the calling thread until the world stops or the end is asked for.
    ///
    /// # Errors
    /// The operating system gives no timer or no thread.
    pub fn run(self, stop: watch::Receiver<bool>) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(controller_writer_threads())
            .thread_name("controller-writes")
            // Servers that users name are asked from here: webhooks about writes, and those of APIServices.
            .enable_all()
            .build()?;
        tokio::task::LocalSet::new().block_on(&runtime, self.follow(stop));
        Ok(())
    }

    /// Runs wherever it is polled, inside a [`tokio::task::LocalSet`], until the world stops or the end
    /// is asked for.
    pub async fn follow(self, mut stop: watch::Receiver<bool>) {
        let Driver { writer, seed, controllers, progress, observed, counters, metrics, .. } = self;
        let (questions, nudges) = (self.questions, self.nudges);
        let [collecting, retaining, working, expiring, checking] = progress;
        let world = writer.world().clone();
        let (teller, waiting) = EventPublisher::new();
        let teller = Arc::new(teller);
        let (telling, events) = (Arc::clone(&teller), writer.clone());
        let waiting = Rc::new(Mutex::new(waiting));
        tokio::task::spawn_local(keep_running("events of controllers", move || {
            let (telling, events) = (Arc::clone(&telling), events.clone());
            let waiting = Rc::clone(&waiting);
            async move { telling.run(&events, &mut *waiting.lock().await).await }
        }));
        let (registering, count) = (writer.clone(), controllers.nodes);
        tokio::task::spawn_local(keep_running("simulated nodes", move || {
            nodes::register(registering.clone(), count)
        }));
        let (_unused, nothing) = mpsc::unbounded_channel();
        let (_unheard, silence) = mpsc::unbounded_channel();
        let (_unsaid, quiet) = mpsc::unbounded_channel();
        let checker = ApiServices::new(writer.clone());
        let expiry = EventExpiry::new(writer.clone(), controllers.event_life.unwrap_or_default());
        let expires = controllers.event_life.is_some();
        let observed = controllers.collects.then_some(observed);
        let list = controllers.list;
        let workshop = Workshop::new(writer.clone(), list, Arc::clone(&teller), metrics, observed);
        let settings = tenure_retention::RetentionEngineSettings {
            draining: !controllers.retains,
            ..Default::default()
        };
        let (to_collector, to_retainer) = (questions.0, nudges.0);
        let keeper =
            SharedRetention::new(&writer.kinds(), settings, counters, to_collector, to_retainer);
        let keeper = Rc::new(keeper);
        let retainer = Retainer::new(writer.clone(), Rc::clone(&keeper), Arc::clone(&teller));
        let collector = Collector::new(writer, teller, keeper, seed);
        tokio::select! {
            () = follow::run(&world, collector, questions.1, collecting), if controllers.collects => {}
            () = follow::run(&world, retainer, nudges.1, retaining), if controllers.keeps => {}
            () = follow::run(&world, workshop, nothing, working) => {}
            () = follow::run(&world, expiry, silence, expiring), if expires => {}
            () = follow::run(&world, checker, quiet, checking) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}

/// How many threads write for the controllers when much is to be done: half of what there is, the rest is for
/// requests.
fn controller_writer_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).max(1)
}

impl EngineApi for Engines {
    fn graph(&self, uids: Vec<String>) -> Asking<'_, String> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let question = collect::CollectorMessage::Graph { uids, answer };
            if self.collector.is_none() || self.questions.send(question).is_err() {
                return String::new();
            }
            answered.await.unwrap_or_default()
        })
    }

    fn settle(&self, upto: Revision) -> Asking<'_, Result<Revision, String>> {
        Box::pin(async move {
            // The collector after the retention controller: it shows what it was released to do before
            // that one is idle.
            let mut followers: Vec<Observer> = self.settling().cloned().collect();
            loop {
                if let WriteAvailability::Stopped(why) = self.world.status() {
                    return Err(format!("what is left to do cannot be written: {why}"));
                }
                let looks: Vec<FollowerStatus> = followers.iter_mut().map(Observer::look).collect();
                // What was done may have asked for more: all is settled once nothing is newer.
                let newest = self.world.current().revision();
                let mut settled = true;
                for (follower, look) in followers.iter().zip(&looks) {
                    if let Some(why) = trouble(follower) {
                        return Err(why);
                    }
                    let Position { seen, load } = look.position;
                    let done = load.idle && seen >= upto && seen >= newest;
                    settled &= done
                        || follower.name == retention::NAME
                            && self.passes_over(&look.position, upto);
                }
                if settled {
                    return Ok(newest);
                }
                let changes = followers.iter_mut().map(|follower| Box::pin(follower.changed()));
                // One that has ended is found by the next look.
                futures::future::select_all(changes).await;
            }
        })
    }

    fn volumes(&self, namespace: &str, name: &str) -> Option<serde_json::Value> {
        simulated_volumes::volumes(&self.world.current(), namespace, name)
    }

    fn health(&self) -> Vec<(&'static str, Result<(), String>)> {
        let health = |follower: &Observer| trouble(follower).map_or(Ok(()), Err);
        self.observers().map(|follower| (follower.name, health(follower))).collect()
    }

    fn metrics(&self) -> String {
        let collector = self.collector.as_ref().map(Observer::now).unwrap_or_default();
        let Position { seen, load } = collector.position;
        let work = self.workshop.now().position.load;
        let behind = self.world.current().revision().0.saturating_sub(seen.0);
        let depths = QueueDepths {
            deleting: load.depth - load.orphaning,
            orphaning: load.orphaning,
            behind,
            controllers: work.depth,
        };
        let followers = self.observers().map(|follower| (follower, trouble(follower).is_none()));
        self.metrics.text(depths, load.refusals, followers)
    }
}

/// Why a follower does not do its work, if so.
fn trouble(follower: &Observer) -> Option<String> {
    let name = follower.name;
    match follower.now().failed {
        _ if follower.has_ended() => Some(format!("{name} has ended")),
        Some(why) => Some(format!("{name} panicked and was started again: {why}")),
        None => None,
    }
}

impl Engines {
    /// Every follower that runs.
    pub fn observers(&self) -> impl Iterator<Item = &Observer> {
        self.settling().chain(&self.expiry).chain([&self.api_services])
    }

    /// Those that must have nothing left to do before all is settled; the collector after the retention
    /// controller.
    fn settling(&self) -> impl Iterator<Item = &Observer> {
        self.retainer.iter().chain(&self.collector).chain([&self.workshop])
    }

    /// Whether the retention controller waits for somebody to opt in, and nobody has.
    fn passes_over(&self, position: &Position, upto: Revision) -> bool {
        if !position.load.dormant {
            return false;
        }
        let state = self.world.current();
        let subjects = |stored| matches!(stored, retention_facts::RetentionKind::Subject(_));
        let newer = |prefix: &str| {
            let mut records = state.range(prefix, None);
            records.any(|record| {
                record.revision() > position.seen && retention_facts::opted_in(record)
            })
        };
        state.revision() >= upto
            && !self.prefixes.within("", subjects).any(|(prefix, _)| newer(&prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::Controllers;

    #[test]
    fn a_scheduler_is_there_once_unless_it_is_turned_off() {
        let schedulers = |words: &[&str], nodes| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let controllers = Controllers::with_nodes(&words, nodes).unwrap();
            let scheduler = controllers.list.iter().filter(|c| c.name() == "scheduler");
            scheduler.map(|c| c.on_by_default()).collect::<Vec<_>>()
        };
        // The one that begins with the first node that joins needs no word of its own.
        assert_eq!(schedulers(&["*"], 0), [true]);
        assert_eq!(schedulers(&["*", "scheduler"], 0), [false]);
        assert_eq!(schedulers(&["*"], 1), [false]);
        for nodes in [0, 1] {
            assert!(schedulers(&["*", "-scheduler"], nodes).is_empty());
            assert!(schedulers(&["*", "-kube-scheduler"], nodes).is_empty());
        }
        assert!(schedulers(&["job"], 0).is_empty());
    }
}
