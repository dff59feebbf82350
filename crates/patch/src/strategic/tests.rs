//! Rules of spec/api-server.md, and the merge of lists against a slow model.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{PatchErrorKind, Structural, strategic};

/// A pod template cut down to what the rules speak about.
fn schema() -> Value {
    let named = |more: Value| {
        json!({
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "name",
            "items": {"properties": more},
        })
    };
    json!({"properties": {
        "finalizers": {"x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}},
        "labels": {"additionalProperties": {"type": "string"}},
        "args": {"items": {"type": "string"}},
        "selector": {"x-kubernetes-patch-strategy": "replace"},
        "strategy": {"x-kubernetes-patch-strategy": "retainKeys"},
        "containers": named(json!({
            "name": {"type": "string"},
            "env": named(json!({})),
            "ports": {
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "containerPort",
            },
        })),
        "volumes": named(json!({})),
    }})
}

fn run(object: Value, patch: Value) -> Result<Value, PatchErrorKind> {
    let Value::Object(object) = object else { panic!("an object") };
    let schema = schema();
    strategic::apply(&Structural::new(&schema, None), object, &patch)
        .map(Value::Object)
        .map_err(|error| error.kind)
}

fn check(object: Value, patch: Value, result: Value) {
    assert_eq!(run(object, patch), Ok(result));
}

fn refused(object: Value, patch: Value) {
    assert_eq!(run(object, patch), Err(PatchErrorKind::BadRequest));
}

#[test]
fn r86_maps_merge_and_null_deletes() {
    check(
        json!({"labels": {"x": "1", "y": "2"}, "args": ["a", "b"]}),
        json!({"labels": {"x": null, "z": "3", "q": null}, "args": ["c"]}),
        json!({"labels": {"y": "2", "z": "3"}, "args": ["c"]}),
    );
}

#[test]
fn r86_a_struct_marked_replace_is_replaced() {
    check(
        json!({"selector": {"matchLabels": {"a": "1"}}}),
        json!({"selector": {"matchLabels": {"b": "1"}}}),
        json!({"selector": {"matchLabels": {"b": "1"}}}),
    );
}

#[test]
fn r87_lists_of_objects_merge_by_key() {
    check(
        json!({"containers": [{"name": "a", "image": "1", "args": ["x"], "env": [
            {"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"f": 1}}]}]}),
        json!({"containers": [{"name": "a", "image": "9", "env": [
            {"name": "B", "value": "2", "valueFrom": null}, {"name": "C", "value": "3"}]},
            {"name": "b", "image": "2"}]}),
        json!({"containers": [{"name": "a", "image": "9", "args": ["x"], "env": [
            {"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]},
            {"name": "b", "image": "2"}]}),
    );
}

#[test]
fn r87_new_elements_stand_before_those_of_the_server() {
    let ports = |list: Value| json!({"containers": [{"name": "a", "ports": list}]});
    check(
        ports(json!([{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "b"}])),
        ports(json!([{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 82}])),
        ports(json!([
            {"containerPort": 80, "name": "a", "protocol": "UDP"},
            {"containerPort": 82},
            {"containerPort": 81, "name": "b"},
        ])),
    );
}

#[test]
fn r87_lists_of_values_are_a_union() {
    check(
        json!({"finalizers": ["a", "b"]}),
        json!({"finalizers": ["b", "c"]}),
        json!({"finalizers": ["a", "b", "c"]}),
    );
}

#[test]
fn r88_patch_replace_and_delete_in_a_map() {
    check(
        json!({"labels": {"x": "1", "y": "2"}, "data": {"a": "1"}}),
        json!({"labels": {"$patch": "replace", "z": "3", "n": null}, "data": {"$patch": "delete"}}),
        json!({"labels": {"z": "3"}, "data": {}}),
    );
    check(
        json!({"labels": {"x": "1"}}),
        json!({"labels": {"$patch": "merge", "z": "3"}}),
        json!({"labels": {"x": "1", "z": "3"}}),
    );
}

#[test]
fn r88_patch_in_list_elements() {
    let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
    check(
        two.clone(),
        json!({"containers": [{"name": "b", "$patch": "delete"}, {"name": "zz", "$patch": "delete"}]}),
        json!({"containers": [{"name": "a"}]}),
    );
    check(
        two.clone(),
        json!({"containers": [{"name": "z", "image": "z"}, {"$patch": "replace"}]}),
        json!({"containers": [{"name": "z", "image": "z"}]}),
    );
    check(
        two,
        json!({"containers": [{"name": "a", "$patch": "merge", "image": "1"}]}),
        json!({"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}),
    );
}

#[test]
fn r88_delete_from_primitive_list() {
    check(
        json!({"finalizers": ["a", "b"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a", "zz"], "finalizers": ["c"]}),
        json!({"finalizers": ["c", "b"]}),
    );
    refused(json!({"finalizers": []}), json!({"$deleteFromPrimitiveList": ["a"]}));
    refused(json!({"finalizers": []}), json!({"$deleteFromPrimitiveList/finalizers": "a"}));
}

#[test]
fn r88_set_element_order() {
    let three = json!({"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]});
    let order = json!([{"name": "d"}, {"name": "c"}, {"name": "a"}]);
    check(
        three.clone(),
        json!({"$setElementOrder/containers": order, "containers": [{"name": "d"}]}),
        json!({"containers": [{"name": "d"}, {"name": "b"}, {"name": "c"}, {"name": "a"}]}),
    );
    check(
        json!({}),
        json!({"$setElementOrder/containers": order, "containers": [{"name": "d"}]}),
        json!({"containers": [{"name": "d"}]}),
    );
    check(
        json!({"finalizers": ["a", "b"]}),
        json!({"$setElementOrder/finalizers": ["b", "a"]}),
        json!({"finalizers": ["b", "a"]}),
    );
    refused(
        three,
        json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]}),
    );
}

#[test]
fn r88_retain_keys() {
    check(
        json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
    check(
        json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "k", "emptyDir": {}}]}),
        json!({"volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x"}}]}),
        json!({"volumes": [{"name": "v", "configMap": {"name": "x"}}, {"name": "k", "emptyDir": {}}]}),
    );
    refused(
        json!({"strategy": {"type": "RollingUpdate"}}),
        json!({"strategy": {"$retainKeys": ["other"], "type": "Recreate"}}),
    );
}

#[test]
fn r88_unknown_directive_is_refused() {
    refused(json!({"labels": {"x": "1"}}), json!({"labels": {"$patch": "frobnicate"}}));
    let patch = json!({"containers": [{"name": "a", "$patch": "frobnicate"}]});
    refused(json!({"containers": [{"name": "a"}]}), patch);
}

#[test]
fn r89_an_element_needs_its_merge_key() {
    refused(json!({"containers": [{"name": "a"}]}), json!({"containers": [{"image": "2"}]}));
    let delete = json!({"containers": [{"image": "2", "$patch": "delete"}]});
    refused(json!({"containers": [{"name": "a"}]}), delete);
}

#[test]
fn r90_missing_maps_and_lists_are_created() {
    check(
        json!({}),
        json!({"labels": {"x": "1", "n": null}, "containers": [{"name": "b", "q": null}, {"name": "a"}]}),
        json!({"labels": {"x": "1"}, "containers": [{"name": "b"}, {"name": "a"}]}),
    );
    check(
        json!({"containers": []}),
        json!({"containers": [{"name": "b"}, {"name": "a"}]}),
        json!({"containers": [{"name": "b"}, {"name": "a"}]}),
    );
}

/// The merge of keyed lists, said slowly: merge in place, then sort patch elements in, one by one.
fn model(original: &[(u8, u8)], patch: &[(u8, u8)]) -> Vec<(u8, u8)> {
    let value = |list: &[(u8, u8)], name: u8| {
        list.iter().rev().find(|(other, _)| *other == name).map(|(_, value)| *value)
    };
    let place = |list: &[(u8, u8)], name: u8| list.iter().position(|(other, _)| *other == name);
    let mut left: Vec<u8> = original.iter().map(|(name, _)| *name).collect();
    left.retain(|name| place(patch, *name).is_none());
    let mut right = Vec::new();
    for (name, _) in patch {
        if !right.contains(name) {
            right.push(*name);
        }
    }
    let mut names = Vec::new();
    while !left.is_empty() && !right.is_empty() {
        let before = place(original, left[0])
            .zip(place(original, right[0]))
            .is_some_and(|(left, right)| left < right);
        names.push(if before { left.remove(0) } else { right.remove(0) });
    }
    names.extend(left);
    names.extend(right);
    names
        .into_iter()
        .map(|name| (name, value(patch, name).or(value(original, name)).unwrap_or_default()))
        .collect()
}

fn distinct(list: Vec<(u8, u8)>) -> Vec<(u8, u8)> {
    let mut result: Vec<(u8, u8)> = Vec::new();
    for (name, value) in list {
        if result.iter().all(|(other, _)| *other != name) {
            result.push((name, value));
        }
    }
    result
}

fn containers(list: &[(u8, u8)]) -> Value {
    let item = |(name, image): &(u8, u8)| json!({"name": name, "image": image});
    json!({"containers": list.iter().map(item).collect::<Vec<_>>()})
}

proptest! {
    #[test]
    fn r87_equals_the_model(
        original in prop::collection::vec((0u8..8, 0u8..4), 0..8).prop_map(distinct),
        patch in prop::collection::vec((0u8..8, 0u8..4), 0..8),
    ) {
        prop_assert_eq!(
            run(containers(&original), containers(&patch)),
            Ok(containers(&model(&original, &patch)))
        );
    }
}
