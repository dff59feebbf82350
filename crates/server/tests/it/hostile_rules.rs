//! Rules of spec/dependencies.md.
//!
//! Rules of schemas that are written to cost as much as they can.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::custom_rules::{DEFINITIONS, WIDGETS, causes, definition, serving, widget};
use crate::house::{Answer, CONFIG_MAPS, House};

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

/// Sends an object and a GET at once, on one thread; tells which was answered first.
async fn first(house: &House, path: &str, body: Value) -> (&'static str, Answer) {
    let order = Mutex::new(Vec::new());
    let hostile = async {
        let answer = house.post(path, body).await;
        order.lock().unwrap().push("object");
        answer
    };
    let other = async {
        house.get(CONFIG_MAPS).await.with(200);
        order.lock().unwrap().push("other");
    };
    let (answer, ()) = tokio::join!(hostile, other);
    let order = order.into_inner().unwrap();
    (order[0], answer)
}

#[tokio::test]
async fn r18_others_are_answered_while_rules_run() {
    let rule = "self.all(x, self.all(y, self.all(z, x <= y || y <= z)))";
    let list = json!({
        "type": "array",
        "maxItems": 95,
        "items": { "type": "string", "maxLength": 2 },
        "x-kubernetes-validations": [{ "rule": rule }],
    });
    let house = serving(json!({ "type": "object", "properties": { "l": list } })).await;
    let hostile = widget("w", json!({ "l": vec!["aa"; 95] }));
    let (first_is, answer) = first(&house, WIDGETS, hostile).await;
    let message = answer.with(422)["message"].to_string();
    assert!(message.contains("cost limit exceeded"), "{message}");
    assert_eq!(first_is, "other");
}

#[tokio::test]
async fn r18_an_ordinary_object_is_answered_at_once() {
    let rule = json!([{ "rule": "self.all(x, x > 0)" }]);
    let list = json!({ "type": "array", "items": { "type": "integer" }, "maxItems": 100,
        "x-kubernetes-validations": rule });
    let house = serving(json!({ "type": "object", "properties": { "l": list } })).await;
    let (first_is, answer) = first(&house, WIDGETS, widget("w", json!({ "l": [1, 2, 0] }))).await;
    answer.with(422);
    assert_eq!(first_is, "object");
}

#[tokio::test]
async fn r18_others_are_answered_while_a_definition_is_checked() {
    // Each rule is legal but the last, and each must be compiled to know it.
    let mut rules: Vec<Value> =
        vec![json!({ "rule": "self.a.all(x, x != 'a' || x != 'b')" }); 2_000];
    rules.push(json!({ "rule": "self.absent" }));
    let spec = json!({
        "type": "object",
        "properties": { "a": { "type": "array", "maxItems": 2, "items": {
            "type": "string", "maxLength": 2,
        }}},
        "x-kubernetes-validations": rules,
    });
    let house = House::new().await;
    let (first_is, answer) = first(&house, DEFINITIONS, definition(spec)).await;
    answer.with(422);
    assert_eq!(first_is, "other");
}
