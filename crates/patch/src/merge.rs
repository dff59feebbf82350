//! JSON merge patch, RFC 7386.
//!
//! One step past the RFC, as upstream does: nulls are also dropped from objects inside lists.

use serde_json::Value;
use tenure_machinery::Object;

use crate::PatchError;

/// Merges the patch over the object: null deletes, objects merge, everything else replaces.
pub fn apply(mut object: Object, patch: &Value) -> Result<Object, PatchError> {
    let patch =
        patch.as_object().ok_or_else(|| PatchError::bad("a merge patch must be an object"))?;
    merge(&mut object, patch);
    Ok(object)
}

fn merge(target: &mut Object, patch: &Object) {
    for (name, value) in patch {
        match (value, target.get_mut(name)) {
            (Value::Null, _) => {
                target.remove(name);
            }
            (Value::Object(patch), Some(Value::Object(below))) => merge(below, patch),
            (value, Some(slot)) => *slot = without_nulls(value),
            (value, None) => {
                target.insert(name.clone(), without_nulls(value));
            }
        }
    }
}

/// A copy of the value in which no object has a null member.
pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, member)| !member.is_null())
                .map(|(name, member)| (name.clone(), without_nulls(member)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::PatchErrorKind;

    fn run(object: Value, patch: &Value) -> Value {
        let Value::Object(object) = object else { panic!("an object") };
        Value::Object(apply(object, patch).expect("a good patch"))
    }

    #[test]
    fn r84_null_deletes_and_arrays_replace() {
        let object = json!({"data": {"a": "1", "b": "2"}, "list": [1, 2]});
        let patch =
            json!({"data": {"a": null, "zz": null}, "list": [3], "new": {"x": {"y": null}}});
        assert_eq!(run(object, &patch), json!({"data": {"b": "2"}, "list": [3], "new": {"x": {}}}));
    }

    #[test]
    fn r84_a_patch_is_an_object() {
        for patch in [json!([1]), json!("x"), json!(null)] {
            let error = apply(Object::new(), &patch).expect_err("refused");
            assert_eq!(error.kind, PatchErrorKind::BadRequest);
        }
    }

    #[test]
    fn r84_examples_of_the_rfc() {
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(run(target, &patch), result);
        }
    }

    /// The algorithm as the RFC writes it, then nulls dropped from what the patch brought.
    fn model(target: Option<&Value>, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return without_nulls(patch) };
        let empty = Object::new();
        let target = target.and_then(Value::as_object).unwrap_or(&empty);
        let mut result = Object::new();
        for name in target.keys().chain(patch.keys()) {
            match (target.get(name), patch.get(name)) {
                (Some(kept), None) => result.insert(name.clone(), kept.clone()),
                (_, Some(Value::Null)) => None,
                (old, Some(new)) => result.insert(name.clone(), model(old, new)),
                (None, None) => None,
            };
        }
        Value::Object(result)
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(null)), Just(json!(1)), Just(json!("x"))];
        leaf.prop_recursive(3, 24, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
                prop::collection::btree_map("[abc]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn any_map() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[abc]", any_value(), 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn r84_equals_the_model(target in any_map(), patch in any_map()) {
            prop_assert_eq!(run(target.clone(), &patch), model(Some(&target), &patch));
        }
    }
}
