//! The merge and the removal that apply is made of. Both follow the schema and know no managers.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;
use tenure_machinery::Object;

use super::element;
use super::set::FieldSet;
use crate::schema::{ListRule, MergeSchema};

/// Lays a configuration over a live object.
pub(super) fn merge<S: MergeSchema>(schema: &S, live: &Object, config: &Object) -> Object {
    merge_maps(schema, schema.root(), live, config)
}

fn merge_maps<S: MergeSchema>(schema: &S, node: S::Node, live: &Object, config: &Object) -> Object {
    // Only what the configuration leaves alone is copied; the rest is made by the merge.
    let alone = live.iter().filter(|(name, _)| !config.contains_key(*name));
    let mut merged: Object = alone.map(|(name, value)| (name.clone(), value.clone())).collect();
    for (name, config) in config {
        let value = merge_values(schema, schema.member(node, name).node, live.get(name), config);
        merged.insert(name.clone(), value);
    }
    merged
}

fn merge_values<S: MergeSchema>(
    schema: &S,
    node: S::Node,
    live: Option<&Value>,
    config: &Value,
) -> Value {
    let granular = match live {
        Some(Value::Object(_)) => !schema.atomic_map(node),
        Some(Value::Array(_)) => !matches!(schema.list(node), ListRule::Atomic),
        _ => false,
    };
    match (live, config) {
        (Some(Value::Object(live)), Value::Object(config)) if granular => {
            Value::Object(merge_maps(schema, node, live, config))
        }
        (Some(Value::Array(live)), Value::Array(config)) if granular => {
            Value::Array(merge_lists(schema, node, live, config))
        }
        // A null says nothing about the parts that are there.
        (Some(live @ (Value::Object(_) | Value::Array(_))), Value::Null) if granular => {
            live.clone()
        }
        _ => config.clone(),
    }
}

/// Merges two lists with parts: the order of the configuration, with the others of the live list
/// left where they stood between them.
fn merge_lists<S: MergeSchema>(
    schema: &S,
    node: S::Node,
    live: &[Value],
    config: &[Value],
) -> Vec<Value> {
    let steps = |list: &[Value]| -> Vec<Option<String>> {
        list.iter().map(|item| element::item(schema, node, item)).collect()
    };
    let (live_steps, config_steps) = (steps(live), steps(config));
    let mut found: HashMap<&str, Option<&Value>> = HashMap::with_capacity(live.len());
    for (step, item) in live_steps.iter().zip(live) {
        if let Some(step) = step {
            // Items that occur twice are not merged with, but replaced.
            found.entry(step).and_modify(|twin| *twin = None).or_insert(Some(item));
        }
    }
    let configured: HashSet<&str> = config_steps.iter().flatten().map(String::as_str).collect();
    let mut shared: VecDeque<&str> = config_steps
        .iter()
        .flatten()
        .map(String::as_str)
        .filter(|step| found.contains_key(step))
        .collect();
    let mut done: HashSet<&str> = HashSet::new();
    let mut merged = Vec::with_capacity(live.len().max(config.len()));
    let mut left = live_steps.iter().zip(live).peekable();
    let mut right = config_steps.iter().zip(config).peekable();
    loop {
        let wanted = right.peek().map(|(step, _)| step.as_deref().unwrap_or_default());
        if let Some((step, item)) = left.peek() {
            let step = step.as_deref();
            let Some(step) = step.filter(|step| configured.contains(step)) else {
                merged.push((*item).clone());
                left.next();
                continue;
            };
            // A shared item waits for its turn in the order of the configuration.
            let waits = shared.front().is_some_and(|next| *next != step);
            if wanted.is_none() || (waits && wanted != Some(step)) {
                left.next();
                continue;
            }
            // A further copy of what was merged makes room for one item of the configuration.
            if wanted == Some(step) || done.contains(step) {
                left.next();
            }
        }
        let Some((step, item)) = right.next() else { break };
        let step = step.as_deref().unwrap_or_default();
        let old = found.get(step).copied().flatten();
        merged.push(merge_values(schema, schema.item(node), old, item));
        done.insert(step);
        if shared.front() == Some(&step) {
            shared.pop_front();
        }
    }
    merged
}

/// Takes the fields of the set out of an object; a part that loses everything becomes null.
pub(super) fn remove<S: MergeSchema>(schema: &S, object: &mut Object, set: &FieldSet) {
    remove_members(schema, schema.root(), object, set);
}

fn remove_members<S: MergeSchema>(schema: &S, node: S::Node, map: &mut Object, set: &FieldSet) {
    for (step, member, below) in set.steps() {
        let Some(name) = step.strip_prefix("f:") else { continue };
        if member {
            map.remove(name);
        } else if let Some(value) = map.get_mut(name) {
            remove_below(schema, schema.member(node, name).node, value, below);
        }
    }
}

fn remove_below<S: MergeSchema>(schema: &S, node: S::Node, value: &mut Value, set: &FieldSet) {
    let hollow = match value {
        Value::Object(map) => {
            if !schema.atomic_map(node) {
                remove_members(schema, node, map, set);
            } else {
                map.clear();
            }
            map.is_empty()
        }
        Value::Array(list) => {
            list.retain_mut(|item| {
                let Some(step) = element::item(schema, node, item) else {
                    return !matches!(schema.list(node), ListRule::Atomic);
                };
                if let Some(below) = set.below(&step)
                    && !set.has(&step)
                {
                    remove_below(schema, schema.item(node), item, below);
                }
                !set.has(&step)
            });
            list.is_empty()
        }
        _ => false,
    };
    if hollow {
        *value = Value::Null;
    }
}

/// The set with every struct member that leads to a field, which sets leave out.
pub(super) fn with_named<S: MergeSchema>(schema: &S, set: &FieldSet) -> FieldSet {
    named_below(schema, schema.root(), set)
}

fn named_below<S: MergeSchema>(schema: &S, node: S::Node, set: &FieldSet) -> FieldSet {
    let mut result = FieldSet::default();
    for (step, member, below) in set.steps() {
        let (named, node) = match step.strip_prefix("f:") {
            Some(name) => {
                let member = schema.member(node, name);
                (member.named, member.node)
            }
            None => (false, schema.item(node)),
        };
        result.push(step.to_owned(), member || named, named_below(schema, node, below));
    }
    result
}

/// Why a configuration cannot be applied: two items of a list are one, or one has no key.
pub(super) fn check<S: MergeSchema>(schema: &S, config: &Object) -> Result<(), String> {
    check_map(schema, schema.root(), config)
}

fn check_map<S: MergeSchema>(schema: &S, node: S::Node, map: &Object) -> Result<(), String> {
    if schema.atomic_map(node) {
        return Ok(());
    }
    for (name, value) in map {
        check_value(schema, schema.member(node, name).node, value)
            .map_err(|below| format!(".{name}{below}"))?;
    }
    Ok(())
}

fn check_value<S: MergeSchema>(schema: &S, node: S::Node, value: &Value) -> Result<(), String> {
    match value {
        Value::Object(map) => check_map(schema, node, map),
        Value::Array(list) if !matches!(schema.list(node), ListRule::Atomic) => {
            let mut seen = HashSet::new();
            for (at, item) in list.iter().enumerate() {
                let Some(step) = element::item(schema, node, item) else {
                    return Err(format!("[{at}]: the element has no key"));
                };
                check_value(schema, schema.item(node), item)
                    .map_err(|below| element::shown(&step) + &below)?;
                if let Some(step) = seen.replace(step) {
                    return Err(format!(": duplicate entries for key {}", element::shown(&step)));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
