//! The form that label selectors have inside objects: `matchLabels` and `matchExpressions`.
//!
//! What is wrong with one is said where objects are checked; here it is understood or it is not.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value};

use super::{LabelRequirement, LabelRule, LabelSelector};

impl LabelSelector {
    /// Reads a selector inside an object; `None` when a part of it is not understood.
    #[must_use]
    pub fn from_object(selector: &Map<String, Value>) -> Option<LabelSelector> {
        let mut requirements = Vec::new();
        if let Some(labels) = present(selector, "matchLabels") {
            for (key, value) in labels.as_object()? {
                let rule = LabelRule::Equals(value.as_str()?.into());
                requirements.push(LabelRequirement { key: key.clone(), rule });
            }
        }
        if let Some(expressions) = present(selector, "matchExpressions") {
            for expression in expressions.as_array()? {
                requirements.push(requirement(expression.as_object()?)?);
            }
        }
        Some(LabelSelector::new(requirements))
    }
}

fn requirement(expression: &Map<String, Value>) -> Option<LabelRequirement> {
    let key = expression.get("key")?.as_str()?.into();
    let values = match present(expression, "values") {
        Some(values) => sorted(values.as_array()?)?,
        None => Vec::new(),
    };
    let rule = match (expression.get("operator")?.as_str()?, values.is_empty()) {
        ("In", false) => LabelRule::In(values),
        ("NotIn", false) => LabelRule::NotIn(values),
        ("Exists", true) => LabelRule::Exists,
        ("DoesNotExist", true) => LabelRule::Missing,
        _ => return None,
    };
    Some(LabelRequirement { key, rule })
}

fn sorted(values: &[Value]) -> Option<Vec<String>> {
    let mut values: Vec<String> =
        values.iter().map(|value| value.as_str().map(Into::into)).collect::<Option<_>>()?;
    values.sort_unstable();
    values.dedup();
    Some(values)
}

fn present<'a>(object: &'a Map<String, Value>, member: &str) -> Option<&'a Value> {
    object.get(member).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use serde_json::json;

    use super::*;

    fn read(value: &Value) -> Option<String> {
        value.as_object().and_then(LabelSelector::from_object).map(|selector| selector.to_string())
    }

    #[test]
    fn both_parts_are_read_and_nothing_selects_everything() {
        let both = json!({
            "matchLabels": { "a": "b" },
            "matchExpressions": [
                { "key": "c", "operator": "In", "values": ["y", "x", "y"] },
                { "key": "d", "operator": "NotIn", "values": ["z"] },
                { "key": "e", "operator": "Exists" },
                { "key": "f", "operator": "DoesNotExist", "values": [] },
            ],
        });
        assert_eq!(read(&both).as_deref(), Some("a=b,c in (x,y),d notin (z),e,!f"));
        assert_eq!(read(&json!({})).as_deref(), Some(""));
        assert_eq!(read(&json!({ "matchLabels": null })).as_deref(), Some(""));
    }

    #[test]
    fn what_is_not_understood_is_no_selector() {
        for part in [
            json!({ "matchLabels": { "a": 1 } }),
            json!({ "matchLabels": [] }),
            json!({ "matchExpressions": {} }),
            json!({ "matchExpressions": ["a"] }),
            json!({ "matchExpressions": [{ "operator": "Exists" }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "Near" }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "In" }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "NotIn", "values": [] }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "In", "values": [1] }] }),
            json!({ "matchExpressions": [{ "key": "a", "operator": "Exists", "values": ["b"] }] }),
        ] {
            assert_eq!(read(&part), None, "{part}");
        }
    }
}
