//! HorizontalPodAutoscaler, version 1: another view of what is stored as version 2.
//!
//! Version 1 knows one number, the use of CPU; everything else travels in annotations, so that a
//! client of version 1 that writes back what it read loses nothing.

use serde_json::{Map, Value, json};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Rules};

use crate::autoscaler::AutoscalerRules;
use crate::stored::{keep, member, set_status};

/// Rules of HorizontalPodAutoscaler in version 1.
pub(crate) struct AutoscalerV1Rules;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const TARGET: &str = "targetCPUUtilizationPercentage";
const USED: &str = "currentCPUUtilizationPercentage";
const CPU_PERCENT: i64 = 80;

impl Rules for AutoscalerV1Rules {
    fn default(&self, object: &mut Object) {
        let others = object.str_at(&["metadata", "annotations", METRICS]).is_some();
        let Some(spec) = member(object, "spec") else { return };
        spec.set_default("minReplicas", 1);
        if !others {
            spec.set_default(TARGET, CPU_PERCENT);
        }
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({"currentReplicas": 0, "desiredReplicas": 0}));
        for name in [CURRENT, CONDITIONS] {
            take_annotation(object, name);
        }
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
        for name in [CURRENT, CONDITIONS] {
            take_annotation(object, name);
            if let Some(text) = old.str_at(&["metadata", "annotations", name]) {
                annotate(object, name, text.to_owned());
            }
        }
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let mut whole = object.clone();
        to_stored(&mut whole);
        AutoscalerRules.validate(&whole, errors);
    }
}

/// From version 1 to the form that is stored.
pub fn to_stored(object: &mut Object) {
    let mut metrics: Vec<Value> =
        list(take_annotation(object, METRICS)).iter().filter_map(|m| newer(m, "target")).collect();
    let mut current: Vec<Value> =
        list(take_annotation(object, CURRENT)).iter().filter_map(|m| newer(m, "current")).collect();
    let conditions = list(take_annotation(object, CONDITIONS));
    let behavior = take_annotation(object, BEHAVIOR);
    if let Some(spec) = member(object, "spec") {
        if let Some(percent) = spec.remove(TARGET).filter(|percent| !percent.is_null()) {
            let target = json!({"type": "Utilization", "averageUtilization": percent});
            metrics
                .push(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}));
        }
        if !metrics.is_empty() {
            spec.insert("metrics".to_owned(), Value::Array(metrics));
        }
        if let Some(behavior) = behavior.and_then(|text| serde_json::from_str(&text).ok()) {
            spec.insert("behavior".to_owned(), recased(behavior, false));
        }
    }
    if let Some(status) = member(object, "status") {
        if let Some(percent) = status.remove(USED).filter(|percent| !percent.is_null()) {
            let used = json!({"averageUtilization": percent});
            current.push(json!({"type": "Resource", "resource": {"name": "cpu", "current": used}}));
        }
        let current = if current.is_empty() { Value::Null } else { Value::Array(current) };
        status.insert("currentMetrics".to_owned(), current);
        if !conditions.is_empty() {
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
    }
}

/// From the form that is stored to version 1.
pub fn to_shown(object: &mut Object) {
    let mut annotations: Vec<(&str, Value)> = Vec::new();
    if let Some(spec) = member(object, "spec") {
        let (percent, rest) = split(spec.remove("metrics"), "target");
        if let Some(percent) = percent {
            spec.insert(TARGET.to_owned(), percent);
        }
        annotations.extend(rest.map(|rest| (METRICS, rest)));
        let behavior = spec.remove("behavior").filter(|behavior| !behavior.is_null());
        annotations.extend(behavior.map(|behavior| (BEHAVIOR, recased(behavior, true))));
    }
    if let Some(status) = member(object, "status") {
        status.set_default("currentReplicas", 0);
        let (percent, rest) = split(status.remove("currentMetrics"), "current");
        if let Some(percent) = percent {
            status.insert(USED.to_owned(), percent);
        }
        annotations.extend(rest.map(|rest| (CURRENT, rest)));
        let conditions = status.remove("conditions").filter(|conditions| !conditions.is_null());
        annotations.extend(conditions.map(|conditions| (CONDITIONS, conditions)));
    }
    for (name, value) in annotations {
        annotate(object, name, value.to_string());
    }
}

/// The use of CPU among some metrics, and all others as an annotation writes them.
fn split(metrics: Option<Value>, side: &str) -> (Option<Value>, Option<Value>) {
    let (mut percent, mut rest) = (None, Vec::new());
    for metric in metrics.as_ref().and_then(Value::as_array).into_iter().flatten() {
        let cpu = metric.pointer("/resource/name").and_then(Value::as_str) == Some("cpu");
        let used = metric.pointer(&format!("/resource/{side}/averageUtilization"));
        match used.filter(|used| cpu && percent.is_none() && !used.is_null()) {
            Some(used) => percent = Some(used.clone()),
            None => rest.extend(older(metric, side)),
        }
    }
    (percent, (!rest.is_empty()).then_some(Value::Array(rest)))
}

fn take_annotation(object: &mut Object, name: &str) -> Option<String> {
    let metadata = member(object, "metadata")?;
    let annotations = member(metadata, "annotations")?;
    let taken = annotations.remove(name);
    if taken.is_some() && annotations.is_empty() {
        metadata.remove("annotations");
    }
    match taken {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn annotate(object: &mut Object, name: &str, text: String) {
    let annotations = object.map_mut("metadata").map_mut("annotations");
    annotations.insert(name.to_owned(), text.into());
}

fn list(text: Option<String>) -> Vec<Value> {
    let read = text.and_then(|text| serde_json::from_str(&text).ok());
    read.unwrap_or_default()
}

/// The member that holds the details of a kind of metric.
fn member_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return None,
    })
}

/// The names of the values of a metric in an annotation: share, average, whole.
fn value_names(kind: &str, side: &str) -> [&'static str; 3] {
    match (kind, side) {
        ("Object", "target") => ["", "averageValue", "targetValue"],
        ("Object", _) => ["", "averageValue", "currentValue"],
        (_, "target") => ["targetAverageUtilization", "targetAverageValue", "targetValue"],
        _ => ["currentAverageUtilization", "currentAverageValue", "currentValue"],
    }
}

const VALUES: [&str; 3] = ["averageUtilization", "averageValue", "value"];

/// A metric as annotations write it.
fn older(metric: &Value, side: &str) -> Option<Value> {
    let kind = metric.get("type")?.as_str()?;
    let name = member_of(kind)?;
    let details = metric.get(name)?.as_object()?;
    let mut made = Map::new();
    for member in ["name", "container"] {
        copy(details, member, &mut made, member);
    }
    if let Some(known) = details.map_at(&["metric"]) {
        copy(known, "name", &mut made, "metricName");
        let selector = if kind == "External" { "metricSelector" } else { "selector" };
        copy(known, "selector", &mut made, selector);
    }
    copy(details, "describedObject", &mut made, "target");
    let values = details.map_at(&[side]).cloned().unwrap_or_default();
    for (from, to) in VALUES.iter().zip(value_names(kind, side)) {
        copy(&values, from, &mut made, to);
    }
    Some(json!({"type": kind, name: made}))
}

/// A metric that an annotation holds, in the form that is stored.
fn newer(metric: &Value, side: &str) -> Option<Value> {
    let kind = metric.get("type")?.as_str()?;
    let name = member_of(kind)?;
    let details = metric.get(name)?.as_object()?;
    let mut made = Map::new();
    for member in ["name", "container"] {
        copy(details, member, &mut made, member);
    }
    let mut known = Map::new();
    copy(details, "metricName", &mut known, "name");
    for selector in ["selector", "metricSelector"] {
        copy(details, selector, &mut known, "selector");
    }
    if !known.is_empty() {
        made.insert("metric".to_owned(), Value::Object(known));
    }
    copy(details, "target", &mut made, "describedObject");
    let mut values = Map::new();
    for (to, from) in VALUES.iter().zip(value_names(kind, side)) {
        copy(details, from, &mut values, to);
    }
    if side == "target" {
        let what = match values.keys().next().map(String::as_str) {
            Some("averageUtilization") => "Utilization",
            Some("averageValue") => "AverageValue",
            _ => "Value",
        };
        values.insert("type".to_owned(), what.into());
    }
    made.insert(side.to_owned(), Value::Object(values));
    Some(json!({"type": kind, name: made}))
}

fn copy(from: &Object, name: &str, into: &mut Map<String, Value>, to: &str) {
    if let Some(value) = from.get(name).filter(|value| !value.is_null() && !to.is_empty()) {
        into.insert(to.to_owned(), value.clone());
    }
}

/// Members with a capital first letter, as the annotation has them, or without.
fn recased(value: Value, capital: bool) -> Value {
    let rename = |name: &str| {
        let mut letters = name.chars();
        let first = letters.next().map(|first| match capital {
            true => first.to_ascii_uppercase(),
            false => first.to_ascii_lowercase(),
        });
        first.into_iter().chain(letters).collect::<String>()
    };
    match value {
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .map(|(name, value)| (rename(&name), recased(value, capital)))
                .collect(),
        ),
        Value::Array(list) => {
            Value::Array(list.into_iter().map(|value| recased(value, capital)).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{to_shown, to_stored};
    use serde_json::{Value, json};

    fn stored() -> Value {
        json!({
            "metadata": {"name": "a", "annotations": {"note": "x"}},
            "spec": {
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "memory",
                        "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                    {"type": "Pods", "pods": {"metric": {"name": "hits"},
                        "target": {"type": "AverageValue", "averageValue": "5"}}},
                    {"type": "Resource", "resource": {"name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 70}}},
                ],
                "behavior": {"scaleDown": {"selectPolicy": "Max",
                    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}},
            },
            "status": {
                "currentReplicas": 1, "desiredReplicas": 2,
                "currentMetrics": [{"type": "Resource",
                    "resource": {"name": "cpu", "current": {"averageUtilization": 7}}}],
                "conditions": [{"type": "AbleToScale", "status": "True"}],
            },
        })
    }

    #[test]
    fn version_1_shows_cpu_and_keeps_the_rest_in_annotations() {
        let mut object = stored().as_object().unwrap().clone();
        to_shown(&mut object);
        assert_eq!(object["spec"], json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}));
        let status = json!({
            "currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 7,
        });
        assert_eq!(object["status"], status);
        let metrics = &object["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"];
        let metrics: Value = serde_json::from_str(metrics.as_str().unwrap()).unwrap();
        let expected = json!([
            {"type": "Resource", "resource": {"name": "memory", "targetAverageValue": "1Gi"}},
            {"type": "Pods", "pods": {"metricName": "hits", "targetAverageValue": "5"}},
        ]);
        assert_eq!(metrics, expected);
    }

    #[test]
    fn version_1_written_back_loses_nothing() {
        let mut object = stored().as_object().unwrap().clone();
        to_shown(&mut object);
        to_stored(&mut object);
        assert_eq!(Value::Object(object), stored());
    }
}
