//! Whether a node is a place for a pod: node selector, required node affinity, taints.
//!
//! What a node has left to give, and which of several nodes is better, is decided elsewhere.

use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::owner;

/// Whether a node has what `nodeSelector` and the required node affinity of a pod's spec ask for.
#[must_use]
pub fn attracts(spec: &Object, node: &Object) -> bool {
    let selected = spec.map_at(&["nodeSelector"]).is_none_or(|labels| {
        labels.iter().all(|(key, value)| owner::label(node, key) == value.as_str())
    });
    let required = spec.map_at(&[
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ]);
    selected && required.is_none_or(|required| one_term_matches(required, node))
}

/// Whether a node has what a node selector asks for. Terms are alternatives; none at all matches no node.
#[must_use]
pub fn one_term_matches(required: &Object, node: &Object) -> bool {
    let terms = required.list_at(&["nodeSelectorTerms"]).iter().filter_map(Value::as_object);
    terms.into_iter().any(|term| term_matches(term, node))
}

/// Whether a node has what one term of node affinity asks for. A term that says nothing matches nothing.
#[must_use]
pub fn term_matches(term: &Object, node: &Object) -> bool {
    let expressions = term.list_at(&["matchExpressions"]);
    let fields = term.list_at(&["matchFields"]);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|e| requirement(e, &|key| owner::label(node, key)))
        && fields.iter().all(|e| requirement(e, &|key| field(node, key)))
}

fn field<'a>(node: &'a Object, key: &str) -> Option<&'a str> {
    (key == "metadata.name").then(|| node.name())
}

fn requirement<'a>(expression: &Value, get: &dyn Fn(&str) -> Option<&'a str>) -> bool {
    let Some(expression) = expression.as_object() else { return false };
    let found = expression.str_at(&["key"]).and_then(get);
    let values: Vec<&str> =
        expression.list_at(&["values"]).iter().filter_map(Value::as_str).collect();
    match expression.str_at(&["operator"]).unwrap_or_default() {
        "In" => found.is_some_and(|found| values.contains(&found)),
        "NotIn" => found.is_none_or(|found| !values.contains(&found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => integers(found, &values).is_some_and(|(found, value)| found > value),
        "Lt" => integers(found, &values).is_some_and(|(found, value)| found < value),
        _ => false,
    }
}

fn integers(found: Option<&str>, values: &[&str]) -> Option<(i64, i64)> {
    let [value] = values else { return None };
    Some((found?.parse().ok()?, value.parse().ok()?))
}

/// Whether a node has a taint with one of these effects that none of the tolerations covers.
#[must_use]
pub fn repels(node: &Object, tolerations: &[Value], effects: &[&str]) -> bool {
    let taints = node.list_at(&["spec", "taints"]).iter().filter_map(Value::as_object);
    taints
        .filter(|taint| taint.str_at(&["effect"]).is_some_and(|effect| effects.contains(&effect)))
        .any(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

/// Whether a toleration covers a taint.
#[must_use]
pub fn tolerates(toleration: &Value, taint: &Object) -> bool {
    let Some(toleration) = toleration.as_object() else { return false };
    let said = |name: &str| toleration.str_at(&[name]).unwrap_or_default();
    let has = |name: &str| taint.str_at(&[name]).unwrap_or_default();
    if !said("effect").is_empty() && said("effect") != has("effect") {
        return false;
    }
    if !said("key").is_empty() && said("key") != has("key") {
        return false;
    }
    let values = || Some((has("value").parse::<i64>().ok()?, said("value").parse::<i64>().ok()?));
    match said("operator") {
        "Exists" => true,
        "" | "Equal" => said("value") == has("value"),
        "Lt" => values().is_some_and(|(taint, limit)| taint < limit),
        "Gt" => values().is_some_and(|(taint, limit)| taint > limit),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{attracts, repels};
    use serde_json::{Value, json};
    use tenure_machinery::Object;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    fn affinity(terms: Value) -> Object {
        object(json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        }}}))
    }

    #[test]
    fn ds1_node_affinity_reads_every_operator() {
        let node =
            object(json!({"metadata": {"name": "n1", "labels": {"zone": "a", "cpus": "8"}}}));
        let one = |key: &str, operator: &str, values: Value| {
            affinity(json!([{"matchExpressions": [
                {"key": key, "operator": operator, "values": values},
            ]}]))
        };
        let cases = [
            (one("zone", "In", json!(["a", "b"])), true),
            (one("zone", "In", json!(["b"])), false),
            (one("zone", "NotIn", json!(["b"])), true),
            (one("disk", "NotIn", json!(["b"])), true),
            (one("zone", "Exists", json!([])), true),
            (one("disk", "Exists", json!([])), false),
            (one("disk", "DoesNotExist", json!([])), true),
            (one("cpus", "Gt", json!(["4"])), true),
            (one("cpus", "Gt", json!(["8"])), false),
            (one("cpus", "Lt", json!(["16"])), true),
            (one("zone", "Lt", json!(["16"])), false),
            (one("zone", "Like", json!(["a"])), false),
            (affinity(json!([])), false),
            (affinity(json!([{}])), false),
            (
                affinity(json!([{}, {"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]},
                ]}])),
                true,
            ),
            (object(json!({"nodeSelector": {"zone": "a"}})), true),
            (object(json!({"nodeSelector": {"zone": "a", "disk": "x"}})), false),
            (Object::new(), true),
        ];
        for (spec, expected) in cases {
            assert_eq!(attracts(&spec, &node), expected, "{spec:?}");
        }
    }

    #[test]
    fn ds1_a_taint_repels_unless_tolerated() {
        let taint = json!({"key": "own", "value": "x", "effect": "NoSchedule"});
        let node = object(json!({"spec": {"taints": [taint]}}));
        let cases = [
            (json!([]), true),
            (json!([{"operator": "Exists"}]), false),
            (json!([{"key": "own", "operator": "Exists"}]), false),
            (json!([{"key": "own", "value": "x"}]), false),
            (json!([{"key": "own", "value": "y"}]), true),
            (json!([{"key": "own", "operator": "Exists", "effect": "NoExecute"}]), true),
            (json!([{"key": "other", "operator": "Exists"}]), true),
        ];
        for (tolerations, expected) in cases {
            let tolerations = tolerations.as_array().unwrap();
            assert_eq!(repels(&node, tolerations, &["NoSchedule"]), expected, "{tolerations:?}");
            assert!(!repels(&node, tolerations, &["NoExecute"]));
        }
    }
}
