//! A cluster as the ownership engine sees it: facts in, verdicts and wishes out.
//!
//! The engine decides here what the collector of the cluster will decide; nothing is written.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use tenure_core::Revision;
use tenure_ownership::{
    Action, Dangling, Engine, Explained, Finalizers, Intent, Key, Object, Order, Owner, Reference,
    Referenced, Resource, Rule, State, Type, Unresolvable, Verdict,
};

use crate::facts::{Facts, Found, Named, Unread};
use crate::meta::Meta;
use crate::served::Served;

/// What the collector wants to do with an object now.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) action: Action,
    pub(crate) rule: Rule,
}

/// How an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Standing {
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
pub enum Worth {
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

impl Worth {
    /// The word of the vocabulary, with the reason after it.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Worth::Solid => "solid",
            Worth::Waiting => "waiting",
            Worth::Dangling => "dangling",
            Worth::OtherNamespace => "dangling: other namespace",
            Worth::OtherKind => "dangling: other kind",
            Worth::OtherName => "dangling: other name",
            Worth::UnknownKind => "unresolvable: unknown kind",
            Worth::Scope => "unresolvable: scope",
            Worth::Unread => "unread",
        }
    }

    /// Whether it really ties the two.
    #[must_use]
    pub fn ties(self) -> bool {
        matches!(self, Worth::Solid | Worth::Waiting | Worth::Unread)
    }
}

/// Everything that was read, seen by the engine.
pub struct Look {
    facts: Facts,
    engine: Engine,
    by_uid: HashMap<String, usize>,
    wants: BTreeMap<String, Want>,
    statuses: HashMap<String, String>,
    /// Pods that have no grace period.
    at_once: HashSet<String>,
    /// Objects that their controllers let go, and who must be gone before.
    releases: BTreeMap<String, Vec<String>>,
}

impl Look {
    /// Lets the engine look at facts. Owners that are not among them are absent, see
    /// [`Facts::assume_unread`].
    #[must_use]
    pub fn new(facts: Facts) -> Look {
        // What is read is not chosen to collide with anything.
        let mut engine = Engine::new(Order::Total, 0);
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
        let mut order: Vec<(usize, &Found)> = by_uid
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
            if let Intent::Write(write) = intent {
                let want = Want { action: write.action, rule: write.rule };
                wants.insert(write.key.uid.to_string(), want);
            }
        }
        Look {
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
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What could not be read.
    #[must_use]
    pub fn unread(&self) -> &[Unread] {
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
    pub fn engine(&self) -> &Engine {
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
    pub fn get(&self, uid: &str) -> Option<&Found> {
        self.by_uid.get(uid).and_then(|index| self.facts.objects.get(*index))
    }

    /// The object under a name.
    #[must_use]
    pub fn find(&self, served: &Served, namespace: &str, name: &str) -> Option<&Found> {
        let resource = self.engine.find_resource(&served.group, &served.plural)?;
        let namespace = if served.namespaced { namespace } else { "" };
        self.get(&self.engine.find(resource, namespace, name)?)
    }

    pub(crate) fn want(&self, uid: &str) -> Option<&Want> {
        self.wants.get(uid)
    }

    pub(crate) fn explain(&self, uid: &str) -> Option<Explained> {
        self.engine.explain(uid)
    }

    /// Who an engine's key is.
    pub(crate) fn named(&self, key: &Key) -> Named {
        if let Some(found) = self.get(&key.uid) {
            return found.named();
        }
        let (api_version, kind) = self.engine.kind_of(key.resource);
        Named {
            kind: kind.to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            api_version: api_version.to_owned(),
            uid: key.uid.to_string(),
        }
    }

    /// Who a reference names, whether or not there is such an object.
    pub(crate) fn referred(&self, reference: &Reference, namespace: &str) -> Named {
        let served = self.facts.kinds.find(&reference.api_version, &reference.kind);
        let inside = served.is_none_or(|served| served.namespaced);
        Named {
            kind: reference.kind.to_string(),
            namespace: if inside { namespace.to_owned() } else { String::new() },
            name: reference.name.to_string(),
            api_version: reference.api_version.to_string(),
            uid: reference.uid.to_string(),
        }
    }

    pub(crate) fn worth(&self, verdict: Verdict, owner_uid: &str) -> Worth {
        let assumed = self.get(owner_uid).is_some_and(|found| found.assumed);
        match verdict {
            Verdict::Solid if assumed => Worth::Unread,
            Verdict::Solid => Worth::Solid,
            Verdict::Waiting => Worth::Waiting,
            Verdict::Dangling(Dangling::Absent) => Worth::Dangling,
            Verdict::Dangling(Dangling::OtherNamespace) => Worth::OtherNamespace,
            Verdict::Dangling(Dangling::OtherKind) => Worth::OtherKind,
            Verdict::Dangling(Dangling::OtherName) => Worth::OtherName,
            Verdict::Unresolvable(Unresolvable::UnknownKind) => Worth::UnknownKind,
            Verdict::Unresolvable(Unresolvable::Scope) => Worth::Scope,
            Verdict::Unknown => Worth::Unread,
        }
    }

    pub(crate) fn worth_of(&self, referenced: &Referenced) -> Worth {
        self.worth(referenced.verdict, &referenced.reference.uid)
    }

    pub(crate) fn standing(&self, uid: &str) -> Standing {
        match self.get(uid) {
            None => Standing::Absent,
            Some(found) if found.assumed => Standing::Unread,
            Some(_) => {
                standing(self.explain(uid).map(|explained| explained.state).unwrap_or_default())
            }
        }
    }
}

pub(crate) fn standing(state: State) -> Standing {
    if state.waiting {
        Standing::Waiting
    } else if state.orphaning {
        Standing::Orphaning
    } else if state.terminating {
        Standing::Terminating
    } else {
        Standing::Alive
    }
}

/// When an object was last written, as clusters count their writes.
fn written(meta: &Meta) -> u64 {
    meta.resource_version.parse().unwrap_or(0)
}

/// Tells the engine what is served.
fn learn(engine: &mut Engine, facts: &Facts, out: &mut Vec<Intent>) {
    let mut resources: HashMap<(&str, &str), Resource> = HashMap::new();
    let rows: Vec<(String, &Served, Resource)> = facts
        .kinds
        .all()
        .map(|served| {
            let key = (served.group.as_str(), served.plural.as_str());
            let resource = *resources.entry(key).or_insert_with(|| engine.resource(key.0, key.1));
            (served.api_version(), served, resource)
        })
        .collect();
    let types: Vec<Type<'_>> = rows
        .iter()
        .map(|(api_version, served, resource)| Type {
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

fn put(engine: &mut Engine, found: &Found, revision: Revision, out: &mut Vec<Intent>) {
    let meta = &found.meta;
    let owners: Vec<Owner<'_>> = meta
        .owner_references
        .iter()
        .map(|owner| Owner {
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
pub(crate) fn shared(served: &Served) -> Arc<Served> {
    Arc::new(served.clone())
}
