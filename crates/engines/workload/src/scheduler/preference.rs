//! Which of the nodes that fit a pod likes best (SC2): preferred affinity of nodes and pods, spreads that
//! do not forbid, taints that only ask.
//!
//! ```text
//!   nodes that fit ──► points of each wish, 0 to 100 ──► weighted sum ──► the best; ties: the emptiest
//! ```
//!
//! Weights are those of upstream's plugins. Of pods that are there already, only what the new one wishes
//! counts, not what they wish.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::CandidateNode;
use super::affinity::{counts_for, term, term_selector};
use crate::view::{ClusterView, VersionedObject};
use crate::{owner, placement, selector};

/// The most points that one wish gives a node.
const POINTS: i64 = 100;
/// What the wishes weigh against one another.
const TAINTS: i64 = 3;
const NODES: i64 = 2;
const PODS: i64 = 2;
const SPREADS: i64 = 2;
/// The taint effect that asks and does not forbid.
const ASKS: &str = "PreferNoSchedule";
/// The member under which wishes of affinity stand.
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Something counted in every domain of a topology.
struct Counted {
    topology: String,
    domains: BTreeMap<String, i64>,
}

impl Counted {
    fn at(&self, node: &Object) -> Option<i64> {
        let domain = owner::label(node, &self.topology)?;
        Some(self.domains.get(domain).copied().unwrap_or_default())
    }
}

/// What a pod wishes.
pub(super) struct Preferences<'a> {
    pod: &'a Object,
    nodes: Vec<(i64, &'a Object)>,
    /// Wanted company counts upwards, unwanted downwards.
    pods: Vec<Counted>,
    spreads: Vec<Counted>,
    /// Whether any node has a taint that asks.
    wary: bool,
}

/// Whether any node has a taint that asks pods to stay away.
pub(super) fn any_asks(places: &[CandidateNode]) -> bool {
    places.iter().any(|place| asking(&place.node, &[]) > 0)
}

/// How many taints of a node ask a pod to stay away.
fn asking(node: &Object, tolerations: &[Value]) -> i64 {
    let taints = node.list_at(&["spec", "taints"]).iter().filter_map(Value::as_object);
    let asking = taints.filter(|taint| taint.str_at(&["effect"]) == Some(ASKS)).filter(|taint| {
        !tolerations.iter().any(|toleration| placement::tolerates(toleration, taint))
    });
    i64::try_from(asking.count()).unwrap_or(i64::MAX)
}

impl<'a> Preferences<'a> {
    /// What the pod wishes; nothing where it wishes nothing.
    pub(super) fn of(
        view: &dyn ClusterView,
        pod: &'a VersionedObject,
        places: &[CandidateNode],
        wary: bool,
    ) -> Option<Preferences<'a>> {
        let pod: &'a Object = pod;
        let nodes = weighted(pod, "nodeAffinity", "preference");
        let pods = company(view, pod, places);
        let spreads = spreads(pod, places);
        let any = wary || !nodes.is_empty() || !pods.is_empty() || !spreads.is_empty();
        any.then_some(Preferences { pod, nodes, pods, spreads, wary })
    }

    /// The best of the nodes that fit; of equals the first.
    pub(super) fn best(&self, fitting: &[usize], places: &[CandidateNode]) -> Option<usize> {
        let found: Vec<(usize, &Object)> = fitting
            .iter()
            .filter_map(|index| Some((*index, &*places.get(*index)?.node.object)))
            .collect();
        let mut points: Vec<i64> = found.iter().map(|_| 0).collect();
        let mut add = |weight: i64, each: Vec<i64>| {
            for (sum, one) in points.iter_mut().zip(each) {
                *sum += weight * one;
            }
        };
        if !self.nodes.is_empty() {
            add(NODES, stretched(found.iter().map(|(_, node)| self.liked(node)).collect()));
        }
        if !self.pods.is_empty() {
            let near = |node: &Object| self.pods.iter().filter_map(|one| one.at(node)).sum();
            add(PODS, stretched(found.iter().map(|(_, node)| near(node)).collect()));
        }
        if !self.spreads.is_empty() {
            add(SPREADS, stretched(found.iter().map(|(_, node)| self.even(node)).collect()));
        }
        if self.wary {
            let tolerations = self.pod.list_at(&["spec", "tolerations"]);
            let away = |node: &Object| -asking(node, tolerations);
            add(TAINTS, stretched(found.iter().map(|(_, node)| away(node)).collect()));
        }
        let best = points.iter().max().copied()?;
        found.iter().zip(&points).find(|(_, sum)| **sum == best).map(|((index, _), _)| *index)
    }

    /// The weights of the terms of node affinity that a node matches.
    fn liked(&self, node: &Object) -> i64 {
        let matching = self.nodes.iter().filter(|(_, term)| placement::term_matches(term, node));
        matching.map(|(weight, _)| weight).sum()
    }

    /// The fewer there are already, the more; a node without the label comes last.
    fn even(&self, node: &Object) -> i64 {
        let counts: Option<Vec<i64>> = self.spreads.iter().map(|spread| spread.at(node)).collect();
        let worst =
            || self.spreads.iter().flat_map(|s| s.domains.values()).sum::<i64>().saturating_add(1);
        -counts.map_or_else(worst, |counts| counts.iter().sum())
    }
}

/// Numbers laid between 0 and [`POINTS`]; equal ones say nothing.
fn stretched(numbers: Vec<i64>) -> Vec<i64> {
    let least = numbers.iter().min().copied().unwrap_or_default();
    let span = numbers.iter().max().copied().unwrap_or_default().saturating_sub(least);
    let of = |number: i64| match span {
        0 => 0,
        span => number.saturating_sub(least).saturating_mul(POINTS) / span,
    };
    numbers.into_iter().map(of).collect()
}

/// The wishes of one kind of affinity: weight and what stands beside it.
fn weighted<'a>(pod: &'a Object, kind: &str, member: &str) -> Vec<(i64, &'a Object)> {
    let listed = pod.list_at(&["spec", "affinity", kind, PREFERRED]).iter();
    let listed = listed.filter_map(Value::as_object);
    listed
        .filter_map(|wish| Some((wish.int_at(&["weight"])?, wish.map_at(&[member])?)))
        .filter(|(weight, _)| *weight != 0)
        .collect()
}

/// Whom the pod would like near and far, with how many of them are in each domain.
fn company(view: &dyn ClusterView, pod: &Object, places: &[CandidateNode]) -> Vec<Counted> {
    let signed = [("podAffinity", 1), ("podAntiAffinity", -1)].into_iter();
    let wishes = signed.flat_map(|(kind, sign)| {
        weighted(pod, kind, "podAffinityTerm").into_iter().map(move |(w, term)| (w * sign, term))
    });
    wishes
        .map(|(weight, wish)| {
            let term = term(view, pod, wish);
            let here = |other: &VersionedObject| term.covers(other);
            let mut counted = counted(&term.topology, places.iter(), &here);
            counted.domains.values_mut().for_each(|count| *count *= weight);
            counted
        })
        .collect()
}

/// The constraints that do not forbid, with who is in each domain.
fn spreads(pod: &Object, places: &[CandidateNode]) -> Vec<Counted> {
    let listed = pod.list_at(&["spec", "topologySpreadConstraints"]).iter();
    let soft = listed
        .filter_map(Value::as_object)
        .filter(|spread| spread.str_at(&["whenUnsatisfiable"]) == Some("ScheduleAnyway"));
    soft.map(|spread| {
        let wanted = term_selector(spread, pod);
        let here = |other: &VersionedObject| {
            other.namespace() == pod.namespace()
                && !owner::deleting(other)
                && wanted.as_ref().is_some_and(|wanted| selector::matches(wanted, other))
        };
        let topology = spread.str_at(&["topologyKey"]).unwrap_or_default();
        let places = places.iter().filter(|place| counts_for(spread, pod, &place.node));
        counted(topology, places, &here)
    })
    .collect()
}

fn counted<'a>(
    topology: &str,
    places: impl Iterator<Item = &'a CandidateNode>,
    here: &dyn Fn(&VersionedObject) -> bool,
) -> Counted {
    let mut domains: BTreeMap<String, i64> = BTreeMap::new();
    for place in places {
        let Some(domain) = owner::label(&place.node, topology) else { continue };
        let found = place.pods.iter().filter(|other| here(other)).count();
        *domains.entry(domain.to_string()).or_default() += i64::try_from(found).unwrap_or_default();
    }
    Counted { topology: topology.to_string(), domains }
}
