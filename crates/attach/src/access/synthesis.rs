//! What to write next so that Roles say what references give (A20 to A24). Decided here, done by `host.rs`.
//!
//! ```text
//!   target opened, closed ──► plan: which names in which Role ──┐
//!   consumer ──► owner and subject ─────────────────────────────┼──► next: get, apply, delete ──► ended
//!   Role, RoleBinding as stored ────────────────────────────────┘
//! ```
//!
//! Removals are due at once, additions after a moment in which others may join them. What is not known for sure
//! is looked at before it is written over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::Value;
use tenure_references::ObjectName;
use tokio::time::Instant;

use super::plan::{RolePlan, RoleTarget};
use super::roles::{self, RoleOwner, ShardKey};
use crate::api::text;

/// How long additions are gathered.
const GATHERED: Duration = Duration::from_millis(100);
/// How often a Role that others change again and again is put right.
const REPAIR_PAUSE: Duration = Duration::from_secs(1);
/// How long it is believed that nobody may open our Roles.
const GUARD_GOOD: Duration = Duration::from_secs(60);
/// When it is looked at again whether a name, or the policy, is there.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The waits after failures: they double from one to the other.
const FAILED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// So many versions of our own are remembered, to know them when they are heard of.
const VERSIONS: usize = 8;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RoleKind {
    Role,
    Binding,
}

impl RoleKind {
    pub(super) fn plural(self) -> &'static str {
        match self {
            RoleKind::Role => "roles",
            RoleKind::Binding => "rolebindings",
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RoleWork {
    /// Look what has the name.
    Get(ShardKey, RoleKind),
    Apply(ShardKey, RoleKind, Value),
    Delete(ShardKey, RoleKind, String),
    /// Try, without effect, to write what the policy must refuse.
    Guard(ShardKey),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RoleOutcome {
    /// The object as it is now.
    Found(Value),
    /// It is not there, or no longer.
    Gone,
    /// The server refuses, or does not answer.
    Failed(String),
}

/// What came of trying to open a Role.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum GuardOutcome {
    /// The policy refused it.
    Refused,
    /// Nothing did.
    Accepted,
    /// No rights are installed for this consumer, or there was no answer.
    Failed(String),
}

/// What is known of an object that is stored.
#[derive(Clone, Debug, Default)]
enum StoredRole {
    /// Nothing with our label was ever seen.
    #[default]
    Unseen,
    /// It was seen with our label, and is no more: gone, or without the label.
    Lost,
    Absent,
    Present(Value),
    /// Somebody else's.
    Foreign,
}

#[derive(Default)]
struct ShardState {
    role: StoredRole,
    binding: StoredRole,
    /// INVARIANT: the same as in `Synthesis::due`.
    due: Option<Instant>,
    busy: bool,
    failures: u32,
    repaired: Option<Instant>,
    versions: VecDeque<String>,
}

impl ShardState {
    fn stored(&mut self, kind: RoleKind) -> &mut StoredRole {
        match kind {
            RoleKind::Role => &mut self.role,
            RoleKind::Binding => &mut self.binding,
        }
    }

    fn wrote(&mut self, object: &Value) {
        self.versions.push_back(text(object, "/metadata/resourceVersion").to_owned());
        if self.versions.len() > VERSIONS {
            self.versions.pop_front();
        }
    }

    fn is_foreign(&self) -> bool {
        [&self.role, &self.binding].iter().any(|stored| matches!(stored, StoredRole::Foreign))
    }
}

#[derive(Default)]
struct ConsumerEntry {
    owner: Option<RoleOwner>,
    plans: BTreeMap<String, RolePlan>,
}

/// Whether the policy that holds our Roles closed is there.
#[derive(Clone, Copy)]
enum GuardState {
    Unknown,
    Holds(Instant),
    Missing,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SynthesisCounts {
    /// Changes of others that were undone.
    pub(crate) repairs: u64,
    /// Writes that succeeded.
    pub(crate) writes: u64,
    /// Writes that failed.
    pub(crate) failures: u64,
}

/// See the head of this file.
pub(super) struct Synthesis {
    consumers: BTreeMap<String, ConsumerEntry>,
    shards: BTreeMap<ShardKey, ShardState>,
    due: BTreeSet<(Instant, ShardKey)>,
    /// What stood in Roles before, and was not found to be live yet.
    unconfirmed: BTreeSet<(String, String, RoleTarget)>,
    guard: GuardState,
    guard_busy: bool,
    /// Those that wait for the guard.
    waiting: BTreeSet<ShardKey>,
    problems: BTreeMap<ShardKey, String>,
    pub(super) counts: SynthesisCounts,
}

impl Synthesis {
    pub(super) fn new() -> Synthesis {
        Synthesis {
            consumers: BTreeMap::new(),
            shards: BTreeMap::new(),
            due: BTreeSet::new(),
            unconfirmed: BTreeSet::new(),
            guard: GuardState::Unknown,
            guard_busy: false,
            waiting: BTreeSet::new(),
            problems: BTreeMap::new(),
            counts: SynthesisCounts::default(),
        }
    }

    /// What stands in Roles now is kept until it is known to be wrong. Said once, after the first list of Roles
    /// and before the first target.
    pub(super) fn adopt(&mut self) {
        for (key, state) in &self.shards {
            let StoredRole::Present(role) = &state.role else { continue };
            let entry = self.consumers.entry(key.consumer.clone()).or_default();
            let plan = entry.plans.entry(key.namespace.clone()).or_default();
            for target in roles::targets(role) {
                plan.adopt(target.clone(), key.shard);
                self.unconfirmed.insert((key.consumer.clone(), key.namespace.clone(), target));
            }
        }
    }

    /// Everything that is live was said: what else stands in Roles goes.
    pub(super) fn index_ready(&mut self, now: Instant) {
        for (consumer, namespace, target) in std::mem::take(&mut self.unconfirmed) {
            self.close(&consumer, &namespace, &target, now);
        }
        // Roles without a name that could be read, and those of consumers that are gone.
        let all: Vec<ShardKey> = self.shards.keys().cloned().collect();
        all.into_iter().for_each(|key| self.put_due(key, now));
    }

    /// A consumer as it is now.
    pub(super) fn put_consumer(&mut self, name: &str, owner: Option<RoleOwner>, now: Instant) {
        let entry = self.consumers.entry(name.to_owned()).or_default();
        if entry.owner != owner {
            entry.owner = owner;
            self.all_due(name, now);
        }
    }

    /// A consumer is gone, and everything that it may read.
    pub(super) fn drop_consumer(&mut self, name: &str, now: Instant) {
        self.consumers.remove(name);
        self.unconfirmed.retain(|(consumer, ..)| consumer != name);
        self.all_due(name, now);
    }

    /// A consumer may read a target.
    pub(super) fn target_opened(&mut self, consumer: &str, target: &ObjectName, now: Instant) {
        let Some((namespace, target)) = in_namespace(target) else { return };
        self.unconfirmed.remove(&(consumer.to_owned(), namespace.clone(), target.clone()));
        let Some(entry) = self.consumers.get_mut(consumer) else { return };
        let plan = entry.plans.entry(namespace.clone()).or_default();
        if let Some(shard) = plan.add(target) {
            let consumer = consumer.to_owned();
            self.put_due(ShardKey { consumer, namespace, shard }, now + GATHERED);
        }
    }

    /// A consumer may no longer read a target.
    pub(super) fn target_closed(&mut self, consumer: &str, target: &ObjectName, now: Instant) {
        if let Some((namespace, target)) = in_namespace(target) {
            self.close(consumer, &namespace, &target, now);
        }
    }

    fn close(&mut self, consumer: &str, namespace: &str, target: &RoleTarget, now: Instant) {
        let Some(entry) = self.consumers.get_mut(consumer) else { return };
        let Some(plan) = entry.plans.get_mut(namespace) else { return };
        let shard = plan.remove(target);
        if plan.is_empty() {
            entry.plans.remove(namespace);
        }
        if let Some(shard) = shard {
            let (consumer, namespace) = (consumer.to_owned(), namespace.to_owned());
            self.put_due(ShardKey { consumer, namespace, shard }, now);
        }
    }

    /// An object with our label, as it is stored. `writing` is whether it is on us to put it right.
    pub(super) fn seen(&mut self, kind: RoleKind, object: Value, writing: bool, now: Instant) {
        let Some(key) = ShardKey::of(&object) else { return };
        let state = self.shards.entry(key.clone()).or_default();
        let version = text(&object, "/metadata/resourceVersion");
        if state.versions.iter().any(|ours| ours == version) {
            return;
        }
        let was_known = matches!(state.stored(kind), StoredRole::Present(_) | StoredRole::Lost);
        *state.stored(kind) = StoredRole::Present(object);
        self.changed(key, was_known && writing, now);
    }

    /// An object has our label no more, or is gone.
    pub(super) fn lost(&mut self, kind: RoleKind, object: &Value, writing: bool, now: Instant) {
        let Some(key) = ShardKey::of(object) else { return };
        let Some(state) = self.shards.get_mut(&key) else { return };
        let uid = text(object, "/metadata/uid");
        let stored = state.stored(kind);
        match stored {
            StoredRole::Present(known) if text(known, "/metadata/uid") == uid => {
                *stored = StoredRole::Lost;
                self.changed(key, writing, now);
            }
            _ => {}
        }
    }

    /// Roles or RoleBindings were listed; those that were known and are not among them are lost.
    pub(super) fn listed(&mut self, kind: RoleKind, found: &BTreeSet<ShardKey>, now: Instant) {
        let mut missing = Vec::new();
        for (key, state) in &mut self.shards {
            if matches!(state.stored(kind), StoredRole::Present(_)) && !found.contains(key) {
                *state.stored(kind) = StoredRole::Lost;
                missing.push(key.clone());
            }
        }
        missing.into_iter().for_each(|key| self.put_due(key, now));
    }

    /// Somebody else changed something: it is put right, though not at every turn.
    fn changed(&mut self, key: ShardKey, counts: bool, now: Instant) {
        let wrong = self.decide(&key).is_some();
        let Some(state) = self.shards.get_mut(&key) else { return };
        if !wrong || state.busy {
            return;
        }
        let due = state.repaired.map_or(now, |last| now.max(last + REPAIR_PAUSE));
        // What is due already mends this too.
        if counts && state.due.is_none() {
            state.repaired = Some(due);
            self.counts.repairs += 1;
        }
        self.put_due(key, due);
    }

    /// When there is something to do; none while nothing is.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// What is to be done now. Each is to be ended before the next about the same Role is given out.
    pub(super) fn next(&mut self, now: Instant) -> Option<RoleWork> {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let (_, key) = self.due.pop_first()?;
            if let Some(state) = self.shards.get_mut(&key) {
                state.due = None;
                if state.busy {
                    continue;
                }
            }
            let Some(work) = self.decide(&key) else {
                self.forget_settled(&key);
                continue;
            };
            let may_write = matches!(self.guard, GuardState::Holds(until) if now < until);
            if matches!(work, RoleWork::Apply(..)) && !may_write {
                self.waiting.insert(key.clone());
                if std::mem::replace(&mut self.guard_busy, true) {
                    continue;
                }
                return Some(RoleWork::Guard(key));
            }
            self.shards.entry(key).or_default().busy = true;
            return Some(work);
        }
        None
    }

    /// Nothing is to be done about a Role: what failed before no longer matters.
    fn forget_settled(&mut self, key: &ShardKey) {
        self.problems.remove(key);
        let Some(state) = self.shards.get_mut(key) else { return };
        state.failures = 0;
        let is_there =
            |stored: &StoredRole| matches!(stored, StoredRole::Present(_) | StoredRole::Lost);
        if !is_there(&state.role) && !is_there(&state.binding) {
            self.shards.remove(key);
        }
    }

    /// What a Role lacks.
    fn decide(&self, key: &ShardKey) -> Option<RoleWork> {
        let none = ShardState::default();
        let state = self.shards.get(key).unwrap_or(&none);
        if state.is_foreign() {
            return self.decide_foreign(key, state);
        }
        let wanted = self.consumers.get(&key.consumer).and_then(|entry| {
            let owner = entry.owner.as_ref().filter(|owner| !owner.is_everybody())?;
            Some((owner, entry.plans.get(&key.namespace)?.names(key.shard)?))
        });
        let Some((owner, names)) = wanted else { return decide_removal(key, state) };
        let look = |kind| Some(RoleWork::Get(key.clone(), kind));
        let role = roles::role(key, owner, &roles::rules(names));
        match &state.role {
            StoredRole::Unseen | StoredRole::Lost => return look(RoleKind::Role),
            StoredRole::Present(stored) if roles::holds(stored, &role) => {}
            StoredRole::Present(_) | StoredRole::Absent | StoredRole::Foreign => {
                return Some(RoleWork::Apply(key.clone(), RoleKind::Role, role));
            }
        }
        let binding = roles::binding(key, owner);
        match &state.binding {
            StoredRole::Unseen | StoredRole::Lost => look(RoleKind::Binding),
            StoredRole::Present(stored) if roles::holds(stored, &binding) => None,
            // What a binding binds cannot be changed.
            StoredRole::Present(stored) if stored.get("roleRef") != binding.get("roleRef") => {
                Some(removal(key, RoleKind::Binding, stored))
            }
            StoredRole::Present(_) | StoredRole::Absent | StoredRole::Foreign => {
                Some(RoleWork::Apply(key.clone(), RoleKind::Binding, binding))
            }
        }
    }

    /// Somebody else has one of the two names: ours of the other goes, and it is looked whether theirs is still there.
    fn decide_foreign(&self, key: &ShardKey, state: &ShardState) -> Option<RoleWork> {
        let is_closed = self
            .consumers
            .get(&key.consumer)
            .and_then(|entry| entry.plans.get(&key.namespace))
            .is_some_and(|plan| plan.is_closed(key.shard));
        match (&state.role, &state.binding) {
            (StoredRole::Present(ours), _) => Some(removal(key, RoleKind::Role, ours)),
            (_, StoredRole::Present(ours)) => Some(removal(key, RoleKind::Binding, ours)),
            _ if !is_closed => None,
            (StoredRole::Foreign, _) => Some(RoleWork::Get(key.clone(), RoleKind::Role)),
            _ => Some(RoleWork::Get(key.clone(), RoleKind::Binding)),
        }
    }

    /// A look, a write or a removal has ended.
    pub(super) fn ended(&mut self, work: &RoleWork, outcome: RoleOutcome, now: Instant) {
        let (key, kind) = match work {
            RoleWork::Get(key, kind)
            | RoleWork::Apply(key, kind, _)
            | RoleWork::Delete(key, kind, _) => (key.clone(), *kind),
            RoleWork::Guard(_) => return,
        };
        let is_write = !matches!(work, RoleWork::Get(..));
        let state = self.shards.entry(key.clone()).or_default();
        state.busy = false;
        let due = match outcome {
            RoleOutcome::Failed(why) => {
                self.counts.failures += 1;
                self.problems.insert(key.clone(), why);
                state.failures = state.failures.saturating_add(1);
                let (first, most) = FAILED;
                now + most.min(first * 2_u32.saturating_pow((state.failures - 1).min(16)))
            }
            RoleOutcome::Gone => {
                let was_foreign = state.is_foreign();
                *state.stored(kind) = StoredRole::Absent;
                let is_free = was_foreign && !state.is_foreign();
                self.counts.writes += u64::from(is_write);
                if is_free {
                    self.with_plan(&key, |plan| plan.open(key.shard));
                }
                now
            }
            RoleOutcome::Found(object) if is_write || roles::is_ours(&object) => {
                self.counts.writes += u64::from(is_write);
                if is_write {
                    state.wrote(&object);
                }
                *state.stored(kind) = StoredRole::Present(object);
                now
            }
            RoleOutcome::Found(_) => {
                let again = state.is_foreign();
                *state.stored(kind) = StoredRole::Foreign;
                self.problems.insert(key.clone(), "somebody else has its name".to_owned());
                let moved = self.with_plan(&key, |plan| plan.close(key.shard)).unwrap_or_default();
                for shard in moved {
                    self.put_due(ShardKey { shard, ..key.clone() }, now);
                }
                if again { now + LOOK_AGAIN } else { now }
            }
        };
        self.put_due(key, due);
    }

    /// It is known whether the policy is there.
    pub(super) fn guard_ended(&mut self, key: &ShardKey, outcome: GuardOutcome, now: Instant) {
        self.guard_busy = false;
        let mut waiting = std::mem::take(&mut self.waiting);
        match outcome {
            GuardOutcome::Refused => {
                self.guard = GuardState::Holds(now + GUARD_GOOD);
                waiting.into_iter().for_each(|key| self.put_due(key, now));
            }
            GuardOutcome::Accepted => {
                self.guard = GuardState::Missing;
                waiting.into_iter().for_each(|key| self.put_due(key, now + LOOK_AGAIN));
            }
            GuardOutcome::Failed(why) => {
                waiting.remove(key);
                self.ended(
                    &RoleWork::Get(key.clone(), RoleKind::Role),
                    RoleOutcome::Failed(why),
                    now,
                );
                waiting.into_iter().for_each(|key| self.put_due(key, now));
            }
        }
    }

    /// Whether the policy was looked for and is not there.
    pub(super) fn lacks_guard(&self) -> bool {
        matches!(self.guard, GuardState::Missing)
    }

    /// What cannot be written, and why.
    pub(super) fn problems(&self) -> impl Iterator<Item = (String, &str)> {
        self.problems
            .iter()
            .map(|(key, why)| (format!("{}/{}", key.namespace, key.name()), why.as_str()))
    }

    /// How many names there are, and how many of them find no room.
    pub(super) fn names(&self) -> (usize, usize) {
        let plans = || self.consumers.values().flat_map(|entry| entry.plans.values());
        let left_out = plans().map(RolePlan::left_out).sum();
        (plans().map(|plan| plan.targets().count()).sum(), left_out)
    }

    /// How many Roles wait to be written.
    pub(super) fn behind(&self) -> usize {
        self.due.len()
            + self.waiting.len()
            + self.shards.values().filter(|state| state.busy).count()
    }

    fn with_plan<T>(
        &mut self,
        key: &ShardKey,
        change: impl FnOnce(&mut RolePlan) -> T,
    ) -> Option<T> {
        let entry = self.consumers.get_mut(&key.consumer)?;
        entry.plans.get_mut(&key.namespace).map(change)
    }

    fn all_due(&mut self, consumer: &str, now: Instant) {
        let keys = self.shards.keys().filter(|key| key.consumer == consumer);
        let mut all: BTreeSet<ShardKey> = keys.cloned().collect();
        if let Some(entry) = self.consumers.get(consumer) {
            for (namespace, plan) in &entry.plans {
                let used = (0..crate::install::SHARDS).filter(|shard| plan.names(*shard).is_some());
                let (consumer, namespace) = (consumer.to_owned(), namespace.clone());
                let key = |shard| ShardKey {
                    consumer: consumer.clone(),
                    namespace: namespace.clone(),
                    shard,
                };
                all.extend(used.map(key));
            }
        }
        all.into_iter().for_each(|key| self.put_due(key, now));
    }

    /// Something is to be looked at by then, or earlier if that was said before.
    fn put_due(&mut self, key: ShardKey, at: Instant) {
        let state = self.shards.entry(key.clone()).or_default();
        if state.due.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = state.due.replace(at) {
            self.due.remove(&(before, key.clone()));
        }
        self.due.insert((at, key));
    }
}

/// The namespace of a target and its name there; none for one without a namespace, which no Role names.
fn in_namespace(target: &ObjectName) -> Option<(String, RoleTarget)> {
    let ObjectName { resource, namespace, name } = target;
    let (group, plural) = (resource.group.clone(), resource.resource.clone());
    let target = RoleTarget { group, plural, name: name.clone() };
    (!namespace.is_empty()).then(|| (namespace.clone(), target))
}

/// The binding goes before the Role: what it binds is then nothing at once (R151).
fn decide_removal(key: &ShardKey, state: &ShardState) -> Option<RoleWork> {
    for (kind, stored) in [(RoleKind::Binding, &state.binding), (RoleKind::Role, &state.role)] {
        match stored {
            StoredRole::Present(object) => return Some(removal(key, kind, object)),
            StoredRole::Lost => return Some(RoleWork::Get(key.clone(), kind)),
            StoredRole::Unseen | StoredRole::Absent | StoredRole::Foreign => {}
        }
    }
    None
}

fn removal(key: &ShardKey, kind: RoleKind, object: &Value) -> RoleWork {
    RoleWork::Delete(key.clone(), kind, text(object, "/metadata/uid").to_owned())
}

#[cfg(test)]
mod tests;
