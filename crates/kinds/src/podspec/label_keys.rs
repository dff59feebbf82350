//! `matchLabelKeys` and `mismatchLabelKeys`: a new pod's own labels, merged into the selectors beside them.

use serde_json::{Value, json};
use tenure_machinery::Object;

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Says in every selector of a new pod's affinity and spreading which values its own labels have. Keys that the
/// pod has no label for say nothing, and a selector that is not set selects nobody.
pub fn merge_label_keys(pod: &mut Object) {
    let labels = pod.get("metadata").and_then(|metadata| metadata.get("labels"));
    let Some(Value::Object(labels)) = labels.cloned() else { return };
    let Some(Value::Object(spec)) = pod.get_mut("spec") else { return };
    for constraint in list(spec.get_mut("topologySpreadConstraints")) {
        merge(constraint, &[("matchLabelKeys", "In")], &labels);
    }
    let both = [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")];
    for member in ["podAffinity", "podAntiAffinity"] {
        let affinity = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(member));
        let Some(Value::Object(affinity)) = affinity else { continue };
        for weighted in list(affinity.get_mut(PREFERRED)) {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                merge(term, &both, &labels);
            }
        }
        for term in list(affinity.get_mut(REQUIRED)) {
            merge(term, &both, &labels);
        }
    }
}

fn list(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}

fn merge(term: &mut Value, members: &[(&str, &str)], labels: &Object) {
    let mut merged = Vec::new();
    for (member, operator) in members {
        let keys = term.get(*member).and_then(Value::as_array).into_iter().flatten();
        for key in keys.filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                merged.push(json!({ "key": key, "operator": operator, "values": [value] }));
            }
        }
    }
    let Some(Value::Object(selector)) = term.get_mut("labelSelector") else { return };
    if merged.is_empty() {
        return;
    }
    match selector.get_mut("matchExpressions") {
        Some(Value::Array(expressions)) => expressions.append(&mut merged),
        _ => {
            selector.insert("matchExpressions".to_owned(), Value::Array(merged));
        }
    }
}
