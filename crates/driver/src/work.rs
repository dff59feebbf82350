//! The built-in controllers of this process: who is woken by a change, whose turn it is, what is done.
//!
//! Engine `workload` decides one key at a time from one state; its intents are carried out in order,
//! many keys at once. Nothing here knows what a Deployment is.
//!
//! ```text
//!   Change ──► wake ──► Queue ──► reconcile(state, time, memory) ──► intents ──► act ──► finish
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tenure_server::door::Door;
use tenure_server::pace::Pace;
use tenure_server::registry::Registry;
use tenure_workload::{Controller, Intent, Key, Memory, Pass, Refused, Resource};
use tenure_world::{Change, Interest, Record, Status, World};

use crate::act;
use crate::clock;
use crate::progress::{Place, Progress};
use crate::queue::{Finished, Queue};
use crate::tell::Teller;
use crate::view::{Eyes, OnNodes, Orphans, Parsed, Places, Standings};

/// How many keys are worked on at once.
const TURNS_AT_ONCE: usize = 1_024;
/// With so many writes under way no further key is taken: what is begun goes first.
const WRITES_AT_ONCE: usize = 4_096;

/// A key of one of the controllers.
type Item = (usize, Key);

/// The controllers and everything they hold.
pub(crate) struct Workshop {
    door: Door,
    controllers: Vec<&'static dyn Controller>,
    kinds: Arc<Registry>,
    places: Arc<Places>,
    parsed: RefCell<Parsed>,
    orphans: Orphans,
    on_nodes: OnNodes,
    standings: RefCell<Standings>,
    queue: Queue<Item>,
    /// How many writes are under way.
    writes: usize,
    memories: HashMap<Item, Memory>,
    refused: HashMap<Item, Vec<Refused>>,
    teller: Arc<Teller>,
    progress: Progress,
}

/// A turn that wants something done.
struct Turn {
    item: Item,
    requeue_after: Option<Duration>,
    /// How long the decision took.
    took: Duration,
    /// How much of it is to be done.
    writes: usize,
    refused: Vec<Refused>,
    /// Whether the hands broke down, which is a fault of theirs.
    broke_down: bool,
}

impl Workshop {
    pub(crate) fn new(
        door: Door,
        controllers: Vec<&'static dyn Controller>,
        teller: Arc<Teller>,
        progress: Progress,
    ) -> Workshop {
        let kinds = door.kinds();
        let places = Arc::new(Places::new(&kinds));
        let first: Vec<bool> = controllers.iter().map(|c| c.comes_first()).collect();
        let comes_first = move |(number, _): &Item| first.get(*number).copied().unwrap_or_default();
        Workshop {
            door,
            controllers,
            kinds,
            places,
            parsed: RefCell::default(),
            orphans: Orphans::default(),
            on_nodes: OnNodes::default(),
            standings: RefCell::default(),
            queue: Queue::new(comes_first),
            writes: 0,
            memories: HashMap::new(),
            refused: HashMap::new(),
            teller,
            progress,
        }
    }

    /// Follows the log until the world stops; one that fell behind what is kept begins anew.
    pub(crate) async fn run(mut self) {
        loop {
            self.follow().await;
            if self.door.world().status() != Status::Running {
                return;
            }
            tracing::warn!("the controllers fell behind the log and begin anew");
            self = Workshop::new(self.door, self.controllers, self.teller, self.progress);
        }
    }

    /// Follows the log from where it stands, as far as it is kept.
    async fn follow(&mut self) {
        let world = self.door.world().clone();
        let state = world.current();
        let interest = Interest::Prefix("/registry/".into());
        let Ok(mut changes) = world.watch(state.revision(), interest) else { return };
        for record in state.range("/registry/", None) {
            self.see(&state, None, Some(record));
        }
        drop(state);
        let mut turns = FuturesUnordered::new();
        let mut pace = Pace::default();
        loop {
            let state = world.current();
            loop {
                match changes.try_next() {
                    Ok(Some(change)) => self.see_change(&state, &change),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            while self.has_room(turns.len()) {
                let Some(item) = self.queue.take(clock::instant()) else { break };
                // A turn sees all that was written before it, its own writes too (PU5).
                let state = world.current();
                if let Some((turn, intents)) = self.reconcile(&state, item) {
                    self.writes += turn.writes;
                    turns.push(self.carry_out(turn, intents));
                }
            }
            let depth = self.queue.depth();
            let (seen, idle) = (changes.delivered(), self.queue.is_idle());
            pace.looked(depth > 0);
            self.progress.report(Place { seen, depth, idle, ..Place::default() });
            let due = self.queue.due();
            tokio::select! {
                ready = pace.ready(&mut changes) => if ready.is_err() { return },
                Some(turn) = turns.next(), if !turns.is_empty() => {
                    self.writes -= turn.writes;
                    self.finish(turn);
                }
                () = clock::sleep_until(due), if due.is_some() && self.has_room(turns.len()) => {}
            }
        }
    }

    fn has_room(&self, turns: usize) -> bool {
        turns < TURNS_AT_ONCE && self.writes < WRITES_AT_ONCE
    }

    fn see_change(&mut self, state: &World, change: &Change) {
        self.see(state, change.before.as_ref(), change.after.as_ref());
    }

    /// Wakes the keys that an object's change concerns.
    fn see(&mut self, state: &World, before: Option<&Arc<Record>>, after: Option<&Arc<Record>>) {
        let Some(record) = after.or(before) else { return };
        let Some(resource) = self.places.resource(record.key()) else { return };
        if resource == Resource::Pods {
            self.on_nodes.see(before, after);
        }
        if !self.controllers.iter().any(|c| c.watches().contains(&resource)) {
            return;
        }
        let gone = after.is_none();
        self.orphans.see(resource, record, !gone);
        let mut read = |record: &Arc<Record>| self.parsed.borrow_mut().read(&self.kinds, record);
        let before = before.and_then(&mut read);
        let after = after.and_then(&mut read);
        if let (Resource::Pods, Some(pod)) = (resource, &after) {
            self.standings.borrow_mut().see(record, pod);
        }
        let change =
            tenure_workload::Change { resource, before: before.as_ref(), after: after.as_ref() };
        let eyes = Eyes {
            world: state,
            kinds: &self.kinds,
            places: &self.places,
            parsed: &self.parsed,
            on_nodes: &self.on_nodes,
            standings: &self.standings,
            orphans: &self.orphans,
        };
        for (number, controller) in self.controllers.iter().enumerate() {
            if controller.watches().contains(&resource) {
                let queue = &mut self.queue;
                controller.wake(&change, &eyes, &mut |key| queue.wake((number, key)));
            }
        }
        if gone {
            self.parsed.borrow_mut().forget(record.key());
            self.standings.borrow_mut().forget(record.key());
        } else {
            self.parsed.borrow_mut().caught_up(record);
        }
    }

    /// Decides about a key; `None` when nothing is to be done.
    fn reconcile(&mut self, state: &World, item: Item) -> Option<(Turn, Vec<Intent>)> {
        let (number, key) = &item;
        let controller = *self.controllers.get(*number)?;
        let memory = self.memories.remove(&item).unwrap_or_default();
        let refused = self.refused.remove(&item).unwrap_or_default();
        let eyes = Eyes {
            world: state,
            kinds: &self.kinds,
            places: &self.places,
            parsed: &self.parsed,
            on_nodes: &self.on_nodes,
            standings: &self.standings,
            orphans: &self.orphans,
        };
        let began = clock::instant();
        let outcome = controller.reconcile(&Pass {
            key,
            view: &eyes,
            now: clock::timestamp(),
            memory: &memory,
            refused: &refused,
        });
        if outcome.memory != Memory::Nothing {
            self.memories.insert(item.clone(), outcome.memory);
        }
        let turn = Turn {
            item,
            requeue_after: outcome.requeue_after,
            took: began.elapsed(),
            writes: outcome.intents.len(),
            refused: Vec::new(),
            broke_down: false,
        };
        if outcome.intents.is_empty() {
            self.finish(turn);
            return None;
        }
        Some((turn, outcome.intents))
    }

    /// Has it done by whoever is free, so that the next decision need not wait for it.
    fn carry_out(&self, turn: Turn, intents: Vec<Intent>) -> impl Future<Output = Turn> + 'static {
        let controller = self.controllers.get(turn.item.0).copied();
        let hands = act::Hands {
            door: self.door.clone(),
            places: Arc::clone(&self.places),
            teller: Arc::clone(&self.teller),
            component: controller.map_or("", |controller| controller.component()),
        };
        let done = tokio::spawn(async move { hands.carry_out(intents).await });
        async move {
            match done.await {
                Ok(refused) => Turn { refused, ..turn },
                Err(error) => {
                    tracing::error!(%error, key = ?turn.item.1, "a controller's write broke down");
                    Turn { broke_down: true, ..turn }
                }
            }
        }
    }

    fn finish(&mut self, turn: Turn) {
        let Turn { item, requeue_after, took, refused, broke_down, .. } = turn;
        // In a namespace that is going nothing can be made: no reason to try again (PU7).
        let failed = broke_down || refused.iter().any(|refused| !refused.namespace_terminating);
        if !refused.is_empty() {
            self.refused.insert(item.clone(), refused);
        }
        let finished = if failed { Finished::Failed } else { Finished::Done(requeue_after) };
        self.queue.finish(item, finished, took, clock::instant());
    }
}
