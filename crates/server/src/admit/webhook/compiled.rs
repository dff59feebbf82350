//! A webhook made ready to be called: what it is about, when it is asked, where it is.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Object, ObjectExt};
use tenure_outbound::{Connect, HttpsClient, TlsSettings};

use crate::admit::policy::compile::CompiledPolicy;
use crate::admit::policy::matching::Matching;

/// How long a webhook may take that says nothing about it.
const TIMEOUT_SECONDS: i64 = 10;
/// The port of a service that names none.
const PORT: i64 = 443;

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
    /// Without the timeout, which is added to each call.
    pub(super) url: String,
    tls: TlsSettings,
    /// Made for the first call, kept while the configuration stands.
    client: OnceLock<Result<HttpsClient, String>>,
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
        let (url, server_name) = address(target);
        let mut versions = webhook.list_at(&["admissionReviewVersions"]).iter();
        let seconds = webhook.int_at(&["timeoutSeconds"]).unwrap_or(TIMEOUT_SECONDS);
        let authorities = STANDARD.decode(text(target, "caBundle")).unwrap_or_default();
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
            url,
            tls: TlsSettings { authorities, server_name, ..TlsSettings::default() },
            client: OnceLock::new(),
        }
    }

    /// Who calls it.
    pub(super) fn client(&self, connect: &Arc<dyn Connect>) -> Result<&HttpsClient, &str> {
        let made = self.client.get_or_init(|| {
            HttpsClient::new(self.tls.clone(), Arc::clone(connect))
                .map_err(|error| error.to_string())
        });
        made.as_ref().map_err(String::as_str)
    }

    /// Where it is, without what a path or a port may give away.
    #[cfg(test)]
    pub(super) fn server_name(&self) -> Option<&str> {
        self.tls.server_name.as_deref()
    }
}

/// The URL of a webhook, and the name that its server proves where that is not the host.
fn address(target: &Object) -> (String, Option<String>) {
    if let Some(url) = target.get("url").and_then(Value::as_str) {
        return (url.to_owned(), None);
    }
    let none = Object::new();
    let service = target.map_at(&["service"]).unwrap_or(&none);
    let host = format!("{}.{}.svc", text(service, "name"), text(service, "namespace"));
    let port = service.int_at(&["port"]).unwrap_or(PORT);
    let path = text(service, "path").trim_start_matches('/');
    (format!("https://{host}:{port}/{path}"), Some(host))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use super::*;

    fn webhook(rest: Value) -> Webhook {
        let mut object = json!({"name": "a.example.com"}).as_object().cloned().unwrap();
        object.extend(rest.as_object().cloned().unwrap());
        Webhook::new("c", &object)
    }

    #[test]
    fn r163_a_service_is_called_by_its_name_and_proves_it() {
        let service = json!({"name": "hooks", "namespace": "ns"});
        let of = |service: &Value| webhook(json!({"clientConfig": {"service": service}}));
        let plain = of(&service);
        assert_eq!(plain.url, "https://hooks.ns.svc:443/");
        assert_eq!(plain.server_name(), Some("hooks.ns.svc"));
        let mut full = service.clone();
        full["path"] = json!("/a/b");
        full["port"] = json!(8443);
        assert_eq!(of(&full).url, "https://hooks.ns.svc:8443/a/b");
    }

    #[test]
    fn r163_a_url_stands_as_it_is() {
        let hook = webhook(json!({"clientConfig": {"url": "https://127.0.0.1:9443/mutate"}}));
        assert_eq!(hook.url, "https://127.0.0.1:9443/mutate");
        assert_eq!(hook.server_name(), None);
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
