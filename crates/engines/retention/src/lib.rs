//! Retention: which revisions keep a ConfigMap or Secret, and when it may go.
//!
//! ```text
//!   put, touch, gone ──► Place (one namespace) ──► plan(now) ──► Edit, Delete, Release, Report
//!        ask (may this be collected?) ──► Verdict          ▲
//!   outcome ───────────────────────────────────────────────┘
//! ```
//!
//! A pure state machine: it never waits, reads no clock, draws no random number and cannot fail.
//! The same facts give the same intents, in whatever order they came. What a pod mentions is told to
//! it; data never is. Law: `spec/retention.md`, sections 4 to 9.
#![no_std]
extern crate alloc;

mod decide;
mod facts;
mod namespace_state;
mod plan;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

pub use facts::{
    CollectionVerdict, IntentOutcome, OwnerEntry, RetentionEngineSettings, RetentionFinding,
    RetentionIntent, RetentionIssue, RetentionSubject, RetentionUser, SubjectHolder, SubjectKey,
    SubjectKind, SubjectState, UserKind,
};
use namespace_state::{IntentState, NamespaceState, OptedInSubject};

/// The first wait after a failure; it doubles with each further one.
const RETRY_MS: u64 = 50;
/// Owner lists of these lengths are worth telling (R62).
const MANY: [usize; 2] = [100, 1000];

/// The engine, over all namespaces it was told of.
#[derive(Clone, Debug, Default)]
pub struct RetentionEngine {
    settings: RetentionEngineSettings,
    places: BTreeMap<Box<str>, NamespaceState>,
    /// How many subjects are in each of S1 to S6.
    states: [usize; 6],
    /// What was found while facts came in.
    found: Vec<RetentionFinding>,
}

impl RetentionEngine {
    /// An engine that knows nothing yet.
    #[must_use]
    pub fn new(settings: RetentionEngineSettings) -> RetentionEngine {
        RetentionEngine { settings, ..RetentionEngine::default() }
    }

    /// A holder, root or pod as it is now; pods that have ended are gone.
    pub fn put_user(&mut self, namespace: &str, user: &RetentionUser<'_>) {
        self.place(namespace).put_user(user);
    }

    /// As [`RetentionEngine::put_user`] for one that mentions what it did; false when it is not known.
    pub fn touch_user(
        &mut self,
        namespace: &str,
        uid: &str,
        terminating: bool,
        controller: Option<&str>,
    ) -> bool {
        let place = self.places.get_mut(namespace);
        place.is_some_and(|place| place.touch_user(uid, terminating, controller))
    }

    /// A holder, root or pod is gone, or a pod has ended.
    pub fn gone_user(&mut self, namespace: &str, uid: &str) {
        if let Some(place) = self.places.get_mut(namespace) {
            place.gone_user(uid);
        }
    }

    /// A subject as it is now; older news than the last is ignored, and so are those that did not
    /// opt in.
    pub fn put_subject(&mut self, namespace: &str, subject: &RetentionSubject<'_>) {
        let before = self.find(namespace, subject.kind, subject.name);
        let before = before.map(|kept| (kept.uid.clone(), kept.revision, kept.entries.clone()));
        match &before {
            Some((uid, revision, _)) if **uid == *subject.uid && *revision > subject.revision => {
                return;
            }
            Some((uid, ..)) if **uid != *subject.uid || !subject.opted_in => {
                let uid = uid.clone();
                self.gone_subject(namespace, subject.kind, subject.name, &uid);
            }
            _ => {}
        }
        if !subject.opted_in {
            return;
        }
        let place = self.place(namespace);
        let id = place.put_subject(subject);
        let Some((_, _, old)) = before.filter(|(uid, ..)| **uid == *subject.uid) else { return };
        let was_managed = old.iter().any(|entry| entry.managed);
        if let Some(kept) = place.subject_mut(id) {
            kept.stripped |= was_managed && kept.entries.is_empty();
        }
        let (was, is) = (old.len(), subject.owners.len());
        if let Some(many) = MANY.iter().rev().find(|many| was < **many && **many <= is) {
            let finding = self.finding(namespace, subject, RetentionIssue::ManyOwners(*many));
            self.found.push(finding);
        }
    }

    /// A subject is gone.
    pub fn gone_subject(&mut self, namespace: &str, kind: SubjectKind, name: &str, uid: &str) {
        let Some(place) = self.places.get_mut(namespace) else { return };
        let Some(id) = place.slot_of(kind, name) else { return };
        if place.subject_mut(id).is_none_or(|kept| *kept.uid != *uid) {
            return;
        }
        if let Some(kept) = place.gone_subject(id) {
            plan::count(&mut self.states, kept.state, None);
        }
    }

    /// How many subjects of a namespace are known.
    #[must_use]
    pub fn subjects_in(&self, namespace: &str) -> usize {
        self.places.get(namespace).map_or(0, |place| place.subjects)
    }

    /// Whether a subject is known.
    #[must_use]
    pub fn knows(&self, key: &SubjectKey, uid: &str) -> bool {
        let kept = self.find(&key.namespace, key.kind, &key.name);
        kept.is_some_and(|kept| *kept.uid == *uid)
    }

    /// How many subjects are in each of the states S1 to S6, as of the last plan.
    #[must_use]
    pub fn states(&self) -> [usize; 6] {
        self.states
    }

    /// Forgets everything about a namespace.
    pub fn forget(&mut self, namespace: &str) {
        let Some(place) = self.places.remove(namespace) else { return };
        for id in 0..place.slots.end() {
            let kept = place.slots.get(id).and_then(|slot| slot.subject.as_deref());
            plan::count(&mut self.states, kept.and_then(|kept| kept.state), None);
        }
    }

    /// May the collector delete a subject (R50)? One that is not known may not (fail closed).
    ///
    /// When it may not, [`RetentionIntent::Release`] follows once it may.
    pub fn ask(&mut self, key: &SubjectKey, uid: &str, now: u64) -> CollectionVerdict {
        let unknown = CollectionVerdict::Hold { users: Vec::new(), count: 0 };
        let settings = self.settings;
        let Some(place) = self.places.get_mut(&key.namespace) else { return unknown };
        let Some(id) = place.slot_of(key.kind, &key.name) else { return unknown };
        let Some(slot) = place.slots.get(id) else { return unknown };
        if slot.subject.as_ref().is_none_or(|kept| *kept.uid != *uid) {
            return unknown;
        }
        let verdict = place.may_go(id, &settings).unwrap_or(unknown);
        if let Some(kept) = place.subject_mut(id) {
            match verdict {
                CollectionVerdict::Clear => kept.denied_since = None,
                CollectionVerdict::Hold { .. } => {
                    kept.denied_since = kept.denied_since.or(Some(now))
                }
            }
        }
        // A holder that has no entry yet is the usual reason: it is looked at again (R54).
        place.dirty.insert(id);
        verdict
    }

    /// What came of an intent.
    pub fn outcome(&mut self, key: &SubjectKey, uid: &str, outcome: IntentOutcome, now: u64) {
        let Some(place) = self.places.get_mut(&key.namespace) else { return };
        let Some(id) = place.slot_of(key.kind, &key.name) else { return };
        let Some(kept) = place.subject_mut(id).filter(|kept| *kept.uid == *uid) else { return };
        kept.busy = match outcome {
            IntentOutcome::Applied(revision) if revision > kept.revision => {
                IntentState::Until(revision)
            }
            _ => IntentState::No,
        };
        match outcome {
            IntentOutcome::Applied(_) => kept.failures = 0,
            // Nothing was written: the next one may go at once.
            IntentOutcome::Moved => kept.edit_from = 0,
            IntentOutcome::Failed => {
                kept.edit_from = 0;
                kept.failures = kept.failures.saturating_add(1);
                kept.not_before = now + (RETRY_MS << kept.failures.min(10));
            }
        }
        place.dirty.insert(id);
    }

    /// When there is something to plan although nothing happens.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        if !self.found.is_empty() {
            return Some(0);
        }
        self.places.values().filter_map(NamespaceState::due).min()
    }

    /// Whether everything that is wanted was given out; to tell of a denial later is rest.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.found.is_empty()
            && self.places.values().all(|p| p.dirty.is_empty() && p.later.is_empty())
    }

    /// What to do now: all adds, then removals, then deletions.
    pub fn plan(&mut self, now: u64, out: &mut Vec<RetentionIntent>) {
        out.extend(self.found.drain(..).map(RetentionIntent::Report));
        let mut wanted = Vec::new();
        for (namespace, place) in &mut self.places {
            if place.is_due(now) {
                plan::plan(namespace, place, now, &self.settings, &mut wanted, &mut self.states);
            }
        }
        // The order of names, so that it does not depend on the order of the news.
        wanted.sort_by(|one, two| (one.stage, &one.key).cmp(&(two.stage, &two.key)));
        out.extend(wanted.into_iter().map(|wanted| wanted.intent));
    }

    fn place(&mut self, namespace: &str) -> &mut NamespaceState {
        if !self.places.contains_key(namespace) {
            self.places.insert(namespace.into(), NamespaceState::default());
        }
        self.places.entry(namespace.into()).or_default()
    }

    fn find(&self, namespace: &str, kind: SubjectKind, name: &str) -> Option<&OptedInSubject> {
        let place = self.places.get(namespace)?;
        place.slots.get(place.slot_of(kind, name)?)?.subject.as_deref()
    }

    fn finding(
        &self,
        namespace: &str,
        subject: &RetentionSubject<'_>,
        about: RetentionIssue,
    ) -> RetentionFinding {
        let key = SubjectKey {
            namespace: namespace.into(),
            kind: subject.kind,
            name: subject.name.into(),
        };
        RetentionFinding { key, uid: subject.uid.into(), about }
    }
}
