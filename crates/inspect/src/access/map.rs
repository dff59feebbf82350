//! Who reaches what: subject, consumer, origin, grant, target. References that wait for a grant are on the map as
//! well, marked.

use std::collections::BTreeSet;

use serde::Serialize;
use tenure_reference::{Consumer, RefQuery, UnmetCondition, Verdict};
use tenure_references::{Identity, Reference};

use super::{AccessSubject, ClusterAccess, NamespacedName, ObjectName, Via, identity_of};
use crate::facts::UnreadableKind;

/// Whether a reference may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReferenceState {
    /// It may.
    Live,
    /// It leaves its namespace, and no grant covers it.
    Waiting,
}

/// One way from a subject to a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Chain {
    /// Who reads.
    pub subject: AccessSubject,
    /// By way of what.
    #[serde(flatten)]
    pub via: Via,
    /// Whether the way is open.
    pub state: ReferenceState,
}

/// A consumer that reaches nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Idle {
    /// Its subject.
    pub subject: AccessSubject,
    /// Its name.
    pub consumer: String,
}

/// Which part of the map.
#[derive(Clone, Debug, Default)]
pub struct MapScope {
    /// Only what begins or ends in this namespace.
    pub namespace: Option<String>,
    /// Only what this one reaches.
    pub who: Option<Identity>,
}

impl MapScope {
    fn has(&self, via: &Via) -> bool {
        let namespace = self.namespace.as_ref();
        namespace.is_none_or(|it| via.origin.namespace == *it || via.target.namespace == *it)
    }
}

/// Who reaches what.
#[derive(Clone, Debug, Serialize)]
pub struct ReachMap {
    /// Every way, by subject, consumer and origin.
    pub chains: Vec<Chain>,
    /// Consumers that reach nothing.
    pub idle: Vec<Idle>,
    /// What could not be read, so that something may be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadableKind>,
}

impl ClusterAccess {
    /// The map, or a part of it.
    #[must_use]
    pub fn map(&self, scope: &MapScope) -> ReachMap {
        let mut consumers = self.consumers();
        if let Some(who) = &scope.who {
            consumers.retain(|consumer| who.is(&consumer.subject));
        }
        let mut chains = self.live_chains(&consumers);
        chains.extend(self.waiting_chains(&consumers));
        let reaches: BTreeSet<String> = chains.iter().map(|it| it.via.consumer.clone()).collect();
        chains.retain(|chain| scope.has(&chain.via));
        chains.sort();
        let idle = consumers.iter().filter(|consumer| !reaches.contains(&consumer.name));
        let idle = idle.map(|consumer| Idle {
            subject: AccessSubject::from(&consumer.subject),
            consumer: consumer.name.clone(),
        });
        ReachMap { chains, idle: idle.collect(), unread: self.unread() }
    }

    /// Every open way of these consumers.
    pub(super) fn live_chains(&self, consumers: &[Consumer]) -> Vec<Chain> {
        let mut targets: BTreeSet<ObjectName> = BTreeSet::new();
        for consumer in consumers {
            let who = identity_of(&consumer.subject);
            let live = self.engine().view().live_targets(&who.user, &who.groups);
            targets.extend(live.map(|target| ObjectName::from(target.object())));
        }
        let mut chains = Vec::new();
        for reader in targets.iter().flat_map(|target| self.engine().who_can(&target.as_obj())) {
            let mine = |name: &str| consumers.iter().any(|consumer| consumer.name == name);
            let witnesses = reader.witnesses.iter().filter(|witness| mine(&witness.consumer));
            chains.extend(witnesses.map(|witness| Chain {
                subject: AccessSubject::from(&reader.subject),
                via: Via::from(witness),
                state: ReferenceState::Live,
            }));
        }
        chains
    }

    /// References that lack nothing but a grant.
    fn waiting_chains(&self, consumers: &[Consumer]) -> Vec<Chain> {
        let strategies = self.snapshot.strategies();
        let references = self.snapshot.references(&strategies, &*self.expressions);
        let mut chains = Vec::new();
        for reference in references.iter().filter(|it| it.needs_grant()) {
            for consumer in consumers.iter().filter(|consumer| serves(consumer, reference)) {
                let verdict = self.engine().check(&RefQuery {
                    origin: reference.origin.as_obj(),
                    target: reference.target.as_obj(),
                    purpose: &reference.purpose,
                    class: None,
                    subject: Some(&consumer.subject),
                });
                let waits = matches!(&verdict, Verdict::NotPermitted(why) if why.code == UnmetCondition::Grant);
                if waits {
                    chains.push(Chain {
                        subject: AccessSubject::from(&consumer.subject),
                        via: waiting(reference, consumer),
                        state: ReferenceState::Waiting,
                    });
                }
            }
        }
        chains
    }
}

fn serves(consumer: &Consumer, reference: &Reference) -> bool {
    consumer.references.iter().any(|entry| {
        entry.origin == reference.origin.resource
            && entry.target == reference.target.resource
            && entry.purpose == reference.purpose
    })
}

/// A way that is closed: which strategy finds it does not matter.
fn waiting(reference: &Reference, consumer: &Consumer) -> Via {
    Via {
        consumer: consumer.name.clone(),
        origin: reference.origin.clone(),
        class: None,
        strategy: String::new(),
        version: String::new(),
        purpose: reference.purpose.clone(),
        grants: Vec::<NamespacedName>::new(),
        target: reference.target.clone(),
    }
}
