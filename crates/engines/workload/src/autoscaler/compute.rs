//! A size for each metric of an autoscaler, and what its status says of it (HA3, HA4).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt};

use super::calculator::{
    Measured, RatioTolerance, SizeProposal, for_shared_value, for_value_per_pod,
};
use super::metrics::{self, MetricName};
use super::target::ScaleTarget;
use crate::api_question::{ApiQuestions, Fact, MissingFact};
use crate::view::VersionedObject;

/// What a metric is judged by.
pub(super) struct MetricContext<'a> {
    pub(super) questions: &'a ApiQuestions<'a>,
    pub(super) namespace: &'a str,
    pub(super) target: &'a ScaleTarget,
    /// The pods that the target selects.
    pub(super) pods: &'a [VersionedObject],
    pub(super) tolerance: RatioTolerance,
    pub(super) now: Timestamp,
}

/// The size that one metric asks for.
pub(super) struct MetricResult {
    pub(super) replicas: i32,
    /// What people call the metric.
    pub(super) name: String,
    /// What `status.currentMetrics` says.
    pub(super) status: Value,
}

/// Why a metric gives no size.
pub(super) struct MetricFailure {
    /// The reason of the condition and of the event.
    pub(super) reason: &'static str,
    /// What went wrong.
    pub(super) why: String,
    /// The same as part of what is said of all metrics.
    pub(super) words: String,
}

/// A size, or why there is none; nothing while the API has to be asked.
pub(super) fn compute(
    cx: &MetricContext<'_>,
    metric: &Object,
) -> Option<Result<MetricResult, MetricFailure>> {
    let text = |path: &[&str]| metric.str_at(path).unwrap_or_default();
    let (reason, subject, result) = match metric.str_at(&["type"]) {
        Some("Resource") => {
            let subject = format!("{} resource metric", text(&["resource", "name"]));
            ("FailedGetResourceMetric", subject, resource(cx, metric, "resource"))
        }
        Some("ContainerResource") => {
            let container = text(&["containerResource", "container"]);
            let subject = format!("{container} container metric");
            let result = resource(cx, metric, "containerResource");
            ("FailedGetContainerResourceMetric", subject, result)
        }
        Some("Pods") => ("FailedGetPodsMetric", "pods metric".to_string(), pods(cx, metric)),
        Some("Object") => {
            ("FailedGetObjectMetric", "object metric".to_string(), object(cx, metric))
        }
        Some("External") => {
            let subject = format!("{} external metric", text(&["external", "metric", "name"]));
            ("FailedGetExternalMetric", subject, external(cx, metric))
        }
        other => {
            let why = format!("unknown metric source type {other:?}");
            let words = why.clone();
            return Some(Err(MetricFailure { reason: "InvalidMetricSourceType", why, words }));
        }
    };
    match result {
        Ok(result) => Some(Ok(result)),
        Err(MissingFact::Unasked) => None,
        Err(MissingFact::Failed(why)) => {
            let words = format!("failed to get {subject} value: {why}");
            Some(Err(MetricFailure { reason, why, words }))
        }
    }
}

/// An amount in thousandths as a text; of memory with a binary suffix.
fn amount(resource: &str, milli: i64) -> String {
    let decimal = Quantity::parse(&format!("{milli}m")).unwrap_or(Quantity::ZERO);
    let binary = Quantity::parse("1Ki").filter(|_| resource == "memory");
    // The form of the first of two amounts is that of their sum.
    binary.map_or(decimal, |unit| unit.plus(decimal).minus(unit)).canonical()
}

fn milli(object: &Object, path: &[&str]) -> Option<i64> {
    object.at(path).and_then(Quantity::from_value).map(Quantity::milli)
}

fn percent(object: &Object, path: &[&str]) -> Option<i32> {
    object.int_at(path).and_then(|percent| i32::try_from(percent).ok())
}

impl<'a> MetricContext<'a> {
    fn measured(&self, metrics: metrics::PodMetrics) -> Measured<'a> {
        Measured {
            pods: self.pods,
            metrics,
            current: self.target.replicas(),
            tolerance: self.tolerance,
            now: self.now,
        }
    }

    fn shared(&self, usage: i64, target: i64) -> Fact<i32> {
        for_shared_value(self.pods, self.target.replicas(), self.tolerance, usage, target)
    }
}

/// A resource of the pods, or of one container of each.
fn resource(cx: &MetricContext<'_>, metric: &Object, source: &str) -> Fact<MetricResult> {
    let name = metric.str_at(&[source, "name"]).unwrap_or_default();
    let container = metric.str_at(&[source, "container"]);
    let average = milli(metric, &[source, "target", "averageValue"]);
    let utilization = percent(metric, &[source, "target", "averageUtilization"]);
    let measure = || {
        metrics::resource_metric(cx.questions, cx.namespace, cx.target.selector(), name, container)
            .map_err(|why| why.because(&format!("unable to get metrics for resource {name}")))
    };
    let (proposal, called) = match (average, utilization) {
        (Some(target), _) => {
            let of = |metrics| cx.measured(metrics).for_average(name, target);
            let proposal = measure().and_then(of);
            let failed = format!("failed to get {name} usage");
            (proposal.map_err(|why| why.because(&failed))?, format!("{name} resource"))
        }
        (None, Some(target)) => {
            let of = |metrics| cx.measured(metrics).for_utilization(name, container, target);
            let proposal = measure().and_then(of);
            let failed = format!("failed to get {name} utilization");
            let what = if container.is_some() { "container resource" } else { "resource" };
            let called = format!("{name} {what} utilization (percentage of request)");
            (proposal.map_err(|why| why.because(&failed))?, called)
        }
        (None, None) => {
            return Err(MissingFact::failed(
                "invalid resource metric source: neither an average utilization target nor an \
                 average value (usage) target was set",
            ));
        }
    };
    let mut current = json!({"averageValue": amount(name, proposal.average_milli)});
    if let (Some(percent), Some(current)) = (proposal.utilization, current.as_object_mut()) {
        current.insert("averageUtilization".to_string(), percent.into());
    }
    let mut said = json!({"name": name, "current": current});
    if let (Some(container), Some(said)) = (container, said.as_object_mut()) {
        said.insert("container".to_string(), container.into());
    }
    let kind = if container.is_some() { "ContainerResource" } else { "Resource" };
    let mut status = json!({"type": kind});
    if let Some(status) = status.as_object_mut() {
        status.insert(source.to_string(), said);
    }
    Ok(MetricResult { replicas: proposal.replicas, name: called, status })
}

/// A metric of each pod.
fn pods(cx: &MetricContext<'_>, metric: &Object) -> Fact<MetricResult> {
    let source = metric.map_at(&["pods"]).ok_or_else(nothing_said)?;
    let named = MetricName::read(source)?;
    let target = milli(source, &["target", "averageValue"]).ok_or_else(nothing_said)?;
    let metrics = metrics::pods_metric(cx.questions, cx.namespace, cx.target.selector(), &named)
        .map_err(|why| why.because(&format!("unable to get metric {}", named.name)))?;
    let SizeProposal { replicas, average_milli, .. } =
        cx.measured(metrics).for_average("", target)?;
    let current = json!({"averageValue": amount("", average_milli)});
    let status =
        json!({"type": "Pods", "pods": {"metric": source.get("metric"), "current": current}});
    Ok(MetricResult { replicas, name: format!("pods metric {}", named.name), status })
}

/// A metric of one object.
fn object(cx: &MetricContext<'_>, metric: &Object) -> Fact<MetricResult> {
    let source = metric.map_at(&["object"]).ok_or_else(nothing_said)?;
    let described = source.map_at(&["describedObject"]).ok_or_else(nothing_said)?;
    let named = MetricName::read(source)?;
    let text = |name| described.str_at(&[name]).unwrap_or_default();
    let read = || {
        metrics::object_metric(cx.questions, cx.namespace, described, &named).map_err(|why| {
            let (name, kind, namespace) = (&named.name, text("kind"), cx.namespace);
            why.because(&format!(
                "unable to get metric {name} on {kind} {namespace}/{}",
                text("name")
            ))
        })
    };
    let (replicas, current, called) = match wanted(source) {
        MetricTarget::Value(target) => {
            let usage = read()?;
            let called = format!("{} metric {}", text("kind"), named.name);
            (cx.shared(usage, target)?, json!({"value": amount("", usage)}), called)
        }
        MetricTarget::Average(target) => {
            let failed = format!("failed to get {} object metric", named.name);
            let usage = read().map_err(|why| why.because(&failed))?;
            let (replicas, each) =
                for_value_per_pod(cx.target.current(), cx.tolerance, usage, target);
            let called = format!("external metric {}", called(source, &named));
            (replicas, json!({"averageValue": amount("", each)}), called)
        }
        MetricTarget::Nothing => {
            return Err(MissingFact::failed(
                "invalid object metric source: neither a value target nor an average value target \
                 was set",
            ));
        }
    };
    let said = json!({
        "describedObject": described, "metric": source.get("metric"), "current": current,
    });
    let status = json!({"type": "Object", "object": said});
    Ok(MetricResult { replicas, name: called, status })
}

/// A metric of something outside the cluster.
fn external(cx: &MetricContext<'_>, metric: &Object) -> Fact<MetricResult> {
    let source = metric.map_at(&["external"]).ok_or_else(nothing_said)?;
    let named = MetricName::read(source)?;
    let failed = |words: &str| {
        let metric = format!("{}/{}", cx.namespace, called(source, &named));
        format!("{words}: unable to get external metric {metric}")
    };
    let read = |words: &str| {
        let values = metrics::external_metric(cx.questions, cx.namespace, &named)
            .map_err(|why| why.because(&failed(words)))?;
        Ok::<i64, MissingFact>(values.into_iter().fold(0, i64::saturating_add))
    };
    let (replicas, current) = match wanted(source) {
        MetricTarget::Average(target) => {
            let usage = read(&format!("failed to get {} external metric", named.name))?;
            let (replicas, each) =
                for_value_per_pod(cx.target.current(), cx.tolerance, usage, target);
            (replicas, json!({"averageValue": amount("", each)}))
        }
        MetricTarget::Value(target) => {
            let usage = read(&format!("failed to get external metric {}", named.name))?;
            (cx.shared(usage, target)?, json!({"value": amount("", usage)}))
        }
        MetricTarget::Nothing => {
            return Err(MissingFact::failed(
                "invalid external metric source: neither a value target nor an average value \
                 target was set",
            ));
        }
    };
    let said = json!({"metric": source.get("metric"), "current": current});
    let status = json!({"type": "External", "external": said});
    let name = format!("external metric {}", called(source, &named));
    Ok(MetricResult { replicas, name, status })
}

/// What a value is held against, in thousandths.
enum MetricTarget {
    /// All of it.
    Value(i64),
    /// What each pod has of it.
    Average(i64),
    /// The source says neither.
    Nothing,
}

fn wanted(source: &Object) -> MetricTarget {
    let at = |name| milli(source, &["target", name]);
    match (at("value"), at("averageValue"), source.str_at(&["target", "type"])) {
        (_, Some(average), Some("AverageValue")) | (None, Some(average), _) => {
            MetricTarget::Average(average)
        }
        (Some(value), _, _) => MetricTarget::Value(value),
        (None, None, _) => MetricTarget::Nothing,
    }
}

/// A metric with the selector of its series, as people read it.
fn called(source: &Object, named: &MetricName) -> String {
    match source.map_at(&["metric", "selector"]) {
        Some(_) => format!("{}({})", named.name, named.selector),
        None => format!("{}(nil)", named.name),
    }
}

fn nothing_said() -> MissingFact {
    MissingFact::failed("the source of the metric says nothing")
}

/// What the status says of metrics: an empty entry for one that could not be had, as upstream.
pub(super) fn statuses(results: &[Result<MetricResult, MetricFailure>]) -> Vec<Value> {
    results
        .iter()
        .map(|result| match result {
            Ok(result) => result.status.clone(),
            Err(_) => json!({"type": ""}),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::amount;

    #[test]
    fn ha6_amounts_are_written_as_the_resource_is() {
        assert_eq!(amount("cpu", 250), "250m");
        assert_eq!(amount("cpu", 2000), "2");
        assert_eq!(amount("memory", 128 * 1024 * 1024 * 1000), "128Mi");
        assert_eq!(amount("", 10_000_000), "10k");
    }
}
