//! Webhooks: servers of users that change or refuse what is written (R161–R163).
//!
//! ```text
//!   commit of a configuration ──► WebhookUpdater ──► AdmissionWebhooks (compiled when first needed)
//!   write ──► matching ──► conditions ──► review ──► call ──► patch, refusal, warnings, annotations
//! ```
//!
//! Those that change are asked one after the other, each about what those before it left; those that refuse
//! all at once. A configuration is in force with its acknowledged write.

mod call;
mod compiled;
mod metrics;
mod patch;
mod review;

use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::future::join_all;
use serde_json::{Value, json};
use tenure_machinery::{Failure, Object};
use tenure_outbound::Connect;
use tenure_world::{Change, LockStep, World};

use super::Operation;
use super::policy::{AdmissionAttributes, LazyRecord};
use super::reinvocation::Reinvocation;
use crate::api::ApiServer;
use crate::request::ResourceRequest;

use call::{CallOutcome, WebhookCall};
use compiled::{ReviewVersion, Webhook};
use metrics::WebhookMetrics;

/// Where the audit log says what webhooks did.
const MUTATIONS: &str = "mutation.webhook.admission.k8s.io/";
const PATCHES: &str = "patch.webhook.admission.k8s.io/";
const FAILED_OPEN: &str = "failed-open.";
const VALIDATIONS: &str = "validating.webhook.admission.k8s.io/";

/// What an answer may do: its patch, and the refusal that clients would get.
pub(crate) struct ReviewAnswer {
    pub(crate) patch: Vec<Value>,
    pub(crate) refusal: Failure,
}

/// Reads the answer to a review, for the fuzz targets.
pub(crate) fn read_review_answer(
    v1: bool,
    uid: &str,
    mutating: bool,
    body: &[u8],
) -> Result<ReviewAnswer, String> {
    let version = if v1 { ReviewVersion::V1 } else { ReviewVersion::V1Beta1 };
    let answer = review::read(version, uid, mutating, body)?;
    let refusal = review::refusal("a.example", &answer.status);
    Ok(ReviewAnswer { patch: answer.patch, refusal })
}

/// The webhooks that are configured, as they are now.
pub(crate) struct AdmissionWebhooks {
    mutating: Configured,
    validating: Configured,
    connect: Arc<dyn Connect>,
    metrics: WebhookMetrics,
}

/// A stored configuration with its webhooks.
type Configuration = LazyRecord<Vec<Arc<Webhook>>>;

/// The configurations of one kind, by name.
struct Configured {
    prefix: &'static str,
    current: ArcSwap<Vec<Arc<Configuration>>>,
}

impl Configured {
    fn new(prefix: &'static str) -> Configured {
        Configured { prefix, current: ArcSwap::default() }
    }

    /// Takes over what a state holds; what did not change stays compiled.
    fn read(&self, world: &World) {
        let known = self.current.load();
        let read = world.range(self.prefix, None).map(|record| {
            let same = known.iter().find(|one| one.is_of(record));
            same.cloned().unwrap_or_else(|| Arc::new(LazyRecord::new(record)))
        });
        let read = read.collect();
        self.current.store(Arc::new(read));
    }

    /// Those that may be about such a request, each with its place among all.
    fn concerned(
        &self,
        operation: &'static str,
        request: &ResourceRequest,
    ) -> Vec<(usize, Arc<Webhook>)> {
        let current = self.current.load();
        let all = current.iter().flat_map(|one| one.get(compiled::webhooks));
        let (resource, subresource) = (&*request.served.kind.plural, &*request.subresource);
        all.enumerate()
            .filter(|(_, hook)| hook.matching.may_concern(operation, resource, subresource))
            .map(|(place, hook)| (place, Arc::clone(hook)))
            .collect()
    }
}

impl AdmissionWebhooks {
    /// No webhooks yet; those that come are reached in this way.
    #[must_use]
    pub(crate) fn new(connect: Arc<dyn Connect>) -> AdmissionWebhooks {
        AdmissionWebhooks {
            mutating: Configured::new("/registry/mutatingwebhookconfigurations/"),
            validating: Configured::new("/registry/validatingwebhookconfigurations/"),
            connect,
            metrics: WebhookMetrics::default(),
        }
    }

    /// The index that must be handed to the world.
    #[must_use]
    pub(crate) fn feed(self: &Arc<AdmissionWebhooks>) -> Box<dyn LockStep> {
        Box::new(WebhookUpdater { webhooks: Arc::clone(self) })
    }

    /// Whether some webhook may be about such a request.
    pub(crate) fn may_concern(&self, operation: Operation, request: &ResourceRequest) -> bool {
        let concerned = |configured: &Configured| {
            !configured.current.load().is_empty()
                && !configured.concerned(operation.verb(), request).is_empty()
        };
        concerned(&self.mutating) || concerned(&self.validating)
    }

    /// What their calls came to.
    pub(crate) fn metrics(&self) -> &WebhookMetrics {
        &self.metrics
    }

    /// Whether none is configured, so that nobody has to look further.
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.current.load().is_empty() && self.validating.current.load().is_empty()
    }
}

struct WebhookUpdater {
    webhooks: Arc<AdmissionWebhooks>,
}

impl LockStep for WebhookUpdater {
    fn start(&mut self, world: &World) {
        self.webhooks.mutating.read(world);
        self.webhooks.validating.read(world);
    }

    fn apply(&mut self, world: &World, changes: &[Arc<Change>]) {
        for configured in [&self.webhooks.mutating, &self.webhooks.validating] {
            if changes.iter().any(|change| change.key.starts_with(configured.prefix)) {
                configured.read(world);
            }
        }
    }
}

/// Asks the webhooks that change what is written, one after the other. `object` is what is written, if the
/// operation has such a thing.
///
/// # Errors
/// One of them refused, or could not be asked and is not passed over.
pub(crate) async fn mutate(
    api: &ApiServer,
    request: &mut ResourceRequest,
    subject: AdmissionAttributes<'_>,
    mut object: Option<&mut Object>,
    rounds: &mut Reinvocation,
) -> Result<(), Failure> {
    let hooks = api.admission.webhooks.mutating.concerned(subject.operation.verb(), request);
    if hooks.is_empty() {
        return Ok(());
    }
    if let Some(object) = &object {
        rounds.begin(object);
    }
    for (place, hook) in hooks {
        let identity = format!("{}/{}", hook.configuration, hook.name);
        if !rounds.invokes(&identity) {
            continue;
        }
        let subject = AdmissionAttributes { new: object.as_deref(), ..subject };
        let Some(call) = WebhookCall::prepare(api, request, &subject, &hook, true).await? else {
            continue;
        };
        let outcome = call.send(api, &hook).await;
        let key = format!("round_{}_index_{place}", rounds.round());
        let answer = match outcome {
            CallOutcome::Answered(answer) => answer,
            CallOutcome::PassedOver => {
                annotate(api, request, format!("{FAILED_OPEN}{MUTATIONS}{key}"), || {
                    hook.name.clone()
                });
                rounds.note(&identity, hook.reinvoked, false);
                continue;
            }
            CallOutcome::Failed(failure) => return Err(failure),
        };
        let patch = call::take(api, request, &hook, answer)?;
        let patched = match (&mut object, patch.is_empty()) {
            (_, true) => false,
            (None, false) => return Err(patch::nothing_to_change(&hook)),
            (Some(object), false) => {
                let user = &request.user.name;
                let patched = patch::apply(api, user, call, &hook, object, &patch).await?;
                let changed = patched != **object;
                **object = patched;
                changed
            }
        };
        rounds.note(&identity, hook.reinvoked, patched);
        annotate(api, request, format!("{MUTATIONS}{key}"), || {
            let (configuration, webhook) = (&hook.configuration, &hook.name);
            json!({"configuration": configuration, "webhook": webhook, "mutated": patched})
                .to_string()
        });
        if !patch.is_empty() {
            annotate(api, request, format!("{PATCHES}{key}"), || patch_note(&hook, &patch));
        }
    }
    if let Some(object) = &object {
        rounds.end(object);
    }
    Ok(())
}

fn patch_note(hook: &Webhook, patch: &[Value]) -> String {
    let (configuration, webhook) = (&hook.configuration, &hook.name);
    json!({"configuration": configuration, "webhook": webhook, "patch": patch, "patchType": "JSONPatch"})
        .to_string()
}

/// Asks the webhooks that refuse, all at once.
///
/// # Errors
/// One of them refused, or could not be asked and is not passed over; the first in their order is told.
pub(crate) async fn validate(
    api: &ApiServer,
    request: &mut ResourceRequest,
    subject: AdmissionAttributes<'_>,
) -> Result<(), Failure> {
    let hooks = api.admission.webhooks.validating.concerned(subject.operation.verb(), request);
    let mut calls = Vec::new();
    for (_, hook) in hooks {
        if let Some(call) = WebhookCall::prepare(api, request, &subject, &hook, false).await? {
            calls.push((hook, call));
        }
    }
    if calls.is_empty() {
        return Ok(());
    }
    let outcomes = join_all(calls.iter().map(|(hook, call)| call.send(api, hook))).await;
    let mut refused = None;
    for (place, ((hook, _), outcome)) in calls.iter().zip(outcomes).enumerate() {
        let ended = match outcome {
            CallOutcome::Answered(answer) => call::take(api, request, hook, answer).map(drop),
            CallOutcome::PassedOver => {
                let key = format!("{FAILED_OPEN}{VALIDATIONS}round_0_index_{place}");
                annotate(api, request, key, || hook.name.clone());
                Ok(())
            }
            CallOutcome::Failed(failure) => Err(failure),
        };
        refused = refused.or(ended.err());
    }
    refused.map_or(Ok(()), Err)
}

/// Says something for the audit log, where there is one; of several attempts the last counts.
fn annotate(
    api: &ApiServer,
    request: &mut ResourceRequest,
    key: String,
    value: impl FnOnce() -> String,
) {
    if api.audit.is_some() {
        request.annotations.retain(|(known, _)| *known != key);
        request.annotations.push((key, value()));
    }
}
