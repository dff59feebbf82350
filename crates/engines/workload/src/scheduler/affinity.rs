//! Whom a pod must be near, whom it must not be near, and how evenly it must be spread (SC2).
//!
//! Only what is required is here; what is preferred is in `preference`.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_core::selector::{LabelRequirement, LabelRule, LabelSelector};
use tenure_machinery::{Object, ObjectExt};

use super::CandidateNode;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, placement, selector};

/// One required term of affinity or anti-affinity, read.
pub(super) struct Term {
    pub(super) topology: String,
    selector: Option<LabelSelector>,
    /// `None` is the namespace of the pod.
    namespaces: BTreeSet<String>,
}

impl Term {
    pub(super) fn covers(&self, pod: &Object) -> bool {
        self.namespaces.contains(pod.namespace())
            && self.selector.as_ref().is_some_and(|wanted| selector::matches(wanted, pod))
    }
}

/// A constraint on the spread of pods, and how many are in each domain.
struct Spread {
    topology: String,
    skew: usize,
    own: usize,
    domains: BTreeMap<String, usize>,
}

/// What the pods that are there mean for one that waits.
pub(super) struct Company {
    /// For each term the domains where a wanted pod is; `None` when any node with the key will do.
    near: Vec<(String, Option<BTreeSet<String>>)>,
    /// Domains that the pod itself avoids.
    away: BTreeSet<(String, String)>,
    /// Domains where somebody avoids the pod.
    shunned: BTreeSet<(String, String)>,
    spreads: Vec<Spread>,
}

impl Company {
    /// Looks at all pods on all nodes.
    pub(super) fn of(
        view: &dyn ClusterView,
        pod: &VersionedObject,
        places: &[CandidateNode],
    ) -> Company {
        let near = terms(view, pod, "podAffinity").into_iter().map(|term| {
            let found = domains(&term, places);
            // The first of a group that wants its own company may go anywhere.
            let free = found.is_empty() && term.covers(pod);
            (term.topology, (!free).then_some(found))
        });
        let near = near.collect();
        let mut away = BTreeSet::new();
        for term in terms(view, pod, "podAntiAffinity") {
            let found = domains(&term, places).into_iter();
            away.extend(found.map(|domain| (term.topology.clone(), domain)));
        }
        Company { near, away, shunned: shunned(view, pod, places), spreads: spreads(pod, places) }
    }

    /// Why the pod may not go there.
    pub(super) fn against(&self, _pod: &Object, place: &CandidateNode) -> Option<&'static str> {
        let label = |key: &str| owner::label(&place.node, key).map(ToString::to_string);
        let near = self.near.iter().all(|(topology, found)| {
            label(topology).is_some_and(|here| found.as_ref().is_none_or(|f| f.contains(&here)))
        });
        if !near {
            return Some("node(s) didn't match pod affinity rules");
        }
        let hit = |set: &BTreeSet<(String, String)>| {
            set.iter().any(|(topology, domain)| label(topology).as_ref() == Some(domain))
        };
        if hit(&self.away) {
            return Some("node(s) didn't match pod anti-affinity rules");
        }
        if hit(&self.shunned) {
            return Some("node(s) didn't satisfy existing pods anti-affinity rules");
        }
        for spread in &self.spreads {
            let Some(here) = label(&spread.topology) else {
                return Some(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                );
            };
            let least = spread.domains.values().min().copied().unwrap_or_default();
            let count = spread.domains.get(&here).copied().unwrap_or_default();
            if count + spread.own > least + spread.skew {
                return Some("node(s) didn't match pod topology spread constraints");
            }
        }
        None
    }
}

/// The required terms of a pod.
fn terms(view: &dyn ClusterView, pod: &Object, kind: &str) -> Vec<Term> {
    let path = ["spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"];
    let listed = pod.list_at(&path).iter().filter_map(Value::as_object);
    listed.map(|one| term(view, pod, one)).collect()
}

/// One term of a pod.
pub(super) fn term(view: &dyn ClusterView, pod: &Object, term: &Object) -> Term {
    Term {
        topology: term.str_at(&["topologyKey"]).unwrap_or_default().to_string(),
        selector: term_selector(term, pod),
        namespaces: namespaces(view, term, pod),
    }
}

/// The selector of a term, with the labels of the pod itself where `matchLabelKeys` names them.
pub(super) fn term_selector(term: &Object, pod: &Object) -> Option<LabelSelector> {
    let read = selector::at(term, &["labelSelector"])?;
    let keys = term.list_at(&["matchLabelKeys"]).iter().filter_map(Value::as_str);
    let own: Vec<LabelRequirement> = keys
        .filter_map(|key| {
            let value = owner::label(pod, key)?.to_string();
            Some(LabelRequirement { key: key.to_string(), rule: LabelRule::Equals(value) })
        })
        .collect();
    if own.is_empty() {
        return Some(read);
    }
    let mut all = read.requirements().to_vec();
    all.extend(own);
    Some(LabelSelector::new(all))
}

fn namespaces(view: &dyn ClusterView, term: &Object, pod: &Object) -> BTreeSet<String> {
    let named = term.list_at(&["namespaces"]).iter().filter_map(Value::as_str);
    let mut found: BTreeSet<String> = named.map(ToString::to_string).collect();
    if let Some(wanted) = selector::at(term, &["namespaceSelector"]) {
        for namespace in view.list(BuiltinResource::Namespaces, None) {
            if selector::matches(&wanted, &namespace) {
                found.insert(namespace.name().to_string());
            }
        }
    } else if found.is_empty() {
        found.insert(pod.namespace().to_string());
    }
    found
}

/// The domains in which a pod is that a term covers.
fn domains(term: &Term, places: &[CandidateNode]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for place in places {
        let Some(domain) = owner::label(&place.node, &term.topology) else { continue };
        if place.pods.iter().any(|pod| term.covers(pod)) {
            found.insert(domain.to_string());
        }
    }
    found
}

/// The domains in which a pod is that will not have this one near.
fn shunned(
    view: &dyn ClusterView,
    pod: &Object,
    places: &[CandidateNode],
) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for place in places {
        for other in &place.shy {
            for term in terms(view, other, "podAntiAffinity") {
                let domain = owner::label(&place.node, &term.topology);
                if let Some(domain) = domain.filter(|_| term.covers(pod)) {
                    let domain = domain.to_string();
                    found.insert((term.topology, domain));
                }
            }
        }
    }
    found
}

/// The constraints that forbid, each with the pods that count for it in every domain.
fn spreads(pod: &Object, places: &[CandidateNode]) -> Vec<Spread> {
    let listed = pod.list_at(&["spec", "topologySpreadConstraints"]).iter();
    let listed = listed.filter_map(Value::as_object);
    listed
        .filter(|spread| spread.str_at(&["whenUnsatisfiable"]) != Some("ScheduleAnyway"))
        .map(|spread| {
            let topology = spread.str_at(&["topologyKey"]).unwrap_or_default().to_string();
            let wanted = term_selector(spread, pod);
            let counts = |other: &Object| {
                other.namespace() == pod.namespace()
                    && !owner::deleting(other)
                    && wanted.as_ref().is_some_and(|wanted| selector::matches(wanted, other))
            };
            let mut domains: BTreeMap<String, usize> = BTreeMap::new();
            for place in places {
                let domain = owner::label(&place.node, &topology)
                    .filter(|_| counts_for(spread, pod, &place.node));
                let Some(domain) = domain else { continue };
                let here = place.pods.iter().filter(|other| counts(other)).count();
                *domains.entry(domain.to_string()).or_default() += here;
            }
            let skew = spread.int_at(&["maxSkew"]).unwrap_or(1);
            let least = spread.int_at(&["minDomains"]).and_then(|n| usize::try_from(n).ok());
            if least.is_some_and(|least| domains.len() < least) {
                // Too few domains: the missing ones count as empty.
                domains.insert(String::new(), 0);
            }
            let skew = usize::try_from(skew).unwrap_or(1);
            Spread { topology, skew, own: usize::from(counts(pod)), domains }
        })
        .collect()
}

/// Whether a node counts for a constraint: by default one that the pod's node affinity allows, whatever
/// its taints; `nodeAffinityPolicy` and `nodeTaintsPolicy` say otherwise.
pub(super) fn counts_for(spread: &Object, pod: &Object, node: &Object) -> bool {
    let all = spread.str_at(&["nodeAffinityPolicy"]) == Some("Ignore");
    let attracts = || pod.map_at(&["spec"]).is_none_or(|spec| placement::attracts(spec, node));
    let tainted = || {
        spread.str_at(&["nodeTaintsPolicy"]) == Some("Honor")
            && placement::repels(
                node,
                pod.list_at(&["spec", "tolerations"]),
                &["NoSchedule", "NoExecute"],
            )
    };
    (all || attracts()) && !tainted()
}
