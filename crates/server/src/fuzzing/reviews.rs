//! Answers of webhooks, as strangers write them: read, judged, and what is taken over of them (R163, R129).

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::{admit, conversion};

/// The uid of the review that is answered.
pub const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";
/// The version that objects are wanted in.
const DESIRED: &str = "example.com/v2";

/// Reads an answer to an AdmissionReview, in both versions, of webhooks that change and of those that refuse;
/// how often it was an answer.
///
/// # Panics
/// What was taken over is not what an answer may say.
pub fn admission_answer(body: &[u8]) -> usize {
    let object = sample("v1", "a");
    let all = [(true, true), (true, false), (false, true), (false, false)];
    all.into_iter().filter(|(v1, mutating)| admission(body, *v1, *mutating, &object)).count()
}

fn admission(body: &[u8], v1: bool, mutating: bool, object: &Object) -> bool {
    let Ok(answer) = admit::read_review_answer(v1, UID, mutating, body) else { return false };
    if v1 {
        let review: Value = serde_json::from_slice(body).unwrap_or_default();
        let answered = review.pointer("/response/uid").and_then(Value::as_str);
        assert_eq!(answered, Some(UID), "an answer to another question");
    }
    assert!(mutating || answer.patch.is_empty(), "a webhook that only refuses changes something");
    let refusal = &answer.refusal;
    assert!((400..600).contains(&refusal.code), "a refusal that is a success: {}", refusal.code);
    assert!(refusal.message.contains("a.example"), "a refusal without its webhook");
    let patch = Value::Array(answer.patch);
    if let Ok(patched) = tenure_patch::json::apply(object.clone(), &patch) {
        // What was changed can be written and read again.
        let text = Value::Object(patched).to_string();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "unreadable after the patch");
    }
    true
}

/// Reads an answer to a ConversionReview about two objects, in both versions; how often it was an answer.
///
/// # Panics
/// What was taken over is not what an answer may say.
pub fn conversion_answer(body: &[u8]) -> usize {
    let originals = [sample("example.com/v1", "a"), sample("example.com/v1", "b")];
    let read = |v1: bool| conversion::read_review_answer(v1, UID, DESIRED, body, &originals).ok();
    let answers = [read(true), read(false)].into_iter().flatten();
    answers
        .map(|converted| {
            assert_eq!(converted.len(), originals.len(), "another number of objects");
            for (object, original) in converted.iter().zip(&originals) {
                assert_eq!(object.str_at(&["apiVersion"]), Some(DESIRED), "another version");
                assert_eq!(object.get("kind"), original.get("kind"), "another kind");
                assert_eq!(kept(object), kept(original), "metadata that is not the webhook's");
            }
        })
        .count()
}

/// The metadata that a webhook has no say in.
fn kept(object: &Object) -> Object {
    let mut metadata = object.map_at(&["metadata"]).cloned().unwrap_or_default();
    metadata.remove("labels");
    metadata.remove("annotations");
    metadata
}

fn sample(api_version: &str, name: &str) -> Object {
    let object = json!({
        "apiVersion": api_version, "kind": "Route",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "7",
            "labels": {"app": "web"}, "finalizers": ["example.com/hold"]},
        "spec": {"hosts": ["a", "b"], "ports": {"http": 80}},
    });
    object.as_object().cloned().unwrap_or_default()
}
