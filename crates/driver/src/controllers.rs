//! The built-in controllers of this process: who is woken by a change, whose turn it is, what is done.
//!
//! Engine `workload` decides one key at a time from one state; its intents are carried out in order,
//! many keys at once. Nothing here knows what a Deployment is.
//!
//! ```text
//!   Change ──► wake ──► Queue ──► reconcile(state, time, memory, answers) ──► intents ──► act ──► finish
//!                         ▲                                          └─ questions ──► API ──┐
//!                         └───────────────────────────── answers ◄───────────────────────────┘
//! ```

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use tenure_core::Revision;
use tenure_server::internal_client::InternalClient;
use tenure_server::internal_writer::{Actor, InternalWriter};
use tenure_workload::{
    ApiAnswers, ApiRefusal, BuiltinResource, Controller, ControllerIntent, Departure, FailedIntent,
    Pass, ReconcileKey, ReconcileMemory,
};
use tenure_world::{Change, Interest, Record, World};

use crate::clock;
use crate::event_publisher::EventPublisher;
use crate::follow::{Follower, Task, Want};
use crate::intent_executor;
use crate::metrics::{ControllerMeter, ControllerMetrics};
use crate::progress::{Load, Observer};
use crate::queue::{Finished, WorkQueue};
use crate::retry::MOST;
use crate::view::Lookups;

/// What readiness calls the controllers.
pub(crate) const NAME: &str = "controllers";
/// How many keys are worked on at once.
const TURNS_AT_ONCE: usize = 1_024;
/// With so many writes under way no further key is taken: what is begun goes first.
const WRITES_AT_ONCE: usize = 4_096;
/// A turn with no more writes than this is small.
const SMALL_TURN_WRITES: usize = 4;
/// With no more writes under way than this, small turns are carried out where they were decided. Making so
/// many ready takes about as long as changes gather anyway (`poll_throttle`).
const WRITES_IN_PLACE: usize = 16;

/// A key of one of the controllers.
type WorkItem = (usize, ReconcileKey);

/// The controllers and everything they hold.
pub(crate) struct Workshop {
    writer: InternalWriter,
    controllers: Vec<&'static dyn Controller>,
    lookups: Lookups,
    queue: WorkQueue<WorkItem>,
    metrics: ControllerMetrics,
    /// How many keys are worked on.
    turns: usize,
    /// How many writes are under way.
    writes: usize,
    memories: HashMap<WorkItem, ReconcileMemory>,
    refused: HashMap<WorkItem, Vec<FailedIntent>>,
    /// What was answered to the questions of a pass that has only asked so far.
    answers: HashMap<WorkItem, ApiAnswers>,
    teller: Arc<EventPublisher>,
}

/// A turn that wants something done.
pub(crate) struct Reconciliation {
    item: WorkItem,
    requeue_after: Option<Duration>,
    /// How long the decision took.
    took: Duration,
    /// How much of it is to be done.
    writes: usize,
    refused: Vec<FailedIntent>,
    /// What was answered, if it only asked.
    answers: Option<ApiAnswers>,
    /// Whether carrying it out panicked.
    broke_down: bool,
}

/// What a turn has somebody do.
enum TurnWork {
    /// To carry this out.
    Intents(Vec<ControllerIntent>),
    /// To read these paths of the API.
    Questions(BTreeSet<String>),
}

impl Follower for Workshop {
    type Ended = Reconciliation;
    type Message = Infallible;

    fn name(&self) -> &'static str {
        NAME
    }

    fn start(&mut self, state: &World) -> Vec<Interest> {
        self.forget();
        for record in state.range("/registry/", None) {
            self.wake(state, None, Some(record));
        }
        vec![Interest::Prefix("/registry/".into())]
    }

    fn see(&mut self, state: &World, change: &Change) {
        self.wake(state, change.before.as_ref(), change.after.as_ref());
    }

    fn hear(&mut self, message: Infallible) {
        match message {}
    }

    fn next(&mut self, now: Instant, _seen: Revision) -> Want<Reconciliation> {
        while self.has_room() {
            let Some(item) = self.queue.take(now) else { return Want::Rest(self.queue.due()) };
            // A turn sees all that was written before it, its own writes too (PU5).
            let state = self.writer.world().current();
            if let Some((turn, work)) = self.reconcile(&state, item) {
                self.turns += 1;
                self.writes += turn.writes;
                return Want::Task(match work {
                    TurnWork::Intents(intents) => self.carry_out(turn, intents),
                    TurnWork::Questions(questions) => Box::pin(self.ask(turn, questions)),
                });
            }
        }
        Want::Rest(None)
    }

    fn ended(&mut self, turn: Reconciliation, _now: Instant) {
        self.turns -= 1;
        self.writes -= turn.writes;
        self.finish(turn);
    }

    fn load(&self) -> Load {
        Load { depth: self.queue.depth(), idle: self.queue.is_idle(), ..Load::default() }
    }
}

impl Workshop {
    pub(crate) fn new(
        writer: InternalWriter,
        controllers: Vec<&'static dyn Controller>,
        teller: Arc<EventPublisher>,
        metrics: ControllerMetrics,
        collector: Option<Observer>,
    ) -> Workshop {
        let first: Vec<bool> = controllers.iter().map(|c| c.comes_first()).collect();
        let comes_first =
            move |(number, _): &WorkItem| first.get(*number).copied().unwrap_or_default();
        let meters: Vec<ControllerMeter> =
            controllers.iter().map(|controller| metrics.of(controller.alias())).collect();
        let meter = move |(number, _): &WorkItem, step| {
            meters.get(*number).into_iter().for_each(|meter| meter.step(step));
        };
        Workshop {
            lookups: Lookups::new(writer.clone(), collector),
            writer,
            controllers,
            queue: WorkQueue::new(comes_first).metered(meter),
            metrics,
            turns: 0,
            writes: 0,
            memories: HashMap::new(),
            refused: HashMap::new(),
            answers: HashMap::new(),
            teller,
        }
    }

    /// Forgets everything.
    fn forget(&mut self) {
        let controllers = std::mem::take(&mut self.controllers);
        let (teller, metrics) = (Arc::clone(&self.teller), self.metrics.clone());
        let collector = self.lookups.collector.take();
        *self = Workshop::new(self.writer.clone(), controllers, teller, metrics, collector);
    }

    fn has_room(&self) -> bool {
        self.turns < TURNS_AT_ONCE && self.writes < WRITES_AT_ONCE
    }

    /// Wakes the keys that an object's change concerns.
    fn wake(&mut self, state: &World, before: Option<&Arc<Record>>, after: Option<&Arc<Record>>) {
        let Some(record) = after.or(before) else { return };
        if after.is_none() {
            self.see_departure(state, record);
        }
        let Some(resource) = self.lookups.places.resource(record.key()) else { return };
        if resource == BuiltinResource::Pods {
            self.lookups.on_nodes.see(before, after);
        }
        if !self.controllers.iter().any(|c| c.watches().contains(&resource)) {
            return;
        }
        let gone = after.is_none();
        self.lookups.orphans.see(resource, record, !gone);
        let before = before.and_then(|record| self.lookups.read(record));
        let after = after.and_then(|record| self.lookups.read(record));
        if let (BuiltinResource::Pods, Some(pod)) = (resource, &after) {
            self.lookups.standings.borrow_mut().see(record, pod);
        }
        let change = tenure_workload::ObjectChange {
            resource,
            before: before.as_ref(),
            after: after.as_ref(),
        };
        let view = self.lookups.view(state);
        for (number, controller) in self.controllers.iter().enumerate() {
            if controller.watches().contains(&resource) {
                let queue = &mut self.queue;
                controller.wake(&change, &view, &mut |key| queue.wake((number, key)));
            }
        }
        self.lookups.caught_up(record, gone);
    }

    /// Wakes the keys that wait until objects of any kind are gone.
    fn see_departure(&mut self, state: &World, record: &Record) {
        let kinds = self.writer.kinds();
        let Some(served) = kinds.stored_at(record.key()) else { return };
        let departure = Departure {
            group: &served.kind.group,
            resource: &served.kind.plural,
            namespace: record.namespace(),
        };
        let view = self.lookups.view(state);
        for (number, controller) in self.controllers.iter().enumerate() {
            let queue = &mut self.queue;
            let wake = &mut |key| queue.wake((number, key));
            controller.wake_by_departure(&departure, &view, wake);
        }
    }

    /// Decides about a key; `None` when nothing is to be done.
    fn reconcile(&mut self, state: &World, item: WorkItem) -> Option<(Reconciliation, TurnWork)> {
        let (number, key) = &item;
        let controller = *self.controllers.get(*number)?;
        let memory = self.memories.remove(&item).unwrap_or_default();
        let refused = self.refused.remove(&item).unwrap_or_default();
        let answers = self.answers.remove(&item).unwrap_or_default();
        let view = self.lookups.view(state);
        let began = clock::instant();
        let pass = Pass {
            key,
            view: &view,
            now: clock::timestamp(),
            memory: &memory,
            refused: &refused,
            answers: &answers,
        };
        // A fault about one object must not end the work on all others.
        let decided = catch_unwind(AssertUnwindSafe(|| controller.reconcile(&pass)));
        let outcome = match decided {
            Ok(outcome) => outcome,
            Err(panic) => {
                let (name, why) = (controller.name(), tenure_supervise::message(&*panic));
                tracing::error!(controller = name, ?key, why, "a controller panicked");
                self.metrics.panics.inc();
                let failed = Finished::Failed { within: controller.retries_within() };
                self.queue.finish(item, failed, began.elapsed(), clock::instant());
                return None;
            }
        };
        let turn = Reconciliation {
            item,
            requeue_after: outcome.requeue_after,
            took: began.elapsed(),
            writes: outcome.intents.len(),
            refused: Vec::new(),
            answers: None,
            broke_down: false,
        };
        if !outcome.questions.is_empty() {
            // Who only asks decides again with the answers, and with all else as it was.
            self.memories.insert(turn.item.clone(), memory);
            let writes = 0;
            let turn = Reconciliation { refused, answers: Some(answers), writes, ..turn };
            return Some((turn, TurnWork::Questions(outcome.questions)));
        }
        if outcome.memory != ReconcileMemory::Nothing {
            self.memories.insert(turn.item.clone(), outcome.memory);
        }
        if outcome.intents.is_empty() {
            self.finish(turn);
            return None;
        }
        Some((turn, TurnWork::Intents(outcome.intents)))
    }

    /// Reads paths of the API under the account of the controller, one after the other.
    fn ask(
        &self,
        turn: Reconciliation,
        questions: BTreeSet<String>,
    ) -> impl Future<Output = Reconciliation> + 'static {
        let account =
            self.controllers.get(turn.item.0).map_or("", |controller| controller.account());
        let client = InternalClient::new(&self.writer, account);
        let asking = tokio::spawn(async move {
            let mut answers = ApiAnswers::new();
            for path in questions {
                let answer = client.get(&path).await.map_err(|failure| {
                    let (code, message) = (failure.code, failure.message);
                    ApiRefusal { code, message }
                });
                answers.insert(path, answer);
            }
            answers
        });
        async move {
            match asking.await {
                Ok(new) => {
                    let mut answers = turn.answers.unwrap_or_default();
                    answers.extend(new);
                    Reconciliation { answers: Some(answers), ..turn }
                }
                Err(error) => {
                    tracing::error!(%error, key = ?turn.item.1, "a controller's question broke down");
                    Reconciliation { answers: None, broke_down: true, ..turn }
                }
            }
        }
    }

    /// Carries out a turn: a small one here while little is under way, any other on the threads for writes, so
    /// that the next decision need not wait for it.
    fn carry_out(
        &self,
        turn: Reconciliation,
        intents: Vec<ControllerIntent>,
    ) -> Task<Reconciliation> {
        let controller = self.controllers.get(turn.item.0).copied();
        let executor = intent_executor::IntentExecutor {
            writer: self.writer.clone(),
            places: Arc::clone(&self.lookups.places),
            teller: Arc::clone(&self.teller),
            component: controller.map_or("", |controller| controller.component()),
            actor: Actor {
                account: controller.map_or("", |controller| controller.account()),
                manager: controller.map_or("", |controller| controller.manager()),
            },
        };
        let in_place = !self.queue.is_busy() && fits_in_place(turn.writes, self.writes);
        let work = async move { executor.carry_out(intents).await };
        if in_place {
            return Box::pin(carried_out(turn, here(work)));
        }
        Box::pin(carried_out(turn, spawned(tokio::spawn(work))))
    }

    fn finish(&mut self, turn: Reconciliation) {
        let Reconciliation { item, requeue_after, took, refused, answers, broke_down, .. } = turn;
        if let Some(answers) = answers {
            self.answers.insert(item.clone(), answers);
            if !refused.is_empty() {
                self.refused.insert(item.clone(), refused);
            }
            self.queue.wake(item.clone());
            self.queue.finish(item, Finished::Done(None), took, clock::instant());
            return;
        }
        // In a namespace that is going nothing can be made: no reason to try again (PU7).
        let failed = broke_down || refused.iter().any(|refused| !refused.namespace_terminating);
        if !refused.is_empty() {
            self.refused.insert(item.clone(), refused);
        }
        let within = self.controllers.get(item.0).map_or(MOST, |c| c.retries_within());
        let finished =
            if failed { Finished::Failed { within } } else { Finished::Done(requeue_after) };
        self.queue.finish(item, finished, took, clock::instant());
    }
}

/// Whether a turn is carried out where it was decided, given its writes and all that are under way, its own
/// included.
fn fits_in_place(writes: usize, under_way: usize) -> bool {
    writes <= SMALL_TURN_WRITES && under_way <= WRITES_IN_PLACE
}

/// What came of a turn; a panic is a fault of this turn alone.
async fn carried_out(
    turn: Reconciliation,
    work: impl Future<Output = Result<Vec<FailedIntent>, String>>,
) -> Reconciliation {
    match work.await {
        Ok(refused) => Reconciliation { refused, ..turn },
        Err(error) => {
            tracing::error!(error, key = ?turn.item.1, "a controller's write broke down");
            Reconciliation { broke_down: true, ..turn }
        }
    }
}

/// Runs on the thread that asks for it.
async fn here<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    outcome.map_err(|panic| tenure_supervise::message(&*panic).to_owned())
}

/// Waits for a task of another thread.
async fn spawned<T>(task: tokio::task::JoinHandle<T>) -> Result<T, String> {
    task.await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::*;

    #[test]
    fn only_small_turns_are_carried_out_where_they_were_decided_and_only_while_little_is_under_way()
    {
        assert!(fits_in_place(1, 1));
        assert!(fits_in_place(SMALL_TURN_WRITES, WRITES_IN_PLACE));
        assert!(!fits_in_place(SMALL_TURN_WRITES + 1, SMALL_TURN_WRITES + 1));
        assert!(!fits_in_place(1, WRITES_IN_PLACE + 1));
    }

    fn turn() -> Reconciliation {
        let key = ReconcileKey::new("default", "web");
        Reconciliation {
            item: (0, key),
            requeue_after: None,
            took: Duration::ZERO,
            writes: 1,
            refused: Vec::new(),
            answers: None,
            broke_down: false,
        }
    }

    #[tokio::test]
    async fn a_turn_that_panics_is_a_fault_of_that_turn_wherever_it_is_carried_out() {
        let good = async { Vec::new() };
        assert!(!carried_out(turn(), here(good)).await.broke_down);
        let panics = async { panic!("planted by a test") };
        assert_eq!(here(panics).await, Err::<(), _>("planted by a test".to_owned()));
        let panics = async { panic!("planted by a test") };
        assert!(carried_out(turn(), here(panics)).await.broke_down);
        let panics = async { panic!("planted by a test") };
        assert!(carried_out(turn(), spawned(tokio::spawn(panics))).await.broke_down);
    }
}
