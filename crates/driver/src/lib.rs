//! Runs the engines of one process: changes of the world in, intents out through the server's door.
//!
//! ```text
//!   World ──► collect ──► engine `ownership` ──┐
//!         ──► retain ───► engine `retention` ──┤
//!         ──► work ─────► engine `workload` ───┼──► Door ──► World
//!                                   tell ◄─────┘ events
//! ```
//!
//! Threads of its own, so that a large cascade never keeps requests waiting: one on which engines
//! decide, and some on which the writes of controllers are made ready.
//! Engines decide; nothing here knows a rule.

mod act;
mod ahead;
mod clock;
mod collect;
mod imagined;
mod keeper;
mod mention;
mod nodes;
mod progress;
mod queue;
mod recorder;
mod retain;
mod retry;
mod tell;
mod view;
mod work;

use std::rc::Rc;
use std::sync::Arc;

use tenure_core::Revision;
use tenure_server::beside::{Asking, Beside};
use tenure_server::door::Door;
use tenure_workload::Controller;
use tenure_workload::scheduler::JoinedScheduler;
use tenure_world::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use collect::{Collector, Question};
use keeper::{Counters, Keeper};
use mention::Shelves;
use progress::{Place, Progress};
use retain::Retainer;
use tell::Teller;
use work::Workshop;

pub use tenure_workload::UnknownController;

/// How many questions may wait.
const QUESTIONS: usize = 16;

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
}

impl Controllers {
    /// Reads what `--controllers` says: `*`, `name`, `-name`; the first word that names one decides.
    ///
    /// # Errors
    /// A name is nobody's.
    pub fn named(words: &[String]) -> Result<Controllers, UnknownController> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let elsewhere = |name: &str| COLLECTOR.contains(&name) || RETENTION.contains(&name);
        let list = tenure_workload::enabled(&words, elsewhere)?;
        let on = |[name, alias]: [&str; 2]| tenure_workload::table::names(&words, name, alias);
        Ok(Controllers {
            list,
            collects: on(COLLECTOR),
            keeps: on(RETENTION),
            nodes: 0,
            retains: true,
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
        let runs = controllers.list.iter().any(|controller| controller.name() == name);
        if !runs && tenure_workload::table::names(&words, name, alias) {
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
    door: Door,
    seed: u64,
    controllers: Controllers,
    collector: Progress,
    retainer: Progress,
    workshop: Progress,
    counters: Arc<Counters>,
    questions: mpsc::Receiver<Question>,
}

/// What clients may ask of a running driver.
pub struct Engines {
    world: Handle,
    /// Nobody reports for a collector that does not run.
    collects: bool,
    /// Nor for a retention controller.
    keeps: bool,
    collector: watch::Receiver<Place>,
    retainer: watch::Receiver<Place>,
    workshop: watch::Receiver<Place>,
    shelves: Shelves,
    counters: Arc<Counters>,
    questions: mpsc::Sender<Question>,
}

impl Driver {
    /// A driver behind a door, and what may be asked of it; the seed guards hash tables.
    #[must_use]
    pub fn new(door: Door, seed: u64, controllers: Controllers) -> (Driver, Arc<Engines>) {
        let (collector, collecting) = Progress::new();
        let (retainer, retaining) = Progress::new();
        let (workshop, working) = Progress::new();
        let counters = Arc::new(Counters::default());
        let (sender, questions) = mpsc::channel(QUESTIONS);
        let engines = Engines {
            world: door.world().clone(),
            collects: controllers.collects,
            keeps: controllers.keeps,
            collector: collecting,
            retainer: retaining,
            workshop: working,
            shelves: Shelves::new(&door.kinds()),
            counters: Arc::clone(&counters),
            questions: sender,
        };
        let driver =
            Driver { door, seed, controllers, collector, retainer, workshop, counters, questions };
        (driver, Arc::new(engines))
    }

    /// Decides on the calling thread until the world stops or the end is asked for.
    ///
    /// # Errors
    /// The operating system gives no timer or no thread.
    pub fn run(self, stop: watch::Receiver<bool>) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(hands())
            .thread_name("hands")
            .enable_time()
            .build()?;
        tokio::task::LocalSet::new().block_on(&runtime, self.follow(stop));
        Ok(())
    }

    /// Runs wherever it is polled, inside a [`tokio::task::LocalSet`], until the world stops or the end
    /// is asked for.
    pub async fn follow(self, mut stop: watch::Receiver<bool>) {
        let Driver { door, seed, controllers, collector, retainer, workshop, counters, questions } =
            self;
        let (teller, waiting) = Teller::new();
        let teller = Arc::new(teller);
        let telling = Arc::clone(&teller);
        let events = door.clone();
        tokio::task::spawn_local(async move { telling.run(events, waiting).await });
        tokio::task::spawn_local(nodes::register(door.clone(), controllers.nodes));
        let workshop = Workshop::new(door.clone(), controllers.list, Arc::clone(&teller), workshop);
        let settings =
            tenure_retention::Settings { draining: !controllers.retains, ..Default::default() };
        let (keeper, released) = Keeper::new(&door.kinds(), settings, counters);
        let keeper = Rc::new(keeper);
        let (shared, told) = (Rc::clone(&keeper), Arc::clone(&teller));
        let retainer = Retainer::new(door.clone(), shared, told, retainer);
        let collector = Collector::new(door, teller, keeper, collector, seed);
        tokio::select! {
            () = collector.run(questions, released), if controllers.collects => {}
            () = retainer.run(), if controllers.keeps => {}
            () = workshop.run() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}

/// How many threads write for the controllers: half of what there is, the rest is for requests.
fn hands() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).max(1)
}

impl Beside for Engines {
    fn graph(&self, uids: Vec<String>) -> Asking<'_, String> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            if !self.collects
                || self.questions.send(Question::Graph { uids, answer }).await.is_err()
            {
                return String::new();
            }
            answered.await.unwrap_or_default()
        })
    }

    fn settle(&self, upto: Revision) -> Asking<'_, Revision> {
        Box::pin(async move {
            let (mut collector, mut workshop) = (self.collector.clone(), self.workshop.clone());
            let mut retainer = self.retainer.clone();
            loop {
                // Before the collector, which shows what it was released to do before this is idle.
                let retaining = *retainer.borrow_and_update();
                let places = [*collector.borrow_and_update(), *workshop.borrow_and_update()];
                // What was done may have asked for more: all is settled once nothing is newer.
                let newest = self.world.current().revision();
                let settled =
                    |place: &Place| place.idle && place.seen >= upto && place.seen >= newest;
                let [collecting, working] = &places;
                let retained =
                    !self.keeps || settled(&retaining) || self.passes_over(&retaining, upto);
                if settled(working) && (settled(collecting) || !self.collects) && retained {
                    return newest;
                }
                let ended = tokio::select! {
                    changed = collector.changed() => changed.is_err(),
                    changed = workshop.changed() => changed.is_err(),
                    changed = retainer.changed() => changed.is_err(),
                };
                if ended {
                    return newest;
                }
            }
        })
    }

    fn volumes(&self, namespace: &str, name: &str) -> Option<serde_json::Value> {
        imagined::volumes(&self.world.current(), namespace, name)
    }

    fn collected(&self, upto: Revision) -> Asking<'_, ()> {
        Box::pin(async move {
            let mut collector = self.collector.clone();
            let done = |place: &Place| place.seen >= upto && place.depth == 0;
            if self.collects {
                // An error is the end of the collector, which nobody needs to wait for.
                let _ = collector.wait_for(done).await;
            }
        })
    }

    fn metrics(&self) -> String {
        let (place, work) = (*self.collector.borrow(), *self.workshop.borrow());
        let behind = self.world.current().revision().0.saturating_sub(place.seen.0);
        format!(
            "# HELP workqueue_depth How much waits to be done or is under way.\n\
             # TYPE workqueue_depth gauge\n\
             workqueue_depth{{name=\"garbage_collector_attempt_to_delete\"}} {}\n\
             workqueue_depth{{name=\"garbage_collector_attempt_to_orphan\"}} {}\n\
             workqueue_depth{{name=\"garbage_collector_graph_changes\"}} {behind}\n\
             workqueue_depth{{name=\"controllers\"}} {}\n\
             # HELP garbagecollector_controller_resources_sync_error How often the collector was \
             refused.\n\
             # TYPE garbagecollector_controller_resources_sync_error counter\n\
             garbagecollector_controller_resources_sync_error_total {}\n",
            place.depth - place.orphaning,
            place.orphaning,
            work.depth,
            place.refusals,
        ) + &self.counters.text()
    }
}

impl Engines {
    /// Whether the retention controller waits for somebody to opt in, and nobody has.
    fn passes_over(&self, place: &Place, upto: Revision) -> bool {
        if !place.dormant {
            return false;
        }
        let state = self.world.current();
        let subjects = |stored| matches!(stored, mention::Stored::Subject(_));
        let newer = |prefix: &str| {
            let mut records = state.range(prefix, None);
            records.any(|record| record.revision() > place.seen && mention::opted_in(record))
        };
        state.revision() >= upto
            && !self.shelves.within("", subjects).any(|(prefix, _)| newer(&prefix))
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
