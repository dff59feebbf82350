//! A webhook made ready to be called: what it is about, when it is asked, how it is called.

use std::sync::Arc;
use std::time::Duration;

use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Object, ObjectExt};

use crate::admit::policy::compile::CompiledPolicy;
use crate::admit::policy::matching::Matching;
use crate::webhook_client::WebhookClient;

/// How long a webhook may take that says nothing about it.
const TIMEOUT_SECONDS: i64 = 10;

/// In which version a webhook wants its reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    /// As `apiVersion` says it.
    pub(super) fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "admission.k8s.io/v1",
            ReviewVersion::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// A webhook, ready to be called.
pub(super) struct Webhook {
    /// The configuration that it stands in.
    pub(super) configuration: String,
    pub(super) name: String,
    pub(super) matching: Matching,
    /// Its match conditions, as a policy that has nothing else.
    pub(super) conditions: CompiledPolicy,
    /// Whether a call that fails is passed over.
    pub(super) ignores_failures: bool,
    /// Whether it is asked again when others changed the object after it.
    pub(super) reinvoked: bool,
    /// Whether it may be asked about what is not stored.
    pub(super) knows_dry_run: bool,
    /// None where it takes no version that the server speaks.
    pub(super) version: Option<ReviewVersion>,
    pub(super) timeout: Duration,
    pub(super) client: WebhookClient,
}

/// The webhooks of a configuration, in their order.
pub(super) fn webhooks(configuration: &Object) -> Vec<Arc<Webhook>> {
    let all = objects(configuration, "webhooks");
    all.map(|(_, webhook)| Arc::new(Webhook::new(configuration.name(), webhook))).collect()
}

impl Webhook {
    fn new(configuration: &str, webhook: &Object) -> Webhook {
        let none = Object::new();
        let target = webhook.map_at(&["clientConfig"]).unwrap_or(&none);
        let mut versions = webhook.list_at(&["admissionReviewVersions"]).iter();
        let seconds = webhook.int_at(&["timeoutSeconds"]).unwrap_or(TIMEOUT_SECONDS);
        Webhook {
            configuration: configuration.to_owned(),
            name: text(webhook, "name").to_owned(),
            matching: Matching::of_webhook(webhook),
            conditions: CompiledPolicy::of_webhook(webhook),
            ignores_failures: text(webhook, "failurePolicy") == "Ignore",
            reinvoked: text(webhook, "reinvocationPolicy") == "IfNeeded",
            knows_dry_run: matches!(text(webhook, "sideEffects"), "None" | "NoneOnDryRun"),
            version: versions.find_map(|version| match version.as_str()? {
                "v1" => Some(ReviewVersion::V1),
                "v1beta1" => Some(ReviewVersion::V1Beta1),
                _ => None,
            }),
            timeout: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
            client: WebhookClient::new(target),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::{Value, json};

    use super::*;

    fn webhook(rest: Value) -> Webhook {
        let mut object = json!({"name": "a.example.com"}).as_object().cloned().unwrap();
        object.extend(rest.as_object().cloned().unwrap());
        Webhook::new("c", &object)
    }

    #[test]
    fn r163_what_is_not_said_has_a_value() {
        let hook = webhook(json!({"admissionReviewVersions": ["v2", "v1beta1", "v1"]}));
        assert_eq!(hook.timeout, Duration::from_secs(10));
        assert_eq!(hook.version, Some(ReviewVersion::V1Beta1));
        assert!(!hook.ignores_failures && !hook.reinvoked && !hook.knows_dry_run);
        assert_eq!(webhook(json!({"admissionReviewVersions": ["v2"]})).version, None);
    }
}
