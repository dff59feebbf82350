//! What a HorizontalPodAutoscaler measures and how fast it may change a size: the rules of `spec.metrics` and
//! `spec.behavior`. Defaults and the other members are elsewhere.

use tenure_machinery::quantity::Quantity;
use tenure_machinery::validate::{objects, text};
use tenure_machinery::{Errors, Object, ObjectExt, Path, name};

/// Types of metrics, and the member that goes with each.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
/// The longest window of a behavior, in seconds.
const WINDOW_MAX: i64 = 3600;
/// The longest period of a policy, in seconds.
const PERIOD_MAX: i64 = 1800;
const NEITHER: &str = "a target value or average value is needed";
const NO_USAGE: &str = "a target average value or utilization is needed";

/// Checks `spec.metrics`.
pub(crate) fn validate_metrics(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let list = path.field("metrics");
    let mut measures_others = false;
    for (index, metric) in objects(spec, "metrics") {
        measures_others |= matches!(text(metric, "type"), "Object" | "External");
        validate_metric(metric, &list.index(index), errors);
    }
    if spec.int_at(&["minReplicas"]) == Some(0) && !measures_others {
        let why = "minReplicas 0 needs a metric of type Object or External";
        errors.forbidden(&list, why);
    }
}

fn validate_metric(metric: &Object, path: &Path<'_>, errors: &mut Errors) {
    let kind = text(metric, "type");
    let wanted = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, member)| *member);
    if wanted.is_none() {
        let kinds = SOURCES.map(|(name, _)| name);
        errors.not_supported(&path.field("type"), kind, &kinds);
    }
    for (name, member) in SOURCES {
        let place = path.field(member);
        match metric.map_at(&[member]) {
            Some(_) if wanted.is_some_and(|wanted| wanted != member) => {
                errors.forbidden(&place, "only the source of the type may be set");
            }
            Some(source) => validate_source(name, source, &place, errors),
            None if wanted == Some(member) => errors.required(&place, "the source of the type"),
            None => {}
        }
    }
}

fn validate_source(kind: &str, source: &Object, path: &Path<'_>, errors: &mut Errors) {
    match kind {
        "Object" => validate_object(source, &path.field("describedObject"), errors),
        "Resource" | "ContainerResource" if text(source, "name").is_empty() => {
            errors.required(&path.field("name"), "the name of a resource");
        }
        _ => {}
    }
    if kind == "ContainerResource" {
        let place = path.field("container");
        match text(source, "container") {
            "" => errors.required(&place, "the name of a container"),
            container => {
                for fault in name::dns_label_faults(container) {
                    errors.invalid(&place, format!("{container:?}"), fault);
                }
            }
        }
    }
    if matches!(kind, "Object" | "Pods" | "External") {
        let metric = path.field("metric");
        validate_segment(source.str_at(&["metric", "name"]), &metric.field("name"), errors);
    }
    let place = path.field("target");
    let target = source.map_at(&["target"]).cloned().unwrap_or_default();
    validate_target(&target, &place, errors);
    let has = |member: &str| target.contains_key(member);
    let (average, value, percent) = (has("averageValue"), has("value"), has("averageUtilization"));
    match kind {
        "Object" | "External" if !average && !value => {
            errors.required(&place.field("averageValue"), NEITHER);
        }
        "External" if average && value => {
            errors.forbidden(&place.field("value"), "only one of value and averageValue");
        }
        "Pods" if !average => errors.required(&place.field("averageValue"), "a positive amount"),
        "Resource" | "ContainerResource" if !average && !percent => {
            errors.required(&place.field("averageUtilization"), NO_USAGE);
        }
        "Resource" | "ContainerResource" if average && percent => {
            let why = "only one of averageValue and averageUtilization";
            errors.forbidden(&place.field("averageValue"), why);
        }
        _ => {}
    }
}

fn validate_object(source: &Object, path: &Path<'_>, errors: &mut Errors) {
    for member in ["kind", "name"] {
        let said = source.str_at(&["describedObject", member]);
        validate_segment(said, &path.field(member), errors);
    }
}

fn validate_segment(said: Option<&str>, path: &Path<'_>, errors: &mut Errors) {
    match said.unwrap_or_default() {
        "" => errors.required(path, ""),
        said => {
            for fault in name::path_segment_faults(said) {
                errors.invalid(path, format!("{said:?}"), fault);
            }
        }
    }
}

fn validate_target(target: &Object, path: &Path<'_>, errors: &mut Errors) {
    let place = path.field("type");
    match text(target, "type") {
        "" => errors.required(&place, "Utilization, Value or AverageValue"),
        "Utilization" | "Value" | "AverageValue" => {}
        kind => errors.invalid(
            &place,
            format!("{kind:?}"),
            "must be either Utilization, Value, or AverageValue",
        ),
    }
    for member in ["value", "averageValue"] {
        let Some(said) = target.get(member) else { continue };
        let positive = Quantity::from_value(said)
            .is_some_and(|amount| !amount.is_zero() && !amount.is_negative());
        if !positive {
            errors.invalid(&path.field(member), said, "must be positive");
        }
    }
    if let Some(percent) = target.int_at(&["averageUtilization"]).filter(|percent| *percent < 1) {
        errors.invalid(&path.field("averageUtilization"), percent, "must be greater than 0");
    }
}

/// Checks `spec.behavior`.
pub(crate) fn validate_behavior(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let path = path.field("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec.map_at(&["behavior", direction]) {
            validate_rules(rules, &path.field(direction), errors);
        }
    }
}

fn validate_rules(rules: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(window) = rules.int_at(&["stabilizationWindowSeconds"]) {
        bounded(window, 0, WINDOW_MAX, &path.field("stabilizationWindowSeconds"), errors);
    }
    let selections = ["Disabled", "Max", "Min"];
    if let Some(select) = rules.str_at(&["selectPolicy"])
        && !selections.contains(&select)
    {
        errors.not_supported(&path.field("selectPolicy"), select, &selections);
    }
    let policies = path.field("policies");
    if rules.list_at(&["policies"]).is_empty() {
        errors.required(&policies, "at least one policy");
    }
    for (index, policy) in objects(rules, "policies") {
        let place = policies.index(index);
        let kind = text(policy, "type");
        if !["Percent", "Pods"].contains(&kind) {
            errors.not_supported(&place.field("type"), kind, &["Percent", "Pods"]);
        }
        let number = |member| policy.int_at(&[member]).unwrap_or_default();
        if number("value") <= 0 {
            errors.invalid(&place.field("value"), number("value"), "must be greater than zero");
        }
        bounded(number("periodSeconds"), 1, PERIOD_MAX, &place.field("periodSeconds"), errors);
    }
    if let Some(tolerance) = rules.get("tolerance")
        && Quantity::from_value(tolerance).is_some_and(Quantity::is_negative)
    {
        errors.invalid(&path.field("tolerance"), tolerance, "must not be negative");
    }
}

fn bounded(number: i64, least: i64, most: i64, path: &Path<'_>, errors: &mut Errors) {
    if number < least {
        errors.invalid(path, number, &format!("must be at least {least}"));
    } else if number > most {
        errors.invalid(path, number, &format!("must be at most {most}"));
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::{Value, json};

    use crate::check::{faults, row};

    fn told(spec: Value) -> Vec<String> {
        let kind = row("autoscaling", "HorizontalPodAutoscaler");
        let mut whole = json!({"scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "maxReplicas": 3});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        faults(&kind, json!({"spec": whole}))
    }

    #[test]
    fn r136_metrics_of_an_autoscaler() {
        let target = json!({"type": "AverageValue", "averageValue": "10"});
        let good = json!({"metric": {"name": "m"}, "target": target});
        let external =
            |source: &Value| json!({"metrics": [{"type": "External", "external": source}]});
        assert!(told(external(&good)).is_empty());
        let both = json!({"type": "External", "external": good, "pods": good});
        assert_eq!(
            told(json!({"metrics": [both, {"type": "Pods"}, {"type": "Odd"}]})),
            [
                "spec.metrics[0].pods FieldValueForbidden",
                "spec.metrics[1].pods FieldValueRequired",
                "spec.metrics[2].type FieldValueNotSupported",
            ]
        );
        let odd = json!({"metric": {"name": "a/b"}, "target": {"type": "Odd", "value": "0"}});
        assert_eq!(
            told(external(&odd)),
            [
                "spec.metrics[0].external.metric.name FieldValueInvalid",
                "spec.metrics[0].external.target.type FieldValueInvalid",
                "spec.metrics[0].external.target.value FieldValueInvalid",
            ]
        );
        let usage = json!({"name": "cpu", "container": "", "target": {
            "type": "Utilization", "averageUtilization": 0}});
        assert_eq!(
            told(json!({"metrics": [{"type": "ContainerResource", "containerResource": usage}]})),
            [
                "spec.metrics[0].containerResource.container FieldValueRequired",
                "spec.metrics[0].containerResource.target.averageUtilization FieldValueInvalid",
            ]
        );
    }

    #[test]
    fn r136_an_autoscaler_of_nothing_measures_something_else_than_pods() {
        assert_eq!(told(json!({"minReplicas": 0})), ["spec.metrics FieldValueForbidden"]);
        let target = json!({"type": "Value", "value": "10"});
        let external = json!({"metric": {"name": "m"}, "target": target});
        let metrics = json!([{"type": "External", "external": external}]);
        assert!(told(json!({"minReplicas": 0, "metrics": metrics})).is_empty());
    }

    #[test]
    fn r136_behavior_of_an_autoscaler() {
        let rules = json!({"stabilizationWindowSeconds": 3601, "selectPolicy": "Most",
            "tolerance": "-1", "policies": [{"type": "Pod", "value": 0, "periodSeconds": 1801}]});
        assert_eq!(
            told(json!({"behavior": {"scaleUp": rules}})),
            [
                "spec.behavior.scaleUp.stabilizationWindowSeconds FieldValueInvalid",
                "spec.behavior.scaleUp.selectPolicy FieldValueNotSupported",
                "spec.behavior.scaleUp.policies[0].type FieldValueNotSupported",
                "spec.behavior.scaleUp.policies[0].value FieldValueInvalid",
                "spec.behavior.scaleUp.policies[0].periodSeconds FieldValueInvalid",
                "spec.behavior.scaleUp.tolerance FieldValueInvalid",
            ]
        );
    }
}
