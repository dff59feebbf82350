//! What `/metrics` says of shares, under the names that dashboards for upstream's server use.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upstream's bounds of waiting, in seconds.
const WAIT_BOUNDS: [f64; 13] =
    [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

/// Which gate: its level and what goes through it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct Which {
    pub(super) priority_level: &'static str,
    pub(super) request_kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RejectionLabels {
    priority_level: &'static str,
    request_kind: &'static str,
    reason: &'static str,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestKindLabels {
    request_kind: &'static str,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Of {
    of: &'static str,
}

/// What a gate counts as it goes.
pub(super) struct GateMetrics {
    /// How many were refused for want of room.
    pub(super) full: Counter,
    /// How many were refused because they waited too long.
    pub(super) late: Counter,
    /// How long those waited who got a seat after waiting.
    pub(super) waits: Histogram,
}

/// What is shown of all gates and budgets.
pub(super) struct FairnessMetrics {
    limit: Family<Which, Gauge>,
    taken: Family<Which, Gauge>,
    waiting: Family<Which, Gauge>,
    in_queue: Family<RequestKindLabels, Gauge>,
    refused: Family<RejectionLabels, Counter>,
    waits: Family<Which, Histogram, fn() -> Histogram>,
    held: Family<Of, Gauge>,
    holders: Family<Of, Gauge>,
}

impl Default for FairnessMetrics {
    fn default() -> FairnessMetrics {
        FairnessMetrics {
            limit: Family::default(),
            taken: Family::default(),
            waiting: Family::default(),
            in_queue: Family::default(),
            refused: Family::default(),
            waits: Family::new_with_constructor(|| Histogram::new(WAIT_BOUNDS)),
            held: Family::default(),
            holders: Family::default(),
        }
    }
}

impl FairnessMetrics {
    /// The counters of one gate.
    pub(super) fn counts(&self, which: Which) -> GateMetrics {
        let Which { priority_level, request_kind } = which;
        let refused = |reason| {
            self.refused.get_or_create_owned(&RejectionLabels {
                priority_level,
                request_kind,
                reason,
            })
        };
        let waits = self.waits.get_or_create_owned(&which);
        GateMetrics { full: refused("queue-full"), late: refused("time-out"), waits }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_flowcontrol_nominal_limit_seats",
            "Seats of a priority level: how much may run at a time",
            self.limit.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_current_executing_seats",
            "Seats that are taken now",
            self.taken.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_current_inqueue_requests",
            "Requests that wait for a seat now",
            self.waiting.clone(),
        );
        registry.register(
            "apiserver_current_inqueue_requests",
            "Requests that wait for a seat now, on all levels",
            self.in_queue.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_rejected_requests",
            "Requests answered with 429, by reason",
            self.refused.clone(),
        );
        registry.register_with_unit(
            "apiserver_flowcontrol_request_wait_duration",
            "How long requests waited for a seat, those that found one at once left out",
            Unit::Seconds,
            self.waits.clone(),
        );
        registry.register(
            "tenure_held",
            "What users hold now: bytes of requests and answers on their way, open watches",
            self.held.clone(),
        );
        registry.register(
            "tenure_holders",
            "How many users hold some of it now",
            self.holders.clone(),
        );
    }

    /// Notes the load of a gate.
    pub(super) fn gate(&self, which: Which, seats: u32, (taken, waiting): (u64, u64)) {
        self.limit.get_or_create(&which).set(seats.into());
        self.taken.get_or_create(&which).set(number(taken));
        self.waiting.get_or_create(&which).set(number(waiting));
        self.in_queue
            .get_or_create(&RequestKindLabels { request_kind: which.request_kind })
            .inc_by(number(waiting));
    }

    /// Forgets sums, which are made anew.
    pub(super) fn begin(&self) {
        self.in_queue.clear();
    }

    /// Notes the load of a budget.
    pub(super) fn budget(&self, of: &'static str, (held, holders): (u64, usize)) {
        self.held.get_or_create(&Of { of }).set(number(held));
        self.holders.get_or_create(&Of { of }).set(number(holders as u64));
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
