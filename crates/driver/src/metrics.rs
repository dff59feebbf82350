//! What `/metrics` says of the engines and controllers, under the names that dashboards for upstream's controller
//! manager use. Names of queues and followers are constants, so labels are bounded.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::progress::Observer;
use crate::queue::QueueStep;
use crate::shared_retention::Counters;

/// Upstream's bounds of waits and turns, in seconds.
const BOUNDS: [f64; 10] =
    [0.000_000_01, 0.000_000_1, 0.000_001, 0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0, 10.0];

/// The queues of the collector and the one of all controllers, by upstream's names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueDepths {
    pub(crate) deleting: usize,
    pub(crate) orphaning: usize,
    pub(crate) behind: u64,
    pub(crate) controllers: usize,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NameLabels {
    name: &'static str,
}

/// Everything that is shown of one driver.
#[derive(Debug)]
pub(crate) struct DriverMetrics {
    registry: Registry,
    depth: Family<NameLabels, Gauge>,
    refusals: Counter,
    up: Family<NameLabels, Gauge>,
    restarts: Family<NameLabels, Counter>,
    scrape: Mutex<()>,
}

/// What is counted of controllers as they work; clones count together.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    /// How often one panicked.
    pub(crate) panics: Counter,
    adds: Family<NameLabels, Counter>,
    retries: Family<NameLabels, Counter>,
    waited: Family<NameLabels, Histogram, fn() -> Histogram>,
    worked: Family<NameLabels, Histogram, fn() -> Histogram>,
}

/// What is counted of one controller.
pub(crate) struct ControllerMeter {
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
}

impl Default for ControllerMetrics {
    fn default() -> ControllerMetrics {
        let histogram: fn() -> Histogram = || Histogram::new(BOUNDS);
        ControllerMetrics {
            panics: Counter::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(histogram),
            worked: Family::new_with_constructor(histogram),
        }
    }
}

impl ControllerMetrics {
    /// The meter of a controller.
    pub(crate) fn of(&self, name: &'static str) -> ControllerMeter {
        let labels = NameLabels { name };
        ControllerMeter {
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            waited: self.waited.get_or_create_owned(&labels),
            worked: self.worked.get_or_create_owned(&labels),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "tenure_controller_panics",
            "How often a controller panicked about one object",
            self.panics.clone(),
        );
        registry.register(
            "workqueue_adds",
            "How often a controller was given something to look at that did not wait already",
            self.adds.clone(),
        );
        registry.register(
            "workqueue_retries",
            "How often a controller has to look at something again because a write failed",
            self.retries.clone(),
        );
        registry.register_with_unit(
            "workqueue_queue_duration",
            "How long something waited until a controller looked at it",
            Unit::Seconds,
            self.waited.clone(),
        );
        registry.register_with_unit(
            "workqueue_work_duration",
            "How long a controller had to do with one thing, its writes included",
            Unit::Seconds,
            self.worked.clone(),
        );
    }
}

impl ControllerMeter {
    /// Counts what happened to a key.
    pub(crate) fn step(&self, step: QueueStep) {
        let seconds = |took: Duration| took.as_secs_f64();
        match step {
            QueueStep::Added => {
                self.adds.inc();
            }
            QueueStep::Taken { waited } => self.waited.observe(seconds(waited)),
            QueueStep::Finished { worked, failed } => {
                self.worked.observe(seconds(worked));
                self.retries.inc_by(u64::from(failed));
            }
        }
    }
}

impl DriverMetrics {
    pub(crate) fn new(controllers: &ControllerMetrics, retention: &Arc<Counters>) -> DriverMetrics {
        let mut metrics = DriverMetrics {
            registry: Registry::default(),
            depth: Family::default(),
            refusals: Counter::default(),
            up: Family::default(),
            restarts: Family::default(),
            scrape: Mutex::default(),
        };
        let registry = &mut metrics.registry;
        registry.register(
            "workqueue_depth",
            "How much waits to be done or is under way",
            metrics.depth.clone(),
        );
        registry.register(
            "garbagecollector_controller_resources_sync_error",
            "How often the collector was refused",
            metrics.refusals.clone(),
        );
        registry.register(
            "tenure_follower_up",
            "Whether what follows the log runs",
            metrics.up.clone(),
        );
        registry.register(
            "tenure_follower_restarts",
            "How often it was started again after a panic",
            metrics.restarts.clone(),
        );
        controllers.register(registry);
        retention.register(registry);
        metrics
    }

    /// Everything as OpenMetrics text, without its end; it is looked up how much waits in each queue, how often the
    /// collector was refused so far, and which followers do their work.
    pub(crate) fn text<'a>(
        &self,
        depths: QueueDepths,
        refusals: u64,
        followers: impl Iterator<Item = (&'a Observer, bool)>,
    ) -> String {
        // One scrape at a time: two that bring a counter up to the same count would both count.
        let _one = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, depth) in [
            ("garbage_collector_attempt_to_delete", depths.deleting as u64),
            ("garbage_collector_attempt_to_orphan", depths.orphaning as u64),
            ("garbage_collector_graph_changes", depths.behind),
            ("controllers", depths.controllers as u64),
        ] {
            let depth = i64::try_from(depth).unwrap_or(i64::MAX);
            self.depth.get_or_create(&NameLabels { name }).set(depth);
        }
        raise(&self.refusals, refusals);
        for (follower, up) in followers {
            let labels = NameLabels { name: follower.name };
            self.up.get_or_create(&labels).set(i64::from(up));
            raise(&self.restarts.get_or_create_owned(&labels), follower.now().restarts);
        }
        let mut written = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode_registry(&mut written, &self.registry);
        written
    }
}

/// Brings a counter up to a count that is kept elsewhere.
fn raise(counter: &Counter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_queue_has_counters_and_times_of_its_own() {
        let controllers = ControllerMetrics::default();
        let shown = DriverMetrics::new(&controllers, &Arc::default());
        let meter = controllers.of("deployment");
        meter.step(QueueStep::Added);
        meter.step(QueueStep::Taken { waited: Duration::from_millis(5) });
        meter.step(QueueStep::Finished { worked: Duration::from_millis(50), failed: true });
        meter.step(QueueStep::Finished { worked: Duration::from_millis(50), failed: false });
        let deleting = |deleting| QueueDepths { deleting, ..QueueDepths::default() };
        shown.text(deleting(3), 2, std::iter::empty());
        let text = shown.text(deleting(1), 2, std::iter::empty());
        for line in [
            "workqueue_adds_total{name=\"deployment\"} 1",
            "workqueue_retries_total{name=\"deployment\"} 1",
            "workqueue_queue_duration_seconds_bucket{le=\"0.01\",name=\"deployment\"} 1",
            "workqueue_work_duration_seconds_count{name=\"deployment\"} 2",
            "workqueue_depth{name=\"garbage_collector_attempt_to_delete\"} 1",
            "garbagecollector_controller_resources_sync_error_total 2",
            "tenure_controller_panics_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
    }
}
