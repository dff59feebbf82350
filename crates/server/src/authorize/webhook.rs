//! A webhook that is asked who may do what: its conditions, its cache, its calls (R154b, R154c).
//!
//! The review that it gets is upstream's, and so is what its answer means: `denied` ends the matter, `allowed` too,
//! neither leaves it to the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Request, StatusCode, Uri};
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};
use tenure_outbound::{CallError, Connect, Direct, HttpsClient, TlsSettings, full};

use super::cache::ReviewCache;
use super::conditions::{self, MatchConditions};
use super::configuration::AuthorizationWebhookConfiguration;
use super::consultation::Consultation;
use super::metrics::AuthorizationMetrics;
use super::question::AccessQuestion;
use super::room::CallRoom;
use crate::authenticate::User;
use crate::clock;

/// The group of reviews.
const GROUP: &str = "authorization.k8s.io";
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// The longest reason that is passed on.
const REASON_BYTES_MAX: usize = 4 * 1024;
/// Answers to questions of which whoever asks has chosen so much are not kept, as upstream.
const CHOSEN_BYTES_MAX: usize = 10_000;
/// How often a server that fails is called, as upstream, and how long is waited before the second time.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// How long all calls about one question may take, whatever one of them may.
const ANSWER_MOST: Duration = Duration::from_secs(34);

/// Where a webhook is, and as whom it is called.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WebhookEndpoint {
    /// With `https` and a path.
    pub url: String,
    /// Whom to trust, and the certificate to show.
    pub tls: TlsSettings,
    /// The Authorization header, if there is to be one.
    pub authorization: Option<String>,
}

impl std::fmt::Debug for WebhookEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookEndpoint").field("url", &self.url).finish_non_exhaustive()
    }
}

/// What a webhook has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReviewOutcome {
    Allowed { reason: String },
    Denied { reason: String, contradicts: bool },
    NoOpinion { reason: String },
    Failed { why: String },
}

/// What a webhook means for a decision.
pub(crate) enum WebhookVerdict {
    Allow(String),
    Deny {
        reason: String,
        error: Option<String>,
    },
    NoOpinion {
        reason: String,
        error: Option<String>,
    },
    /// It is not concerned.
    Unconcerned,
    /// It has to be asked first.
    Open,
}

/// What a webhook is asked.
#[derive(Clone)]
pub(crate) struct WebhookQuestion {
    /// The spec as text, which is what answers are kept by.
    pub(crate) text: Arc<str>,
    user: String,
    kept: bool,
}

/// A webhook, ready to be asked.
pub(crate) struct WebhookAuthorizer {
    id: u64,
    name: String,
    settings: AuthorizationWebhookConfiguration,
    conditions: MatchConditions,
    uri: Uri,
    authorization: Option<HeaderValue>,
    client: HttpsClient,
    cache: ReviewCache<ReviewOutcome>,
    room: CallRoom,
    metrics: Arc<AuthorizationMetrics>,
}

impl WebhookAuthorizer {
    /// A webhook; it is not called yet.
    pub(super) fn new(
        name: &str,
        settings: &AuthorizationWebhookConfiguration,
        endpoint: WebhookEndpoint,
        metrics: &Arc<AuthorizationMetrics>,
    ) -> Result<WebhookAuthorizer, String> {
        /// Tells webhooks apart, also those that had the same name before.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let uri = with_timeout(&endpoint.url, settings.timeout)?;
        let direct: Arc<dyn Connect> = Arc::new(Direct);
        let client = HttpsClient::new(endpoint.tls, direct).map_err(|error| error.to_string())?;
        let authorization = endpoint.authorization.map(|text| {
            let mut value = HeaderValue::from_str(&text)
                .map_err(|_| "its token or password has characters that no header can have")?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        Ok(WebhookAuthorizer {
            id: MADE.fetch_add(1, Ordering::Relaxed),
            name: name.to_owned(),
            conditions: MatchConditions::compile(&settings.conditions)?,
            settings: settings.clone(),
            uri,
            authorization: authorization.transpose()?,
            client,
            cache: ReviewCache::default(),
            room: CallRoom::default(),
            metrics: Arc::clone(metrics),
        })
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// What it means for a question, as far as its answer is known.
    pub(crate) fn judge(
        self: &Arc<Self>,
        user: &User,
        question: &AccessQuestion<'_>,
        consultation: Option<&Consultation>,
    ) -> WebhookVerdict {
        let spec = question.spec(user);
        match self.is_concerned(&spec) {
            Ok(true) => {}
            Ok(false) => return WebhookVerdict::Unconcerned,
            Err(why) => {
                tracing::warn!(authorizer = self.name, error = why, "a match condition failed");
                return self.failed("a match condition failed");
            }
        }
        let text: Arc<str> = Value::Object(spec).to_string().into();
        let known = consultation.and_then(|answers| answers.answered(self.id, &text));
        let known = known.or_else(|| self.cache.get(&text, clock::instant()));
        if let Some(known) = known {
            return self.verdict(known);
        }
        let Some(consultation) = consultation else {
            return self.failed("it cannot be asked here");
        };
        let kept = question.chosen_bytes() < CHOSEN_BYTES_MAX;
        consultation.note(self, WebhookQuestion { text, user: user.name.clone(), kept });
        WebhookVerdict::Open
    }

    fn is_concerned(&self, spec: &Object) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let started = clock::instant();
        let held = self.conditions.hold(&conditions::filled(spec));
        let counted = held.as_ref().map_err(|_| ()).copied();
        self.metrics.conditions(&self.name, counted, started.elapsed());
        held
    }

    fn verdict(&self, outcome: ReviewOutcome) -> WebhookVerdict {
        match outcome {
            ReviewOutcome::Allowed { reason } => WebhookVerdict::Allow(reason),
            ReviewOutcome::Denied { reason, contradicts } => {
                let error = contradicts.then(|| self.error("it allows and denies at once"));
                WebhookVerdict::Deny { reason, error }
            }
            ReviewOutcome::NoOpinion { reason } => {
                WebhookVerdict::NoOpinion { reason, error: None }
            }
            ReviewOutcome::Failed { why } => self.failed(&why),
        }
    }

    /// What is decided without an answer.
    fn failed(&self, why: &str) -> WebhookVerdict {
        let (reason, error) = (String::new(), Some(self.error(why)));
        match self.settings.denies_on_failure {
            true => WebhookVerdict::Deny { reason, error },
            false => WebhookVerdict::NoOpinion { reason, error },
        }
    }

    fn error(&self, why: &str) -> String {
        format!("authorizer {:?}: {why}", self.name)
    }

    /// Asks, and keeps what is answered for as long as it counts.
    pub(super) async fn ask(&self, question: &WebhookQuestion) -> ReviewOutcome {
        let asking = async {
            let place = self.room.enter(&question.user).await;
            let _place = place.ok_or(("error", "too many requests wait for it".to_owned()))?;
            // Somebody else may have asked the same while this one waited.
            match self.cache.get(&question.text, clock::instant()) {
                Some(known) => Ok(known),
                None => self.call_until_answered(question).await,
            }
        };
        let late = |_| Err(("timeout", "it did not answer in time".to_owned()));
        let answered = tokio::time::timeout(ANSWER_MOST, asking).await.unwrap_or_else(late);
        match answered {
            Ok(outcome) => {
                let life = match &outcome {
                    ReviewOutcome::Allowed { .. } => self.settings.authorized_ttl,
                    _ => self.settings.unauthorized_ttl,
                };
                if let Some(life) = life.filter(|_| question.kept) {
                    let now = clock::instant();
                    self.cache.put(&question.text, outcome.clone(), now, life);
                }
                outcome
            }
            Err((result, why)) => {
                tracing::warn!(authorizer = self.name, error = why, "an authorizer failed");
                if !self.settings.denies_on_failure {
                    self.metrics.failed_open(&self.name, result);
                }
                // Where it is and what it said is for the log, not for whoever asks.
                ReviewOutcome::Failed { why: "it could not be asked".to_owned() }
            }
        }
    }

    /// Calls once more where that may help: a review changes nothing.
    async fn call_until_answered(
        &self,
        question: &WebhookQuestion,
    ) -> Result<ReviewOutcome, (&'static str, String)> {
        let mut pause = FIRST_PAUSE;
        let mut last = ("error", String::new());
        for attempt in 1..=TRIES {
            let started = clock::instant();
            let called = self.call(question).await;
            let result = match &called {
                Ok(_) => "success",
                Err(failed) => failed.result,
            };
            self.metrics.call(&self.name, result, started.elapsed());
            let failed = match called {
                Ok(outcome) => return Ok(outcome),
                Err(failed) => failed,
            };
            last = (failed.result, failed.why);
            match failed.again {
                CallAgain::Never => break,
                // A connection may have ended just when it was to be used.
                CallAgain::AtOnce if attempt == 1 => {}
                CallAgain::AtOnce => break,
                CallAgain::Later if attempt < TRIES => {
                    tokio::time::sleep(pause).await;
                    pause = pause.mul_f64(1.5);
                }
                CallAgain::Later => {}
            }
        }
        Err(last)
    }

    async fn call(&self, question: &WebhookQuestion) -> Result<ReviewOutcome, CallFailure> {
        let spec: Value = serde_json::from_str(&question.text)
            .map_err(|error| CallFailure::lasting(error.to_string()))?;
        let version = format!("{GROUP}/{}", self.settings.version);
        let review = json!({
            "kind": "SubjectAccessReview", "apiVersion": version, "metadata": {},
            "spec": in_version(spec, self.settings.version), "status": { "allowed": false },
        });
        let mut request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, concat!("tenure/", env!("CARGO_PKG_VERSION"), " authorizer"));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request
            .body(full(review.to_string()))
            .map_err(|error| CallFailure::lasting(error.to_string()))?;
        let called = self.client.call(request, self.settings.timeout, ANSWER_BYTES_MAX).await;
        let (status, body) = called.map_err(|error| CallFailure::of(&error))?;
        match status {
            status if status.is_success() => read(&body).map_err(CallFailure::lasting),
            status => Err(CallFailure::of_status(status)),
        }
    }
}

/// A call that brought no answer.
struct CallFailure {
    result: &'static str,
    why: String,
    again: CallAgain,
}

/// Whether to call once more.
enum CallAgain {
    Never,
    AtOnce,
    Later,
}

impl CallFailure {
    fn lasting(why: String) -> CallFailure {
        CallFailure { result: "error", why, again: CallAgain::Never }
    }

    fn of(error: &CallError) -> CallFailure {
        let why = error.to_string();
        match error {
            CallError::Timeout { .. } => {
                CallFailure { result: "timeout", why, again: CallAgain::Never }
            }
            CallError::TooLarge { .. } => CallFailure::lasting(why),
            CallError::Broken(_) => CallFailure { result: "error", why, again: CallAgain::AtOnce },
        }
    }

    fn of_status(status: StatusCode) -> CallFailure {
        let passes = [
            StatusCode::INTERNAL_SERVER_ERROR,
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ];
        let again = if passes.contains(&status) { CallAgain::Later } else { CallAgain::Never };
        let late = status == StatusCode::GATEWAY_TIMEOUT;
        let result = if late { "timeout" } else { "error" };
        CallFailure { result, why: format!("it answered {status}"), again }
    }
}

/// The address that is called, with the time that there is, as upstream's client says it.
fn with_timeout(url: &str, timeout: Duration) -> Result<Uri, String> {
    let uri: Uri = url.parse().map_err(|_| format!("{url:?} is no URL"))?;
    if uri.scheme_str() != Some("https") || uri.host().is_none_or(str::is_empty) {
        return Err(format!("{url:?} must begin with https:// and name a host"));
    }
    let ms = timeout.as_millis();
    let timeout =
        if ms.is_multiple_of(1000) { format!("{}s", ms / 1000) } else { format!("{ms}ms") };
    let between = if uri.query().is_some() { '&' } else { '?' };
    let path = if uri.path().is_empty() { "/" } else { "" };
    let whole = format!("{url}{path}{between}timeout={timeout}");
    whole.parse().map_err(|_| format!("{url:?} is no URL"))
}

/// The spec in the words of a version.
fn in_version(mut spec: Value, version: &str) -> Value {
    if version == "v1beta1"
        && let Some(spec) = spec.as_object_mut()
        && let Some(groups) = spec.remove("groups")
    {
        spec.insert("group".to_owned(), groups);
    }
    spec
}

/// What a review says that came back.
fn read(body: &[u8]) -> Result<ReviewOutcome, String> {
    let review: Object = serde_json::from_slice(body)
        .map_err(|error| format!("its answer is no review: {error}"))?;
    let version = review.str_at(&["apiVersion"]).unwrap_or_default();
    let is_review = review.str_at(&["kind"]) == Some("SubjectAccessReview")
        && matches!(version.split_once('/'), Some((GROUP, "v1" | "v1beta1")));
    if !is_review {
        return Err("its answer is no SubjectAccessReview".to_owned());
    }
    let Some(status) = review.map_at(&["status"]) else {
        return Err("its answer has no status".to_owned());
    };
    let flag = |member: &str| match status.get(member) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(format!("status.{member} of its answer is neither true nor false")),
    };
    let reason = match status.get("reason") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => {
            let text = text.get(..text.floor_char_boundary(REASON_BYTES_MAX)).unwrap_or_default();
            text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
        }
        Some(_) => return Err("status.reason of its answer is no string".to_owned()),
    };
    Ok(match (flag("allowed")?, flag("denied")?) {
        (contradicts, true) => ReviewOutcome::Denied { reason, contradicts },
        (true, false) => ReviewOutcome::Allowed { reason },
        (false, false) => ReviewOutcome::NoOpinion { reason },
    })
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use super::*;

    #[test]
    fn r154c_the_address_says_how_long_there_is() {
        for (url, seconds, wanted) in [
            ("https://a.example", 3.0, "https://a.example/?timeout=3s"),
            ("https://a.example/x", 0.5, "https://a.example/x?timeout=500ms"),
            ("https://a.example:8443/x?y=z", 30.0, "https://a.example:8443/x?y=z&timeout=30s"),
        ] {
            let uri = with_timeout(url, Duration::from_secs_f64(seconds)).unwrap();
            assert_eq!(uri.to_string(), wanted);
        }
        for url in ["http://a.example", "a.example", "https://", "", "https:///x", "ftp://a"] {
            assert!(with_timeout(url, Duration::from_secs(1)).is_err(), "{url}");
        }
    }

    #[test]
    fn r154c_answers_are_read_strictly() {
        let review = |status: Value| {
            let review = json!({
                "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "status": status,
            });
            read(review.to_string().as_bytes())
        };
        let none = String::new;
        assert_eq!(
            review(json!({"allowed": true, "reason": "a\nb"})),
            Ok(ReviewOutcome::Allowed { reason: "a b".into() })
        );
        let denied = |contradicts| Ok(ReviewOutcome::Denied { reason: none(), contradicts });
        assert_eq!(review(json!({"allowed": false, "denied": true})), denied(false));
        assert_eq!(review(json!({"allowed": true, "denied": true})), denied(true));
        assert_eq!(review(json!({})), Ok(ReviewOutcome::NoOpinion { reason: none() }));
        for wrong in [
            json!({"allowed": "true"}),
            json!({"denied": 1}),
            json!({"allowed": true, "reason": {}}),
            json!(null),
            json!([true]),
        ] {
            assert!(review(wrong.clone()).is_err(), "{wrong}");
        }
        for wrong in [
            "",
            "true",
            "[]",
            "{}",
            r#"{"kind": "Status", "apiVersion": "v1", "status": {"allowed": true}}"#,
            r#"{"kind": "SubjectAccessReview", "apiVersion": "v1", "status": {"allowed": true}}"#,
        ] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn r154b_the_old_version_has_its_own_word_for_groups() {
        let spec = json!({"user": "jane", "groups": ["a"]});
        assert_eq!(in_version(spec.clone(), "v1"), spec);
        assert_eq!(in_version(spec, "v1beta1"), json!({"user": "jane", "group": ["a"]}));
    }
}
