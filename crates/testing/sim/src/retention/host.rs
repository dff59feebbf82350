//! The process: an engine that reads late, writes under way, a collector that asks before it deletes.

use std::collections::BTreeSet;

use tenure_core::Revision;
use tenure_retention::{
    CollectionVerdict, IntentOutcome, OwnerEntry, RetentionEngine, RetentionEngineSettings,
    RetentionIntent, RetentionSubject, RetentionUser, SubjectKey, SubjectKind, UserKind,
};

use super::truth::{self, NAMES, PLACES, RetentionChange, RetentionModel, RetentionOperation};

/// Long enough for everything that waits for a time.
const LONG_MS: u64 = 10_000;

/// A write that is not done.
#[derive(Clone, Debug)]
struct PendingWrite {
    intent: RetentionIntent,
    /// How far the engine had read when it was decided.
    seen: u64,
    /// Whether the collector wants it: then nobody tells the engine.
    collector: bool,
    /// Whether whoever wants it is still there.
    awaited: bool,
}

/// The process and the world around it.
#[derive(Clone, Debug)]
pub struct Host {
    truth: RetentionModel,
    engine: RetentionEngine,
    draining: bool,
    now: u64,
    seen: u64,
    writes: Vec<PendingWrite>,
    outcomes: Vec<(SubjectKey, Box<str>, IntentOutcome)>,
    /// Subjects whose collection was denied and not released.
    denied: BTreeSet<String>,
}

impl Host {
    /// A world of nothing.
    #[must_use]
    pub fn new(seed: u64) -> Host {
        // Some histories find a small cap, some none of the wait between edits.
        let settings = settings(seed, false);
        Host {
            truth: RetentionModel::default(),
            engine: RetentionEngine::new(settings),
            draining: false,
            now: 0,
            seen: 0,
            writes: Vec::new(),
            outcomes: Vec::new(),
            denied: BTreeSet::new(),
        }
    }

    /// One step.
    ///
    /// # Errors
    /// Something that must never happen has.
    pub fn step(&mut self, op: &RetentionOperation) -> Result<(), String> {
        match op {
            RetentionOperation::Feed(count) => (0..*count).for_each(|_| self.feed()),
            RetentionOperation::Plan(wait) => {
                self.now += wait;
                self.plan();
            }
            RetentionOperation::Act(who, how) => {
                if let Some(at) = who.checked_rem(self.writes.len()) {
                    let write = self.writes.remove(at);
                    return self.act(write, *how);
                }
            }
            RetentionOperation::Tell(who) => {
                if let Some(at) = who.checked_rem(self.outcomes.len()) {
                    let (key, uid, outcome) = self.outcomes.remove(at);
                    self.engine.outcome(&key, &uid, outcome, self.now);
                }
            }
            RetentionOperation::Collect(who) => self.collect(*who),
            RetentionOperation::Crash(on) => self.crash(!*on),
            client => self.truth.client(client),
        }
        Ok(())
    }

    /// Tells the engine of the next change.
    fn feed(&mut self) {
        let Some(change) = self.truth.log.get(self.seen as usize) else { return };
        self.seen += 1;
        tell(&mut self.engine, change);
    }

    fn plan(&mut self) {
        let mut intents = Vec::new();
        self.engine.plan(self.now, &mut intents);
        for intent in intents {
            match intent {
                RetentionIntent::Release { uid } => {
                    self.denied.remove(&*uid);
                }
                RetentionIntent::Report(_) => {}
                intent => self.writes.push(PendingWrite {
                    intent,
                    seen: self.seen,
                    collector: false,
                    awaited: true,
                }),
            }
        }
    }

    /// Carries out a write that is under way, well or badly.
    fn act(&mut self, write: PendingWrite, how: usize) -> Result<(), String> {
        let outcome = match how {
            6 => IntentOutcome::Failed,
            // Committed, and nobody ever hears of it but through the log.
            _ => self.commit(&write)?,
        };
        if write.collector || !write.awaited {
            return Ok(());
        }
        let (RetentionIntent::Edit { key, uid, .. } | RetentionIntent::Delete { key, uid, .. }) =
            write.intent
        else {
            return Ok(());
        };
        self.outcomes.push((key, uid, outcome));
        Ok(())
    }

    /// What the sequencer does: all guards hold and it is done, or nothing is.
    fn commit(&mut self, write: &PendingWrite) -> Result<IntentOutcome, String> {
        let (RetentionIntent::Edit { key, uid, revision, .. }
        | RetentionIntent::Delete { key, uid, revision }) = &write.intent
        else {
            return Ok(IntentOutcome::Moved);
        };
        let at = place_of(key);
        let found = self.truth.subjects.get(&at).cloned();
        let Some(mut subject) = found.filter(|s| *s.uid == **uid && s.revision == revision.0)
        else {
            return Ok(IntentOutcome::Moved);
        };
        if !write.collector && !subject.opted_in {
            return Err(format!("I2: {key:?} never opted in"));
        }
        if let RetentionIntent::Edit { add, remove, .. } = &write.intent {
            let foreign = |(_, managed): &&(String, bool)| !*managed;
            let before: Vec<_> = subject.entries.iter().filter(foreign).cloned().collect();
            subject.entries.retain(|(uid, _)| !remove.iter().any(|gone| **gone == **uid));
            for named in add {
                if !write.collector && subject.entries.iter().any(|(uid, _)| **uid == *named.uid) {
                    return Err(format!("{key:?} has {} twice", named.uid));
                }
                subject.entries.push(((*named.uid).into(), true));
            }
            let after: Vec<_> = subject.entries.iter().filter(foreign).cloned().collect();
            if !write.collector && before != after {
                return Err(format!("I3: a foreign entry of {key:?} was touched"));
            }
            if subject.entries.is_empty() && !write.collector {
                if !self.draining {
                    return Err(format!("I4: the list of {key:?} was emptied"));
                }
                subject.let_go = true;
            }
            self.truth.put_subject(subject);
            return Ok(IntentOutcome::Applied(Revision(self.truth.revision())));
        }
        if self.truth.mentioned_since(write.seen, at.0, at.1) {
            return Ok(IntentOutcome::Moved);
        }
        let needed = self.truth.needs(at.0, at.1).filter(|_| subject.opted_in && !self.draining);
        if let Some(user) = needed {
            return Err(format!("I1: {key:?} was deleted and is needed by {user:?}"));
        }
        self.truth.remove_subject(at);
        Ok(IntentOutcome::Applied(Revision(self.truth.revision())))
    }

    /// The collector looks at one subject: dead entries go, or it goes, if the engine agrees.
    fn collect(&mut self, who: usize) {
        let Some(subject) = self.truth.subject(who) else { return };
        let dead = |uid: &str| !self.truth.lives(uid);
        let (gone, left): (Vec<_>, Vec<_>) =
            subject.entries.iter().cloned().partition(|(uid, _)| dead(uid));
        if gone.is_empty() {
            return;
        }
        let (key, uid) = (key(&subject), Box::from(&*subject.uid));
        let revision = Revision(subject.revision);
        if !left.is_empty() {
            let remove = gone.into_iter().map(|(uid, _)| uid.into()).collect();
            let intent = RetentionIntent::Edit { key, uid, revision, add: Vec::new(), remove };
            self.push_collection(intent);
            // Another wish takes the place of the one that was denied.
            self.denied.remove(&subject.uid);
            return;
        }
        if self.denied.contains(&subject.uid) {
            return;
        }
        if subject.opted_in && self.engine.ask(&key, &uid, self.now) != CollectionVerdict::Clear {
            // One that is not known yet may be asked about again at once.
            if self.engine.knows(&key, &uid) {
                self.denied.insert(subject.uid);
            }
            return;
        }
        // What never opted in is not guarded.
        self.push_collection(RetentionIntent::Delete { key, uid, revision });
    }

    fn push_collection(&mut self, intent: RetentionIntent) {
        let write = PendingWrite { intent, seen: self.seen, collector: true, awaited: true };
        self.writes.push(write);
    }

    /// Dies and starts again; what was submitted may still land.
    fn crash(&mut self, draining: bool) {
        for write in &mut self.writes {
            write.awaited = false;
        }
        if draining != self.draining {
            // Nothing of the other mode lands any more: it was stopped, not killed.
            self.writes.clear();
        }
        self.draining = draining;
        self.engine = RetentionEngine::new(settings(self.truth.revision(), draining));
        for user in self.truth.users.values() {
            tell(&mut self.engine, &RetentionChange::User(user.clone()));
        }
        for subject in self.truth.subjects.values() {
            tell(&mut self.engine, &RetentionChange::Subject(subject.clone()));
        }
        self.seen = self.truth.revision();
        self.outcomes.clear();
        self.denied.clear();
    }

    /// Lets everything run out and checks what must have happened.
    ///
    /// # Errors
    /// It did not.
    pub fn finish(mut self) -> Result<(), String> {
        if self.draining {
            self.crash(true);
            self.rest()?;
            let left = self.truth.subjects.values().flat_map(|subject| &subject.entries);
            if left.clone().any(|(_, managed)| *managed) {
                return Err("R70: managed entries are left".into());
            }
            // Turned on again, lists equal those of a run that was never off (R72).
            self.crash(false);
        }
        self.rest()?;
        self.truth.run_out();
        self.rest()?;
        for at in self.truth.subjects.keys() {
            self.is_settled(*at)?;
        }
        let writes = self.truth.log.len();
        self.crash(false);
        self.rest()?;
        if self.truth.log.len() != writes {
            return Err("R68: the same state led to writes".into());
        }
        Ok(())
    }

    fn rest(&mut self) -> Result<(), String> {
        for _ in 0..40 {
            let before = self.truth.revision();
            while self.seen < self.truth.revision() {
                self.feed();
            }
            self.now += LONG_MS;
            self.plan();
            for who in 0..self.truth.subjects.len() {
                self.collect(who);
            }
            let quiet = self.writes.is_empty() && self.outcomes.is_empty();
            while let Some(write) = (!self.writes.is_empty()).then(|| self.writes.remove(0)) {
                self.act(write, 0)?;
            }
            for (key, uid, outcome) in std::mem::take(&mut self.outcomes) {
                self.engine.outcome(&key, &uid, outcome, self.now);
            }
            if quiet && before == self.truth.revision() {
                return Ok(());
            }
        }
        Err("it never comes to rest".into())
    }

    /// I5 and I6: what is needed is owned by exactly those who need it, the rest is gone.
    fn is_settled(&self, at: (usize, usize)) -> Result<(), String> {
        let Some(subject) = self.truth.subjects.get(&at) else { return Ok(()) };
        let fault = |what: &str| Err(format!("{what}: {subject:?}"));
        if !subject.opted_in {
            let managed = subject.entries.iter().any(|(_, managed)| *managed);
            return if managed { fault("I2: owned without having opted in") } else { Ok(()) };
        }
        let desired = self.truth.desired(at.0, at.1);
        let entries: BTreeSet<&String> = subject.entries.iter().map(|(uid, _)| uid).collect();
        let dead = subject.entries.iter().filter(|(uid, _)| !self.truth.lives(uid)).count();
        let needed = self.truth.needs(at.0, at.1).is_some();
        if dead > 0 && (dead < subject.entries.len() || !needed) {
            return fault("I5: dead entries are left");
        }
        if desired.iter().any(|uid| !entries.contains(uid)) {
            return fault("I6: a holder is no owner");
        }
        let managed = subject
            .entries
            .iter()
            .filter(|(uid, managed)| *managed && self.truth.lives(uid) && !desired.contains(uid));
        // One entry too many stays while the guard holds, because the list may not be emptied.
        if managed.count() > 0 && (!needed || !desired.is_empty()) {
            return fault("R31: an entry is left that nobody wants");
        }
        if subject.entries.is_empty() && !subject.let_go && self.was_managed(subject) {
            return fault("I4: it is immortal");
        }
        Ok(())
    }

    fn was_managed(&self, subject: &truth::SimulatedConfigMap) -> bool {
        self.truth.log.iter().any(|change| {
            matches!(change, RetentionChange::Subject(old)
                if old.uid == subject.uid && old.entries.iter().any(|(_, managed)| *managed))
        })
    }
}

fn settings(seed: u64, draining: bool) -> RetentionEngineSettings {
    let edit_every_ms = if seed.is_multiple_of(3) { 0 } else { 1000 };
    RetentionEngineSettings { draining, edit_every_ms, ..RetentionEngineSettings::default() }
}

fn key(subject: &truth::SimulatedConfigMap) -> SubjectKey {
    SubjectKey {
        namespace: PLACES[subject.place].into(),
        kind: SubjectKind::ConfigMap,
        name: NAMES[subject.name].into(),
    }
}

fn place_of(key: &SubjectKey) -> (usize, usize) {
    let place = PLACES.iter().position(|place| *place == &*key.namespace).unwrap_or(0);
    (place, NAMES.iter().position(|name| *name == &*key.name).unwrap_or(0))
}

fn tell(engine: &mut RetentionEngine, change: &RetentionChange) {
    match change {
        RetentionChange::User(user) => {
            let names = NAMES.iter().enumerate();
            let mentions = names.filter(|(bit, _)| user.mentions & (1 << bit) != 0);
            let references: Vec<(SubjectKind, &str)> =
                mentions.map(|(_, name)| (SubjectKind::ConfigMap, *name)).collect();
            let facts = RetentionUser {
                kind: user.kind,
                name: &user.uid,
                uid: &user.uid,
                terminating: user.terminating && user.kind != UserKind::Pod,
                controller: user.controller.as_deref(),
                references: &references,
                pulls: &[],
            };
            engine.put_user(PLACES[user.place], &facts);
        }
        RetentionChange::UserGone(place, uid) => engine.gone_user(PLACES[*place], uid),
        RetentionChange::Subject(subject) => {
            let owner = |(uid, managed): &(String, bool)| (uid.clone(), *managed);
            let entries: Vec<(String, bool)> = subject.entries.iter().map(owner).collect();
            let owners: Vec<OwnerEntry<'_>> = entries
                .iter()
                .map(|(uid, managed)| OwnerEntry { uid, managed: *managed })
                .collect();
            let facts = RetentionSubject {
                kind: SubjectKind::ConfigMap,
                name: NAMES[subject.name],
                uid: &subject.uid,
                revision: Revision(subject.revision),
                terminating: false,
                opted_in: subject.opted_in,
                owners: &owners,
            };
            engine.put_subject(PLACES[subject.place], &facts);
        }
        RetentionChange::SubjectGone(place, name, uid) => {
            engine.gone_subject(PLACES[*place], SubjectKind::ConfigMap, NAMES[*name], uid);
        }
    }
}
