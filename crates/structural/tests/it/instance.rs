//! What objects must be: R120, R121, R123, R124, R126, R135.

use serde_json::{Value, json};
use tenure_machinery::{Errors, Path};
use tenure_structural::{Schema, validate};

use crate::{assert_causes, object};

fn schema(properties: Value) -> Schema {
    let schema = json!({"type": "object", "properties": {"spec":
        {"type": "object", "properties": properties}}});
    Schema::parse(&schema).expect("a schema")
}

fn assert_table(properties: Value, table: &[(Value, &[(&str, &str)])]) {
    let schema = schema(properties);
    for (spec, list) in table {
        let mut errors = Errors::new();
        validate::validate(&object(json!({"spec": spec})), None, &schema, &mut errors);
        assert_causes(&errors, list, spec);
    }
}

#[test]
fn r123_required_members() {
    let schema = Schema::parse(&json!({"type": "object", "required": ["spec"], "properties":
        {"spec": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"},
            "o": {"type": "object", "required": ["b"]}}}}}))
    .expect("a schema");
    let table: [(Value, &[(&str, &str)]); 4] = [
        (json!({"spec": {"a": "1"}}), &[]),
        (json!({}), &[("spec", "Required")]),
        (json!({"spec": {}}), &[("spec.a", "Required")]),
        (json!({"spec": {"a": "1", "o": {}}}), &[("spec.o.b", "Required")]),
    ];
    for (value, list) in table {
        let mut errors = Errors::new();
        validate::validate(&object(value.clone()), None, &schema, &mut errors);
        assert_causes(&errors, list, &value);
    }
}

#[test]
fn r123_types() {
    assert_table(
        json!({"a": {"type": "string"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
            "n": {"type": "number"}, "p": {"x-kubernetes-int-or-string": true},
            "f": {"type": "integer", "format": "int32"}}),
        &[
            (json!({"a": "1", "i": 1, "b": false, "n": 1, "p": 5, "f": 7}), &[]),
            (json!({"i": 1.0, "n": 1.5, "p": "50%"}), &[]),
            (json!({"a": 1}), &[("spec.a", "TypeInvalid")]),
            (json!({"i": 1.5}), &[("spec.i", "TypeInvalid"), ("<nil>", "Invalid")]),
            (json!({"b": "true"}), &[("spec.b", "TypeInvalid")]),
            (json!({"n": "1"}), &[("spec.n", "TypeInvalid")]),
            (json!({"p": true}), &[("spec.p", "TypeInvalid")]),
            (json!({"a": null}), &[("spec.a", "TypeInvalid")]),
            (json!({"f": 3_000_000_000_u64}), &[("<nil>", "Invalid")]),
        ],
    );
}

#[test]
fn r123_values() {
    assert_table(
        json!({"e": {"type": "string", "enum": ["x", "y"]},
            "a": {"type": "integer", "minimum": 1, "maximum": 5},
            "b": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            "m": {"type": "integer", "multipleOf": 3},
            "s": {"type": "string", "minLength": 2, "maxLength": 3},
            "p": {"type": "string", "pattern": "^a+$"},
            "t": {"type": "string", "format": "date-time"},
            "x": {"type": "string", "format": "no-such-format"}}),
        &[
            (
                json!({"e": "x", "a": 5, "b": 0.1, "m": 9, "s": "äöü", "p": "aa",
                "t": "2020-01-01T00:00:00Z", "x": "anything"}),
                &[],
            ),
            (json!({"e": ""}), &[("spec.e", "NotSupported")]),
            (json!({"a": 0}), &[("spec.a", "Invalid")]),
            (json!({"a": 6}), &[("spec.a", "Invalid")]),
            (json!({"b": 0}), &[("spec.b", "Invalid")]),
            (json!({"m": 4}), &[("spec.m", "Invalid")]),
            (json!({"s": "x"}), &[("spec.s", "Invalid")]),
            (json!({"s": "xxxx"}), &[("spec.s", "TooLong")]),
            (json!({"p": "b"}), &[("spec.p", "Invalid")]),
            (json!({"t": "yesterday"}), &[("spec.t", "TypeInvalid")]),
        ],
    );
}

#[test]
fn r123_lists_and_maps() {
    assert_table(
        json!({"l": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1},
            "o": {"type": "object", "minProperties": 1, "additionalProperties": false}}),
        &[
            (json!({"l": ["x"], "m": {"k": 1}}), &[]),
            (json!({"l": []}), &[("spec.l", "Invalid")]),
            (json!({"l": ["a", "b", "c"]}), &[("spec.l", "TooMany")]),
            (json!({"l": [1]}), &[("spec.l[0]", "TypeInvalid")]),
            (json!({"m": {"a": 1, "b": 2}}), &[("spec.m", "TooMany")]),
            (json!({"m": {"a": "x"}}), &[("spec.m.a", "TypeInvalid")]),
            (json!({"o": {}}), &[("spec.o", "Invalid")]),
            (json!({"o": {"a": 1}}), &[("spec.o", "Invalid")]),
        ],
    );
}

#[test]
fn r123_logical_schemas() {
    assert_table(
        json!({"o": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "n": {"type": "integer", "not": {"minimum": 5}},
            "y": {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]},
            "z": {"type": "string", "allOf": [{"minLength": 2}, {"pattern": "^a"}]}}),
        &[
            (json!({"o": {"a": "1"}, "n": 1, "y": 0, "z": "ab"}), &[]),
            (json!({"o": {}}), &[("<nil>", "Invalid"), ("spec.o.a", "Required")]),
            (json!({"o": {"a": "1", "b": "2"}}), &[("<nil>", "Invalid")]),
            (json!({"n": 7}), &[("<nil>", "Invalid")]),
            (json!({"y": 3}), &[("<nil>", "Invalid"), ("spec.y", "Invalid")]),
            (
                json!({"z": "b"}),
                &[("spec.z", "Invalid"), ("spec.z", "Invalid"), ("<nil>", "Invalid")],
            ),
        ],
    );
}

#[test]
fn r123_the_status_endpoint_names_paths_from_the_root() {
    let schema = Schema::parse(&json!({"type": "object", "properties":
        {"n": {"type": "integer", "maximum": 5}}}))
    .expect("a schema");
    let mut errors = Errors::new();
    let path = Path::Root.field("status");
    validate::validate_value(&json!({"n": 9}), None, &schema, &path, &mut errors);
    assert_causes(&errors, &[("status.n", "Invalid")], &json!("status"));
}

#[test]
fn r124_unchanged_values_are_forgiven() {
    let schema = schema(json!({
        "a": {"type": "string", "enum": ["new"]}, "b": {"type": "string"},
        "o": {"type": "object", "required": ["q"], "properties": {"x": {"type": "string"}}},
        "l": {"type": "array", "items": {"type": "string", "maxLength": 1}},
        "m": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"},
                "v": {"type": "integer", "maximum": 5}}}}}));
    let old = json!({"a": "old", "b": "1", "o": {}, "l": ["long"],
        "m": [{"k": "x", "v": 9}, {"k": "y", "v": 1}]});
    let change = |member: &str, value: Value| {
        let mut new = old.clone();
        new[member] = value;
        new
    };
    let table: [(Value, &[(&str, &str)]); 7] = [
        (old.clone(), &[]),
        (change("b", json!("2")), &[]),
        (change("a", json!("other")), &[("spec.a", "NotSupported")]),
        (change("o", json!({"x": "1"})), &[("spec.o.q", "Required")]),
        // Items of a plain list do not correspond.
        (change("l", json!(["long", "b"])), &[("spec.l[0]", "TooLong")]),
        (change("m", json!([{"k": "y", "v": 2}, {"k": "x", "v": 9}])), &[]),
        (
            change("m", json!([{"k": "y", "v": 9}, {"k": "x", "v": 9}])),
            &[("spec.m[0].v", "Invalid")],
        ),
    ];
    for (new, list) in table {
        let mut errors = Errors::new();
        let (new, old) = (object(json!({"spec": new})), object(json!({"spec": old})));
        validate::validate(&new, Some(&old), &schema, &mut errors);
        assert_causes(&errors, list, &new["spec"]);
    }
}

#[test]
fn r135_integers_stay_integers() {
    let schema = schema(json!({"i": {"type": "integer"}, "d": {"type": "integer", "default": 7}}));
    let text = r#"{"spec":{"i":9007199254740993}}"#;
    let mut value = object(serde_json::from_str(text).expect("an object"));
    tenure_structural::prune::prune(&mut value, &schema);
    tenure_structural::default::default(&mut value, &schema);
    let mut errors = Errors::new();
    validate::validate(&value, None, &schema, &mut errors);
    assert!(errors.is_empty());
    let written = serde_json::to_string(&value).expect("text");
    assert_eq!(written, r#"{"spec":{"d":7,"i":9007199254740993}}"#);
}
