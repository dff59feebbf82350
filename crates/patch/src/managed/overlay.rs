//! The merge of an apply without its bookkeeping: nobody comes to own a field, and nobody loses one.
//!
//! Whoever lays something over an object this way is not asked what it meant last time, so nothing that is a
//! unit may be touched: what the configuration does not say would be lost without a word.

use serde_json::Value;
use tenure_machinery::Object;

use super::combine;
use crate::schema::{ListRule, MergeSchema};

/// Why a configuration was not laid over an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayError {
    /// Lists, maps or structs in it are units: where they are.
    Atomic(Vec<String>),
    /// It cannot be told apart into fields: two items of a list are one, or one has no key.
    Invalid(String),
}

/// Lays a configuration over an object.
///
/// # Errors
///
/// As [`OverlayError`] says; the object is as it was.
pub fn overlay<S: MergeSchema>(
    schema: &S,
    object: &Object,
    config: &Object,
) -> Result<Object, OverlayError> {
    combine::check(schema, config).map_err(OverlayError::Invalid)?;
    let mut units = Vec::new();
    find_in_map(schema, schema.root(), config, &mut String::new(), &mut units);
    match units.is_empty() {
        true => Ok(combine::merge(schema, object, config)),
        false => Err(OverlayError::Atomic(units)),
    }
}

/// Looks for units below a map or struct. Of a map the values are its own matter, as upstream has it.
fn find_in_map<S: MergeSchema>(
    schema: &S,
    node: S::Node,
    map: &Object,
    path: &mut String,
    found: &mut Vec<String>,
) {
    let length = path.len();
    for (name, value) in map {
        let member = schema.member(node, name);
        if member.named {
            path.push('.');
            path.push_str(name);
            find(schema, member.node, value, path, found);
            path.truncate(length);
        }
    }
}

fn find<S: MergeSchema>(
    schema: &S,
    node: S::Node,
    value: &Value,
    path: &mut String,
    found: &mut Vec<String>,
) {
    match value {
        Value::Object(map) => {
            if schema.atomic_map(node) {
                found.push(path.clone());
            }
            find_in_map(schema, node, map, path, found);
        }
        Value::Array(items) => {
            if matches!(schema.list(node), ListRule::Atomic) {
                found.push(path.clone());
            }
            let length = path.len();
            for (index, item) in items.iter().enumerate() {
                path.push_str(&format!("[{index}]"));
                find(schema, schema.item(node), item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.
    use serde_json::json;
    use tenure_schema::facts;

    use super::*;
    use crate::TypeSchema;

    fn deployment(object: Value, config: Value) -> Result<Value, OverlayError> {
        let schema = TypeSchema::new(facts(), facts().type_id("api.apps.v1.Deployment").unwrap());
        let (object, config) = (object.as_object().unwrap(), config.as_object().unwrap());
        overlay(&schema, object, config).map(Value::Object)
    }

    fn of_pod(spec: Value) -> Value {
        json!({"spec": {"template": {"spec": spec}}})
    }

    #[test]
    fn r164a_members_merge_and_items_are_told_apart_by_their_keys() {
        let object =
            of_pod(json!({"volumes": [{"name": "x"}, {"name": "y", "hostPath": {"path": "a"}}]}));
        let config = of_pod(
            json!({"volumes": [{"name": "y", "hostPath": {"type": "File"}}, {"name": "z"}]}),
        );
        assert_eq!(
            deployment(object, config),
            Ok(of_pod(json!({"volumes": [
                {"name": "x"}, {"name": "y", "hostPath": {"path": "a", "type": "File"}}, {"name": "z"},
            ]})))
        );
        let labels = |labels: Value| json!({"metadata": {"labels": labels}});
        assert_eq!(
            deployment(labels(json!({"a": "1", "b": "1"})), labels(json!({"b": "2", "c": "2"}))),
            Ok(labels(json!({"a": "1", "b": "2", "c": "2"})))
        );
    }

    #[test]
    fn r164a_what_is_a_unit_is_not_touched() {
        let units = |config: Value| match deployment(json!({}), config) {
            Err(OverlayError::Atomic(units)) => units,
            other => panic!("{other:?}"),
        };
        let selector = json!({"spec": {"selector": {"matchLabels": {"l": "v"}}}});
        assert_eq!(units(selector), [".spec.selector"]);
        let arguments = json!({"containers": [{"name": "a", "args": ["x"], "command": []}],
            "tolerations": []});
        assert_eq!(
            units(of_pod(arguments)),
            [
                ".spec.template.spec.containers[0].args",
                ".spec.template.spec.containers[0].command",
                ".spec.template.spec.tolerations",
            ]
        );
    }

    #[test]
    fn r164a_items_without_their_keys_and_twins_are_refused() {
        for (containers, wanted) in [
            (json!([{"image": "i"}]), "the element has no key"),
            (json!([{"name": "a"}, {"name": "a"}]), "duplicate entries for key"),
        ] {
            match deployment(json!({}), of_pod(json!({"containers": containers}))) {
                Err(OverlayError::Invalid(why)) => assert!(why.contains(wanted), "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
