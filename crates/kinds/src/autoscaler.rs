//! HorizontalPodAutoscaler, version 2: defaults and bounds of its size.

use serde_json::{Value, json};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use crate::autoscaler_metrics::{validate_behavior, validate_metrics};
use crate::stored::{keep, member, set_status, spec};

/// Rules of HorizontalPodAutoscaler.
pub(crate) struct AutoscalerRules;

const CPU_PERCENT: i64 = 80;

impl Rules for AutoscalerRules {
    fn default(&self, object: &mut Object) {
        let Some(spec) = member(object, "spec") else { return };
        spec.set_default("minReplicas", 1);
        if spec.list_at(&["metrics"]).is_empty() {
            let target = json!({"type": "Utilization", "averageUtilization": CPU_PERCENT});
            let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
            spec.insert("metrics".to_owned(), json!([metric]));
        }
        if let Some(behavior) = member(spec, "behavior") {
            let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
            let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
            default_direction(behavior, "scaleUp", Some(0), json!([pods, percent]));
            default_direction(behavior, "scaleDown", None, json!([percent]));
        }
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        set_status(object, json!({"currentMetrics": null, "desiredReplicas": 0}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        let min = spec.int_at(&["minReplicas"]).unwrap_or(1);
        let max = spec.int_at(&["maxReplicas"]).unwrap_or_default();
        if max < min {
            errors.invalid(&path.field("maxReplicas"), max, "must not be below minReplicas");
        }
        let place = path.field("scaleTargetRef");
        for member in ["kind", "name"] {
            let value = spec.str_at(&["scaleTargetRef", member]).unwrap_or_default();
            if value.is_empty() {
                errors.required(&place.field(member), "");
            }
        }
        validate_metrics(spec, &path, errors);
        validate_behavior(spec, &path, errors);
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        if let Some(min) = spec.int_at(&["minReplicas"]).filter(|min| *min < 0) {
            errors.invalid(&path.field("minReplicas"), min, "must be at least 0");
        }
        match spec.int_at(&["maxReplicas"]).unwrap_or_default() {
            0 => errors.required(&path.field("maxReplicas"), "must be more than 0"),
            max if max < 0 => {
                errors.invalid(&path.field("maxReplicas"), max, "must be more than 0");
            }
            _ => {}
        }
    }
}

fn default_direction(behavior: &mut Object, name: &str, window: Option<i64>, policies: Value) {
    let direction = behavior.map_mut(name);
    if let Some(window) = window {
        direction.set_default("stabilizationWindowSeconds", window);
    }
    direction.set_default("selectPolicy", "Max");
    if direction.list_at(&["policies"]).is_empty() {
        direction.insert("policies".to_owned(), policies);
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row};

    #[test]
    fn r136_autoscaler() {
        let kind = row("autoscaling", "HorizontalPodAutoscaler");
        let target = json!({"kind": "Deployment", "name": "d"});
        let body = json!({"spec": {"scaleTargetRef": target, "maxReplicas": 3, "behavior": {}}});
        let spec = created(&kind, body.clone())["spec"].clone();
        assert_eq!(spec["minReplicas"], json!(1));
        assert_eq!(spec["metrics"][0]["resource"]["target"]["averageUtilization"], json!(80));
        assert_eq!(spec["behavior"]["scaleUp"]["stabilizationWindowSeconds"], json!(0));
        assert!(faults(&kind, body).is_empty());
        assert_eq!(
            faults(&kind, json!({"spec": {"minReplicas": 2, "maxReplicas": 1}})),
            [
                "spec.maxReplicas FieldValueInvalid",
                "spec.scaleTargetRef.kind FieldValueRequired",
                "spec.scaleTargetRef.name FieldValueRequired",
            ]
        );
        assert_eq!(
            faults(
                &kind,
                json!({"spec": {"scaleTargetRef": {"kind": "Deployment"}, "minReplicas": -1}})
            ),
            [
                "spec.scaleTargetRef.name FieldValueRequired",
                "spec.minReplicas FieldValueInvalid",
                "spec.maxReplicas FieldValueRequired",
            ]
        );
    }
}
