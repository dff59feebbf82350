//! One call of a webhook: whether it is asked at all, the request, and what came of it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use tenure_machinery::{Failure, Object};

use super::compiled::Webhook;
use super::metrics::CallResult;
use super::review::{self, Answer};
use crate::admit::policy::AdmissionAttributes;
use crate::admit::policy::evaluate::{EvaluationMode, conditions_hold};
use crate::admit::policy::subject::AdmissionRequest;
use crate::admit::shown::ShownObject;
use crate::api::ApiServer;
use crate::request::ResourceRequest;
use crate::webhook_client::{CallSettings, WebhookCallError};

/// The longest answer that is read: a patch may carry a whole object, in base64.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A webhook that is to be asked, with what it is asked.
pub(super) struct WebhookCall {
    uid: String,
    body: Result<Bytes, Failure>,
    mutating: bool,
    operation: &'static str,
    /// What the webhook sees, and in which form; needed to apply its patch.
    pub(super) seen: Option<(Object, ShownObject)>,
}

/// What came of a call.
pub(super) enum CallOutcome {
    Answered(Answer),
    /// It failed, and the webhook says to go on without it.
    PassedOver,
    Failed(Failure),
}

impl WebhookCall {
    /// Looks whether the webhook is about the request; none if it is not.
    pub(super) async fn prepare(
        api: &ApiServer,
        request: &ResourceRequest,
        subject: &AdmissionAttributes<'_>,
        hook: &Arc<Webhook>,
        mutating: bool,
    ) -> Result<Option<WebhookCall>, Failure> {
        let mut requested = AdmissionRequest::new(api, request, subject);
        if requested.is_exempt() {
            return Ok(None);
        }
        let Some(place) = requested.place(&hook.matching) else { return Ok(None) };
        requested.convert_to(api, &request.user.name, place).await?;
        let Some(requested) = applies(api, request, requested, place, hook).await? else {
            return Ok(None);
        };
        let uid = api.chance.uid();
        let looked_at = requested.at(place);
        let seen = looked_at.seen();
        let body = if requested.is_dry_run() && !hook.knows_dry_run {
            let why = format!("admission webhook {:?} does not support dry run", hook.name);
            Err(Failure::bad_request(why))
        } else {
            let version = hook.version.ok_or_else(|| {
                let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
                Failure::internal(format!("failed calling webhook {:?}: {why}", hook.name))
            })?;
            let about = seen.request.clone();
            Ok(review::request(version, &uid, about, (seen.new, seen.old)).into())
        };
        let object = seen.new.filter(|_| mutating);
        let object = object.and_then(|object| Some((object.clone(), requested.shown(place)?)));
        Ok(Some(WebhookCall {
            uid,
            body,
            mutating,
            operation: subject.operation.verb(),
            seen: object,
        }))
    }

    /// Calls the webhook.
    pub(super) async fn send(&self, api: &ApiServer, hook: &Webhook) -> CallOutcome {
        let body = match &self.body {
            Ok(body) => body.clone(),
            Err(refused) => return CallOutcome::Failed(refused.clone()),
        };
        let started = crate::clock::instant();
        let answered = self.exchange(api, hook, body).await;
        let result = match &answered {
            Ok(answer) if answer.allowed => CallResult::Allowed,
            Ok(answer) => CallResult::Refused { code: review::code(&answer.status) },
            Err(_) => CallResult::Failed { open: hook.ignores_failures },
        };
        let what = (self.mutating, self.operation);
        api.admission.webhooks.metrics.observe(hook, what, result, started.elapsed());
        match answered {
            Ok(answer) => CallOutcome::Answered(answer),
            Err(why) => {
                tracing::warn!(webhook = hook.name, error = why, "a webhook could not be called");
                if hook.ignores_failures {
                    return CallOutcome::PassedOver;
                }
                let why = format!("failed calling webhook {:?}: {why}", hook.name);
                CallOutcome::Failed(Failure::internal(why))
            }
        }
    }

    async fn exchange(
        &self,
        api: &ApiServer,
        hook: &Webhook,
        body: Bytes,
    ) -> Result<Answer, String> {
        let version = hook.version.ok_or("it takes no version of reviews that is known here")?;
        let settings = CallSettings {
            agent: "kube-apiserver-admission",
            limit: hook.timeout,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let called = hook.client.post(&api.admission.webhooks.connect, settings, body).await;
        let body = called.map_err(|error| match error {
            WebhookCallError::Settings(why) => format!("could not get REST client: {why}"),
            WebhookCallError::Failed(why) => format!("failed to call webhook: {why}"),
        })?;
        review::read(version, &self.uid, self.mutating, &body)
            .map_err(|why| format!("received invalid webhook response: {why}"))
    }
}

/// Asks the match conditions; in haste first, with time on a thread that may be kept.
async fn applies<'a>(
    api: &ApiServer,
    request: &ResourceRequest,
    requested: AdmissionRequest<'a>,
    place: usize,
    hook: &Arc<Webhook>,
) -> Result<Option<AdmissionRequest<'a>>, Failure> {
    if hook.conditions.conditions.is_empty() && hook.conditions.fault.is_none() {
        return Ok(Some(requested));
    }
    let consultation = &request.consultation;
    consultation.forget();
    let (mut requested, mut round) = (requested, 0);
    let held = loop {
        let hasty = {
            let looked_at = requested.at(place);
            conditions_hold(&hook.conditions, looked_at.seen(), EvaluationMode::Hasty)
        };
        let held = match hasty {
            Ok(held) => held,
            Err(_) => {
                let (owned, hook) = (requested.into_owned(), Arc::clone(hook));
                let work = move || {
                    let held = {
                        let looked_at = owned.at(place);
                        let seen = looked_at.seen();
                        conditions_hold(&hook.conditions, seen, EvaluationMode::WithTime)
                    };
                    (owned, held)
                };
                let (owned, held) = api.offload.run(&request.user, work).await?;
                requested = owned;
                let unfinished = |_| Failure::internal("a match condition did not come to an end");
                held.map_err(unfinished)?
            }
        };
        if !consultation.goes_on(&mut round).await? {
            break held;
        }
    };
    match held {
        Ok(true) => Ok(Some(requested)),
        Ok(false) => Ok(None),
        Err(why) => Err(requested.forbidden(&why)),
    }
}

/// Takes over what an answer says besides its patch: warnings, annotations, a refusal.
pub(super) fn take(
    api: &ApiServer,
    request: &mut ResourceRequest,
    hook: &Webhook,
    answer: Answer,
) -> Result<Vec<Value>, Failure> {
    for warning in answer.warnings {
        request.warn(warning);
    }
    for (key, value) in answer.annotations {
        super::annotate(api, request, format!("{}/{key}", hook.name), || value);
    }
    match answer.allowed {
        true => Ok(answer.patch),
        false => Err(review::refusal(&hook.name, &answer.status)),
    }
}
