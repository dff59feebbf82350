//! The collector of this process: changes of ownership in, deletions and edits out.
//!
//! Engine `ownership` decides; here its objects are read from records and its writes carried out, each
//! under guards for what the decision relied on. A write that lost a race is decided anew.
//!
//! ```text
//!   World ──► put, gone, types ──► Engine ──► Write ──► guards ──► Door ──► outcome ──┐
//!                                   ▲ ▲└────► Report ──► an event    │                 │
//!                                   │ └── what it will leave ◄───────┘                 │
//!                                   └──────────────────────────────────────────────────┘
//! ```
//!
//! The engine runs ahead: what a submitted write will leave is told to it at once, so that a deep
//! cascade is one batch of the log and not one sync a level. Guards name what earlier writes of the
//! batch will have done; if one of them fails, those after it fail too and the truth is told again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_ownership as ownership;
use tenure_ownership::{
    Action, Engine, Finding, Intent, Order, Outcome, Policy, Reference, Rule, WriteId,
};
use tenure_server::door::{self, Actor, Door, Prepared, Propagation, Standing, Submitted, Written};
use tenure_server::pace::Pace;
use tenure_server::registry::Registry;
use tenure_world::{Change, Guard, Interest, Record, Status, World};
use tokio::sync::{mpsc, oneshot};

use crate::ahead::Ahead;
use crate::clock;
use crate::keeper::{Answer, Keeper, more};
use crate::progress::{Place, Progress};
use crate::recorder::Notice;
use crate::retain;
use crate::retry::Retries;
use crate::tell::Teller;

/// Whose name the collector writes under (R148).
const ACTOR: Actor =
    Actor { account: "generic-garbage-collector", manager: "kube-controller-manager" };
/// The source of its events.
const COMPONENT: &str = "garbage-collector-controller";
/// The reason of its events.
const INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";
/// Where definitions of custom kinds are stored: a change there may change what is served.
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
/// How many writes are under way at once; about as many share a sync of the log (D4).
const WRITES_AT_ONCE: usize = 1000;

/// Something asked of the collector while it runs.
pub(crate) enum Question {
    /// The graph as DOT, or the part connected to these uids (R171).
    Graph { uids: Vec<String>, answer: oneshot::Sender<String> },
}

/// A write that is done.
struct Concluded {
    id: WriteId,
    key: Arc<str>,
    uid: Box<str>,
    /// Whether it left dependents of an owner behind.
    orphans: bool,
    result: Result,
}

/// What a write came to.
enum Result {
    Applied(Revision),
    NotFound,
    UidMismatch,
    Moved,
    Denied,
    Failed,
}

/// The collector and everything it holds.
pub(crate) struct Collector {
    door: Door,
    /// Guards the engine's tables.
    seed: u64,
    engine: Engine,
    places: Places,
    /// Writes that wait until others are done.
    waiting: VecDeque<ownership::Write>,
    /// What objects will be once writes under way are committed.
    ahead: Ahead,
    /// Writes that cannot go out before the one under way for the same object.
    parked: HashMap<Arc<str>, ownership::Write>,
    /// Objects whose write was refused, to be tried again later.
    refused: Retries,
    /// Writes to such objects that were wanted meanwhile.
    held: HashMap<Box<str>, ownership::Write>,
    /// How many writes under way leave dependents behind.
    orphaning: usize,
    /// How many writes were refused.
    refusals: u64,
    /// Says which ConfigMaps and Secrets may go.
    keeper: Rc<Keeper>,
    teller: Arc<Teller>,
    progress: Progress,
}

impl Collector {
    pub(crate) fn new(
        door: Door,
        teller: Arc<Teller>,
        keeper: Rc<Keeper>,
        progress: Progress,
        seed: u64,
    ) -> Collector {
        Collector {
            door,
            seed,
            engine: Engine::new(Order::Total, seed),
            places: Places::default(),
            waiting: VecDeque::new(),
            ahead: Ahead::default(),
            parked: HashMap::new(),
            refused: Retries::default(),
            held: HashMap::new(),
            orphaning: 0,
            refusals: 0,
            keeper,
            teller,
            progress,
        }
    }

    /// Follows the log until the world stops; one that fell behind what is kept begins anew.
    pub(crate) async fn run(
        mut self,
        mut questions: mpsc::Receiver<Question>,
        mut released: mpsc::UnboundedReceiver<Box<str>>,
    ) {
        loop {
            self.follow(&mut questions, &mut released).await;
            if self.door.world().status() != Status::Running {
                return;
            }
            tracing::warn!("the collector fell behind the log and begins anew");
            let refusals = self.refusals;
            let Collector { door, teller, keeper, progress, seed, .. } = self;
            self = Collector::new(door, teller, keeper, progress, seed);
            self.refusals = refusals;
        }
    }

    /// Follows the log from where it stands, as far as it is kept.
    async fn follow(
        &mut self,
        questions: &mut mpsc::Receiver<Question>,
        released: &mut mpsc::UnboundedReceiver<Box<str>>,
    ) {
        let world = self.door.world().clone();
        let state = world.current();
        let Ok(mut changes) = world.watch(state.revision(), Interest::Prefix("/registry/".into()))
        else {
            return;
        };
        self.start(&state);
        drop(state);
        let mut writing = FuturesUnordered::new();
        let mut pace = Pace::default();
        let mut taken = 0;
        loop {
            loop {
                match changes.try_next() {
                    Ok(Some(change)) => self.see(&change),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            while writing.len() < WRITES_AT_ONCE {
                let Some(write) = self.waiting.pop_front() else { break };
                if self.engine.current(write.id) {
                    writing.extend(self.carry_out(write));
                }
            }
            let now = clock::instant();
            while let Some(uid) = self.refused.take(now) {
                let mut out = Vec::new();
                match self.held.remove(&uid) {
                    Some(write) => self.waiting.push_back(write),
                    None => self.engine.retry(&uid, &mut out),
                }
                self.take(out);
            }
            if writing.is_empty() && !self.waiting.is_empty() {
                continue;
            }
            let depth = writing.len() + self.waiting.len() + self.parked.len();
            self.progress.report(Place {
                seen: changes.delivered(),
                depth,
                orphaning: self.orphaning,
                refusals: self.refusals,
                idle: depth == 0 && self.refused.is_empty(),
                dormant: false,
            });
            // Only now it shows here what came of them.
            self.keeper.taken(std::mem::take(&mut taken));
            pace.looked(depth > 0);
            let due = self.refused.due();
            tokio::select! {
                ready = pace.ready(&mut changes) => if ready.is_err() { return },
                Some(concluded) = writing.next(), if !writing.is_empty() => {
                    // The engine has to know what the write ran into before it decides anew.
                    while let Ok(Some(change)) = changes.try_next() {
                        self.see(&change);
                    }
                    self.conclude(concluded);
                    // Those of the same batch are concluded before anything is decided on them.
                    while let Some(Some(concluded)) = writing.next().now_or_never() {
                        self.conclude(concluded);
                    }
                }
                Some(question) = questions.recv() => self.answer(question),
                Some(uid) = released.recv() => {
                    let mut out = Vec::new();
                    self.engine.retry(&uid, &mut out);
                    self.take(out);
                    taken += 1;
                }
                () = clock::sleep_until(due), if due.is_some() => {}
            }
        }
    }

    /// Takes in everything that stands.
    fn start(&mut self, state: &World) {
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

    fn see(&mut self, change: &Change) {
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

    fn put(&mut self, record: &Record, out: &mut Vec<Intent>) {
        let Some(resource) = self.places.resource(record.key()) else { return };
        with_object(record, resource, |object| self.engine.put(object, out));
    }

    /// Brings the engine's table of types up to what is served now.
    fn learn_kinds(&mut self, revision: Revision, out: &mut Vec<Intent>) {
        let kinds = self.door.kinds();
        let before = std::mem::take(&mut self.places.types);
        self.places.learn(&kinds, &mut self.engine);
        let types = &self.places.types;
        let added: Vec<ownership::Type<'_>> = types
            .iter()
            .filter(|(name, facts)| before.get(*name) != Some(facts))
            .map(|((api_version, kind), facts)| ownership::Type {
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
    fn take(&mut self, intents: Vec<Intent>) {
        for intent in intents {
            match intent {
                Intent::Write(write) => self.waiting.push_back(write),
                Intent::Report(finding) => self.teller.tell(notice(&finding)),
                // With one order nothing is in doubt.
                Intent::Ask(_) => {}
            }
        }
    }

    fn answer(&self, question: Question) {
        let Question::Graph { uids, answer } = question;
        let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
        let _ = answer.send(self.engine.dot(&uids));
    }

    /// Tells the engine what came of a write.
    fn conclude(&mut self, Concluded { id, key, uid, orphans, result }: Concluded) {
        self.orphaning -= usize::from(orphans);
        let mut out = Vec::new();
        if self.ahead.conclude(&key, id) {
            self.tell_truth(&key, &uid, &mut out);
        }
        let outcome = match result {
            Result::Applied(revision) => Outcome::Applied(revision),
            Result::NotFound => Outcome::NotFound,
            Result::UidMismatch => Outcome::UidMismatch,
            Result::Moved => Outcome::Conflict(None),
            Result::Denied => Outcome::Denied,
            Result::Failed => Outcome::Failed,
        };
        self.engine.outcome(id, &outcome, &mut out);
        match result {
            Result::Denied | Result::Failed => {
                self.refusals += 1;
                self.refused.fail(uid, clock::instant());
            }
            Result::Applied(_) => self.refused.forget(&uid),
            _ => {}
        }
        self.take(out);
        if let Some(write) = self.parked.remove(&key) {
            self.waiting.push_back(write);
        }
    }

    /// Tells the engine how an object stands, after it was told how it would.
    fn tell_truth(&mut self, key: &str, uid: &str, out: &mut Vec<Intent>) {
        let state = self.door.world().current();
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
        write: ownership::Write,
    ) -> Option<impl Future<Output = Concluded> + 'static + use<>> {
        let (id, uid) = (write.id, write.key.uid.clone());
        if self.refused.is_waiting(&uid) {
            self.held.insert(uid, write);
            return None;
        }
        let key: Arc<str> = self.places.key(&write.key).unwrap_or_default().into();
        let (left, result) = match self.submit(&key, &write) {
            Tried::Submitted(submitted) => (Some(submitted), None),
            Tried::Early => {
                self.parked.insert(key, write);
                return None;
            }
            Tried::Held => {
                // The keeper says when to try again.
                let mut out = Vec::new();
                self.engine.outcome(id, &Outcome::Denied, &mut out);
                self.take(out);
                return None;
            }
            Tried::Ended(result) => (None, Some(result)),
        };
        let (door, orphans) = (self.door.clone(), matches!(write.rule, Rule::R114 | Rule::R115));
        self.orphaning += usize::from(orphans);
        Some(async move {
            let result = match (left, result) {
                (Some(submitted), _) => came_of(&door, submitted.outcome().await),
                (None, result) => result.unwrap_or(Result::Failed),
            };
            Concluded { id, key, uid, orphans, result }
        })
    }

    fn submit(&mut self, key: &Arc<str>, write: &ownership::Write) -> Tried {
        if self.ahead.uid(key).is_some_and(|uid| *uid != *write.key.uid) {
            // The name is still somebody else's until that write is done.
            return Tried::Early;
        }
        let state = self.door.world().current();
        let standing = match (self.ahead.get(key), state.get(key)) {
            (Some(Some(object)), _) => Standing::Ahead { key, object },
            (Some(None), _) | (None, None) => return Tried::Ended(Result::NotFound),
            (None, Some(record)) if record.uid() != &*write.key.uid => {
                return Tried::Ended(Result::UidMismatch);
            }
            (None, Some(record)) => Standing::Stored(record),
        };
        if self.fingerprint(&standing, write.key.resource) != write.fingerprint {
            return Tried::Ended(Result::Moved);
        }
        let owners = standing.owner_uids();
        let Some(mut guards) = self.guards(&state, write) else {
            return Tried::Ended(Result::Moved);
        };
        guards.extend(self.ahead.absences(&owners));
        let subject = state.get(key).filter(|_| matches!(write.action, Action::Delete(_)));
        let kept = match subject.map(|record| self.keeper.ask(record)) {
            Some(Answer::Held) => return Tried::Held,
            Some(Answer::Clear(guard)) => {
                guards.push(guard);
                subject.cloned()
            }
            Some(Answer::Free) | None => None,
        };
        if matches!(write.action, Action::DropFinalizer(_)) {
            guards.extend(self.ahead.of_dependents(&write.key.uid));
        }
        let mut ready = match prepare(&self.door, write, &standing, guards) {
            Ok(Prepared::Ready(ready)) => ready,
            Ok(Prepared::Early) => return Tried::Early,
            Ok(Prepared::Nothing) => return Tried::Ended(Result::Applied(state.revision())),
            Err(failure) => return Tried::Ended(refusal(&failure)),
        };
        ready.because(|| chain(&self.engine, write));
        let after = ready.after().cloned();
        let submitted = match self.door.submit(ready) {
            Ok(submitted) => submitted,
            Err(failure) => return Tried::Ended(refusal(&failure)),
        };
        if let Some(record) = kept {
            self.teller.tell(retain::collected(&record));
            more(&self.keeper.counters.collections, 1);
        }
        let mut out = Vec::new();
        let resource = write.key.resource;
        // Told at the revision that is stored, so that the truth is never older news.
        let revision = state.get(key).map_or(state.revision(), |record| record.revision());
        match &after {
            Some(object) => {
                with_written(object, resource, revision, |object| {
                    self.engine.put(object, &mut out);
                });
            }
            None => self.engine.foresee_gone(&write.key.uid, &mut out),
        }
        self.ahead.insert(Arc::clone(key), write, owners, after);
        self.take(out);
        Tried::Submitted(submitted)
    }

    /// What must not have moved when a write is committed; `None` when something has already.
    fn guards(&self, state: &World, write: &ownership::Write) -> Option<Vec<Guard>> {
        let guard = |guard: &ownership::Guard| match guard {
            ownership::Guard::Same { key, fingerprint, .. } => {
                let path: Arc<str> = self.places.key(key)?.into();
                let standing = match self.ahead.get(&path) {
                    Some(object) => Standing::Ahead { key: &path, object: object.as_ref()? },
                    None => Standing::Stored(state.get(&path)?),
                };
                let same = self.fingerprint(&standing, key.resource) == *fingerprint;
                same.then(|| standing.guard())
            }
            ownership::Guard::NoNewDependents { uid, since } => {
                Some(Guard::Dependents { uid: uid.clone(), seen: *since })
            }
        };
        write.guards.iter().map(guard).collect()
    }

    fn fingerprint(&self, standing: &Standing<'_>, resource: ownership::Resource) -> u64 {
        let look = |object: &ownership::Object<'_>| self.engine.fingerprint(object);
        match standing {
            Standing::Stored(record) => with_object(record, resource, look),
            Standing::Ahead { object, .. } => with_written(object, resource, Revision::ZERO, look),
        }
    }
}

/// How far a write came at once.
enum Tried {
    Submitted(Submitted),
    /// It rests on bytes that are not stored yet.
    Early,
    /// The object is still needed.
    Held,
    Ended(Result),
}

/// Makes one write ready on the object as it stands.
fn prepare(
    door: &Door,
    write: &ownership::Write,
    standing: &Standing<'_>,
    guards: Vec<Guard>,
) -> std::result::Result<Prepared, Failure> {
    match &write.action {
        Action::Delete(policy) => {
            let propagation = match policy {
                Policy::Background => Propagation::Background,
                Policy::Foreground => Propagation::Foreground,
                Policy::Orphan => Propagation::Orphan,
            };
            door.prepare_delete(ACTOR, standing, Some(propagation), None, guards)
        }
        Action::DropReferences(references) => {
            door.prepare_edit(ACTOR, standing, guards, |metadata| {
                drop_references(metadata, references)
            })
        }
        Action::Unblock(references) => {
            door.prepare_edit(ACTOR, standing, guards, |metadata| unblock(metadata, references))
        }
        Action::DropFinalizer(finalizer) => {
            door.prepare_edit(ACTOR, standing, guards, |metadata| {
                drop_finalizer(metadata, finalizer.text());
            })
        }
    }
}

/// Why, back to what a client did: rule, uid and revision of each step.
fn chain(engine: &Engine, write: &ownership::Write) -> String {
    let step =
        |cause: &ownership::Cause| format!("{} {} {}", cause.rule, cause.key.uid, cause.revision.0);
    engine.chain(write.cause).iter().map(step).collect::<Vec<_>>().join(", ")
}

fn came_of(door: &Door, written: std::result::Result<Written, Failure>) -> Result {
    match written {
        Ok(Written::Stored(record)) => Result::Applied(record.revision()),
        Ok(Written::Gone) => Result::Applied(door.world().current().revision()),
        Ok(Written::Moved) => Result::Moved,
        Err(failure) => refusal(&failure),
    }
}

fn refusal(failure: &Failure) -> Result {
    tracing::debug!(code = failure.code, reason = %failure.message, "the collector was refused");
    match failure.code {
        404 => Result::NotFound,
        400..500 if failure.code != 429 => Result::Denied,
        _ => Result::Failed,
    }
}

fn names(entry: &Value, reference: &Reference) -> bool {
    let says = |member: &str, text: &str| entry.get(member).and_then(Value::as_str) == Some(text);
    says("uid", &reference.uid)
        && says("name", &reference.name)
        && says("kind", &reference.kind)
        && says("apiVersion", &reference.api_version)
}

/// Removes exactly these references and keeps the order of the rest (R95).
fn drop_references(metadata: &mut Object, references: &[Reference]) {
    let Some(Value::Array(list)) = metadata.get_mut("ownerReferences") else { return };
    list.retain(|entry| !references.iter().any(|reference| names(entry, reference)));
    if list.is_empty() {
        metadata.remove("ownerReferences");
    }
}

fn unblock(metadata: &mut Object, references: &[Reference]) {
    let Some(Value::Array(list)) = metadata.get_mut("ownerReferences") else { return };
    for entry in list.iter_mut().filter(|entry| references.iter().any(|r| names(entry, r))) {
        if let Some(entry) = entry.as_object_mut() {
            entry.insert("blockOwnerDeletion".into(), false.into());
        }
    }
}

fn drop_finalizer(metadata: &mut Object, finalizer: &str) {
    let Some(Value::Array(list)) = metadata.get_mut("finalizers") else { return };
    list.retain(|name| name.as_str() != Some(finalizer));
    if list.is_empty() {
        metadata.remove("finalizers");
    }
}

/// The event about a reference across namespaces (section 2).
fn notice(finding: &Finding) -> Notice {
    let Finding::InvalidNamespace { dependent, api_version, kind, reference } = finding;
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
        source: COMPONENT,
        about: match about {
            Value::Object(about) => about,
            _ => Object::new(),
        },
        warning: true,
        reason: INVALID_NAMESPACE.to_owned(),
        message,
    }
}

/// Hands a record to the engine's eyes.
fn with_object<T>(
    record: &Record,
    resource: ownership::Resource,
    look: impl FnOnce(&ownership::Object<'_>) -> T,
) -> T {
    let owners: Owners<'_> = record.owners().map(seen).collect();
    look(&ownership::Object {
        resource,
        namespace: record.namespace(),
        name: record.name(),
        uid: record.uid(),
        revision: record.revision(),
        terminating: record.deleting(),
        finalizers: ownership::Finalizers::of(record.finalizers()),
        owners: &owners,
    })
}

/// Hands an object that is not stored yet to the engine's eyes.
fn with_written<T>(
    object: &Object,
    resource: ownership::Resource,
    revision: Revision,
    look: impl FnOnce(&ownership::Object<'_>) -> T,
) -> T {
    let entries = object.list_at(&["metadata", "ownerReferences"]);
    let owners: Owners<'_> = entries.iter().map(|entry| seen(door::owner(entry))).collect();
    let finalizers = object.list_at(&["metadata", "finalizers"]);
    look(&ownership::Object {
        resource,
        namespace: object.namespace(),
        name: object.name(),
        uid: object.str_at(&["metadata", "uid"]).unwrap_or_default(),
        revision,
        terminating: object.str_at(&["metadata", "deletionTimestamp"]).is_some(),
        finalizers: ownership::Finalizers::of(finalizers.iter().filter_map(Value::as_str)),
        owners: &owners,
    })
}

fn seen(owner: tenure_world::Owner<'_>) -> ownership::Owner<'_> {
    ownership::Owner {
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
        uid: owner.uid,
        controller: owner.controller,
        block: owner.block,
    }
}

type Owners<'a> = smallvec::SmallVec<[ownership::Owner<'a>; 4]>;

/// What the engine knows of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Facts {
    resource: ownership::Resource,
    namespaced: bool,
    collected: bool,
    graceful: bool,
}

/// Where resources are stored, and what is served.
#[derive(Default)]
struct Places {
    by_prefix: HashMap<String, ownership::Resource>,
    prefixes: HashMap<ownership::Resource, String>,
    types: BTreeMap<(String, String), Facts>,
    kinds: Option<Arc<Registry>>,
}

impl Places {
    /// Learns where everything that is served is stored; what was learned before is kept, because
    /// objects may outlive the service of their kind.
    fn learn(&mut self, kinds: &Arc<Registry>, engine: &mut Engine) {
        for served in kinds.kinds() {
            let kind = &served.kind;
            // Kinds that share a storage (events) are one resource.
            let resource = *self
                .by_prefix
                .entry(served.prefix.clone())
                .or_insert_with(|| engine.resource(&kind.group, &kind.plural));
            self.prefixes.entry(resource).or_insert_with(|| served.prefix.clone());
            let stored = kind.verbs != tenure_machinery::kind::Verbs::CreateOnly;
            if !stored {
                continue;
            }
            let facts = Facts {
                resource,
                namespaced: kind.namespaced,
                // The ignore list of R133.
                collected: kind.plural != "events",
                graceful: kind.group.is_empty() && kind.plural == "pods",
            };
            self.types.insert((served.api_version.clone(), kind.kind.to_string()), facts);
        }
        self.kinds = Some(Arc::clone(kinds));
    }

    fn resource(&self, key: &str) -> Option<ownership::Resource> {
        let served = self.kinds.as_ref()?.stored_at(key)?;
        self.by_prefix.get(&served.prefix).copied()
    }

    fn key(&self, key: &ownership::Key) -> Option<String> {
        let prefix = self.prefixes.get(&key.resource)?;
        if key.namespace.is_empty() {
            return Some(format!("{prefix}{}", key.name));
        }
        Some(format!("{prefix}{}/{}", key.namespace, key.name))
    }
}
