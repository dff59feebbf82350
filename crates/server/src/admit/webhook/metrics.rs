//! What calls of webhooks came to, under the names that dashboards for upstream's server use.
//!
//! Names of webhooks are labels: whoever may configure webhooks decides how many there are.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::compiled::Webhook;

/// Upstream's bounds, in seconds.
const BOUNDS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AnswerLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    code: u16,
    rejected: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusalLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FailOpenLabels {
    name: String,
    r#type: &'static str,
}

/// What came of one call.
#[derive(Clone, Copy)]
pub(super) enum CallResult {
    Allowed,
    Refused {
        code: u16,
    },
    /// It failed; `open` says that the request went on all the same.
    Failed {
        open: bool,
    },
}

/// The counters of all webhooks.
pub(crate) struct WebhookMetrics {
    durations: Family<CallLabels, Histogram, fn() -> Histogram>,
    requests: Family<AnswerLabels, Counter>,
    refusals: Family<RefusalLabels, Counter>,
    failed_open: Family<FailOpenLabels, Counter>,
}

impl Default for WebhookMetrics {
    fn default() -> WebhookMetrics {
        WebhookMetrics {
            durations: Family::new_with_constructor(|| Histogram::new(BOUNDS)),
            requests: Family::default(),
            refusals: Family::default(),
            failed_open: Family::default(),
        }
    }
}

impl WebhookMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "apiserver_admission_webhook_admission_duration",
            "Time that calls of admission webhooks took",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_request",
            "Calls of admission webhooks, by what came of them",
            self.requests.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_rejection_count",
            "Requests that an admission webhook refused, or that failed with its call",
            self.refusals.clone(),
        );
        registry.register(
            "apiserver_admission_webhook_fail_open_count",
            "Requests that went on although the call of an admission webhook failed",
            self.failed_open.clone(),
        );
    }

    pub(super) fn observe(
        &self,
        hook: &Webhook,
        (mutating, operation): (bool, &'static str),
        result: CallResult,
        took: Duration,
    ) {
        let name = || hook.name.clone();
        let r#type = if mutating { "admit" } else { "validating" };
        let (code, rejected, error_type) = match result {
            CallResult::Allowed => (200, false, None),
            CallResult::Refused { code } => (code, true, Some("no_error")),
            CallResult::Failed { open } => (503, !open, Some("calling_webhook_error")),
        };
        let text = if rejected { "true" } else { "false" };
        let labels = CallLabels { name: name(), r#type, operation, rejected: text };
        self.durations.get_or_create_owned(&labels).observe(took.as_secs_f64());
        let labels = AnswerLabels { name: name(), r#type, operation, code, rejected: text };
        self.requests.get_or_create_owned(&labels).inc();
        if let Some(error_type) = error_type.filter(|_| rejected) {
            let labels = RefusalLabels { name: name(), r#type, operation, error_type };
            self.refusals.get_or_create_owned(&labels).inc();
        }
        if let CallResult::Failed { open: true } = result {
            self.failed_open.get_or_create_owned(&FailOpenLabels { name: name(), r#type }).inc();
        }
    }
}
