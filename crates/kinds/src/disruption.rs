//! PodDisruptionBudget: how many pods must stay, or may go.

use serde_json::json;
use tenure_machinery::kind::MetadataTurn;
use tenure_machinery::validate::{
    validate_at_most_all, validate_count_or_percent, validate_label_selector,
    validate_non_negative, validate_one_of,
};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use crate::stored::{keep, set_status, spec};

/// Rules of PodDisruptionBudget.
pub(crate) struct PodDisruptionBudgetRules;

impl Rules for PodDisruptionBudgetRules {
    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        let status = json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        });
        set_status(object, status);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep(object, old, "status");
    }

    fn metadata_turn(&self) -> MetadataTurn {
        MetadataTurn::Alone
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let path = Path::Root.field("spec");
        let spec = spec(object);
        let members = ["minAvailable", "maxUnavailable"];
        let values = members.map(|member| spec.get(member).filter(|value| !value.is_null()));
        if values.iter().all(Option::is_some) {
            errors.invalid(&path, "{}", "minAvailable and maxUnavailable exclude each other");
        }
        for (member, value) in members.iter().zip(values) {
            if let Some(value) = value {
                let path = path.field(member);
                validate_count_or_percent(value, &path, errors);
                validate_at_most_all(value, &path, errors);
            }
        }
        if let Some(selector) = spec.map_at(&["selector"]) {
            validate_label_selector(selector, &path.field("selector"), errors);
        }
        let policies = &["AlwaysAllow", "IfHealthyBudget"];
        validate_one_of(spec, "unhealthyPodEvictionPolicy", policies, &path, errors);
    }

    fn validate_status(&self, object: &Object, _old: &Object, errors: &mut Errors) {
        let path = Path::Root.field("status");
        let Some(status) = object.map_at(&["status"]) else { return };
        for member in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            validate_non_negative(status, member, &path, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{created, faults, row};

    #[test]
    fn r136_pod_disruption_budget() {
        let kind = row("policy", "PodDisruptionBudget");
        let cases = [
            (json!({"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}), vec![]),
            (json!({"minAvailable": 1, "maxUnavailable": 1}), vec!["spec FieldValueInvalid"]),
            (json!({"minAvailable": -1}), vec!["spec.minAvailable FieldValueInvalid"]),
            (json!({"maxUnavailable": "101%"}), vec!["spec.maxUnavailable FieldValueInvalid"]),
            (json!({"maxUnavailable": "x"}), vec!["spec.maxUnavailable FieldValueInvalid"]),
            (json!({}), vec![]),
        ];
        for (spec, expected) in cases {
            assert_eq!(faults(&kind, json!({"spec": spec})), expected);
        }
        assert_eq!(
            created(&kind, json!({"spec": {}, "status": {"currentHealthy": 7}}))["status"],
            json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0,
                "expectedPods": 0})
        );
    }
}
