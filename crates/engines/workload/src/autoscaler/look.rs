//! One look at an autoscaler: what is asked, the size, the status, the events (HA1, HA6–HA8).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_core::selector::LabelSelector;
use tenure_machinery::{Object, ObjectExt, WriteRefusal};

use super::behavior::{self, AutoscalerMemory, SizeBounds};
use super::calculator::RatioTolerance;
use super::compute::{self, MetricContext, MetricFailure, MetricResult};
use super::target::{self, ScaleTarget};
use super::{AUTOSCALERS, SYNC_PERIOD};
use crate::api_question::{ApiQuestions, MissingFact};
use crate::condition;
use crate::controller::{Pass, ReconcileMemory, ReconcileResult};
use crate::intent::{ControllerIntent, InvolvedObject, MessageSuffix, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;
use crate::{owner, time};

pub(super) fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let (namespace, name) = (&*pass.key.namespace, &*pass.key.name);
    let Some(autoscaler) = pass.view.get(AUTOSCALERS, namespace, name) else {
        return ReconcileResult::default();
    };
    let mut memory = match pass.memory {
        ReconcileMemory::Autoscaler(memory) => memory.clone(),
        _ => AutoscalerMemory::default(),
    };
    if let Some(rest) = rests(pass, &memory, &autoscaler) {
        let memory = ReconcileMemory::Autoscaler(memory);
        return ReconcileResult { memory, requeue_after: Some(rest), ..ReconcileResult::default() };
    }
    let refusal = pass.refused.iter().find(|refused| refused.resource.is_none());
    if refusal.is_some() {
        memory.refused();
    }
    memory.looked = Some(pass.now);
    memory.generation = owner::generation(&autoscaler);
    let api_questions = ApiQuestions::new(pass.answers);
    let mut look = Look {
        pass,
        about: InvolvedObject::of(AUTOSCALERS, &autoscaler),
        autoscaler: &autoscaler,
        object: Object::clone(&autoscaler.object),
        memory,
        intents: Vec::new(),
    };
    match refusal.filter(|refused| refused.why != WriteRefusal::Conflict) {
        // The size could not be written: that is said, and tried again with the next look.
        Some(refused) => {
            let words = "the HPA controller was unable to update the target scale";
            let words = format!("{words}: {}", refused.message);
            look.condition("AbleToScale", false, "FailedUpdateScale", &words);
        }
        None => look.all(&api_questions),
    }
    let questions = api_questions.into_questions();
    if !questions.is_empty() {
        return ReconcileResult { questions, ..ReconcileResult::default() };
    }
    look.ended()
}

/// How long until the next look, unless something calls for it now: what was wanted was refused, or the wishes
/// are others.
fn rests(
    pass: &Pass<'_>,
    memory: &AutoscalerMemory,
    autoscaler: &Object,
) -> Option<core::time::Duration> {
    let looked = memory.looked?;
    let same = memory.generation == owner::generation(autoscaler) && pass.refused.is_empty();
    let due = looked.saturating_add(SYNC_PERIOD).unwrap_or(looked);
    (same && due > pass.now).then(|| time::until(due, pass.now))
}

/// One look.
struct Look<'a> {
    pass: &'a Pass<'a>,
    autoscaler: &'a VersionedObject,
    about: InvolvedObject,
    /// The autoscaler as it will be.
    object: Object,
    memory: AutoscalerMemory,
    intents: Vec<ControllerIntent>,
}

/// What all metrics together say.
struct Computed {
    replicas: i32,
    /// What people call the metric that asks for most.
    metric: String,
}

impl Look<'_> {
    fn ended(mut self) -> ReconcileResult {
        if self.object != *self.autoscaler.object {
            let update = ControllerIntent::update(
                AUTOSCALERS,
                self.object,
                UpdateEndpoint::Status,
                self.autoscaler.revision,
            );
            let failed = self.about.warning("FailedUpdateStatus", "");
            self.intents.push(update.when_refused(failed.ending(MessageSuffix::Error)));
        }
        ReconcileResult {
            intents: self.intents,
            memory: ReconcileMemory::Autoscaler(self.memory),
            requeue_after: Some(SYNC_PERIOD),
            ..ReconcileResult::default()
        }
    }

    fn condition(&mut self, kind: &str, holds: bool, reason: &str, words: &str) {
        let status = if holds { "True" } else { "False" };
        condition::put(&mut self.object, (kind, status), reason, words, self.pass.now);
    }

    fn warn(&mut self, reason: &str, words: impl Into<String>) {
        self.intents.push(ControllerIntent::tell(self.about.warning(reason, words)));
    }

    fn all(&mut self, api_questions: &ApiQuestions<'_>) {
        let target = match target::scale_of(api_questions, self.autoscaler) {
            Ok(target) => target,
            Err(MissingFact::Unasked) => return,
            Err(MissingFact::Failed(why)) => {
                self.warn("FailedGetScale", why.as_str());
                let words = "the HPA controller was unable to get the target's current scale";
                self.condition("AbleToScale", false, "FailedGetScale", &format!("{words}: {why}"));
                return;
            }
        };
        let words = "the HPA controller was able to get the target's current scale";
        self.condition("AbleToScale", true, "SucceededGetScale", words);
        self.memory.begin(target.replicas(), self.pass.now);
        self.decide(api_questions, &target);
    }

    /// The bounds of the size.
    fn bounds(&self, target: &ScaleTarget) -> SizeBounds {
        let at = |name| {
            let value = self.autoscaler.int_at(&["spec", name])?;
            i32::try_from(value).ok()
        };
        SizeBounds {
            current: target.replicas(),
            min: at("minReplicas").unwrap_or(1),
            max: at("maxReplicas").unwrap_or(i32::MAX),
        }
    }

    /// Whether the size is nothing because of this autoscaler.
    fn scaled_to_zero(&self) -> bool {
        let conditions = self.autoscaler.list_at(&["status", "conditions"]);
        condition::is(conditions, "ScaledToZero", "True")
    }

    /// Whether something other than the pods is measured, so that there may be none.
    fn measures_others(&self) -> bool {
        let metrics = self.autoscaler.list_at(&["spec", "metrics"]).iter();
        let kind = |metric: &Value| metric.get("type").and_then(Value::as_str).map(str::to_string);
        metrics.filter_map(kind).any(|kind| kind == "Object" || kind == "External")
    }

    fn decide(&mut self, api_questions: &ApiQuestions<'_>, target: &ScaleTarget) {
        let bounds = self.bounds(target);
        let SizeBounds { current, min, max } = bounds;
        let zero = self.scaled_to_zero();
        if current == 0 && !(zero && (min != 0 || self.measures_others())) {
            let words = "scaling is disabled since the replica count of the target is zero";
            self.condition("ScalingActive", false, "ScalingDisabled", words);
            return self.status(current, Some(current), Value::Null);
        }
        if current != 0 && current > max {
            let reason = "Current number of replicas above Spec.MaxReplicas";
            return self.rescale(target, bounds, max, reason, Value::Null);
        }
        if current != 0 && current < min {
            let reason = "Current number of replicas below Spec.MinReplicas";
            return self.rescale(target, bounds, min, reason, Value::Null);
        }
        let Some((computed, statuses, failure)) = self.metrics(api_questions, target) else {
            return;
        };
        let Some(computed) = computed else {
            self.status(current, None, statuses);
            if let Some(failure) = failure {
                self.warn("FailedComputeMetricsReplicas", failure);
            }
            return;
        };
        let mut reason = String::new();
        if computed.replicas > current {
            reason = format!("{} above target", computed.metric);
        } else if computed.replicas < current {
            reason = "All metrics below target".to_string();
        }
        let mut wanted = self.normalized(computed.replicas, bounds);
        if current == 0 && min != 0 && zero && wanted < min {
            wanted = min;
            if reason.is_empty() {
                reason = "Current number of replicas below Spec.MinReplicas".to_string();
            }
        }
        if wanted == current {
            return self.status(current, Some(current), statuses);
        }
        self.rescale(target, bounds, wanted, &reason, statuses);
    }

    /// What all metrics together say; nothing while the API has to be asked. Without a size it is said why.
    fn metrics(
        &mut self,
        api_questions: &ApiQuestions<'_>,
        target: &ScaleTarget,
    ) -> Option<(Option<Computed>, Value, Option<String>)> {
        let pods = match self.pods(target) {
            Ok(pods) => pods,
            Err(why) => return Some((None, Value::Null, Some(why))),
        };
        let autoscaler = self.autoscaler;
        let cx = MetricContext {
            questions: api_questions,
            namespace: autoscaler.namespace(),
            target,
            pods: &pods,
            tolerance: RatioTolerance::of(autoscaler),
            now: self.pass.now,
        };
        let metrics = autoscaler.list_at(&["spec", "metrics"]).iter().filter_map(Value::as_object);
        // All are looked at, so that everything is asked for at once.
        let results: Vec<_> = metrics.map(|metric| compute::compute(&cx, metric)).collect();
        let results: Vec<Result<MetricResult, MetricFailure>> =
            results.into_iter().collect::<Option<_>>()?;
        let statuses = Value::Array(compute::statuses(&results));
        let mut computed: Option<Computed> = None;
        let mut failures = Vec::new();
        let count = results.len();
        for result in results {
            match result {
                Ok(MetricResult { replicas, name, .. }) => {
                    let largest = computed
                        .as_ref()
                        .is_none_or(|known| known.replicas == 0 || replicas > known.replicas);
                    if largest {
                        computed = Some(Computed { replicas, metric: name });
                    }
                }
                Err(failure) => {
                    self.warn(failure.reason, failure.why.as_str());
                    failures.push(failure);
                }
            }
        }
        let words = failures.first().map(|first| {
            let (invalid, words) = (failures.len(), &first.words);
            format!("invalid metrics ({invalid} invalid out of {count}), first error is: {words}")
        });
        // With a part of the metrics a size may grow, and never shrinks.
        let sure = computed
            .filter(|computed| failures.is_empty() || computed.replicas >= target.replicas());
        match (&sure, failures.first()) {
            (Some(computed), _) => {
                let words = "the HPA was able to successfully calculate a replica count from";
                let words = format!("{words} {}", computed.metric);
                self.condition("ScalingActive", true, "ValidMetricFound", &words);
            }
            (None, Some(first)) => {
                let words =
                    format!("the HPA was unable to compute the replica count: {}", first.why);
                self.condition("ScalingActive", false, first.reason, &words);
            }
            (None, None) => {}
        }
        Some((sure, statuses, words))
    }

    /// The pods that the target selects, if only this autoscaler looks after them.
    fn pods(&mut self, target: &ScaleTarget) -> Result<Vec<VersionedObject>, String> {
        let text = target.selector();
        if text.is_empty() {
            let words = "the HPA target's scale is missing a selector";
            self.condition("ScalingActive", false, "InvalidSelector", words);
            self.warn("SelectorRequired", "selector is required");
            return Err("selector is required".to_string());
        }
        let invalid = |look: &mut Look<'_>, reason: &str, words: String| {
            look.condition("ScalingActive", false, reason, &words);
            look.warn(reason, words.as_str());
            words
        };
        let selector = match LabelSelector::parse(text) {
            Ok(selector) => selector,
            Err(why) => {
                let words =
                    "couldn't convert selector into a corresponding internal selector object";
                return Err(invalid(self, "InvalidSelector", format!("{words}: {why}")));
            }
        };
        let view = self.pass.view;
        let pods = view.select(BuiltinResource::Pods, self.autoscaler.namespace(), &selector);
        let rivals = target::rivals(view, self.autoscaler, &pods);
        if let Some(rival) = rivals.first() {
            let (namespace, name) = (self.autoscaler.namespace(), self.autoscaler.name());
            let words = format!(
                "pods by selector {text} are controlled by more than one HPA (e.g. \
                 [{namespace}/{name} {rival}])"
            );
            return Err(invalid(self, "AmbiguousSelector", words));
        }
        Ok(pods)
    }

    /// The size as windows, policies and bounds leave it.
    fn normalized(&mut self, wanted: i32, bounds: SizeBounds) -> i32 {
        let now = self.pass.now;
        let behavior = self.autoscaler.map_at(&["spec", "behavior"]);
        let (stabilized, reason, words) = match behavior {
            Some(behavior) => self.memory.stabilized_by(behavior, bounds.current, wanted, now),
            None => {
                let (reason, words) = behavior::DOWN_STABILIZED;
                (self.memory.stabilized(wanted, now), reason, words)
            }
        };
        if stabilized == wanted {
            let words = "recommended size matches current size";
            self.condition("AbleToScale", true, "ReadyForNewScale", words);
        } else {
            self.condition("AbleToScale", true, reason, words);
        }
        let (size, reason, words) = match behavior {
            Some(behavior) => self.memory.limited(behavior, stabilized, bounds, now),
            None => behavior::bounded(stabilized, bounds),
        };
        self.condition("ScalingLimited", size != stabilized, reason, words);
        size
    }

    fn rescale(
        &mut self,
        target: &ScaleTarget,
        bounds: SizeBounds,
        size: i32,
        reason: &str,
        statuses: Value,
    ) {
        let words = format!("New size: {size}; reason: {reason}");
        let failed = self.about.warning("FailedRescale", format!("{words}; error: "));
        self.intents.push(
            ControllerIntent::put_scale(target.path.clone(), target.resized(size))
                .when_done(self.about.normal("SuccessfulRescale", words))
                .when_refused(failed.ending(MessageSuffix::Error)),
        );
        let words = format!("the HPA controller was able to update the target scale to {size}");
        self.condition("AbleToScale", true, "SucceededRescale", &words);
        if let Some(behavior) = self.autoscaler.map_at(&["spec", "behavior"]) {
            self.memory.resized(behavior, bounds.current, size, self.pass.now);
        }
        if bounds.current > 0 && size == 0 && bounds.min == 0 && self.measures_others() {
            let words = "the HPA controller scaled the workload to zero";
            self.condition("ScaledToZero", true, "ScaledToZero", words);
        } else {
            let words = "the HPA controller did not scale the workload to zero";
            self.condition("ScaledToZero", false, "NotScaledToZero", words);
        }
        self.status(bounds.current, Some(size), statuses);
        let now = time::written(self.pass.now);
        self.object.map_mut("status").insert("lastScaleTime".to_string(), now.into());
    }

    /// Writes sizes and metrics into the status; without a wanted size the one before stays.
    fn status(&mut self, current: i32, wanted: Option<i32>, statuses: Value) {
        let generation = owner::generation(self.autoscaler);
        let status = self.object.map_mut("status");
        if current == 0 {
            status.remove("currentReplicas");
        } else {
            status.insert("currentReplicas".to_string(), current.into());
        }
        if let Some(wanted) = wanted {
            status.insert("desiredReplicas".to_string(), wanted.into());
        }
        status.entry("desiredReplicas").or_insert_with(|| json!(0));
        status.insert("currentMetrics".to_string(), statuses);
        status.insert("observedGeneration".to_string(), generation.into());
    }
}
