//! R21 of `spec/dependencies.md`: on the common subset both validators say the same.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::{Errors, Path};
use tenure_structural::{Schema, validate};

/// Schemas whose keywords mean the same in JSON Schema and in structural schemas.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (0_i64..3, 0_i64..4).prop_map(|(least, more)| json!({"type": "string", "minLength": least,
            "maxLength": least + more})),
        Just(json!({"type": "string", "enum": ["a", "bb", ""]})),
        Just(json!({"type": "string", "pattern": "^a+b?$"})),
        (-5_i64..5, 0_i64..6).prop_map(|(least, more)| json!({"type": "integer", "minimum": least,
            "maximum": least + more})),
        (1_i64..4).prop_map(|factor| json!({"type": "integer", "multipleOf": factor})),
        Just(json!({"type": "number", "minimum": -0.5})),
        Just(json!({"type": "boolean"})),
        (-3_i64..3).prop_map(|n| json!({"type": "integer", "not": {"minimum": n}})),
        (-3_i64..3).prop_map(|n| json!({"type": "integer",
            "anyOf": [{"maximum": n}, {"multipleOf": 2}]})),
        (-3_i64..3).prop_map(|n| json!({"type": "integer",
            "oneOf": [{"maximum": n}, {"multipleOf": 2}]})),
        (-3_i64..3).prop_map(|n| json!({"type": "integer",
            "allOf": [{"maximum": n}, {"multipleOf": 2}]})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), 0_usize..2, 0_usize..3).prop_map(|(items, least, more)| json!({
                "type": "array", "items": items, "minItems": least, "maxItems": least + more})),
            (prop::collection::btree_map("[a-c]", inner.clone(), 0..3), "[a-c]", any::<bool>())
                .prop_map(|(properties, name, required)| {
                    let required: Vec<_> = Some(name).filter(|_| required).into_iter().collect();
                    json!({"type": "object", "properties": properties, "required": required})
                }),
            (inner, 0_usize..2, 0_usize..3).prop_map(|(values, least, more)| json!({
                "type": "object", "additionalProperties": values, "minProperties": least,
                "maxProperties": least + more})),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        "[ab]{0,4}".prop_map(Value::from),
        (-6_i64..6).prop_map(Value::from),
        (-6_i64..6).prop_map(|n| json!(n as f64)),
        (-6_i64..6).prop_map(|n| json!(n as f64 + 0.25)),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// Random values seldom fit random schemas, so some are made to measure.
fn fitting(schema: &Value, seed: u64) -> Value {
    let next = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let pick = |count: u64| (next >> 33) % count;
    match schema["type"].as_str() {
        Some("string") => match schema["enum"].as_array() {
            Some(choices) => choices[pick(choices.len() as u64) as usize].clone(),
            None => json!("a".repeat(schema["minLength"].as_u64().unwrap_or(1) as usize)),
        },
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(pick(7) as i64 - 3)),
        Some("number") => json!(0.5),
        Some("boolean") => json!(pick(2) == 0),
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or_default();
            (0..count).map(|index| fitting(&schema["items"], next ^ index)).collect()
        }
        Some("object") => {
            let mut map = serde_json::Map::new();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                map.insert(name.clone(), fitting(property, next));
            }
            for name in schema["required"].as_array().into_iter().flatten() {
                map.entry(name.as_str().expect("a name")).or_insert(json!("a"));
            }
            if let Some(values) = schema.get("additionalProperties") {
                for index in 0..schema["minProperties"].as_u64().unwrap_or_default() {
                    map.insert(format!("k{index}"), fitting(values, next ^ index));
                }
            }
            Value::Object(map)
        }
        _ => Value::Null,
    }
}

fn agree(schema: &Value, value: &Value) -> Result<(), TestCaseError> {
    let oracle = jsonschema::validator_for(schema).expect("a schema");
    let ours = Schema::parse(schema).expect("a schema");
    let mut errors = Errors::new();
    validate::validate_value(value, None, &ours, &Path::Root.field("v"), &mut errors);
    prop_assert_eq!(
        errors.is_empty(),
        oracle.is_valid(value),
        "{} against {}: {:?}",
        value,
        schema,
        errors
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn r21_both_validators_accept_and_refuse_the_same(schema in schemas(), value in values()) {
        agree(&schema, &value)?;
    }

    #[test]
    fn r21_fitting_values_are_judged_the_same(schema in schemas(), seed in any::<u64>()) {
        agree(&schema, &fitting(&schema, seed))?;
    }
}
