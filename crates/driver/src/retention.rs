//! The retention controller of this process: owner lists of ConfigMaps and Secrets that opted in.
//!
//! Engine `retention` decides; here its facts are read from the log and its intents carried out, each
//! on the object as it stood. While nobody opted in, only ConfigMaps and Secrets are looked at.
//!
//! ```text
//!   nobody opted in: doze ──► somebody does ──► follow ──► the last is gone ──► doze
//!   World ──► SharedRetention ──► plan ──┬──► edits, deletions ──► InternalWriter
//!                                        ├──► what is worth telling ──► an event
//!                                        └──► what is let go ──► collector
//! ```

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Failure, Object, WriteRefusal};
use tenure_retention::{
    IntentOutcome, RetentionFinding, RetentionIntent, RetentionIssue, SubjectHolder, SubjectKey,
};
use tenure_server::internal_writer::{
    Actor, InternalWriteOutcome, InternalWriter, PrepareOutcome, RequestedPropagation,
    SubmittedWrite, WriteTarget,
};
use tenure_server::registry::Registry;
use tenure_world::{Change, Interest, Record, World};

use crate::clock;
use crate::event_publisher::EventPublisher;
use crate::follow::{Follower, Want};
use crate::progress::Load;
use crate::recorder::Notice;
use crate::retention_facts::{self, MANAGER, RetentionKind};
use crate::shared_retention::{Nudge, SharedRetention, more};

/// Whose name it writes under.
const ACTOR: Actor = Actor { account: NAME, manager: MANAGER };
/// What readiness calls it, and the source of its events.
pub(crate) const NAME: &str = "retention-controller";
/// How many writes are under way at once.
const WRITES_AT_ONCE: usize = 256;
/// How many names an event lists.
const NAMES_MAX: usize = 3;

/// The follower.
pub(crate) struct Retainer {
    writer: InternalWriter,
    kinds: Arc<Registry>,
    keeper: Rc<SharedRetention>,
    teller: Arc<EventPublisher>,
    /// What is wanted and not begun.
    waiting: VecDeque<RetentionIntent>,
    /// How many writes are under way.
    under_way: usize,
    mode: RetentionMode,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetentionMode {
    /// Nobody has opted in: only whether somebody does.
    Dozing,
    /// Somebody just did.
    Woken,
    /// Everything in namespaces where somebody has.
    Following,
}

/// A write that is done.
pub(crate) struct RetentionWriteResult {
    key: SubjectKey,
    uid: Box<str>,
    added: Vec<SubjectHolder>,
    removed: usize,
    outcome: IntentOutcome,
}

impl Follower for Retainer {
    type Ended = RetentionWriteResult;
    type Message = Nudge;

    fn name(&self) -> &'static str {
        NAME
    }

    fn start(&mut self, state: &World) -> Vec<Interest> {
        self.keeper.clear();
        self.kinds = self.writer.kinds();
        self.waiting.clear();
        self.under_way = 0;
        let namespaces = self.opted_in(state);
        if namespaces.is_empty() {
            self.mode = RetentionMode::Dozing;
            return self.subject_prefixes().map(Interest::Prefix).collect();
        }
        self.mode = RetentionMode::Following;
        for namespace in namespaces {
            self.keeper.activate(&self.kinds, state, &namespace);
        }
        vec![Interest::Prefix("/registry/".into())]
    }

    fn see(&mut self, state: &World, change: &Change) {
        let after = change.after.as_ref();
        if self.mode != RetentionMode::Following {
            if after.is_some_and(|record| retention_facts::opted_in(record)) {
                self.mode = RetentionMode::Woken;
            }
        } else if self.keeper.see(&self.kinds, change)
            && let Some(record) = after
        {
            self.keeper.activate(&self.kinds, state, record.namespace());
        }
    }

    fn hear(&mut self, _: Nudge) {
        self.keeper.heard();
    }

    fn next(&mut self, _now: Instant, seen: Revision) -> Want<RetentionWriteResult> {
        match self.mode {
            RetentionMode::Woken => return Want::Restart,
            RetentionMode::Dozing => {
                self.keeper.release_early();
                self.count_states();
                return Want::Rest(None);
            }
            RetentionMode::Following => {}
        }
        self.keeper.known().seen = seen;
        self.keeper.release_early();
        let planned = self.plan();
        self.waiting.extend(planned);
        while self.under_way < WRITES_AT_ONCE
            && let Some(intent) = self.waiting.pop_front()
        {
            if let Some(task) = self.carry_out(intent) {
                self.under_way += 1;
                return Want::Task(Box::pin(task));
            }
        }
        self.count_states();
        let known = self.keeper.known();
        if known.is_empty() && self.depth() == 0 {
            return Want::Restart;
        }
        Want::Rest(known.engine.due().and_then(|at| self.keeper.moment(at)))
    }

    fn ended(&mut self, ended: RetentionWriteResult, _now: Instant) {
        self.under_way -= 1;
        self.conclude(ended);
    }

    fn load(&self) -> Load {
        let depth = self.depth();
        let quiet = depth == 0 && !self.keeper.is_releasing();
        let dormant = quiet && self.mode == RetentionMode::Dozing;
        let idle = dormant || quiet && self.keeper.known().engine.is_idle();
        Load { depth, idle, dormant, ..Load::default() }
    }
}

impl Retainer {
    pub(crate) fn new(
        writer: InternalWriter,
        keeper: Rc<SharedRetention>,
        teller: Arc<EventPublisher>,
    ) -> Retainer {
        let kinds = writer.kinds();
        let (waiting, mode) = (VecDeque::new(), RetentionMode::Dozing);
        Retainer { writer, kinds, keeper, teller, waiting, under_way: 0, mode }
    }

    fn depth(&self) -> usize {
        self.under_way + self.waiting.len()
    }

    /// Where ConfigMaps and Secrets are stored.
    fn subject_prefixes(&self) -> impl Iterator<Item = String> {
        let subjects = |stored: RetentionKind| matches!(stored, RetentionKind::Subject(_));
        self.keeper.prefixes.within("", subjects).map(|(prefix, _)| prefix)
    }

    /// The namespaces in which somebody opted in.
    fn opted_in(&self, state: &World) -> Vec<Box<str>> {
        let mut namespaces: Vec<Box<str>> = Vec::new();
        for prefix in self.subject_prefixes() {
            let found =
                state.range(&prefix, None).filter(|record| retention_facts::opted_in(record));
            namespaces.extend(found.map(|record| Box::from(record.namespace())));
        }
        namespaces.sort();
        namespaces.dedup();
        namespaces
    }

    /// For those who measure.
    fn count_states(&self) {
        let states = self.keeper.known().engine.states();
        self.keeper.counters.count_states(states);
    }

    fn plan(&self) -> Vec<RetentionIntent> {
        let mut intents = Vec::new();
        let now = self.keeper.now();
        let mut known = self.keeper.known();
        if known.engine.due().is_some_and(|at| at <= now) {
            let begin = clock::instant();
            known.engine.plan(now, &mut intents);
            let spent = clock::instant().duration_since(begin);
            self.keeper.counters.plans.observe(spent.as_secs_f64());
        }
        intents
    }

    /// Submits what is wanted; what only has to be said is said.
    fn carry_out(
        &self,
        intent: RetentionIntent,
    ) -> Option<impl Future<Output = RetentionWriteResult> + 'static + use<>> {
        let state = self.writer.world().current();
        let (tried, mut concluded) = match intent {
            RetentionIntent::Report(finding) => {
                self.teller.tell(notice(&finding));
                return None;
            }
            RetentionIntent::Release { uid } => {
                self.keeper.release(uid);
                return None;
            }
            RetentionIntent::Edit { key, uid, revision, add, remove } => {
                let record = self.stands(&state, &key, &uid, revision);
                let tried = record.map(|record| self.edit(record, &add, &remove));
                let removed = remove.len();
                (
                    tried,
                    RetentionWriteResult {
                        key,
                        uid,
                        added: add,
                        removed,
                        outcome: IntentOutcome::Moved,
                    },
                )
            }
            RetentionIntent::Delete { key, uid, revision } => {
                let record = self.stands(&state, &key, &uid, revision);
                let tried = record.map(|record| self.delete(record, &key));
                let concluded = RetentionWriteResult {
                    key,
                    uid,
                    added: Vec::new(),
                    removed: 0,
                    outcome: IntentOutcome::Moved,
                };
                (tried, concluded)
            }
        };
        let world = self.writer.world().clone();
        Some(async move {
            let written = match tried {
                Some(Ok(Some(submitted))) => submitted.outcome().await,
                Some(Err(failure)) => Err(failure),
                // It is no longer as it was when this was decided.
                Some(Ok(None)) | None => Ok(InternalWriteOutcome::Moved),
            };
            concluded.outcome = match written {
                Ok(InternalWriteOutcome::Stored(record)) => {
                    IntentOutcome::Applied(record.revision())
                }
                Ok(InternalWriteOutcome::Gone) => {
                    IntentOutcome::Applied(world.current().revision())
                }
                Ok(InternalWriteOutcome::Moved) => IntentOutcome::Moved,
                Err(failure) => match failure.refusal() {
                    WriteRefusal::Absent | WriteRefusal::Conflict | WriteRefusal::Invalid => {
                        IntentOutcome::Moved
                    }
                    WriteRefusal::Forbidden | WriteRefusal::Busy | WriteRefusal::Failed => {
                        tracing::debug!(reason = %failure.message, "an owner list was not written");
                        IntentOutcome::Failed
                    }
                },
            };
            concluded
        })
    }

    /// The record of a subject, if it is as it was when something was decided about it.
    fn stands<'a>(
        &self,
        state: &'a World,
        key: &SubjectKey,
        uid: &str,
        revision: Revision,
    ) -> Option<&'a Arc<Record>> {
        let record = state.get(&self.keeper.prefixes.key(key.kind, &key.namespace, &key.name))?;
        (record.uid() == uid && record.revision() == revision).then_some(record)
    }

    fn edit(
        &self,
        record: &Arc<Record>,
        add: &[SubjectHolder],
        remove: &[Box<str>],
    ) -> Result<Option<SubmittedWrite>, Failure> {
        let standing = WriteTarget::Stored(record);
        let edit = |metadata: &mut Object| edit_owners(metadata, add, remove);
        match self.writer.prepare_edit(ACTOR, &standing, Vec::new(), edit)? {
            PrepareOutcome::Ready(ready) => self.writer.submit(ready).map(Some),
            PrepareOutcome::Nothing | PrepareOutcome::Early => Ok(None),
        }
    }

    fn delete(
        &self,
        record: &Arc<Record>,
        key: &SubjectKey,
    ) -> Result<Option<SubmittedWrite>, Failure> {
        let standing = WriteTarget::Stored(record);
        let guards = vec![self.keeper.unmentioned(key, self.keeper.known().seen)];
        let background = Some(RequestedPropagation::Background);
        match self.writer.prepare_delete(ACTOR, &standing, background, None, guards)? {
            PrepareOutcome::Ready(ready) => {
                self.teller.tell(collected(record));
                more(&self.keeper.counters.collections, 1);
                self.writer.submit(ready).map(Some)
            }
            PrepareOutcome::Nothing | PrepareOutcome::Early => Ok(None),
        }
    }

    fn conclude(
        &self,
        RetentionWriteResult { key, uid, added, removed, outcome }: RetentionWriteResult,
    ) {
        let counters = &self.keeper.counters;
        match outcome {
            IntentOutcome::Applied(_) => {
                more(&counters.adds, added.len());
                more(&counters.removes, removed);
                if !added.is_empty() {
                    let message = format!("Kept by {}", listed(&added, added.len()));
                    let notice = Saying { reason: "RetentionOwned", warning: false, message };
                    self.teller.tell(notice.about(&key, &uid));
                }
            }
            IntentOutcome::Moved => more(&counters.conflicts, 1),
            IntentOutcome::Failed => {}
        }
        let now = self.keeper.now();
        self.keeper.known().engine.outcome(&key, &uid, outcome, now);
    }
}

/// Adds and removes entries and leaves all others where they are.
fn edit_owners(metadata: &mut Object, add: &[SubjectHolder], remove: &[Box<str>]) {
    let list = metadata.entry("ownerReferences").or_insert_with(|| json!([]));
    let Value::Array(list) = list else { return };
    let uid = |entry: &Value| entry.get("uid").and_then(Value::as_str).map(str::to_owned);
    list.retain(|entry| uid(entry).is_none_or(|uid| !remove.iter().any(|gone| **gone == *uid)));
    list.extend(add.iter().map(|holder| {
        json!({
            "apiVersion": holder.kind.api_version(), "kind": holder.kind.as_str(),
            "name": holder.name, "uid": holder.uid,
        })
    }));
    if list.is_empty() {
        metadata.remove("ownerReferences");
    }
}

/// Some users by name, and how many more there are.
fn listed(users: &[SubjectHolder], count: usize) -> String {
    let name = |user: &SubjectHolder| format!("{} {}", user.kind.as_str(), user.name);
    let named: Vec<String> = users.iter().take(NAMES_MAX).map(name).collect();
    match count - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// An event in the making.
struct Saying {
    reason: &'static str,
    warning: bool,
    message: String,
}

impl Saying {
    fn about(self, key: &SubjectKey, uid: &str) -> Notice {
        let about = json!({
            "kind": key.kind.as_str(), "apiVersion": "v1",
            "namespace": key.namespace, "name": key.name, "uid": uid,
        });
        Notice {
            source: NAME,
            about: match about {
                Value::Object(about) => about,
                _ => Object::new(),
            },
            warning: self.warning,
            reason: self.reason.to_owned(),
            message: self.message,
        }
    }
}

/// The event about a subject that is collected.
pub(crate) fn collected(record: &Record) -> Notice {
    let kind = if record.key().contains("/secrets/") { "Secret" } else { "ConfigMap" };
    let about = json!({
        "kind": kind, "apiVersion": "v1",
        "namespace": record.namespace(), "name": record.name(), "uid": record.uid(),
    });
    Notice {
        source: NAME,
        about: about.as_object().cloned().unwrap_or_default(),
        warning: false,
        reason: "RetentionCollected".to_owned(),
        message: "Deleted: its last holder is gone and nobody mentions it".to_owned(),
    }
}

/// The event about a finding (section 8).
fn notice(finding: &RetentionFinding) -> Notice {
    let (reason, warning, message) = match &finding.about {
        RetentionIssue::Held { users, count } => {
            ("RetentionHeld", false, format!("Not deleted: used by {}", listed(users, *count)))
        }
        RetentionIssue::Orphaned => (
            "RetentionOrphaned",
            true,
            "Its last holder was deleted and left it behind: nothing will delete it".to_owned(),
        ),
        RetentionIssue::ManyOwners(count) => {
            ("ManyOwners", *count >= 1000, format!("It has grown to {count} owners"))
        }
        RetentionIssue::OwnerListFull(count) => (
            "OwnerListFull",
            true,
            format!("Its owner list is full: {count} holders were not added"),
        ),
    };
    Saying { reason, warning, message }.about(&finding.key, &finding.uid)
}
