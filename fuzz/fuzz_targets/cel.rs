//! Expressions: refused, or compiled, estimated and run within a budget, never a panic or a long stay.
#![no_main]

use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use serde_json::{Value as Json, json};
use tenure_cel::{Bindings, CostBudget, DeclaredType, Env, OldSelf, Value, compile};

/// What one run may cost.
const UNITS: u64 = 50_000;

fn shape() -> &'static Arc<DeclaredType> {
    static SHAPE: OnceLock<Arc<DeclaredType>> = OnceLock::new();
    SHAPE.get_or_init(|| DeclaredType::from_schema(&schema(), true).expect("rules can see it"))
}

fn schema() -> Json {
    json!({ "type": "object", "properties": {
        "s": { "type": "string", "maxLength": 64 },
        "i": { "type": "integer" },
        "n": { "type": "number" },
        "b": { "type": "boolean" },
        "t": { "type": "string", "format": "date-time" },
        "d": { "type": "string", "format": "duration" },
        "y": { "type": "string", "format": "byte" },
        "x": { "x-kubernetes-int-or-string": true },
        "l": { "type": "array", "items": { "type": "string" } },
        "set": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "integer" } },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": { "type": "object", "properties": {
                "name": { "type": "string" }, "port": { "type": "integer" },
            }},
        },
        "m": { "type": "object", "additionalProperties": { "type": "string" } },
        "p": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
    }})
}

fn object() -> &'static Json {
    static OBJECT: OnceLock<Json> = OnceLock::new();
    OBJECT.get_or_init(|| {
        json!({
            "metadata": { "name": "it" },
            "s": "größer a.b/c:1.2.3", "i": -7, "n": 0.5, "b": true,
            "t": "2024-02-29T23:59:59Z", "d": "1h30m", "y": "AP8=", "x": "50%",
            "l": ["a", "", "1Gi", "10.0.0.0/8", "https://h/p?q=1"], "set": [1, 2, 3],
            "ports": [{ "name": "a", "port": 80 }, { "name": "b" }],
            "m": { "k": "v", "a-b": "" }, "p": { "any": [1, null, { "b": false }] },
        })
    })
}

fuzz_target!(|text: &str| {
    let (expression, data) = text.split_once('\0').unwrap_or((text, ""));
    let sent = serde_json::from_str::<Json>(data).ok();
    for old in [OldSelf::Present, OldSelf::Optional] {
        let Ok(program) = compile(expression, &Env::for_rule(shape(), old)) else { continue };
        let cost = program.estimate();
        assert!(cost.min <= cost.max);
        for json in [Some(object()), sent.as_ref()].into_iter().flatten() {
            let Ok(value) = Value::from_json(json, shape()) else { continue };
            let before = match old {
                OldSelf::Optional => Value::Optional(Some(Arc::new(value.clone()))),
                _ => value.clone(),
            };
            let bindings = Bindings::new().bind("self", value).bind("oldSelf", before);
            let (mut first, mut second) = (CostBudget::new(UNITS), CostBudget::new(UNITS));
            let made = program.eval(&bindings, &mut first).map(|made| format!("{made:?}"));
            let again = program.eval(&bindings, &mut second).map(|made| format!("{made:?}"));
            assert_eq!(made.is_ok(), again.is_ok());
            assert_eq!(made.ok(), again.ok());
            assert_eq!(first.remaining(), second.remaining(), "a run costs what it costs");
        }
    }
});
