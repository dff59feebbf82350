//! What schemas may say: R119, R120, R122.

use serde_json::{Value, json};
use tenure_machinery::{Errors, Path};
use tenure_structural::{Schema, check};

use crate::assert_causes;

fn run(schema: &Value, status: bool) -> Errors {
    let mut errors = Errors::new();
    check::check(schema, status, &Path::Root.field("s"), &mut errors);
    errors
}

fn in_spec(properties: Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

fn below(list: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    list.iter().map(|(at, r)| (format!("s.properties[spec].properties{at}"), *r)).collect()
}

fn assert_spec(properties: Value, list: &[(&str, &'static str)]) {
    let schema = in_spec(properties);
    let owned = below(list);
    let list: Vec<(&str, &str)> = owned.iter().map(|(field, r)| (field.as_str(), *r)).collect();
    assert_causes(&run(&schema, false), &list, &schema);
}

#[test]
fn r119_every_value_has_a_type() {
    assert_spec(
        json!({"a": {}, "l": {"type": "array"}}),
        &[("[a].type", "Required"), ("[l].items", "Required")],
    );
    assert_spec(json!({"a": {"x-kubernetes-int-or-string": true}}), &[]);
    assert_spec(json!({"a": {"x-kubernetes-preserve-unknown-fields": true}}), &[]);
    assert_spec(json!({"a": {"type": "text"}}), &[("[a].type", "NotSupported")]);
}

#[test]
fn r119_the_root_is_an_object() {
    let table: [(Value, &[(&str, &str)]); 4] = [
        (json!({"type": "string"}), &[("s.type", "Invalid")]),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            &[("s.additionalProperties", "Forbidden")],
        ),
        (
            json!({"type": "object", "properties": {}, "nullable": true}),
            &[("s.nullable", "Forbidden")],
        ),
        (json!({}), &[("s.type", "Required")]),
    ];
    for (schema, list) in table {
        assert_causes(&run(&schema, false), list, &schema);
    }
}

#[test]
fn r119_some_keywords_are_forbidden() {
    let items = json!({"type": "string"});
    assert_spec(
        json!({"a": {"type": "array", "items": items, "uniqueItems": true}}),
        &[("[a].uniqueItems", "Forbidden")],
    );
    assert_spec(json!({"a": {"$ref": "#/x", "type": "string"}}), &[("[a].$ref", "Forbidden")]);
    assert_spec(
        json!({"a": {"type": "object", "patternProperties": {"x": {"type": "string"}}}}),
        &[("[a].patternProperties", "Forbidden")],
    );
    assert_spec(
        json!({"a": {"type": "object", "dependencies": {"x": ["y"]}}}),
        &[("[a].dependencies", "Forbidden")],
    );
    assert_spec(json!({"a": {"type": "array", "items": [items]}}), &[("[a].items", "Forbidden")]);
    assert_spec(json!({"a": {"type": "string", "pattern": "("}}), &[("[a].pattern", "Invalid")]);
    assert_spec(
        json!({"a": {"type": "object", "properties": {"x": {"type": "string"}},
            "additionalProperties": {"type": "string"}}}),
        &[("[a].additionalProperties", "Forbidden")],
    );
}

#[test]
fn r119_logical_keywords_only_constrain() {
    assert_spec(
        json!({"a": {"type": "string", "anyOf": [{"type": "string", "nullable": true}]}}),
        &[("[a].anyOf[0].nullable", "Forbidden"), ("[a].anyOf[0].type", "Forbidden")],
    );
    assert_spec(
        json!({"a": {"x-kubernetes-int-or-string": true,
            "anyOf": [{"type": "integer"}, {"type": "string"}]}}),
        &[],
    );
    // Only what stands at the root is held against the structure, as upstream does it.
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"properties": {"b": {"minLength": 1}}}]});
    assert_causes(&run(&schema, false), &[("s.properties[b]", "Required")], &schema);
}

#[test]
fn r119_metadata_may_hardly_be_restricted() {
    let table: [(Value, &[(&str, &str)]); 3] = [
        (
            json!({"metadata": {"type": "object", "properties":
                {"labels": {"type": "object", "additionalProperties": {"type": "string"}}}}}),
            &[("s.properties[metadata]", "Forbidden")],
        ),
        (
            json!({"metadata": {"type": "object", "properties":
                {"name": {"type": "string", "pattern": "^a"}}}, "apiVersion": {"type": "integer"}}),
            &[("s.properties[apiVersion].type", "Invalid")],
        ),
        (
            json!({"kind": {"type": "string", "default": "W"}}),
            &[("s.properties[kind].default", "Forbidden")],
        ),
    ];
    for (properties, list) in table {
        let schema = json!({"type": "object", "properties": properties});
        assert_causes(&run(&schema, false), list, &schema);
    }
}

#[test]
fn r119_a_status_endpoint_limits_the_root() {
    let schema = json!({"type": "object", "properties": {}, "oneOf": [{"required": ["a"]}]});
    assert_causes(&run(&schema, false), &[], &schema);
    assert_causes(&run(&schema, true), &[("s", "Invalid")], &schema);
}

#[test]
fn r120_keys_of_keyed_lists_exist_and_are_always_there() {
    let list = |items: Value, keys: Value| {
        json!({"l": {"type": "array", "items": items, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys}})
    };
    let key = json!({"k": {"type": "string"}});
    assert_spec(
        list(json!({"type": "object", "properties": key}), json!(["k"])),
        &[("[l].items.properties[k].default", "Required")],
    );
    assert_spec(
        list(json!({"type": "object", "properties": key, "required": ["zz"]}), json!(["zz"])),
        &[("[l].x-kubernetes-list-map-keys", "Invalid")],
    );
    assert_spec(
        list(json!({"type": "object", "properties": key}), json!(null)),
        &[("[l].x-kubernetes-list-map-keys", "Required")],
    );
    assert_spec(
        list(
            json!({"type": "object", "nullable": true, "required": ["k"],
                "properties": {"k": {"type": "object", "nullable": true}}}),
            json!(["k", "k"]),
        ),
        &[
            ("[l].items.properties[k].type", "Invalid"),
            ("[l].items.properties[k].type", "Invalid"),
            ("[l].x-kubernetes-list-map-keys", "Invalid"),
            ("[l].items.nullable", "Forbidden"),
            ("[l].items.properties[k].nullable", "Forbidden"),
            ("[l].items.properties[k].nullable", "Forbidden"),
        ],
    );
    assert_spec(
        json!({"s": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}},
            "t": {"type": "string", "x-kubernetes-list-type": "bag"}}),
        &[
            ("[s].items.x-kubernetes-map-type", "Invalid"),
            ("[t].type", "Invalid"),
            ("[t].x-kubernetes-list-type", "NotSupported"),
        ],
    );
}

#[test]
fn r122_defaults_must_be_values_of_the_schema() {
    let table: [(Value, &[(&str, &'static str)]); 7] = [
        (json!({"a": {"type": "integer", "default": "x"}}), &[("[a].default", "TypeInvalid")]),
        (
            json!({"a": {"type": "string", "enum": ["p", "q"], "default": "r"}}),
            &[("[a].default", "NotSupported")],
        ),
        (
            json!({"a": {"type": "object", "default": {"x": 1}, "properties": {}}}),
            &[("[a].default", "Invalid")],
        ),
        (
            json!({"a": {"type": "object", "required": ["y"], "default": {}}}),
            &[("[a].default.y", "Required")],
        ),
        (json!({"a": {"type": "array", "items": {"type": "string"}, "default": []}}), &[]),
        (
            json!({"a": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true,
                "default": {"apiVersion": "v1"}}}),
            &[("[a].default.kind", "Required")],
        ),
        (
            json!({"a": {"type": "object", "x-kubernetes-embedded-resource": true,
                "properties": {"metadata": {"type": "object", "properties":
                    {"labels": {"type": "object", "default": {"x": "bad value"},
                        "additionalProperties": {"type": "string"}}}}}}}),
            &[("[a].properties[metadata].properties[labels].default", "Invalid")],
        ),
    ];
    for (properties, list) in table {
        assert_spec(properties, list);
    }
}

#[test]
fn r125_rules_are_collected_and_their_form_is_checked() {
    let rules = json!([
        {"rule": "true", "reason": "Nonsense"},
        {"rule": "true", "fieldPath": ".zz"},
        {"rule": " "},
        {"rule": "a\nb"},
        {"rule": "true", "fieldPath": ".a", "message": "m", "reason": "FieldValueForbidden"}]);
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": rules}}});
    let at = "s.properties[spec].x-kubernetes-validations";
    assert_causes(
        &run(&schema, false),
        &[
            (&format!("{at}[0].reason"), "NotSupported"),
            (&format!("{at}[1].fieldPath"), "Invalid"),
            (&format!("{at}[2].rule"), "Required"),
            (&format!("{at}[3].message"), "Required"),
        ],
        &schema,
    );
    let read = Schema::parse(&schema).expect("a schema");
    let found: Vec<_> = read.cel_rules().map(|rule| rule.field()).collect();
    assert_eq!(found.len(), 5);
    assert_eq!(found[4], "properties[spec].x-kubernetes-validations[4]");
    assert_eq!(read.cel_rules().last().expect("a rule").rule.field_path, ".a");
}

#[test]
fn r119_monstrous_schemas_are_refused() {
    let mut deep = json!({"type": "string"});
    for _ in 0..100 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    assert_causes(&run(&deep, false), &[("s", "Invalid")], &json!("deep"));
    let mut wide = serde_json::Map::new();
    for index in 0..5_000 {
        wide.insert(format!("p{index}"), json!({"type": "string", "pattern": "a"}));
    }
    let wide = json!({"type": "object", "properties": wide});
    assert_causes(&run(&wide, false), &[("s", "Invalid")], &json!("wide"));
}
