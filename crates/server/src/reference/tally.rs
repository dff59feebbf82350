//! What `/metrics` says of referential authorization (R136). No label has the name of a target.
//!
//! Decisions and changes are counted as they happen; how much there is, is looked up when somebody asks. Where that
//! means a long walk, it is made seldom and in steps, so that no commit waits for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tenure_reference::{
    Attributes, EdgeStates, Index, IndexStats, ReferenceFinding, Resource, Subject,
};

use crate::clock;

/// With more edges or grants than this, they are walked over only now and then.
const WALK_OFTEN_MAX: usize = 10_000;
/// How often, then.
const WALK_EVERY: Duration = Duration::from_secs(30);
/// How many origins or grants are looked at before a commit may come between.
const WALK_STEP: usize = 500;

/// From a tenth of a microsecond to seconds.
const BOUNDS: [f64; 15] = [
    0.000_000_1,
    0.000_000_3,
    0.000_001,
    0.000_003,
    0.000_01,
    0.000_03,
    0.000_1,
    0.000_3,
    0.001,
    0.003,
    0.01,
    0.03,
    0.1,
    1.0,
    10.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    decision: &'static str,
    verb: &'static str,
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EdgeLabels {
    origin: String,
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ObjectLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DroppedLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FindingLabels {
    finding: &'static str,
}

/// The counters of one server.
pub(crate) struct ReferenceMetrics {
    decisions: Family<DecisionLabels, Counter>,
    decision_time: Histogram,
    apply_time: Histogram,
    revocation_lag: Histogram,
    edges: Family<EdgeLabels, Gauge>,
    objects: Family<ObjectLabels, Gauge>,
    dropped: Family<DroppedLabels, Counter>,
    findings: Family<FindingLabels, Gauge>,
    invalid: Gauge,
    overflows: Counter,
    /// When edges and grants were last walked over.
    walked: Mutex<Option<Instant>>,
}

impl Default for ReferenceMetrics {
    fn default() -> ReferenceMetrics {
        ReferenceMetrics {
            decisions: Family::default(),
            decision_time: Histogram::new(BOUNDS),
            apply_time: Histogram::new(BOUNDS),
            revocation_lag: Histogram::new(BOUNDS),
            edges: Family::default(),
            objects: Family::default(),
            dropped: Family::default(),
            findings: Family::default(),
            invalid: Gauge::default(),
            overflows: Counter::default(),
            walked: Mutex::default(),
        }
    }
}

impl ReferenceMetrics {
    /// Shows everything under the names of the rule.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let seconds = [
            ("tenure_ref_decision", "Time of a decision", &self.decision_time),
            ("tenure_ref_index_apply", "Time that a commit waited for the index", &self.apply_time),
            (
                "tenure_ref_revocation_lag",
                "Time from a revocation to the end of an open watch",
                &self.revocation_lag,
            ),
        ];
        for (name, about, histogram) in seconds {
            registry.register_with_unit(name, about, Unit::Seconds, histogram.clone());
        }
        // The index changes within the commit, so it is never behind.
        registry.register_with_unit(
            "tenure_ref_index_staleness",
            "How far the index is behind",
            Unit::Seconds,
            Gauge::<i64>::default(),
        );
        let about = "Decisions about references, by what came of them";
        registry.register("tenure_ref_decisions", about, self.decisions.clone());
        let about = "References found in origins, by what they are good for";
        registry.register("tenure_ref_edges", about, self.edges.clone());
        registry.register("tenure_ref_objects", "Objects of each kind", self.objects.clone());
        let about = "Results of paths that were no references";
        registry.register("tenure_ref_dropped_references", about, self.dropped.clone());
        let about = "What is worth a look";
        registry.register("tenure_ref_findings", about, self.findings.clone());
        let about = "Objects that are stored and cannot be understood";
        registry.register("tenure_ref_invalid_objects", about, self.invalid.clone());
        let about = "Paths that found too much in an object and count for nothing there";
        registry.register("tenure_ref_limit_exceeded", about, self.overflows.clone());
    }

    /// Counts a decision; resources that nobody consumes share a name, so that nobody can make labels grow.
    pub(super) fn decided(
        &self,
        requested: &Attributes<'_>,
        is_target: bool,
        allowed: bool,
        took: Duration,
    ) {
        let resource = match (is_target, requested.group) {
            (false, _) => "other".to_owned(),
            (true, "") => requested.resource.to_owned(),
            (true, group) => format!("{}.{group}", requested.resource),
        };
        let verb = match requested.verb {
            "get" => "get",
            "list" => "list",
            _ => "watch",
        };
        let decision = if allowed { "allow" } else { "no_opinion" };
        self.decisions.get_or_create(&DecisionLabels { decision, verb, resource }).inc();
        self.decision_time.observe(took.as_secs_f64());
    }

    /// A commit waited this long for the index.
    pub(super) fn applied(&self, took: Duration) {
        self.apply_time.observe(took.as_secs_f64());
    }

    /// An open watch has ended this long after the right to it went.
    pub(crate) fn ended(&self, after: Duration) {
        self.revocation_lag.observe(after.as_secs_f64());
    }

    /// Looks up how much there is; `index` is asked for again and again.
    pub(super) fn measure<'i>(
        &self,
        index: impl Fn() -> MutexGuard<'i, Index>,
        may_write: &dyn Fn(&Subject, &Resource) -> bool,
    ) {
        let stats = index().stats();
        self.count(&stats);
        if !self.walks(&stats) {
            return;
        }
        let mut edges = BTreeMap::new();
        let mut next = Some(0);
        while let Some(from) = next {
            next = index().add_edge_states(from, WALK_STEP, &mut edges);
        }
        self.edges.clear();
        edges.iter().for_each(|(origin, states)| self.put_edges(origin, states));
        let mut unused = 0;
        let mut next = Some(0);
        while let Some(from) = next {
            next = index().add_unused_grants(from, WALK_STEP, &mut unused);
        }
        let findings = index().findings_without_grants(may_write);
        let count =
            |is: fn(&ReferenceFinding) -> bool| findings.iter().filter(|one| is(one)).count();
        let authors = count(|one| matches!(one, ReferenceFinding::AuthorsChoose { .. }));
        let selves = count(|one| matches!(one, ReferenceFinding::SelfReferencing { .. }));
        for (finding, count) in [
            ("authors-choose", authors),
            ("self-referencing-consumer", selves),
            ("unused-grant", unused),
        ] {
            self.findings.get_or_create(&FindingLabels { finding }).set(gauge(count));
        }
    }

    fn count(&self, stats: &IndexStats) {
        for (kind, count) in [
            ("ClusterReferenceConsumer", stats.consumers),
            ("ReferenceStrategy", stats.strategies),
            ("ReferenceGrant", stats.grants),
            ("origin", stats.origins),
            ("target", stats.targets),
        ] {
            self.objects.get_or_create(&ObjectLabels { kind }).set(gauge(count));
        }
        for (reason, count) in &stats.dropped {
            raise(&self.dropped.get_or_create(&DroppedLabels { reason }), *count);
        }
        raise(&self.overflows, stats.overflows);
        self.invalid.set(gauge(stats.unusable));
    }

    /// Whether the long walks are made this time.
    fn walks(&self, stats: &IndexStats) -> bool {
        let mut walked = self.walked.lock().unwrap_or_else(PoisonError::into_inner);
        let few = stats.edges.max(stats.grants) <= WALK_OFTEN_MAX;
        let due = walked.is_none_or(|at| at.elapsed() >= WALK_EVERY);
        if few || due {
            *walked = Some(clock::instant());
        }
        few || due
    }

    fn put_edges(&self, origin: &Resource, states: &EdgeStates) {
        let origin = origin.to_string();
        for (state, count) in [
            ("live", states.live),
            ("waiting_grant", states.waiting_grant),
            ("class_closed", states.class_closed),
        ] {
            let labels = EdgeLabels { origin: origin.clone(), state };
            self.edges.get_or_create(&labels).set(gauge(count));
        }
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Brings a counter up to a count that is kept elsewhere.
fn raise(counter: &Counter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}
