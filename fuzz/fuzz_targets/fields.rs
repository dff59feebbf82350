//! Sets of fields and the managers who own them: nonsense is refused, sets keep the laws of sets, and
//! what was applied once is there already.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};
use tenure_patch::managed::{Application, FieldManager, FieldSet, apply, update};
use tenure_patch::{MergeSchema, Structural, TypeSchema};
use tenure_schema::facts;

fuzz_target!(|text: &str| {
    let Some((one, other)) = text.split_once('\n') else { return };
    let Ok(one) = serde_json::from_str::<Value>(one) else { return };
    let Ok(other) = serde_json::from_str::<Value>(other) else { return };
    if let (Ok(one), Ok(other)) = (FieldSet::from_json(&one), FieldSet::from_json(&other)) {
        laws(&one, &other);
    }
    let of = facts().type_id("api.core.v1.Pod").expect("a type of the table");
    write(&TypeSchema::new(facts(), of), &one, &other);
    // The first object doubles as a schema, so that its lists and maps may be of any kind.
    write(&Structural::new(&one, None), &one, &other);
});

fn laws(one: &FieldSet, other: &FieldSet) {
    let again = FieldSet::from_json(&one.clone().into_json());
    assert_eq!(again.as_ref(), Ok(one), "a set comes back from JSON");
    let both = one.intersection(other);
    let all = one.clone().union(other.clone());
    assert_eq!(both, other.intersection(one));
    assert_eq!(all, other.clone().union(one.clone()));
    assert_eq!(all.len() + both.len(), one.len() + other.len());
    let rest = one.clone().difference(other);
    assert_eq!(rest.len() + both.len(), one.len());
    assert!(rest.intersection(other).is_empty());
    let cut = one.clone().recursive_difference(other);
    assert!(cut.intersection(other).is_empty());
    let _ = one.leaves();
}

/// Every object has metadata when it comes to its managers.
fn named(value: &Value) -> Option<Object> {
    let mut object = value.as_object()?.clone();
    object.map_mut("metadata");
    Some(object)
}

fn write(schema: &impl MergeSchema, live: &Value, config: &Value) {
    let (Some(live), Some(config)) = (named(live), named(config)) else { return };
    let (live, config) = (&live, &config);
    let who = FieldManager { manager: "m", api_version: "v1", subresource: "", now: "now" };
    let mut new = config.clone();
    update(schema, Some(live), &mut new, &who, &[&["status"]]);
    for mut live in [None, Some(live.clone())] {
        let request = Application { config, who, reset: &[&["status"]], force: true };
        let Ok(mut applied) = apply(schema, live.as_mut(), &request) else { continue };
        // After an apply that leaves nobody the next one is a first apply again, as upstream has it.
        if applied.at(&["metadata", "managedFields"]).is_none() {
            applied = apply(schema, Some(&mut applied), &request).expect("it was applied before");
        }
        assert_eq!(apply(schema, Some(&mut applied.clone()), &request), Ok(applied));
    }
}
