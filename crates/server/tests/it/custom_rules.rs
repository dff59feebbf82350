//! Rules of spec/api-server.md.
//!
//! Rules in the schemas of custom kinds, from the definition to the refused object.

use serde_json::{Value, json};

use crate::house::House;

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A definition whose objects have this spec.
pub fn definition(spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": spec },
                }},
            }],
        },
    })
}

pub fn widget(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// A server that serves widgets with this spec.
pub async fn serving(spec: Value) -> House {
    let house = House::new().await;
    house.made(DEFINITIONS, definition(spec)).await;
    house.until(WIDGETS, 200).await;
    house
}

/// Reason and field of every cause.
pub fn causes(status: &Value) -> Vec<(String, String)> {
    let text = |cause: &Value, member: &str| cause[member].as_str().unwrap_or_default().to_owned();
    let list = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    list.iter().map(|cause| (text(cause, "reason"), text(cause, "field"))).collect()
}

fn cause(reason: &str, field: &str) -> (String, String) {
    (format!("FieldValue{reason}"), field.to_owned())
}

/// What a definition with this spec is refused for, below its schema.
async fn refused(spec: Value) -> Vec<(String, String)> {
    let house = House::new().await;
    let answer = house.post(DEFINITIONS, definition(spec)).await.with(422);
    let shorten = |(reason, field): (String, String)| {
        let below = field.trim_start_matches("spec.validation.openAPIV3Schema").to_owned();
        (reason, below.trim_start_matches(".properties[spec]").to_owned())
    };
    causes(&answer).into_iter().map(shorten).collect()
}

#[tokio::test]
async fn r125_items_and_entries_are_named_in_causes() {
    let positive = json!([{ "rule": "self > 0", "messageExpression": "'not ' + 'positive'" }]);
    let number = json!({ "type": "integer", "x-kubernetes-validations": positive });
    let house = serving(json!({ "type": "object", "properties": {
        "l": { "type": "array", "maxItems": 9, "items": number },
        "m": { "type": "object", "maxProperties": 9, "additionalProperties": number },
    }}))
    .await;
    let body = widget("w", json!({ "l": [1, 0, -1], "m": { "a": 1, "b": 0 } }));
    let status = house.post(WIDGETS, body).await.with(422);
    let wanted = ["spec.l[1]", "spec.l[2]", "spec.m[b]"].map(|field| cause("Invalid", field));
    assert_eq!(causes(&status), wanted);
    assert_eq!(status["details"]["causes"][0]["message"], "Invalid value: 0: not positive");
    house.made(WIDGETS, widget("w", json!({ "l": [1], "m": { "a": 1 } }))).await;
}

#[tokio::test]
async fn r125_old_values_are_found_by_member_and_by_key() {
    let frozen = json!([{ "rule": "self == oldSelf", "message": "must stay" }]);
    let text = json!({ "type": "string", "maxLength": 9, "x-kubernetes-validations": frozen });
    let house = serving(json!({ "type": "object", "properties": {
        "m": { "type": "object", "maxProperties": 9, "additionalProperties": text },
        "l": {
            "type": "array",
            "maxItems": 9,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": { "k": { "type": "string" }, "v": text },
            },
        },
    }}))
    .await;
    let path = &format!("{WIDGETS}/w");
    house
        .made(WIDGETS, widget("w", json!({ "m": { "a": "1" }, "l": [{ "k": "x", "v": "1" }] })))
        .await;
    // New entries have no old value, and the place in the list does not matter.
    let grown = json!({ "spec": {
        "m": { "b": "2" },
        "l": [{ "k": "y", "v": "2" }, { "k": "x", "v": "1" }],
    }});
    house.merge(path, grown).await.with(200);
    let changed = json!({ "spec": {
        "m": { "a": "2" },
        "l": [{ "k": "y", "v": "2" }, { "k": "x", "v": "3" }],
    }});
    let status = house.merge(path, changed).await.with(422);
    let wanted = [cause("Invalid", "spec.l[1].v"), cause("Invalid", "spec.m[a]")];
    assert_eq!(causes(&status), wanted);
}

#[tokio::test]
async fn r125_optional_old_values_let_rules_run_on_create() {
    let rule = "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1";
    let house = serving(json!({ "type": "object", "properties": { "n": {
        "type": "integer",
        "x-kubernetes-validations": [{ "rule": rule, "optionalOldSelf": true }],
    }}}))
    .await;
    let status = house.post(WIDGETS, widget("w", json!({ "n": 2 }))).await.with(422);
    assert_eq!(causes(&status), [cause("Invalid", "spec.n")]);
    house.made(WIDGETS, widget("w", json!({ "n": 1 }))).await;
    let path = &format!("{WIDGETS}/w");
    house.merge(path, json!({ "spec": { "n": 3 } })).await.with(200);
    let status = house.merge(path, json!({ "spec": { "n": 2 } })).await.with(422);
    assert_eq!(causes(&status), [cause("Invalid", "spec.n")]);
}

#[tokio::test]
async fn r125_rules_see_names_but_no_other_metadata() {
    let house = House::new().await;
    let with_rule = |rule: &str| {
        let mut body = definition(json!({ "type": "object" }));
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] =
            json!([{ "rule": rule }]);
        body
    };
    let labels = with_rule("self.metadata.labels.size() == 0");
    let status = house.post(DEFINITIONS, labels).await.with(422);
    let field = "spec.validation.openAPIV3Schema.x-kubernetes-validations[0].rule";
    assert_eq!(causes(&status), [cause("Invalid", field)]);

    house.made(DEFINITIONS, with_rule("self.metadata.name.startsWith('a')")).await;
    house.until(WIDGETS, 200).await;
    house.made(WIDGETS, widget("a", json!({}))).await;
    let status = house.post(WIDGETS, widget("b", json!({}))).await.with(422);
    assert_eq!(causes(&status).len(), 1);
}

#[tokio::test]
async fn r125_old_values_of_atomic_lists_cannot_be_asked_for() {
    let item = json!({
        "type": "integer",
        "x-kubernetes-validations": [{ "rule": "self >= oldSelf" }],
    });
    let list = json!({ "type": "array", "maxItems": 3, "items": item });
    let found = refused(json!({ "type": "object", "properties": { "l": list } })).await;
    let rule = ".properties[l].items.x-kubernetes-validations[0].rule";
    assert_eq!(found, [cause("Invalid", rule)]);
}

#[tokio::test]
async fn r125_the_cost_of_a_rule_counts_as_often_as_its_value_occurs() {
    let text = |items: Value| {
        let rule = json!([{ "rule": "self.contains('a')" }]);
        let text = json!({ "type": "string", "maxLength": 1000, "x-kubernetes-validations": rule });
        let mut list = json!({ "type": "array", "items": text });
        list["maxItems"] = items;
        json!({ "type": "object", "properties": { "l": list } })
    };
    drop(serving(text(json!(100))).await);
    let rule = ".properties[l].items.x-kubernetes-validations[0].rule";
    for unbounded in [json!(null), json!(10_000_000)] {
        let found = refused(text(unbounded)).await;
        assert_eq!(found.first(), Some(&cause("Forbidden", rule)));
        assert_eq!(found.last(), Some(&cause("Forbidden", "")));
    }
}

#[tokio::test]
async fn r124_what_did_not_change_is_not_blamed_by_new_rules() {
    let spec = |rules: Value| {
        let text = json!({ "type": "string", "x-kubernetes-validations": rules });
        let list = json!({ "type": "array", "maxItems": 3, "items": text });
        let other = json!({ "type": "string" });
        json!({ "type": "object", "properties": { "a": text, "l": list, "b": other } })
    };
    let house = serving(spec(json!([]))).await;
    let path = &format!("{WIDGETS}/w");
    house.made(WIDGETS, widget("w", json!({ "a": "bad", "l": ["bad"] }))).await;
    let stricter = definition(spec(json!([{ "rule": "self != 'bad'" }])));
    let patch = json!({ "spec": stricter["spec"] });
    house.merge(&format!("{DEFINITIONS}/widgets.example.com"), patch).await.with(200);
    let bad = widget("other", json!({ "a": "bad" }));
    house.post(WIDGETS, bad).await.with(422);

    house.merge(path, json!({ "spec": { "b": "x" } })).await.with(200);
    // Items of an atomic list have no old value once the list changes.
    let status = house.merge(path, json!({ "spec": { "l": ["bad", "x"] } })).await.with(422);
    assert_eq!(causes(&status), [cause("Invalid", "spec.l[0]")]);
}
