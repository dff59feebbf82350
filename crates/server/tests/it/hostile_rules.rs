//! Rules of spec/dependencies.md.
//!
//! Rules of schemas that are written to cost as much as they can.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::custom_rules::{WIDGETS, causes, serving, widget};
use crate::house::CONFIG_MAPS;

/// Far more than a spent budget takes, far less than the rule would.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn r18_a_rule_that_costs_too_much_is_stopped() {
    // The estimate of one expression may exceed what one call may cost.
    let rule = "self.l.all(x, self.l.all(y, self.l.all(z, x <= y || y <= z)))";
    let house = serving(json!({
        "type": "object",
        "properties": { "l": {
            "type": "array",
            "maxItems": 95,
            "items": { "type": "string", "maxLength": 2 },
        }},
        "x-kubernetes-validations": [{ "rule": rule }],
    }))
    .await;
    let begin = Instant::now();
    let items: Vec<&str> = vec!["aa"; 95];
    let status = house.post(WIDGETS, widget("w", json!({ "l": items }))).await.with(422);
    assert_eq!(causes(&status), [("FieldValueInvalid".to_owned(), "spec".to_owned())]);
    let message = status["details"]["causes"][0]["message"].as_str().unwrap();
    assert!(message.contains("cost limit exceeded"), "{message}");
    assert!(begin.elapsed() < SOON);
    house.get(CONFIG_MAPS).await.with(200);
}

#[tokio::test]
async fn r18_rules_that_cost_nothing_still_come_to_an_end() {
    // A literal is estimated at nothing, so any number of such rules is legal on any list.
    let rules: Vec<Value> = vec![json!({ "rule": "true" }); 2_000];
    let item = json!({ "type": "integer", "x-kubernetes-validations": rules });
    let house = serving(json!({
        "type": "object",
        "properties": { "l": { "type": "array", "items": item } },
    }))
    .await;
    let begin = Instant::now();
    let status = house.post(WIDGETS, widget("w", json!({ "l": vec![1; 200_000] }))).await.with(422);
    assert_eq!(causes(&status).len(), 1);
    assert!(begin.elapsed() < SOON);
}

#[tokio::test]
async fn r18_an_object_has_only_so_many_causes() {
    let never = json!([{ "rule": "self < 0" }]);
    let item = json!({ "type": "integer", "x-kubernetes-validations": never });
    let house = serving(json!({
        "type": "object",
        "properties": { "l": { "type": "array", "items": item, "maxItems": 100_000 } },
    }))
    .await;
    let status = house.post(WIDGETS, widget("w", json!({ "l": vec![1; 50_000] }))).await.with(422);
    assert_eq!(causes(&status).len(), 1_000);
}
