//! Numbers for metrics, findings for people, advice for authors. All of it walks; none of it decides.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::extract::Dropped;
use crate::grant::KeptGrant;
use crate::index::Index;
use crate::model::{Class, Consumer, Grant, Resource, Strategy, Subject, Triple};
use crate::nearest::only_part;
use crate::origin::OriginEdge;
use crate::source::active_version;

/// How much there is (R136).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Consumers.
    pub consumers: usize,
    /// Strategies.
    pub strategies: usize,
    /// Grants.
    pub grants: usize,
    /// Origins.
    pub origins: usize,
    /// References found in origins.
    pub edges: usize,
    /// Targets that are pointed at or granted.
    pub targets: usize,
    /// Objects that are stored and cannot be understood (R83).
    pub unusable: usize,
    /// Results that were no references, by the label of the reason (R76).
    pub dropped: Vec<(&'static str, u64)>,
    /// Paths that found too much in an object (R72).
    pub overflows: u64,
    /// Whether everything was seen.
    pub ready: bool,
}

/// How many edges of an origin type are in which state (R136).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeStates {
    /// May be followed, and some consumer accepts the class.
    pub live: usize,
    /// Leaves its namespace without a grant.
    pub waiting_grant: usize,
    /// Could be followed, and no consumer accepts it.
    pub class_closed: usize,
}

/// Something worth telling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceFinding {
    /// Who writes these origins decides what the consumers read in that namespace (R64).
    AuthorsChoose {
        /// The strategy.
        strategy: String,
        /// The type whose writers decide.
        origin: Resource,
        /// What can be read.
        targets: Vec<Resource>,
    },
    /// The subject may write origins it serves, so it can give itself access (R65).
    SelfReferencing {
        /// The consumer.
        consumer: String,
        /// The type it may write.
        origin: Resource,
    },
    /// The grant covers no reference.
    UnusedGrant {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// A sentence for the author of an object, with the field it is about (R38, R39, R40).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldWarning {
    /// The field; empty for the whole object.
    pub field: String,
    /// The sentence.
    pub text: String,
}

impl FieldWarning {
    fn new(field: &str, text: String) -> FieldWarning {
        FieldWarning { field: field.into(), text }
    }
}

impl Index {
    /// How much there is.
    #[must_use]
    pub fn stats(&self) -> IndexStats {
        let labels = Dropped::ALL.iter().map(|(_, label)| *label);
        IndexStats {
            consumers: self.consumers.len(),
            strategies: self.strategies.len(),
            grants: self.grants_by_name.len(),
            origins: self.origins_by_name.len(),
            edges: self.edges,
            targets: self.targets_len(),
            unusable: self.unusable.len(),
            dropped: labels.zip(self.dropped).collect(),
            overflows: self.overflows,
            ready: self.view().is_ready(),
        }
    }

    /// The states of edges, by origin type. Walks over all of them.
    #[must_use]
    pub fn edge_states(&self) -> BTreeMap<Resource, EdgeStates> {
        let mut states: BTreeMap<Resource, EdgeStates> = BTreeMap::new();
        self.add_edge_states(0, usize::MAX, &mut states);
        states
    }

    /// A part of [`Index::edge_states`]: of so many origins, from a number on; the number after them, if there are
    /// more. A host that lets others in between gets numbers that are about right.
    pub fn add_edge_states(
        &self,
        from: usize,
        most: usize,
        states: &mut BTreeMap<Resource, EdgeStates>,
    ) -> Option<usize> {
        for kept in self.origins.iter().skip(from).take(most).flatten() {
            let Some((resource, from)) = self.words.place_of(kept.place) else { continue };
            let (group, resource) = self.words.resource_of(resource);
            if kept.edges.is_empty() {
                continue;
            }
            let state = states.entry(Resource::new(group, resource)).or_default();
            for edge in kept.edges.iter().filter(|edge| self.is_in_force(edge.source)) {
                let (triple, class) = (self.triple(edge), edge.class);
                if !self.is_live(from, edge) {
                    state.waiting_grant += 1;
                } else if self.is_accepted(triple, self.words.class_of(class)) {
                    state.live += 1;
                } else {
                    state.class_closed += 1;
                }
            }
        }
        let next = from.saturating_add(most);
        (next < self.origins.len()).then_some(next)
    }

    fn is_accepted(&self, triple: u32, class: Class<'_>) -> bool {
        let mut consumers = self.consumers.values();
        self.is_open(triple)
            && consumers.any(|kept| kept.triples.contains(&triple) && kept.consumer.accepts(class))
    }

    /// What is worth telling. Whether a subject may write a type is the host's to say (R65).
    #[must_use]
    pub fn findings(
        &self,
        may_write: &dyn Fn(&Subject, &Resource) -> bool,
    ) -> Vec<ReferenceFinding> {
        let mut findings = self.findings_without_grants(may_write);
        let unused = self.unused_grants();
        findings.extend(unused.map(|grant| ReferenceFinding::UnusedGrant {
            namespace: grant.namespace.clone(),
            name: grant.name.clone(),
        }));
        findings
    }

    /// The same without what is said of grants, of which there may be very many.
    #[must_use]
    pub fn findings_without_grants(
        &self,
        may_write: &dyn Fn(&Subject, &Resource) -> bool,
    ) -> Vec<ReferenceFinding> {
        let mut findings = Vec::new();
        for kept in self.strategies.values().filter(|kept| kept.active.is_some()) {
            let strategy = &kept.strategy;
            let active = active_version(strategy, self.served.get(&strategy.origin));
            let references = active.map(|paths| paths.references.as_slice()).unwrap_or_default();
            let mut targets: Vec<Resource> =
                references.iter().map(|path| path.target.clone()).collect();
            targets.sort_unstable();
            targets.dedup();
            let (strategy, origin) = (strategy.name.clone(), strategy.origin.clone());
            findings.push(ReferenceFinding::AuthorsChoose { strategy, origin, targets });
        }
        for Consumer { name, subject, references, .. } in
            self.consumers.values().map(|kept| &kept.consumer)
        {
            let mut origins: Vec<&Resource> =
                references.iter().map(|entry| &entry.origin).collect();
            origins.sort_unstable();
            origins.dedup();
            let written = origins.into_iter().filter(|origin| may_write(subject, origin));
            findings.extend(written.map(|origin| ReferenceFinding::SelfReferencing {
                consumer: name.clone(),
                origin: origin.clone(),
            }));
        }
        findings
    }

    /// Grants that cover no reference (R133), by name.
    pub fn unused_grants(&self) -> impl Iterator<Item = &Grant> {
        let kept = self.grants_by_name.values().filter_map(|id| self.grant(*id));
        kept.filter(|kept| !self.is_used(kept)).map(|kept| &kept.grant)
    }

    /// How many there are among so many grants, from a number on, is added; the number after them, if there are
    /// more. See [`Index::add_edge_states`].
    pub fn add_unused_grants(&self, from: usize, most: usize, unused: &mut usize) -> Option<usize> {
        let some = self.grants.iter().skip(from).take(most).flatten();
        *unused += some.filter(|kept| !self.is_used(kept)).count();
        let next = from.saturating_add(most);
        (next < self.grants.len()).then_some(next)
    }

    fn is_used(&self, kept: &KeptGrant) -> bool {
        let mut from = kept.from.iter();
        from.any(|from| {
            kept.targets.iter().any(|target| self.is_referred_to(*target, kept.triple, *from))
        })
    }

    /// Whether a reference of a triple leads to a target from a namespace.
    fn is_referred_to(&self, target: u32, triple: u32, from: u32) -> bool {
        let side = self.side(target);
        if !self.is_local(from, target) {
            return side.crossing(triple, from).any(|source| self.is_in_force(source));
        }
        side.origins().any(|origin| {
            let (namespace, edges) = self.edges_at(origin, target);
            let uses =
                |edge: &OriginEdge| self.is_in_force(edge.source) && self.triple(edge) == triple;
            namespace == from && edges.iter().any(uses)
        })
    }

    /// What the author of a strategy should know, beside what its paths say (R38, R40).
    #[must_use]
    pub fn advise_strategy(&self, strategy: &Strategy) -> Vec<FieldWarning> {
        let mut advice = Vec::new();
        let served = self.served.get(&strategy.origin);
        let active = active_version(strategy, served);
        let partitioned = |other: &Strategy| {
            let paths = active_version(other, self.served.get(&other.origin));
            paths.is_some_and(|paths| paths.class_path.is_some())
        };
        let others = self.strategies.values().map(|kept| &kept.strategy);
        let others = others.filter(|other| {
            other.name != strategy.name && other.origin == strategy.origin && partitioned(other)
        });
        let mine = triples_of(strategy);
        if active.is_some_and(|paths| paths.class_path.is_none()) {
            for other in others {
                let shared = triples_of(other).into_iter().find(|triple| mine.contains(triple));
                if let Some(triple) = shared {
                    let text = format!(
                        "strategy `{}` partitions {} -> {} for `{}` by class; without a classPath here \
                         the partition is void",
                        other.name, triple.origin, triple.target, triple.purpose
                    );
                    advice.push(FieldWarning::new("versions", text));
                }
            }
        }
        let entries = self.consumers.values().flat_map(|kept| {
            kept.consumer.references.iter().map(|entry| (kept.consumer.name.as_str(), entry))
        });
        let entries: Vec<(&str, &Triple)> = entries.collect();
        advice.extend(unmatched(&mine, &entries, "ClusterReferenceConsumer"));
        advice
    }

    /// What the author of a consumer should know (R39, R40).
    #[must_use]
    pub fn advise_consumer(&self, consumer: &Consumer) -> Vec<FieldWarning> {
        let mut advice = Vec::new();
        let strategies = || self.strategies.values().map(|kept| &kept.strategy);
        let partitioned = strategies().find(|strategy| {
            let active = active_version(strategy, self.served.get(&strategy.origin));
            active.is_some_and(|paths| paths.class_path.is_some())
                && triples_of(strategy).iter().any(|triple| consumer.references.contains(triple))
        });
        if let Some(strategy) = partitioned.filter(|_| names_no_class(consumer)) {
            let text = format!(
                "strategy `{}` is partitioned by class; without classNames it matches nothing there",
                strategy.name
            );
            advice.push(FieldWarning::new("classNames", text));
        }
        let found: Vec<(&str, Vec<Triple>)> =
            strategies().map(|strategy| (strategy.name.as_str(), triples_of(strategy))).collect();
        let found: Vec<(&str, &Triple)> = found
            .iter()
            .flat_map(|(name, triples)| triples.iter().map(move |triple| (*name, triple)))
            .collect();
        advice.extend(unmatched(&consumer.references, &found, "ReferenceStrategy"));
        advice
    }

    /// What the author of a grant should know (R40).
    #[must_use]
    pub fn advise_grant(&self, grant: &Grant) -> Vec<FieldWarning> {
        let (origin, target) = (grant.origin.clone(), grant.target.clone());
        let mine = [Triple { origin, target, purpose: grant.purpose.clone() }];
        let strategies = self.strategies.values().map(|kept| &kept.strategy);
        let found: Vec<(&str, Vec<Triple>)> =
            strategies.map(|strategy| (strategy.name.as_str(), triples_of(strategy))).collect();
        let found: Vec<(&str, &Triple)> = found
            .iter()
            .flat_map(|(name, triples)| triples.iter().map(move |triple| (*name, triple)))
            .collect();
        let mut advice: Vec<FieldWarning> =
            unmatched(&mine, &found, "ReferenceStrategy").into_iter().collect();
        let entries = self.consumers.values().flat_map(|kept| {
            kept.consumer.references.iter().map(|entry| (kept.consumer.name.as_str(), entry))
        });
        let entries: Vec<(&str, &Triple)> = entries.collect();
        advice.extend(unmatched(&mine, &entries, "ClusterReferenceConsumer"));
        advice
    }
}

fn names_no_class(consumer: &Consumer) -> bool {
    consumer.class_names.is_empty() && consumer.class_selector.is_none()
}

/// The triples a strategy finds in any version.
fn triples_of(strategy: &Strategy) -> Vec<Triple> {
    let paths = strategy.versions.iter().flat_map(|version| &version.references);
    let mut triples: Vec<Triple> = paths
        .map(|path| Triple {
            origin: strategy.origin.clone(),
            target: path.target.clone(),
            purpose: path.purpose.clone(),
        })
        .collect();
    triples.sort_unstable();
    triples.dedup();
    triples
}

/// Says that no counterpart has one of the triples, and which one is nearest.
fn unmatched(mine: &[Triple], theirs: &[(&str, &Triple)], kind: &str) -> Option<FieldWarning> {
    if mine.iter().any(|triple| theirs.iter().any(|(_, other)| *other == triple)) {
        return None;
    }
    let near = mine.iter().flat_map(|triple| {
        theirs.iter().filter_map(|(name, other)| Some((*name, only_part(triple, other)?)))
    });
    let mut text = format!("no {kind} matches");
    if let Some((name, (field, _, found))) = near.min() {
        text += &format!("; nearest is `{name}`, whose {field} is `{found}`");
    }
    Some(FieldWarning::new("", text))
}
