//! Labels and label selectors as text; nothing is matched here.

use serde_json::Value;
use tenure_machinery::object::{Object, ObjectExt};

/// `a=1,b=2`, or `<none>`.
pub(crate) fn labels(labels: Option<&Object>) -> String {
    let pairs = labels.map(pairs).unwrap_or_default();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

/// A label selector, `<none>` when it says nothing and `<error>` when it makes no sense.
pub(crate) fn selector(selector: Option<&Object>) -> String {
    match selector.map(requirements) {
        None => "<none>".to_owned(),
        Some(Some(text)) if text.is_empty() => "<none>".to_owned(),
        Some(Some(text)) => text,
        Some(None) => "<error>".to_owned(),
    }
}

/// A label selector in the grammar of query parameters; `None` when an operator is unknown.
pub(crate) fn requirements(selector: &Object) -> Option<String> {
    let mut parts: Vec<(String, String)> = Vec::new();
    if let Some(labels) = selector.map_at(&["matchLabels"]) {
        parts.extend(labels.keys().cloned().zip(pairs(labels)));
    }
    for expression in selector.list_at(&["matchExpressions"]).iter().filter_map(Value::as_object) {
        let key = expression.str_at(&["key"]).unwrap_or_default();
        parts.push((key.to_owned(), requirement(key, expression)?));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    Some(parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(","))
}

fn requirement(key: &str, expression: &Object) -> Option<String> {
    let mut values: Vec<_> =
        expression.list_at(&["values"]).iter().filter_map(Value::as_str).collect();
    values.sort_unstable();
    let values = values.join(",");
    Some(match expression.str_at(&["operator"])? {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "Exists" => key.to_owned(),
        "DoesNotExist" => format!("!{key}"),
        _ => return None,
    })
}

fn pairs(labels: &Object) -> Vec<String> {
    labels
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect()
}

#[cfg(test)]
mod tests {
    //! Rules of `spec/api-server.md`.

    use serde_json::json;

    use super::*;

    fn show(value: &Value) -> String {
        selector(value.as_object())
    }

    #[test]
    fn r29_selectors_read_like_query_parameters() {
        let all = json!({
            "matchLabels": {"app": "web", "zone": "a"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["y", "x"]},
                {"key": "b", "operator": "DoesNotExist"},
                {"key": "c", "operator": "Exists"},
                {"key": "d", "operator": "NotIn", "values": ["z"]},
            ],
        });
        assert_eq!(show(&all), "app=web,!b,c,d notin (z),tier in (x,y),zone=a");
        assert_eq!(show(&json!({})), "<none>");
        assert_eq!(show(&json!(null)), "<none>");
        assert_eq!(show(&json!({"matchExpressions": [{"key": "a", "operator": "?"}]})), "<error>");
    }

    #[test]
    fn r29_labels_are_pairs() {
        assert_eq!(labels(json!({"b": "2", "a": "1"}).as_object()), "a=1,b=2");
        assert_eq!(labels(None), "<none>");
    }
}
