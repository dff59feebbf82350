//! What authorizers decided and what calls of webhooks came to, under upstream's names (R154e).
//!
//! Names of authorizers are labels: whoever writes the configuration decides how many there are.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::clock;

/// The bounds of calls, in seconds.
const CALL_BOUNDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// The bounds of conditions, in seconds.
const CONDITION_BOUNDS: [f64; 7] = [0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AuthorizationDecisionLabels {
    r#type: &'static str,
    name: String,
    decision: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EvaluationLabels {
    name: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConditionLabels {
    r#type: &'static str,
    name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReloadLabels {
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ConfigurationLabels {
    hash: String,
}

/// The counters of all authorizers.
pub(crate) struct AuthorizationMetrics {
    decisions: Family<AuthorizationDecisionLabels, Counter>,
    evaluations: Family<EvaluationLabels, Counter>,
    durations: Family<EvaluationLabels, Histogram, fn() -> Histogram>,
    failed_open: Family<EvaluationLabels, Counter>,
    condition_errors: Family<ConditionLabels, Counter>,
    condition_exclusions: Family<ConditionLabels, Counter>,
    condition_seconds: Family<ConditionLabels, Histogram, fn() -> Histogram>,
    reloads: Family<ReloadLabels, Counter>,
    reloaded_at: Family<ReloadLabels, Gauge>,
    configuration: Family<ConfigurationLabels, Gauge>,
}

impl Default for AuthorizationMetrics {
    fn default() -> AuthorizationMetrics {
        AuthorizationMetrics {
            decisions: Family::default(),
            evaluations: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(CALL_BOUNDS)),
            failed_open: Family::default(),
            condition_errors: Family::default(),
            condition_exclusions: Family::default(),
            condition_seconds: Family::new_with_constructor(|| Histogram::new(CONDITION_BOUNDS)),
            reloads: Family::default(),
            reloaded_at: Family::default(),
            configuration: Family::default(),
        }
    }
}

/// The conditions of a webhook, as labels name them.
fn of_conditions(name: &str) -> ConditionLabels {
    ConditionLabels { r#type: "Webhook", name: name.to_owned() }
}

impl AuthorizationMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_authorization_decisions",
            "Decisions to allow or deny, by the authorizer that made them",
            self.decisions.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_evaluations",
            "Calls of authorization webhooks, by what came of them",
            self.evaluations.clone(),
        );
        registry.register_with_unit(
            "apiserver_authorization_webhook_duration",
            "Time that calls of authorization webhooks took",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "apiserver_authorization_webhook_evaluations_fail_open",
            "Calls of authorization webhooks that failed and were taken for no opinion",
            self.failed_open.clone(),
        );
        registry.register(
            "apiserver_authorization_match_condition_evaluation_errors",
            "Match conditions of authorization webhooks that failed",
            self.condition_errors.clone(),
        );
        registry.register(
            "apiserver_authorization_match_condition_exclusions",
            "Questions that match conditions kept from an authorization webhook",
            self.condition_exclusions.clone(),
        );
        registry.register_with_unit(
            "apiserver_authorization_match_condition_evaluation",
            "Time that match conditions of authorization webhooks took",
            Unit::Seconds,
            self.condition_seconds.clone(),
        );
        registry.register(
            "apiserver_authorization_config_controller_automatic_reloads",
            "Changes of the authorization configuration that were seen, by what came of them",
            self.reloads.clone(),
        );
        registry.register_with_unit(
            "apiserver_authorization_config_controller_automatic_reload_last_timestamp",
            "When the authorization configuration was last read again",
            Unit::Seconds,
            self.reloaded_at.clone(),
        );
        registry.register(
            "apiserver_authorization_config_controller_last_config_info",
            "The hash of the authorization configuration that is in force",
            self.configuration.clone(),
        );
    }

    /// Those that count what one authorizer allows and denies.
    pub(super) fn decisions(&self, r#type: &'static str, name: &str) -> (Counter, Counter) {
        let of = |decision| {
            let labels = AuthorizationDecisionLabels { r#type, name: name.to_owned(), decision };
            self.decisions.get_or_create_owned(&labels)
        };
        (of("allowed"), of("denied"))
    }

    pub(super) fn call(&self, name: &str, result: &'static str, took: Duration) {
        let labels = EvaluationLabels { name: name.to_owned(), result };
        self.evaluations.get_or_create_owned(&labels).inc();
        self.durations.get_or_create_owned(&labels).observe(took.as_secs_f64());
    }

    pub(super) fn failed_open(&self, name: &str, result: &'static str) {
        let labels = EvaluationLabels { name: name.to_owned(), result };
        self.failed_open.get_or_create_owned(&labels).inc();
    }

    pub(super) fn conditions(&self, name: &str, held: Result<bool, ()>, took: Duration) {
        let labels = of_conditions(name);
        self.condition_seconds.get_or_create_owned(&labels).observe(took.as_secs_f64());
        match held {
            Ok(true) => {}
            Ok(false) => {
                self.condition_exclusions.get_or_create_owned(&labels).inc();
            }
            Err(()) => {
                self.condition_errors.get_or_create_owned(&labels).inc();
            }
        }
    }

    /// A changed configuration was read, and is in force if it could be.
    pub(crate) fn reloaded(&self, ok: bool) {
        let labels = ReloadLabels { status: if ok { "success" } else { "failure" } };
        self.reloads.get_or_create_owned(&labels).inc();
        self.reloaded_at.get_or_create_owned(&labels).set(clock::timestamp().as_second());
    }

    /// The configuration that is in force has this text.
    pub(crate) fn in_force(&self, text: &[u8]) {
        let digest = ring::digest::digest(&ring::digest::SHA256, text);
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        self.configuration.clear();
        let labels = ConfigurationLabels { hash: format!("sha256:{hex}") };
        self.configuration.get_or_create_owned(&labels).set(1);
    }
}
