//! A cluster as the ownership engine sees it: facts in, verdicts and wishes out.
//!
//! The engine decides here what the collector of the cluster will decide; nothing is written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use tenure_core::Revision;
use tenure_ownership::{
    ChangeOrder, Dangling, Finalizers, InternedResource, KindVersion, Object, ObjectExplanation,
    ObjectId, ObjectState, OwnerIdentity, OwnerState, OwnerView, OwnershipEngine, OwnershipIntent,
    OwnershipRule, Referenced, Unresolvable, WriteAction,
};

use crate::facts::{ClusterSnapshot, ObjectIdentity, ObservedObject, UnreadableKind};
use crate::meta::ObjectMetadata;
use crate::served::DiscoveredResource;

/// What the collector wants to do with an object now.
#[derive(Clone, Debug)]
pub(crate) struct PlannedAction {
    pub(crate) action: WriteAction,
    pub(crate) rule: OwnershipRule,
}

/// How an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum LifecycleState {
    /// It lives.
    Alive,
    /// Its deletion has begun.
    Terminating,
    /// It is being deleted in the foreground: it waits for dependents.
    Waiting,
    /// It is being deleted and leaves its dependents behind.
    Orphaning,
    /// Nobody has that uid.
    Absent,
    /// It could not be read.
    Unread,
}

/// What one reference is worth, in words that JSON keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnerStatus {
    /// The owner lives.
    Solid,
    /// The owner is being deleted in the foreground.
    Waiting,
    /// Nobody has that uid.
    Dangling,
    /// The object with that uid lives in another namespace.
    OtherNamespace,
    /// The object with that uid is of another kind.
    OtherKind,
    /// The object with that uid has another name.
    OtherName,
    /// The kind is not served in that version.
    UnknownKind,
    /// A dependent in no namespace names a kind that lives in namespaces.
    Scope,
    /// The owner could not be read.
    Unread,
}

impl OwnerStatus {
    /// The word of the vocabulary, with the reason after it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            OwnerStatus::Solid => "solid",
            OwnerStatus::Waiting => "waiting",
            OwnerStatus::Dangling => "dangling",
            OwnerStatus::OtherNamespace => "dangling: other namespace",
            OwnerStatus::OtherKind => "dangling: other kind",
            OwnerStatus::OtherName => "dangling: other name",
            OwnerStatus::UnknownKind => "unresolvable: unknown kind",
            OwnerStatus::Scope => "unresolvable: scope",
            OwnerStatus::Unread => "unread",
        }
    }

    /// Whether it really ties the two.
    #[must_use]
    pub fn ties(self) -> bool {
        matches!(self, OwnerStatus::Solid | OwnerStatus::Waiting | OwnerStatus::Unread)
    }
}

/// Everything that was read, seen by the engine.
pub struct OwnershipAnalysis {
    facts: ClusterSnapshot,
    engine: OwnershipEngine,
    by_uid: HashMap<String, usize>,
    wants: BTreeMap<String, PlannedAction>,
    statuses: HashMap<String, String>,
    /// Pods that have no grace period.
    at_once: HashSet<String>,
    /// Objects that their controllers let go, and who must be gone before.
    releases: BTreeMap<String, Vec<String>>,
}

impl OwnershipAnalysis {
    /// Lets the engine look at facts. Owners that are not among them are absent, see
    /// [`ClusterSnapshot::assume_unread`].
    #[must_use]
    pub fn new(facts: ClusterSnapshot) -> OwnershipAnalysis {
        // What is read is not chosen to collide with anything.
        let mut engine = OwnershipEngine::new(ChangeOrder::Total, 0);
        let mut out = Vec::new();
        learn(&mut engine, &facts, &mut out);
        let mut by_uid = HashMap::new();
        let mut revision = Revision::ZERO;
        for (index, found) in facts.objects.iter().enumerate() {
            // Two groups may serve the same objects; the first one speaks for them.
            if !found.meta.uid.is_empty() && !by_uid.contains_key(&found.meta.uid) {
                by_uid.insert(found.meta.uid.clone(), index);
            }
        }
        // In the order in which they were written: the collector learned of them so, and where the
        // moment decides, the order of its work follows from it.
        let mut order: Vec<(usize, &ObservedObject)> = by_uid
            .values()
            .filter_map(|index| Some((*index, facts.objects.get(*index)?)))
            .collect();
        order.sort_by_key(|(index, found)| (written(&found.meta), *index));
        for (_, found) in order {
            revision = revision.next();
            put(&mut engine, found, revision, &mut out);
        }
        engine.synced(revision.next(), &mut out);
        let mut wants = BTreeMap::new();
        for intent in out {
            if let OwnershipIntent::Write(write) = intent {
                let want = PlannedAction { action: write.action, rule: write.rule };
                wants.insert(write.key.uid.to_string(), want);
            }
        }
        OwnershipAnalysis {
            facts,
            engine,
            by_uid,
            wants,
            statuses: HashMap::new(),
            at_once: HashSet::new(),
            releases: BTreeMap::new(),
        }
    }

    /// What was read.
    #[must_use]
    pub fn facts(&self) -> &ClusterSnapshot {
        &self.facts
    }

    /// What could not be read.
    #[must_use]
    pub fn unread(&self) -> &[UnreadableKind] {
        &self.facts.unread
    }

    /// Keeps who goes at once when it is deleted.
    pub(crate) fn set_at_once(&mut self, uids: HashSet<String>) {
        self.at_once = uids;
    }

    /// Keeps which objects controllers let go, and who must be gone before.
    pub fn set_releases(&mut self, releases: BTreeMap<String, Vec<String>>) {
        self.releases = releases;
    }

    pub(crate) fn releases(&self) -> &BTreeMap<String, Vec<String>> {
        &self.releases
    }

    /// Whether an object, if its kind has a grace period, gets one.
    pub(crate) fn is_graceful(&self, uid: &str) -> bool {
        !self.at_once.contains(uid)
    }

    /// When it was read.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.facts.now
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &OwnershipEngine {
        &self.engine
    }

    /// Says how an object fares, in the words of its kind.
    pub fn set_status(&mut self, uid: String, status: String) {
        self.statuses.insert(uid, status);
    }

    /// How an object fares, if somebody said so.
    #[must_use]
    pub fn status(&self, uid: &str) -> Option<&str> {
        self.statuses.get(uid).map(String::as_str)
    }

    /// The object with a uid.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<&ObservedObject> {
        self.by_uid.get(uid).and_then(|index| self.facts.objects.get(*index))
    }

    /// The object under a name.
    #[must_use]
    pub fn find(
        &self,
        served: &DiscoveredResource,
        namespace: &str,
        name: &str,
    ) -> Option<&ObservedObject> {
        let resource = self.engine.find_resource(&served.group, &served.plural)?;
        let namespace = if served.namespaced { namespace } else { "" };
        self.get(&self.engine.find(resource, namespace, name)?)
    }

    pub(crate) fn want(&self, uid: &str) -> Option<&PlannedAction> {
        self.wants.get(uid)
    }

    pub(crate) fn explain(&self, uid: &str) -> Option<ObjectExplanation> {
        self.engine.explain(uid)
    }

    /// Who an engine's key is.
    pub(crate) fn named(&self, key: &ObjectId) -> ObjectIdentity {
        if let Some(found) = self.get(&key.uid) {
            return found.named();
        }
        let (api_version, kind) = self.engine.kind_of(key.resource);
        ObjectIdentity {
            kind: kind.to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            api_version: api_version.to_owned(),
            uid: key.uid.to_string(),
        }
    }

    /// Who a reference names, whether or not there is such an object.
    pub(crate) fn referred(&self, reference: &OwnerIdentity, namespace: &str) -> ObjectIdentity {
        let served = self.facts.kinds.find(&reference.api_version, &reference.kind);
        let inside = served.is_none_or(|served| served.namespaced);
        ObjectIdentity {
            kind: reference.kind.to_string(),
            namespace: if inside { namespace.to_owned() } else { String::new() },
            name: reference.name.to_string(),
            api_version: reference.api_version.to_string(),
            uid: reference.uid.to_string(),
        }
    }

    pub(crate) fn worth(&self, verdict: OwnerState, owner_uid: &str) -> OwnerStatus {
        let assumed = self.get(owner_uid).is_some_and(|found| found.assumed);
        match verdict {
            OwnerState::Solid if assumed => OwnerStatus::Unread,
            OwnerState::Solid => OwnerStatus::Solid,
            OwnerState::Waiting => OwnerStatus::Waiting,
            OwnerState::Dangling(Dangling::Absent) => OwnerStatus::Dangling,
            OwnerState::Dangling(Dangling::OtherNamespace) => OwnerStatus::OtherNamespace,
            OwnerState::Dangling(Dangling::OtherKind) => OwnerStatus::OtherKind,
            OwnerState::Dangling(Dangling::OtherName) => OwnerStatus::OtherName,
            OwnerState::Unresolvable(Unresolvable::UnknownKind) => OwnerStatus::UnknownKind,
            OwnerState::Unresolvable(Unresolvable::Scope) => OwnerStatus::Scope,
            OwnerState::Unknown => OwnerStatus::Unread,
        }
    }

    pub(crate) fn worth_of(&self, referenced: &Referenced) -> OwnerStatus {
        self.worth(referenced.verdict, &referenced.reference.uid)
    }

    pub(crate) fn lifecycle_state(&self, uid: &str) -> LifecycleState {
        match self.get(uid) {
            None => LifecycleState::Absent,
            Some(found) if found.assumed => LifecycleState::Unread,
            Some(_) => to_lifecycle_state(
                self.explain(uid).map(|explained| explained.state).unwrap_or_default(),
            ),
        }
    }
}

pub(crate) fn to_lifecycle_state(state: ObjectState) -> LifecycleState {
    if state.waiting {
        LifecycleState::Waiting
    } else if state.orphaning {
        LifecycleState::Orphaning
    } else if state.terminating {
        LifecycleState::Terminating
    } else {
        LifecycleState::Alive
    }
}

/// When an object was last written, as clusters count their writes.
fn written(meta: &ObjectMetadata) -> u64 {
    meta.resource_version.parse().unwrap_or(0)
}

/// Tells the engine what is served.
fn learn(engine: &mut OwnershipEngine, facts: &ClusterSnapshot, out: &mut Vec<OwnershipIntent>) {
    let mut resources: HashMap<(&str, &str), InternedResource> = HashMap::new();
    let rows: Vec<(String, &DiscoveredResource, InternedResource)> = facts
        .kinds
        .all()
        .map(|served| {
            let key = (served.group.as_str(), served.plural.as_str());
            let resource = *resources.entry(key).or_insert_with(|| engine.resource(key.0, key.1));
            (served.api_version(), served, resource)
        })
        .collect();
    let types: Vec<KindVersion<'_>> = rows
        .iter()
        .map(|(api_version, served, resource)| KindVersion {
            api_version,
            kind: &served.kind,
            resource: *resource,
            namespaced: served.namespaced,
            collected: served.collected(),
            graceful: served.group.is_empty() && served.plural == "pods",
        })
        .collect();
    engine.types(&types, &[], Revision::ZERO, out);
}

fn put(
    engine: &mut OwnershipEngine,
    found: &ObservedObject,
    revision: Revision,
    out: &mut Vec<OwnershipIntent>,
) {
    let meta = &found.meta;
    let owners: Vec<OwnerView<'_>> = meta
        .owner_references
        .iter()
        .map(|owner| OwnerView {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller.unwrap_or(false),
            block: owner.block_owner_deletion.unwrap_or(false),
        })
        .collect();
    let resource = engine.resource(&found.served.group, &found.served.plural);
    let object = Object {
        resource,
        namespace: &meta.namespace,
        name: &meta.name,
        uid: &meta.uid,
        revision,
        terminating: meta.terminating(),
        finalizers: Finalizers::of(meta.finalizers.iter().map(String::as_str)),
        owners: &owners,
    };
    engine.put(&object, out);
}

/// A kind that many objects point to.
pub(crate) fn shared(served: &DiscoveredResource) -> Arc<DiscoveredResource> {
    Arc::new(served.clone())
}
