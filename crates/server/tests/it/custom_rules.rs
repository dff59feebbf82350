//! Rules of spec/dependencies.md.

use serde_json::json;

use crate::custom::{DEFINITIONS, definition};
use crate::house::{House, fields};

#[tokio::test]
async fn r20_a_definition_with_rules_is_refused_and_not_stored() {
    let house = House::new().await;
    let rules = json!([{ "rule": "self.a == 'x'" }]);
    let spec = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    for (at, schema) in [
        ("", json!({ "type": "object", "x-kubernetes-validations": rules })),
        ("properties[spec]", {
            let mut spec = spec.clone();
            spec["x-kubernetes-validations"] = rules.clone();
            json!({ "type": "object", "properties": { "spec": spec } })
        }),
    ] {
        let status = house.post(DEFINITIONS, definition(schema)).await.fails(422, "Invalid");
        let [field] = fields(&status)[..] else { panic!("{status}") };
        assert!(field.contains(at) && field.contains("x-kubernetes-validations"), "{field}");
        house.get(&format!("{DEFINITIONS}/widgets.example.com")).await.fails(404, "NotFound");
    }
    let without = json!({ "type": "object", "properties": { "spec": spec } });
    house.made(DEFINITIONS, definition(without)).await;
}
