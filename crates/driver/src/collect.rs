//! The collector of this process: changes of ownership in, deletions and edits out.
//!
//! Engine `ownership` decides; here its objects are read from records and its writes carried out, each
//! under guards for what the decision relied on. A write that lost a race is decided anew.
//!
//! ```text
//!   World ──► put, gone, types ──► Engine ──► Write ──► guards ──► InternalWriter ──► outcome ──┐
//!                                   ▲ ▲└────► Report ──► an event    │                           │
//!                                   │ └── what it will leave ◄───────┘                           │
//!                                   └────────────────────────────────────────────────────────────┘
//! ```
//!
//! The engine runs ahead: what a submitted write will leave is told to it at once, so that a deep
//! cascade is one batch of the log and not one sync a level. Guards name what earlier writes of the
//! batch will have done; if one of them fails, those after it fail too and the truth is told again.

mod objects;
mod submit;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::Object;
use tenure_ownership as ownership;
use tenure_ownership::{
    ChangeOrder, OwnershipEngine, OwnershipFinding, OwnershipIntent, OwnershipRule, WriteId,
    WriteOutcome,
};
use tenure_server::internal_writer::{Actor, InternalWriter};
use tenure_world::{Change, Interest, Record, World};
use tokio::sync::oneshot;

use crate::ahead::Ahead;
use crate::event_publisher::EventPublisher;
use crate::follow::{Follower, Task, Want};
use crate::progress::Load;
use crate::recorder::Notice;
use crate::retry::Retries;
use crate::shared_retention::SharedRetention;

use objects::{TypeTable, with_object};
use submit::{SubmitOutcome, Tried, came_of};

/// Whose name the collector writes under (R148).
const ACTOR: Actor =
    Actor { account: "generic-garbage-collector", manager: "kube-controller-manager" };
/// What readiness calls it, and the source of its events.
pub(crate) const NAME: &str = "garbage-collector-controller";
/// The reason of its events.
const INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";
/// Where definitions of custom kinds are stored: a change there may change what is served.
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
/// How many writes are under way at once; about as many share a sync of the log (D4).
const WRITES_AT_ONCE: usize = 1000;

/// Something said to the collector while it runs.
pub(crate) enum CollectorMessage {
    /// Asks for the graph as DOT, or the part connected to these uids (R171).
    Graph { uids: Vec<String>, answer: oneshot::Sender<String> },
    /// An object whose deletion was held back may be tried again.
    Released(Box<str>),
}

/// A write that is done.
pub(crate) struct CollectorWriteResult {
    id: WriteId,
    key: Arc<str>,
    uid: Box<str>,
    /// Whether it left dependents of an owner behind.
    orphans: bool,
    ended: SubmitOutcome,
}

/// The collector and everything it holds.
pub(crate) struct Collector {
    writer: InternalWriter,
    /// Guards the engine's tables.
    seed: u64,
    engine: OwnershipEngine,
    types: TypeTable,
    /// Writes that wait until others are done.
    waiting: VecDeque<ownership::OwnershipWrite>,
    /// How many writes are under way.
    under_way: usize,
    /// What objects will be once writes under way are committed.
    ahead: Ahead,
    /// Writes that cannot go out before the one under way for the same object.
    parked: HashMap<Arc<str>, ownership::OwnershipWrite>,
    /// Objects whose write was refused, to be tried again later.
    refused: Retries,
    /// Writes to such objects that were wanted meanwhile.
    held: HashMap<Box<str>, ownership::OwnershipWrite>,
    /// How many writes under way leave dependents behind.
    orphaning: usize,
    /// How many writes were refused.
    refusals: u64,
    /// How many releases were heard and do not show in the load yet.
    released: usize,
    /// Says which ConfigMaps and Secrets may go.
    keeper: Rc<SharedRetention>,
    teller: Arc<EventPublisher>,
}

impl Follower for Collector {
    type Ended = CollectorWriteResult;
    type Message = CollectorMessage;

    fn name(&self) -> &'static str {
        NAME
    }

    fn start(&mut self, state: &World) -> Vec<Interest> {
        self.forget();
        let mut out = Vec::new();
        self.learn_kinds(state.revision(), &mut out);
        for record in state.range("/registry/", None) {
            if record.field("reason") == Some(INVALID_NAMESPACE) {
                self.remember_report(record);
            }
            self.put(record, &mut out);
        }
        self.engine.synced(state.revision(), &mut out);
        self.take(out);
        vec![Interest::Prefix("/registry/".into())]
    }

    fn see(&mut self, _state: &World, change: &Change) {
        let mut out = Vec::new();
        let ahead = self.ahead.uid(&change.key);
        // Of an object under way the engine knows what will be; what is shall be told when the write
        // is done. One that took its name meanwhile is another, and others may point at it already.
        let news = |record: &&Arc<Record>| ahead != Some(record.uid());
        let (after, before) =
            (change.after.as_ref().filter(news), change.before.as_ref().filter(news));
        if after.is_none() && before.is_none() {
            return;
        }
        match (after, before) {
            (Some(after), Some(before)) if after.owned_like(before) => {
                self.engine.pass(change.revision);
            }
            (Some(record), before) => {
                // A name that was freed and taken again within one transaction is two objects.
                if let Some(before) = before.filter(|before| before.uid() != record.uid()) {
                    self.engine.gone(before.uid(), change.revision, &mut out);
                }
                self.put(record, &mut out);
            }
            (None, Some(before)) => self.engine.gone(before.uid(), change.revision, &mut out),
            (None, None) => {}
        }
        if change.key.starts_with(DEFINITIONS) {
            self.learn_kinds(change.revision, &mut out);
        }
        self.take(out);
    }

    fn hear(&mut self, message: CollectorMessage) {
        match message {
            CollectorMessage::Graph { uids, answer } => {
                let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
                let _ = answer.send(self.engine.dot(&uids));
            }
            CollectorMessage::Released(uid) => {
                let mut out = Vec::new();
                self.engine.retry(&uid, &mut out);
                self.take(out);
                self.released += 1;
            }
        }
    }

    fn next(&mut self, now: Instant, _seen: Revision) -> Want<CollectorWriteResult> {
        while let Some(uid) = self.refused.take(now) {
            let mut out = Vec::new();
            match self.held.remove(&uid) {
                Some(write) => self.waiting.push_back(write),
                None => self.engine.retry(&uid, &mut out),
            }
            self.take(out);
        }
        while self.under_way < WRITES_AT_ONCE
            && let Some(write) = self.waiting.pop_front()
        {
            if self.engine.current(write.id)
                && let Some(task) = self.carry_out(write)
            {
                self.under_way += 1;
                return Want::Task(task);
            }
        }
        // The load shows from here on what came of them.
        self.keeper.taken(std::mem::take(&mut self.released));
        Want::Rest(self.refused.due())
    }

    fn ended(&mut self, ended: CollectorWriteResult, now: Instant) {
        self.under_way -= 1;
        self.conclude(ended, now);
    }

    fn load(&self) -> Load {
        let depth = self.under_way + self.waiting.len() + self.parked.len();
        Load {
            depth,
            orphaning: self.orphaning,
            refusals: self.refusals,
            idle: depth == 0 && self.refused.is_empty(),
            dormant: false,
        }
    }
}

impl Collector {
    pub(crate) fn new(
        writer: InternalWriter,
        teller: Arc<EventPublisher>,
        keeper: Rc<SharedRetention>,
        seed: u64,
    ) -> Collector {
        Collector {
            writer,
            seed,
            engine: OwnershipEngine::new(ChangeOrder::Total, seed),
            types: TypeTable::default(),
            waiting: VecDeque::new(),
            under_way: 0,
            ahead: Ahead::default(),
            parked: HashMap::new(),
            refused: Retries::default(),
            held: HashMap::new(),
            orphaning: 0,
            refusals: 0,
            released: 0,
            keeper,
            teller,
        }
    }

    /// Forgets all but how often it was refused.
    fn forget(&mut self) {
        // What was released before is asked about again, because everything is.
        self.keeper.taken(std::mem::take(&mut self.released));
        let (teller, keeper) = (Arc::clone(&self.teller), Rc::clone(&self.keeper));
        let anew = Collector::new(self.writer.clone(), teller, keeper, self.seed);
        *self = Collector { refusals: self.refusals, ..anew };
    }

    /// An event of an earlier process is not written again (B2).
    fn remember_report(&mut self, event: &Record) {
        let Ok(event) = serde_json::from_slice::<Value>(event.bytes()) else { return };
        let dependent = event.pointer("/involvedObject/uid").and_then(Value::as_str);
        let message = event.get("message").and_then(Value::as_str).unwrap_or_default();
        let owner = message.split("uid: ").nth(1).and_then(|rest| rest.split(']').next());
        if let (Some(dependent), Some(owner)) = (dependent, owner) {
            self.engine.already_reported(dependent, owner);
        }
    }

    fn put(&mut self, record: &Record, out: &mut Vec<OwnershipIntent>) {
        let Some(resource) = self.types.resource(record.key()) else { return };
        with_object(record, resource, |object| self.engine.put(object, out));
    }

    /// Brings the engine's table of types up to what is served now.
    fn learn_kinds(&mut self, revision: Revision, out: &mut Vec<OwnershipIntent>) {
        let kinds = self.writer.kinds();
        let before = std::mem::take(&mut self.types.types);
        self.types.learn(&kinds, &mut self.engine);
        let types = &self.types.types;
        let added: Vec<ownership::KindVersion<'_>> = types
            .iter()
            .filter(|(name, facts)| before.get(*name) != Some(facts))
            .map(|((api_version, kind), facts)| ownership::KindVersion {
                api_version,
                kind,
                resource: facts.resource,
                namespaced: facts.namespaced,
                collected: facts.collected,
                graceful: facts.graceful,
            })
            .collect();
        let removed: Vec<(&str, &str)> = before
            .keys()
            .filter(|name| !types.contains_key(*name))
            .map(|(api_version, kind)| (api_version.as_str(), kind.as_str()))
            .collect();
        if !added.is_empty() || !removed.is_empty() {
            self.engine.types(&added, &removed, revision, out);
        }
    }

    /// Sorts what the engine wants.
    fn take(&mut self, intents: Vec<OwnershipIntent>) {
        for intent in intents {
            match intent {
                OwnershipIntent::Write(write) => self.waiting.push_back(write),
                OwnershipIntent::Report(finding) => self.teller.tell(notice(&finding)),
                // With one order nothing is in doubt.
                OwnershipIntent::Ask(_) => {}
            }
        }
    }

    /// Tells the engine what came of a write.
    fn conclude(&mut self, concluded: CollectorWriteResult, now: Instant) {
        let CollectorWriteResult { id, key, uid, orphans, ended } = concluded;
        self.orphaning -= usize::from(orphans);
        let mut out = Vec::new();
        if self.ahead.conclude(&key, id) {
            self.tell_truth(&key, &uid, &mut out);
        }
        let outcome = match ended {
            SubmitOutcome::Applied(revision) => WriteOutcome::Applied(revision),
            SubmitOutcome::NotFound => WriteOutcome::NotFound,
            SubmitOutcome::UidMismatch => WriteOutcome::UidMismatch,
            SubmitOutcome::Moved => WriteOutcome::Conflict(None),
            SubmitOutcome::Denied => WriteOutcome::Denied,
            SubmitOutcome::Failed => WriteOutcome::Failed,
        };
        self.engine.outcome(id, &outcome, &mut out);
        match ended {
            SubmitOutcome::Denied | SubmitOutcome::Failed => {
                self.refusals += 1;
                self.refused.fail(uid, now);
            }
            SubmitOutcome::Applied(_) => self.refused.forget(&uid),
            _ => {}
        }
        self.take(out);
        if let Some(write) = self.parked.remove(&key) {
            self.waiting.push_back(write);
        }
    }

    /// Tells the engine how an object stands, after it was told how it would.
    fn tell_truth(&mut self, key: &str, uid: &str, out: &mut Vec<OwnershipIntent>) {
        let state = self.writer.world().current();
        let record = state.get(key);
        if record.is_none_or(|record| record.uid() != uid) {
            self.engine.gone(uid, state.revision(), out);
        }
        if let Some(record) = record {
            self.put(record, out);
        }
        if key.starts_with(DEFINITIONS) {
            self.learn_kinds(state.revision(), out);
        }
    }

    /// Submits a write and tells the engine what it will leave.
    fn carry_out(
        &mut self,
        write: ownership::OwnershipWrite,
    ) -> Option<Task<CollectorWriteResult>> {
        let (id, uid) = (write.id, write.key.uid.clone());
        if self.refused.is_waiting(&uid) {
            self.held.insert(uid, write);
            return None;
        }
        let key: Arc<str> = self.types.key(&write.key).unwrap_or_default().into();
        let (submitted, ended) = match self.submit(&key, &write) {
            Tried::Submitted(submitted) => (Some(submitted), None),
            Tried::Early => {
                self.parked.insert(key, write);
                return None;
            }
            Tried::Held => {
                // The keeper says when to try again.
                let mut out = Vec::new();
                self.engine.outcome(id, &WriteOutcome::Denied, &mut out);
                self.take(out);
                return None;
            }
            Tried::Ended(ended) => (None, Some(ended)),
        };
        let (writer, orphans) =
            (self.writer.clone(), matches!(write.rule, OwnershipRule::R114 | OwnershipRule::R115));
        self.orphaning += usize::from(orphans);
        Some(Box::pin(async move {
            let ended = match (submitted, ended) {
                (Some(submitted), _) => came_of(&writer, submitted.outcome().await),
                (None, ended) => ended.unwrap_or(SubmitOutcome::Failed),
            };
            CollectorWriteResult { id, key, uid, orphans, ended }
        }))
    }
}

/// The event about a reference across namespaces (section 2).
fn notice(finding: &OwnershipFinding) -> Notice {
    let OwnershipFinding::InvalidNamespace { dependent, api_version, kind, reference } = finding;
    let mut about = json!({
        "kind": kind, "apiVersion": api_version, "name": dependent.name, "uid": dependent.uid,
    });
    if let (Some(about), false) = (about.as_object_mut(), dependent.namespace.is_empty()) {
        about.insert("namespace".into(), (*dependent.namespace).into());
    }
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
        reference.api_version,
        reference.kind,
        dependent.namespace,
        reference.name,
        reference.uid,
        dependent.namespace,
    );
    Notice {
        source: NAME,
        about: match about {
            Value::Object(about) => about,
            _ => Object::new(),
        },
        warning: true,
        reason: INVALID_NAMESPACE.to_owned(),
        message,
    }
}
