//! Whatever is thrown at it, nothing panics, and shaping an object twice changes nothing more.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::{Errors, Object, Path, Rules};
use tenure_structural::{Schema, check, crd, default, meta, prune, unique, validate};

fn words() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "additionalProperties",
        "required",
        "default",
        "nullable",
        "enum",
        "pattern",
        "format",
        "minimum",
        "maxItems",
        "anyOf",
        "allOf",
        "oneOf",
        "not",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
        "$ref",
        "definitions",
        "object",
        "array",
        "string",
        "integer",
        "number",
        "boolean",
        "null",
        "map",
        "set",
        "atomic",
        "metadata",
        "name",
        "labels",
        "apiVersion",
        "kind",
        "spec",
        "rule",
        "fieldPath",
        ".a",
        "a",
        "b",
        "(",
        "date-time",
        "multipleOf",
        "",
    ])
    .prop_map(str::to_owned)
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        words().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(6, 48, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(words(), inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}

/// Schemas that can be read, with defaults that fit themselves.
fn trees() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "default": "d"})),
        Just(json!({"type": "integer", "nullable": true, "default": 1})),
        Just(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "object", "default": {}, "properties":
            {"a": {"type": "integer", "default": 2}}})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::btree_map(words(), inner.clone(), 0..4)
                .prop_map(|properties| json!({"type": "object", "properties": properties})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.prop_map(|values| json!({"type": "object", "additionalProperties": values})),
        ]
    })
}

fn shape(object: &mut Object, schema: &Schema) {
    let _ = meta::coerce(object, schema, meta::Wrong::Drop);
    prune::prune(object, schema);
    default::default(object, schema);
}

fn judge(object: &Object, old: Option<&Object>, schema: &Schema) {
    let mut errors = Errors::new();
    validate::validate(object, old, schema, &mut errors);
    unique::validate_unique(object, schema, &mut errors);
    meta::validate_embedded(object, schema, &mut errors);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn r119_no_schema_and_no_object_panics(schema in anything(), value in anything(), old in anything()) {
        let mut errors = Errors::new();
        let checked = check::check(&schema, true, &Path::Root.field("s"), &mut errors);
        prop_assert_eq!(checked.is_some(), errors.is_empty());
        if let Ok(read) = Schema::parse(&schema) {
            prop_assert!(read.cel_rules().count() < 1_000);
            if let (Value::Object(mut object), Value::Object(old)) = (value, old) {
                judge(&object, Some(&old), &read);
                shape(&mut object, &read);
                judge(&object, None, &read);
            }
        }
    }

    #[test]
    fn r118_no_definition_panics(spec in anything(), schema in anything(), status in anything()) {
        let versions = json!([{"name": "v1", "storage": true, "served": true,
            "schema": {"openAPIV3Schema": schema}}, spec]);
        let whole = json!({"metadata": {"name": "a.b.c"}, "status": status,
            "spec": {"group": "b.c", "versions": versions, "names": spec, "conversion": spec}});
        let Value::Object(mut crd) = whole else { return Ok(()) };
        let rules = crd::CustomResourceDefinitionRules { engine: None };
        rules.default(&mut crd);
        rules.validate(&crd, &mut Errors::new());
        rules.validate_update(&crd, &crd, &mut Errors::new());
        rules.warnings(&crd, None);
        crd::settle(&mut crd, &crd::ReservedNames::default(), "now");
        let _ = crd::kinds(&crd, None);
        crd::begin_deletion(&mut crd, "now");
    }

    #[test]
    fn r122_shaping_twice_is_shaping_once(schema in trees(), value in anything()) {
        let schema = json!({"type": "object", "properties": {"spec": schema}});
        let schema = Schema::parse(&schema).expect("a schema");
        let mut once = json!({"spec": value}).as_object().expect("an object").clone();
        shape(&mut once, &schema);
        let mut twice = once.clone();
        shape(&mut twice, &schema);
        prop_assert_eq!(&once, &twice);
        prop_assert!(prune::prune(&mut twice, &schema).is_empty());
    }
}
