//! Selectors as objects hold them: `matchLabels` with `matchExpressions`, or a plain map.
//!
//! Whether a selector is well formed was decided when the object was written; one that is not
//! matches nothing.

use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::Value;
use tenure_core::selector::{LabelRequirement, LabelRule, LabelSelector};
use tenure_machinery::{Object, ObjectExt};

/// Whether an object's labels match.
#[must_use]
pub fn matches(selector: &LabelSelector, object: &Object) -> bool {
    match object.map_at(&["metadata", "labels"]) {
        Some(labels) => selector.matches(|key| labels.get(key).and_then(Value::as_str)),
        None => selector.matches(|_| None),
    }
}

/// The selector at a path, in the form of `matchLabels` and `matchExpressions`.
///
/// `None` means that nothing can match: it is missing or not understood.
#[must_use]
pub fn at(object: &Object, path: &[&str]) -> Option<LabelSelector> {
    LabelSelector::from_object(object.map_at(path)?)
}

/// The selector at a path, in the form of a plain map of labels.
#[must_use]
pub fn map_at(object: &Object, path: &[&str]) -> Option<LabelSelector> {
    let mut requirements = Vec::new();
    equalities(object.map_at(path)?, &mut requirements)?;
    Some(LabelSelector::new(requirements))
}

fn equalities(labels: &Object, requirements: &mut Vec<LabelRequirement>) -> Option<()> {
    for (key, value) in labels {
        let rule = LabelRule::Equals(value.as_str()?.to_string());
        requirements.push(LabelRequirement { key: key.clone(), rule });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{at, map_at, matches};
    use serde_json::{Value, json};
    use tenure_machinery::Object;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn expressions_and_labels_must_all_hold() {
        let set = object(json!({"spec": {"selector": {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "old", "operator": "DoesNotExist"},
        ]}}}));
        let selector = at(&set, &["spec", "selector"]).unwrap();
        let labelled = |labels: Value| object(json!({"metadata": {"labels": labels}}));
        assert!(matches(&selector, &labelled(json!({"app": "web", "tier": "a"}))));
        assert!(!matches(&selector, &labelled(json!({"app": "web", "tier": "c"}))));
        assert!(!matches(&selector, &labelled(json!({"app": "web", "tier": "a", "old": ""}))));
        assert!(!matches(&selector, &Object::new()));
    }

    #[test]
    fn a_selector_that_is_missing_or_unknown_matches_nothing() {
        assert!(at(&Object::new(), &["spec", "selector"]).is_none());
        let odd = object(json!({"s": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}));
        assert!(at(&odd, &["s"]).is_none());
        assert!(map_at(&object(json!({"s": {"a": 1}})), &["s"]).is_none());
    }
}
