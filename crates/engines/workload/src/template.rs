//! Pod templates: are two of them the same, and a short hash of one (PT5, DP3).
//!
//! Matching is by equality, never by hash; the hash only has to stay the same for the same template.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt};

/// The label that tells the pods of one template from those of another.
pub const HASH_LABEL: &str = "pod-template-hash";

/// Members that hold a map of texts, where empty and absent mean the same.
const MAPS: [&str; 7] =
    ["labels", "annotations", "nodeSelector", "matchLabels", "limits", "requests", "overhead"];

/// Whether two templates say the same, whatever their hash labels are.
#[must_use]
pub fn same(one: &Object, other: &Object) -> bool {
    members(one, other, &|name, a, b| match name {
        "metadata" => values(a, b, "metadata", true),
        _ => values(a, b, name, false),
    })
}

/// Whether a member is the same on both sides, by its name.
type Same<'a> = dyn Fn(&str, Option<&Value>, Option<&Value>) -> bool + 'a;

/// Compares all members that either side has.
fn members(one: &Object, other: &Object, same: &Same<'_>) -> bool {
    one.iter().all(|(name, value)| same(name, Some(value), other.get(name)))
        && other
            .iter()
            .filter(|(name, _)| !one.contains_key(*name))
            .all(|(name, value)| same(name, None, Some(value)))
}

fn values(one: Option<&Value>, other: Option<&Value>, name: &str, in_metadata: bool) -> bool {
    let is_map = MAPS.contains(&name);
    let there = |value: Option<&'_ Value>| value.is_some_and(|value| !is_empty(value, is_map));
    let (Some(one), Some(other)) = (one, other) else {
        return !there(one) && !there(other);
    };
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let quantities = matches!(name, "limits" | "requests" | "overhead");
            members(a, b, &|name, a, b| {
                if in_metadata && name == HASH_LABEL {
                    return true;
                }
                let amount = quantities || matches!(name, "sizeLimit" | "divisor");
                values(a, b, name, in_metadata) || (amount && same_amount(a, b))
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values(Some(a), Some(b), "", false))
        }
        _ => one == other || (is_empty(one, is_map) && is_empty(other, is_map)),
    }
}

fn is_empty(value: &Value, is_map: bool) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) if is_map => map.keys().all(|key| key == HASH_LABEL),
        _ => false,
    }
}

fn same_amount(one: Option<&Value>, other: Option<&Value>) -> bool {
    let amount = |value: Option<&Value>| value.and_then(Quantity::from_value);
    match (amount(one), amount(other)) {
        (Some(one), Some(other)) => one.canonical() == other.canonical(),
        _ => false,
    }
}

/// The hash of a template and of how many collisions there were, in characters that make no words.
#[must_use]
pub fn hash(template: &Object, collisions: Option<i64>) -> String {
    let mut plain = template.clone();
    if let Some(Value::Object(labels)) = plain.map_mut("metadata").get_mut("labels") {
        labels.remove(HASH_LABEL);
    }
    let plain = pruned(&Value::Object(plain), "").unwrap_or_default();
    let mut bytes: Vec<u8> = serde_json::to_vec(&plain).unwrap_or_default();
    if let Some(collisions) = collisions {
        bytes.extend_from_slice(&collisions.to_le_bytes());
    }
    safe(u64::from(fnv1a(&bytes)))
}

/// The value without nulls, empty lists and empty maps of texts; `None` when nothing is left of it.
fn pruned(value: &Value, name: &str) -> Option<Value> {
    if is_empty(value, MAPS.contains(&name)) || (name == "metadata" && *value == empty()) {
        return None;
    }
    Some(match value {
        Value::Object(map) => {
            let kept = map.iter().filter_map(|(k, v)| Some((k.clone(), pruned(v, k)?)));
            Value::Object(kept.collect())
        }
        Value::Array(list) => {
            Value::Array(list.iter().map(|v| pruned(v, "").unwrap_or_default()).collect())
        }
        other => other.clone(),
    })
}

fn empty() -> Value {
    Value::Object(Object::new())
}

/// 32-bit FNV-1a.
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// 32-bit FNV-1: multiplies first.
#[must_use]
pub fn fnv1(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte))
}

/// A number in decimal, each digit written as a character that makes no words.
#[must_use]
pub fn safe(number: u64) -> String {
    let letter = |digit: char| match digit {
        '0' => '4',
        '1' => '5',
        '2' => '6',
        '3' => '7',
        '4' => '8',
        '5' => '9',
        '6' => 'b',
        '7' => 'c',
        '8' => 'd',
        _ => 'f',
    };
    number.to_string().chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{fnv1, fnv1a, hash, safe, same};
    use serde_json::{Value, json};
    use tenure_machinery::Object;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn pt5_hash_is_stable_and_made_of_safe_letters() {
        assert_eq!((fnv1a(b"foobar"), fnv1(b"foobar")), (0xbf9c_f968, 0x31f0_b262));
        assert_eq!(safe(1_234_567_890), "56789bcdf4");
        let template = object(json!({"metadata": {"labels": {"app": "web"}}, "spec": {"a": 1}}));
        let known = hash(&template, None);
        assert!(known.chars().all(|c| "456789bcdf".contains(c)) && known.len() <= 10);
        assert_ne!(known, hash(&template, Some(0)));
        assert_ne!(hash(&template, Some(1)), hash(&template, Some(0)));
        // Written down so that a change of the hash cannot go unseen: it would restart every pod.
        assert_eq!(known, "5f957d684c");
    }

    #[test]
    fn pt5_hash_ignores_what_says_nothing() {
        let bare = object(json!({"metadata": {"labels": {"app": "web"}}, "spec": {"a": 1}}));
        let padded = object(json!({
            "metadata": {
                "labels": {"app": "web", "pod-template-hash": "4"},
                "annotations": {}, "creationTimestamp": null,
            },
            "spec": {"a": 1, "tolerations": []},
        }));
        assert_eq!(hash(&bare, None), hash(&padded, None));
        assert!(same(&bare, &padded) && same(&padded, &bare));
    }

    #[test]
    fn dp3_templates_are_compared_by_meaning() {
        let cases = [
            (json!({"spec": {"v": {"emptyDir": {}}}}), json!({"spec": {"v": {}}}), false),
            (
                json!({"spec": {"r": {"limits": {"cpu": "1"}}}}),
                json!({"spec": {"r": {"limits": {"cpu": "1000m"}}}}),
                true,
            ),
            (
                json!({"spec": {"r": {"limits": {"cpu": "1"}}}}),
                json!({"spec": {"r": {"limits": {"cpu": "2"}}}}),
                false,
            ),
            (json!({"spec": {"l": [1, 2]}}), json!({"spec": {"l": [1]}}), false),
            (json!({"metadata": {}}), json!({"spec": null}), false),
            (
                json!({"metadata": {"labels": {"pod-template-hash": "x"}}}),
                json!({"metadata": {}}),
                true,
            ),
            (
                json!({"spec": {"nodeSelector": {"pod-template-hash": "x"}}}),
                json!({"spec": {"nodeSelector": {"pod-template-hash": "y"}}}),
                false,
            ),
        ];
        for (one, other, expected) in cases {
            let (one, other) = (object(one), object(other));
            assert_eq!(same(&one, &other), expected, "{one:?} {other:?}");
            assert_eq!(same(&other, &one), expected, "{other:?} {one:?}");
        }
    }
}
