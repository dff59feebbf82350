//! Rules of spec/api-server.md: reviews of access that say more than a verb and a resource.

use serde_json::{Value, json};

use crate::house::{House, fields};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

/// Answers a review with these selectors.
async fn ask(house: &House, selectors: Value) -> crate::house::Answer {
    let mut asked = json!({ "verb": "list", "resource": "pods", "namespace": "default" });
    for (name, selector) in selectors.as_object().unwrap() {
        asked[name] = selector.clone();
    }
    let spec = json!({ "user": "u", "resourceAttributes": asked });
    house.post(&format!("{REVIEWS}/subjectaccessreviews"), json!({ "spec": spec })).await
}

#[tokio::test]
async fn r159_selectors_of_reviews_are_checked() {
    let house = House::new().await;
    let one = |key: &str, operator: &str, values: Value| json!({ "requirements": [{ "key": key, "operator": operator, "values": values }] });
    for (selector, labels, of_fields) in [
        (json!({}), &["requirements"][..], &["requirements"][..]),
        (
            json!({ "rawSelector": "a=b", "requirements": [{ "key": "a", "operator": "Exists" }] }),
            &["rawSelector"],
            &["rawSelector"],
        ),
        (one("a", "In", json!([])), &["requirements[0].values"], &["requirements[0].values"]),
        (
            one("a", "Exists", json!(["x"])),
            &["requirements[0].values"],
            &["requirements[0].values"],
        ),
        // An empty name lacks something and has the wrong form.
        (
            one("", "In", json!(["x"])),
            &["requirements[0].key", "requirements[0].key"],
            &["requirements[0].key"],
        ),
        (
            one("-a", "In", json!(["x y"])),
            &["requirements[0].key", "requirements[0].values[0]"],
            &[],
        ),
        (one("a", "NotIn", json!(["x"])), &[], &[]),
        (one("a", "Newer", json!([])), &[], &[]),
    ] {
        for (member, wanted) in [("labelSelector", labels), ("fieldSelector", of_fields)] {
            let answer = ask(&house, json!({ member: selector })).await;
            if wanted.is_empty() {
                answer.with(201);
                continue;
            }
            let status = answer.fails(422, "Invalid");
            let prefix = format!("spec.resourceAttributes.{member}.");
            let found: Vec<_> = fields(&status).iter().map(|at| at.replace(&prefix, "")).collect();
            assert_eq!(found, wanted, "{member} {selector}");
        }
    }
}

#[tokio::test]
async fn r159_selectors_that_cannot_be_read_are_told() {
    let house = House::new().await;
    let (known, unknown) = (
        json!({ "key": "a", "operator": "In", "values": ["x"] }),
        json!({ "key": "a", "operator": "Newer" }),
    );
    for (selectors, told) in [
        (json!({ "labelSelector": { "rawSelector": "a in (b)" } }), Value::Null),
        (json!({ "fieldSelector": { "rawSelector": "a=b" } }), Value::Null),
        (
            json!({ "labelSelector": { "rawSelector": "a in (" } }),
            "spec.resourceAttributes.labelSelector ignored due to parse error".into(),
        ),
        (
            json!({ "fieldSelector": { "requirements": [known, unknown] },
                "labelSelector": { "requirements": [unknown] } }),
            "spec.resourceAttributes.fieldSelector partially ignored due to parse error; \
             spec.resourceAttributes.labelSelector ignored due to parse error"
                .into(),
        ),
    ] {
        let answer = ask(&house, selectors.clone()).await.with(201);
        assert_eq!(answer["status"]["evaluationError"], told, "{selectors}");
        assert_eq!(answer["status"]["allowed"], false);
    }
}

#[tokio::test]
async fn r159_a_review_has_no_metadata() {
    let house = House::new().await;
    let spec = json!({ "user": "u", "resourceAttributes": { "verb": "get", "resource": "pods" } });
    let path = format!("{REVIEWS}/subjectaccessreviews");
    let body = json!({ "metadata": { "name": "a" }, "spec": spec });
    let status = house.post(&path, body).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["metadata"]);
    let local = format!("{REVIEWS}/namespaces/default/localsubjectaccessreviews");
    let spec = json!({ "user": "u", "nonResourceAttributes": { "verb": "get", "path": "/" } });
    let body = json!({ "metadata": { "namespace": "default" }, "spec": spec });
    let status = house.post(&local, body).await.fails(422, "Invalid");
    assert_eq!(fields(&status), ["spec.nonResourceAttributes"]);
}

#[tokio::test]
async fn r159_the_administrator_may_do_everything_and_is_told_so_once() {
    let house = House::new().await;
    let body = json!({ "spec": { "namespace": "default" } });
    let review = house.post(&format!("{REVIEWS}/selfsubjectrulesreviews"), body).await.with(201);
    for (list, everything) in [
        ("resourceRules", json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] })),
        ("nonResourceRules", json!({ "verbs": ["*"], "nonResourceURLs": ["*"] })),
    ] {
        let rules = review["status"][list].as_array().unwrap();
        assert_eq!(rules.iter().filter(|rule| **rule == everything).count(), 1, "{list}");
    }
}
