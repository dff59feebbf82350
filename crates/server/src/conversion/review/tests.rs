//! Rules of spec/api-server.md.

use serde_json::json;

use super::*;

fn original() -> Object {
    let object = json!({
        "kind": "Route", "apiVersion": "example.com/v1",
        "metadata": { "name": "a", "uid": "u", "labels": { "a b": "kept" } },
        "spec": { "text": "\"objects\":[]" },
    });
    object.as_object().cloned().unwrap()
}

#[test]
fn r129_a_review_holds_its_objects_as_they_are() {
    let objects = [original(), original()];
    let version = ConversionReviewVersion::V1;
    let bytes = request(version, "an id", "example.com/v2", &objects);
    let review: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        review,
        json!({ "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": {
            "uid": "an id", "desiredAPIVersion": "example.com/v2", "objects": objects,
        } })
    );
}

#[test]
fn r129_what_was_stored_before_there_were_rules_is_not_judged_again() {
    let mut converted = original();
    converted.insert("apiVersion".into(), "example.com/v2".into());
    let answer = |converted: &Object| {
        let whole = json!({ "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "response": { "uid": "id", "result": { "status": "Success" }, "convertedObjects": [converted] } });
        let version = ConversionReviewVersion::V1;
        read(version, "id", "example.com/v2", whole.to_string().as_bytes(), &[original()])
    };
    assert_eq!(answer(&converted).unwrap(), [converted.clone()]);
    let more = json!({ "a b": "kept", "c": "d" });
    converted.map_mut("metadata").insert("labels".into(), more);
    let (fault, why) = answer(&converted).unwrap_err();
    assert_eq!(fault, ConversionFault::Object);
    assert!(why.contains("metadata.labels: "), "{why}");
}
