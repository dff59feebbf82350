//! RuntimeClass: a handler that never changes, what it costs, and where it runs.

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_machinery::kind::UpdateTurn;
use tenure_machinery::validate::{objects, text, validate_frozen};
use tenure_machinery::{Errors, Object, ObjectExt, Path, Rules};

use crate::podspec::selector::validate_labels;
use crate::podspec::text::dns_label;
use crate::podspec::{node_label_advice, validate_resource_requirements, validate_tolerations};

/// Rules of RuntimeClass.
pub(crate) struct RuntimeClassRules;

impl Rules for RuntimeClassRules {
    fn validate(&self, object: &Object, errors: &mut Errors) {
        if let Some(overhead) = object.map_at(&["overhead"]) {
            let fixed = overhead.get("podFixed").cloned().unwrap_or(Value::Null);
            let limits = Object::from_iter([("limits".to_owned(), fixed)]);
            validate_resource_requirements(&limits, &[], &Path::Root.field("overhead"), errors);
        }
        if let Some(scheduling) = object.map_at(&["scheduling"]) {
            validate_scheduling(scheduling, &Path::Root.field("scheduling"), errors);
        }
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        match text(object, "handler") {
            "" => errors.required(&Path::Root.field("handler"), ""),
            handler => dns_label(handler, &Path::Root.field("handler"), errors),
        }
    }

    fn update_turn(&self) -> UpdateTurn {
        UpdateTurn::Only
    }

    fn validate_update(&self, object: &Object, _old: &Object, errors: &mut Errors) {
        // Of a handler that changed the types say no more than that, so the code says its form.
        let handler = text(object, "handler");
        if !handler.is_empty() {
            dns_label(handler, &Path::Root.field("handler"), errors);
        }
        self.validate(object, errors);
    }

    fn validate_update_last(&self, object: &Object, old: &Object, errors: &mut Errors) {
        validate_frozen(object, old, "handler", &Path::Root, errors);
        if text(object, "handler").is_empty() {
            errors.required(&Path::Root.field("handler"), "");
        }
    }

    fn warnings(&self, object: &Object, _old: Option<&Object>) -> Vec<String> {
        let labels = object.map_at(&["scheduling", "nodeSelector"]).into_iter().flatten();
        labels
            .filter_map(|(label, _)| node_label_advice(label))
            .map(|advice| format!("scheduling.nodeSelector: {advice}"))
            .collect()
    }
}

fn validate_scheduling(scheduling: &Object, path: &Path<'_>, errors: &mut Errors) {
    if let Some(labels) = scheduling.map_at(&["nodeSelector"]) {
        validate_labels(labels, &path.field("nodeSelector"), errors);
    }
    let list = path.field("tolerations");
    validate_tolerations(scheduling, &list, errors);
    let mut seen = BTreeSet::new();
    for (index, toleration) in objects(scheduling, "tolerations") {
        let key = ["key", "operator", "value", "effect"].map(|name| text(toleration, name));
        if !seen.insert(key) {
            errors.duplicate(&list.index(index), Value::Object(toleration.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;

    use crate::check::{faults, row, update_faults, warned, warned_update};

    #[test]
    fn r136_runtime_class() {
        let kind = row("node.k8s.io", "RuntimeClass");
        assert_eq!(faults(&kind, json!({})), ["handler FieldValueRequired"]);
        assert_eq!(faults(&kind, json!({"handler": "A"})), ["handler FieldValueInvalid"]);
        assert_eq!(
            update_faults(&kind, json!({"handler": "a"}), json!({"handler": "b"})),
            ["handler FieldValueInvalid"]
        );
        let negative = json!({"podFixed": {"cpu": "-1"}});
        assert_eq!(
            faults(&kind, json!({"handler": "A", "overhead": negative})),
            ["overhead.limits[cpu] FieldValueInvalid", "handler FieldValueInvalid"]
        );
        assert_eq!(
            update_faults(
                &kind,
                json!({"handler": "a"}),
                json!({"handler": "A", "overhead": negative})
            ),
            [
                "handler FieldValueInvalid",
                "overhead.limits[cpu] FieldValueInvalid",
                "handler FieldValueInvalid",
            ]
        );
        assert_eq!(
            update_faults(&kind, json!({"handler": "a"}), json!({})),
            ["handler FieldValueInvalid", "handler FieldValueRequired"]
        );
    }

    #[test]
    fn r136_runtime_class_overhead_and_scheduling() {
        let kind = row("node.k8s.io", "RuntimeClass");
        let of = |rest: serde_json::Value| {
            let mut body = json!({"handler": "a"});
            body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            faults(&kind, body)
        };
        assert_eq!(
            of(json!({"overhead": {"podFixed": {"cpu": "1", "memory": "1Gi"}}, "scheduling": {
                "nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}]}})),
            [""; 0]
        );
        assert_eq!(
            of(json!({"overhead": {"podFixed": {"cpu": "-1"}}})),
            ["overhead.limits[cpu] FieldValueInvalid"]
        );
        assert_eq!(
            of(json!({"scheduling": {"nodeSelector": {"a b": ""}}})),
            ["scheduling.nodeSelector FieldValueInvalid"]
        );
        let twice = json!([
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2},
        ]);
        assert_eq!(
            of(json!({"scheduling": {"tolerations": twice}})),
            ["scheduling.tolerations[1] FieldValueDuplicate"]
        );
        assert_eq!(
            of(json!({"scheduling": {"tolerations": [{"operator": "Equal"}]}})),
            ["scheduling.tolerations[0].operator FieldValueInvalid"]
        );
    }

    #[test]
    fn r31_deprecated_labels_in_a_runtime_class() {
        let kind = row("node.k8s.io", "RuntimeClass");
        let body =
            |label: &str| json!({"handler": "a", "scheduling": {"nodeSelector": {label: ""}}});
        assert_eq!(warned(&kind, body("kubernetes.io/os")), [""; 0]);
        let old = body("beta.kubernetes.io/os");
        assert_eq!(warned(&kind, old.clone()).len(), 1);
        assert_eq!(warned_update(&kind, old.clone(), old).len(), 1);
    }
}
