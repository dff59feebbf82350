//! Values that a server fills in where a template says nothing (HI7).
//!
//! A flat list by the name of the member. It decides only whether an old revision still means what
//! a set says today; nothing is ever filled in from it.

use alloc::string::String;

use serde_json::{Value, json};
use tenure_machinery::Object;

/// Whether `wanted` is `held`, but for members that are at their defaults in one and absent in the
/// other.
pub(super) fn explain(held: &Object, wanted: &Object) -> bool {
    members("", held, wanted)
}

/// Compares what stands in the member `within`.
fn members(within: &str, held: &Object, wanted: &Object) -> bool {
    let absent = |name: &String, value: &Value| silent(within, name, value);
    held.iter().all(|(name, value)| match wanted.get(name) {
        Some(other) => same(name, value, other),
        None => absent(name, value),
    }) && wanted
        .iter()
        .filter(|(name, _)| !held.contains_key(*name))
        .all(|(name, value)| absent(name, value))
}

fn same(name: &str, held: &Value, wanted: &Value) -> bool {
    match (held, wanted) {
        (Value::Object(held), Value::Object(wanted)) => members(name, held, wanted),
        (Value::Array(held), Value::Array(wanted)) => {
            held.len() == wanted.len() && held.iter().zip(wanted).all(|(a, b)| same(name, a, b))
        }
        _ => held == wanted,
    }
}

/// Whether a member with this value says what its absence says.
fn silent(within: &str, name: &str, value: &Value) -> bool {
    let default = match (within, name) {
        // In a container or a probe these mean something else, and have no default.
        ("spec", "dnsPolicy") => json!("ClusterFirst"),
        ("spec", "restartPolicy") => json!("Always"),
        ("spec", "schedulerName") => json!("default-scheduler"),
        ("spec", "terminationGracePeriodSeconds") => json!(30),
        ("spec", "enableServiceLinks") => json!(true),
        (_, "terminationMessagePath") => json!("/dev/termination-log"),
        (_, "terminationMessagePolicy") => json!("File"),
        ("ports", "protocol") => json!("TCP"),
        ("httpGet", "scheme") => json!("HTTP"),
        (_, "timeoutSeconds" | "successThreshold") => json!(1),
        (_, "periodSeconds") => json!(10),
        (_, "failureThreshold") => json!(3),
        (_, "defaultMode") => json!(420),
        (_, "securityContext" | "resources") => json!({}),
        (_, "procMount") => json!("Default"),
        (_, "recursiveReadOnly") => json!("Disabled"),
        _ => return matches!(value, Value::Null),
    };
    *value == default
}
