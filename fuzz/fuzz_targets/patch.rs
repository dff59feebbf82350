//! JSON, merge and strategic patches on any object: applied or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tenure_patch::{TypeSchema, json, merge, strategic};
use tenure_schema::facts;

fuzz_target!(|text: &str| {
    let Some((object, patch)) = text.split_once('\n') else { return };
    let Ok(Value::Object(object)) = serde_json::from_str(object) else { return };
    let Ok(patch) = serde_json::from_str::<Value>(patch) else { return };
    let _ = json::apply(object.clone(), &patch);
    if let Ok(merged) = merge::apply(object.clone(), &patch) {
        // A merge patch says what shall be, so saying it twice changes nothing.
        assert_eq!(merge::apply(merged.clone(), &patch), Ok(merged));
    }
    for name in ["api.apps.v1.Deployment", "api.core.v1.Service"] {
        let of = facts().type_id(name).expect("a type of the table");
        let _ = strategic::apply(&TypeSchema::new(facts(), of), object.clone(), &patch);
    }
});
