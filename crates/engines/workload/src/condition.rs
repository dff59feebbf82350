//! Lists of conditions in a status: find one, set one, take one away.
//!
//! A condition whose status and reason stay the same is left as it is, times included.

use alloc::string::ToString;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::time;

/// The condition of a type.
#[must_use]
pub fn find<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Object> {
    conditions.iter().filter_map(Value::as_object).find(|c| c.str_at(&["type"]) == Some(kind))
}

/// Whether the condition of a type has this status.
#[must_use]
pub fn is(conditions: &[Value], kind: &str, status: &str) -> bool {
    find(conditions, kind).and_then(|c| c.str_at(&["status"])) == Some(status)
}

/// Whether the condition of a type has this reason.
#[must_use]
pub fn has_reason(conditions: &[Value], kind: &str, reason: &str) -> bool {
    find(conditions, kind).and_then(|c| c.str_at(&["reason"])) == Some(reason)
}

/// A condition that began now, without `lastUpdateTime`.
#[must_use]
pub fn new(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Object {
    let condition = json!({
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time::written(now),
    });
    condition.as_object().cloned().unwrap_or_default()
}

/// Puts a condition at the end, in place of the one of its type, unless status and reason are the same.
///
/// A status that stays keeps its `lastTransitionTime`.
pub fn set(conditions: &mut Vec<Value>, mut condition: Object) {
    let kind = condition.str_at(&["type"]).unwrap_or_default().to_string();
    if let Some(known) = find(conditions, &kind) {
        let same = |name: &str| known.get(name) == condition.get(name);
        if same("status") && same("reason") {
            return;
        }
        if same("status")
            && let Some(since) = known.get("lastTransitionTime").cloned()
        {
            condition.insert("lastTransitionTime".to_string(), since);
        }
    }
    remove(conditions, &kind);
    conditions.push(Value::Object(condition));
}

/// Puts a condition of this type and status into the status of an object: in the place of the one of its type,
/// or at the end. Its time moves with its status only, its words with every change.
pub fn put(
    object: &mut Object,
    (kind, status): (&str, &str),
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let mut condition = new(kind, status, reason, message, now);
    let conditions = object.map_mut("status").entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(conditions) = conditions else { return };
    let same = |known: &Value, name: &str, value: &str| {
        known.get(name).and_then(Value::as_str) == Some(value)
    };
    let Some(known) = conditions.iter_mut().find(|known| same(known, "type", kind)) else {
        conditions.push(Value::Object(condition));
        return;
    };
    if same(known, "status", status)
        && let Some(since) = known.get("lastTransitionTime").cloned()
    {
        condition.insert("lastTransitionTime".to_string(), since);
    }
    *known = Value::Object(condition);
}

/// Takes the condition of a type away.
pub fn remove(conditions: &mut Vec<Value>, kind: &str) {
    conditions.retain(|c| c.get("type").and_then(Value::as_str) != Some(kind));
}
