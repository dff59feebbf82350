//! What conversions came to, under the names that dashboards for upstream's server use.
//!
//! Labels are names of served definitions and their versions, and what went wrong; nothing that a client
//! or a webhook may choose.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::review::ConversionFault;

/// Upstream's bounds of calls, in seconds.
const BOUNDS: [f64; 15] =
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConversionLabels {
    crd_name: String,
    from_version: String,
    to_version: String,
    succeeded: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConversionCallLabels {
    result: &'static str,
    failure_type: &'static str,
}

/// Which conversion it was.
pub(super) struct ConversionRoute<'a> {
    pub(super) definition: &'a str,
    pub(super) from: &'a str,
    pub(super) to: &'a str,
}

/// The counters of all conversion webhooks.
pub(crate) struct ConversionMetrics {
    durations: Family<ConversionLabels, Histogram, fn() -> Histogram>,
    calls: Family<ConversionCallLabels, Counter>,
    call_durations: Family<ConversionCallLabels, Histogram, fn() -> Histogram>,
}

impl Default for ConversionMetrics {
    fn default() -> ConversionMetrics {
        ConversionMetrics {
            durations: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.001, 2.0, 15))
            }),
            calls: Family::default(),
            call_durations: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
        }
    }
}

impl ConversionMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "apiserver_crd_conversion_webhook_duration",
            "Time that conversions of custom objects by webhooks took",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "apiserver_conversion_webhook_request",
            "Calls of conversion webhooks, by what came of them",
            self.calls.clone(),
        );
        registry.register_with_unit(
            "apiserver_conversion_webhook_duration",
            "Time that calls of conversion webhooks took",
            Unit::Seconds,
            self.call_durations.clone(),
        );
    }

    pub(super) fn observe(
        &self,
        route: &ConversionRoute<'_>,
        fault: Option<ConversionFault>,
        took: Duration,
    ) {
        let version = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
        let labels = ConversionLabels {
            crd_name: route.definition.to_owned(),
            from_version: version(route.from),
            to_version: version(route.to),
            succeeded: if fault.is_none() { "true" } else { "false" },
        };
        self.durations.get_or_create_owned(&labels).observe(took.as_secs_f64());
        let labels = ConversionCallLabels {
            result: if fault.is_none() { "success" } else { "failure" },
            failure_type: fault.map_or("", ConversionFault::label),
        };
        self.calls.get_or_create_owned(&labels).inc();
        self.call_durations.get_or_create_owned(&labels).observe(took.as_secs_f64());
    }
}
