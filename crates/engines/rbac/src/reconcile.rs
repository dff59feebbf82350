//! What a start does to a bootstrap object that exists already (R156): it adds, it never takes away.

use alloc::string::String;
use alloc::vec::Vec;

use serde_json::{Map, Value, json};

use crate::bootstrap::AUTO_UPDATE;
use crate::cover::missing;
use crate::json::items;
use crate::role::BindingSubject;
use crate::rule::PolicyRule;

type Object = Map<String, Value>;

/// What must be done to an object so that it holds all it should.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    /// Nothing.
    Same,
    /// Write this in its place.
    Update(Object),
    /// Delete it and create what was expected, since a binding's role cannot change.
    Recreate,
}

/// Compares a role or binding with what it should hold.
///
/// Labels, annotations, rules, subjects and selectors that are missing are added; whoever annotated
/// the object against updates is left alone.
#[must_use]
pub fn reconcile(existing: &Object, expected: &Object) -> Reconciled {
    let opted_out = existing
        .get("metadata")
        .and_then(|metadata| metadata.get("annotations")?.get(AUTO_UPDATE.0)?.as_str());
    if opted_out == Some("false") {
        return Reconciled::Same;
    }
    if existing.get("roleRef") != expected.get("roleRef") {
        return Reconciled::Recreate;
    }
    let mut object = existing.clone();
    for field in ["labels", "annotations"] {
        add_pairs(&mut object, expected, field);
    }
    add_rules(&mut object, expected);
    add_subjects(&mut object, expected);
    add_selectors(&mut object, expected);
    if object == *existing { Reconciled::Same } else { Reconciled::Update(object) }
}

fn add_pairs(object: &mut Object, expected: &Object, field: &str) {
    let wanted = expected.get("metadata").and_then(|metadata| metadata.get(field)?.as_object());
    for (key, value) in wanted.into_iter().flatten() {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        let Some(metadata) = metadata.as_object_mut() else { return };
        let pairs = metadata.entry(field).or_insert_with(|| json!({}));
        if let Some(pairs) = pairs.as_object_mut() {
            pairs.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

fn add_rules(object: &mut Object, expected: &Object) {
    // What an aggregated role should hold is not what it held in an untouched cluster.
    if expected.contains_key("aggregationRule") {
        return;
    }
    let rules = |object: &Object| {
        items(object.get("rules")).map(PolicyRule::from_value).collect::<Vec<PolicyRule>>()
    };
    let absent = missing(&rules(object), &rules(expected));
    append(object, "rules", absent.iter().map(PolicyRule::to_value).collect());
}

fn add_subjects(object: &mut Object, expected: &Object) {
    let known: Vec<BindingSubject> =
        items(object.get("subjects")).filter_map(BindingSubject::from_value).collect();
    let absent = items(expected.get("subjects"))
        .filter(|wanted| {
            BindingSubject::from_value(wanted).is_some_and(|wanted| !known.contains(&wanted))
        })
        .cloned()
        .collect();
    append(object, "subjects", absent);
}

fn add_selectors(object: &mut Object, expected: &Object) {
    let list = "clusterRoleSelectors";
    let Some(wanted) = expected.get("aggregationRule") else {
        // Rules of a role that gathers are not its own, so it must stop gathering.
        object.remove("aggregationRule");
        return;
    };
    let rule = object.entry("aggregationRule").or_insert_with(|| json!({}));
    if !rule.is_object() {
        *rule = json!({});
    }
    let Some(rule) = rule.as_object_mut() else { return };
    let absent: Vec<Value> = items(wanted.get(list))
        .filter(|wanted| !items(rule.get(list)).any(|known| known == *wanted))
        .cloned()
        .collect();
    append(rule, list, absent);
}

fn append(object: &mut Object, field: &str, more: Vec<Value>) {
    if more.is_empty() {
        return;
    }
    let list = object.entry(String::from(field)).or_insert(Value::Null);
    match list.as_array_mut() {
        Some(list) => list.extend(more),
        None => *list = Value::Array(more),
    }
}
