//! Scenarios as text: lines of what happens go in, lines of what the engine wants come out.
//!
//! ```text
//!   put ReplicaSet/web uid=a                an object as it now is; ns= finalizers= deleting
//!   put Pod/web-1 uid=b owner=a!            `!` blocks; owner=uid:apps/v1:Kind/name says it in full
//!   gone a                                  an object went
//!   delete a foreground                     a client's DELETE, by the server's rules
//!   serve apps/v1beta1 Deployment, unserve  a kind is served, or no longer
//!   act                                     all writes are carried out, and what follows from them
//!   applied|conflict|failed|denied|notfound|retry b
//!   answer a absent|present|waiting|unresolvable|failed
//!   release b                               the finalizer x/hold goes, the grace period ends
//!   crash, synced, left, per-resource, unsynced
//! ```

use tenure_core::Revision;
use tenure_ownership::{
    ChangeOrder, DeletionPropagation, OwnerQuery, OwnerQueryResult, OwnershipEngine,
    OwnershipFinding, OwnershipIntent, OwnershipWrite, WriteAction, WriteOutcome,
};

use crate::store::{self, ROWS, Ref, SimulatedObject, SimulatedStore, StoreEvent};

/// A scenario under way.
pub struct Scene {
    /// The truth.
    pub store: SimulatedStore,
    /// The engine under test.
    pub engine: OwnershipEngine,
    order: ChangeOrder,
    out: Vec<OwnershipIntent>,
    writes: Vec<OwnershipWrite>,
    asks: Vec<OwnerQuery>,
    known: Vec<SimulatedObject>,
    lines: Vec<String>,
    /// How much of the log was fed.
    fed: usize,
}

/// Runs a scenario and gives what came of it, a line each.
#[must_use]
pub fn play(text: &str) -> String {
    let mut scene = Scene::new(text);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        scene.line(line);
    }
    scene.lines.join("\n")
}

/// Fails unless a scenario gives exactly these lines.
///
/// # Panics
/// The lines differ.
#[track_caller]
pub fn check(text: &str, expected: &str) {
    let wanted: Vec<&str> = expected.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let got = play(text);
    assert_eq!(got, wanted.join("\n"), "\n--- got\n{got}\n--- wanted\n{}", wanted.join("\n"));
}

impl Scene {
    fn new(text: &str) -> Scene {
        let has = |word: &str| text.lines().any(|line| line.trim() == word);
        let order = if has("per-resource") { ChangeOrder::PerResource } else { ChangeOrder::Total };
        let mut scene = Scene {
            store: SimulatedStore::new(),
            engine: OwnershipEngine::new(order, 1),
            order,
            out: Vec::new(),
            writes: Vec::new(),
            asks: Vec::new(),
            known: Vec::new(),
            lines: Vec::new(),
            fed: 0,
        };
        scene.start(!has("unsynced"));
        scene
    }

    fn start(&mut self, synced: bool) {
        self.engine = OwnershipEngine::new(self.order, 1);
        self.writes.clear();
        self.asks.clear();
        for row in self.store.served.clone() {
            store::feed_type(&mut self.engine, row, true, 0, &mut self.out);
        }
        for thing in self.store.things.values() {
            let event = StoreEvent::Put(thing.clone());
            store::feed(&mut self.engine, thing.revision, &event, &mut self.out);
        }
        if synced {
            self.engine.synced(Revision(self.store.revision), &mut self.out);
        }
    }

    /// Takes one line in.
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["per-resource" | "unsynced"] => {}
            ["synced"] => {
                self.engine.synced(Revision(self.store.revision), &mut self.out);
            }
            ["put", what, rest @ ..] => self.put(what, rest),
            ["gone", uid] => {
                self.store.revision += 1;
                if let Some(thing) = self.store.things.remove(*uid) {
                    let event = StoreEvent::Gone(thing);
                    store::feed(&mut self.engine, self.store.revision, &event, &mut self.out);
                } else {
                    self.engine.gone(uid, Revision(self.store.revision), &mut self.out);
                }
            }
            ["delete", uid, policy] => self.store.delete(uid, policy_of(policy)),
            ["release", uid] => {
                let Some(mut thing) = self.store.things.get(*uid).cloned() else { return };
                thing.in_grace = false;
                thing.finalizers.retain(|name| name != "x/hold");
                self.store.write(thing);
            }
            [verb @ ("serve" | "unserve"), api_version, kind] => {
                let found = |row: &store::SimulatedKind| {
                    row.api_version == *api_version && row.kind == *kind
                };
                let row = ROWS.iter().position(found);
                self.store.serve(row.unwrap_or(ROWS.len()), *verb == "serve");
            }
            ["act"] => self.act_all(),
            ["crash"] => self.start(true),
            ["left"] => self.left(),
            ["retry", uid] => self.engine.retry(uid, &mut self.out),
            ["answer", uid, what] => self.answer(uid, what),
            [verb, uid] => self.outcome(verb, uid),
            _ => self.lines.push(format!("not understood: {line}")),
        }
        self.feed();
        self.collect();
    }

    /// Feeds what the server's rules wrote.
    fn feed(&mut self) {
        for (revision, event) in self.store.log.clone().into_iter().skip(self.fed) {
            store::feed(&mut self.engine, revision, &event, &mut self.out);
        }
        self.fed = self.store.log.len();
    }

    fn put(&mut self, what: &str, words: &[&str]) {
        let (kind, name) = what.split_once('/').unwrap_or((what, ""));
        let row = store::row_of(kind).unwrap_or(0);
        let namespaced = ROWS.get(row).is_some_and(|row| row.namespaced);
        let mut thing = SimulatedObject {
            row,
            namespace: if namespaced { "default".into() } else { String::new() },
            name: name.into(),
            uid: name.into(),
            revision: 0,
            terminating: false,
            in_grace: false,
            finalizers: Vec::new(),
            owners: Vec::new(),
        };
        for word in words {
            match word.split_once('=') {
                Some(("uid", uid)) => thing.uid = uid.into(),
                Some(("ns", namespace)) => thing.namespace = namespace.into(),
                Some(("finalizers", list)) => {
                    thing.finalizers = list.split(',').map(Into::into).collect();
                }
                Some(("owner", owner)) => {
                    let owner = self.reference(owner);
                    thing.owners.push(owner);
                }
                _ if *word == "deleting" => thing.terminating = true,
                _ => self.lines.push(format!("not understood: {word}")),
            }
        }
        self.known.retain(|known| known.uid != thing.uid);
        self.known.push(thing.clone());
        self.store.revision += 1;
        thing.revision = self.store.revision;
        self.store.things.insert(thing.uid.clone(), thing.clone());
        store::feed(&mut self.engine, thing.revision, &StoreEvent::Put(thing), &mut self.out);
    }

    /// `a`, `a!`, `a:Kind/name`, `a:apps/v1:Kind/name`.
    fn reference(&self, text: &str) -> Ref {
        let (text, block) = match text.strip_suffix('!') {
            Some(text) => (text, true),
            None => (text, false),
        };
        let parts: Vec<&str> = text.split(':').collect();
        let uid = parts.first().copied().unwrap_or_default();
        let known = self.known.iter().find(|thing| thing.uid == uid);
        let row = known.and_then(|thing| ROWS.get(thing.row)).copied().unwrap_or(ROWS[0]);
        let (mut api_version, mut kind) = (row.api_version, row.kind);
        let mut name = known.map_or(uid, |thing| thing.name.as_str());
        if let Some((k, n)) = parts.get(1..).and_then(|p| p.last()).and_then(|p| p.split_once('/'))
        {
            (kind, name) = (k, n);
            api_version = store::row_of(k).map_or("nobody.com/v1", |row| ROWS[row].api_version);
        }
        if let [_, version, _] = parts.as_slice() {
            api_version = version;
        }
        Ref {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid: uid.into(),
            block,
        }
    }

    fn act_all(&mut self) {
        self.collect();
        for _ in 0..1_000 {
            let engine = &self.engine;
            self.writes.retain(|write| engine.current(write.id));
            if self.writes.is_empty() {
                return;
            }
            let write = self.writes.remove(0);
            let there = self.store.things.contains_key(&*write.key.uid);
            self.store.apply(&write.key.uid, &write.action);
            self.feed();
            let revision = Revision(self.store.revision);
            let outcome =
                if there { WriteOutcome::Applied(revision) } else { WriteOutcome::NotFound };
            self.engine.outcome(write.id, &outcome, &mut self.out);
            self.collect();
        }
        self.lines.push("no rest".into());
    }

    fn outcome(&mut self, verb: &str, uid: &str) {
        self.collect();
        let Some(at) = self.writes.iter().rposition(|write| *write.key.uid == *uid) else {
            self.lines.push(format!("no write about {uid}"));
            return;
        };
        let write = self.writes.remove(at);
        let outcome = match verb {
            "applied" => WriteOutcome::Applied(Revision(self.store.revision + 1)),
            "conflict" => {
                let Some(thing) = self.store.things.get(uid).cloned() else { return };
                let resource = store::resource(&mut self.engine, thing.row);
                let (engine, out) = (&mut self.engine, &mut self.out);
                store::with_object(&thing, resource, thing.revision, |object| {
                    engine.outcome(write.id, &WriteOutcome::Conflict(Some(object)), out);
                });
                return;
            }
            "failed" => WriteOutcome::Failed,
            "denied" => WriteOutcome::Denied,
            "notfound" => WriteOutcome::NotFound,
            _ => {
                self.lines.push(format!("not understood: {verb}"));
                return;
            }
        };
        self.engine.outcome(write.id, &outcome, &mut self.out);
    }

    fn answer(&mut self, uid: &str, what: &str) {
        self.collect();
        let Some(at) = self.asks.iter().position(|ask| *ask.reference.uid == *uid) else {
            self.lines.push(format!("no question about {uid}"));
            return;
        };
        let ask = self.asks.remove(at);
        let answer = match what {
            "absent" => OwnerQueryResult::Absent,
            "present" => OwnerQueryResult::Present { uid, waiting: false },
            "waiting" => OwnerQueryResult::Present { uid, waiting: true },
            "another" => OwnerQueryResult::Present { uid: "another", waiting: false },
            "unresolvable" => OwnerQueryResult::Unresolvable,
            _ => OwnerQueryResult::Failed,
        };
        self.engine.answer(ask.id, &answer, &mut self.out);
    }

    fn left(&mut self) {
        let things = self.store.things.values().map(|thing| {
            let owners: Vec<String> = thing
                .owners
                .iter()
                .map(|owner| format!("{}{}", owner.uid, if owner.block { "!" } else { "" }))
                .collect();
            let star = if thing.terminating { "*" } else { "" };
            let owners =
                if owners.is_empty() { String::new() } else { format!("({})", owners.join(",")) };
            format!("{}{star}{owners}", thing.uid)
        });
        let text: Vec<String> = things.collect();
        let text = if text.is_empty() { "nothing".into() } else { text.join(" ") };
        self.lines.push(format!("left {text}"));
    }

    fn collect(&mut self) {
        for intent in std::mem::take(&mut self.out) {
            self.lines.push(self.describe_intent(&intent));
            match intent {
                OwnershipIntent::Write(write) => self.writes.push(write),
                OwnershipIntent::Ask(ask) => self.asks.push(ask),
                OwnershipIntent::Report(_) => {}
            }
        }
    }

    fn describe_intent(&self, intent: &OwnershipIntent) -> String {
        match intent {
            OwnershipIntent::Write(write) => {
                let (_, kind) = self.engine.kind_of(write.key.resource);
                let who = format!("{kind}/{} {}", write.key.name, write.key.uid);
                let uids = |list: &[tenure_ownership::OwnerIdentity]| {
                    let mut uids: Vec<&str> = list.iter().map(|told| &*told.uid).collect();
                    uids.sort_unstable();
                    uids.join(",")
                };
                let bare = if write.revision.is_none() { " by uid" } else { "" };
                match &write.action {
                    WriteAction::Delete(policy) => {
                        format!("delete {who} {}{bare} {}", lower(policy.text()), write.rule)
                    }
                    WriteAction::DropReferences(list) => {
                        format!("drop {who} owner={} {}", uids(list), write.rule)
                    }
                    WriteAction::Unblock(list) => {
                        format!("unblock {who} owner={} {}", uids(list), write.rule)
                    }
                    WriteAction::DropFinalizer(finalizer) => {
                        format!("finish {who} {} {}", finalizer.text(), write.rule)
                    }
                }
            }
            OwnershipIntent::Ask(ask) => {
                let again = if ask.attempt > 0 { " again" } else { "" };
                let reference = &ask.reference;
                let (kind, name, uid) = (&reference.kind, &reference.name, &reference.uid);
                format!("ask {kind}/{name} {uid} in {:?}{again}", &*ask.namespace)
            }
            OwnershipIntent::Report(OwnershipFinding::InvalidNamespace {
                dependent,
                kind,
                reference,
                ..
            }) => {
                format!(
                    "report {kind}/{} {} owner={}",
                    dependent.name, dependent.uid, reference.uid
                )
            }
        }
    }
}

fn lower(text: &str) -> String {
    text.to_lowercase()
}

fn policy_of(text: &str) -> DeletionPropagation {
    match text {
        "foreground" => DeletionPropagation::Foreground,
        "orphan" => DeletionPropagation::Orphan,
        _ => DeletionPropagation::Background,
    }
}
