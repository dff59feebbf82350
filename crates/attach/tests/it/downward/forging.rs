//! Ways around the annotation's one writer, closed.

use serde_json::{Value, json};

use super::{NATIVE, PODS, annotation, holds, pod, reading, town};
use crate::town::{MERGE, Town};

const FORGED: &str =
    r#"{"kind":"OwnerReference","apiVersion":"meta/v1","items":[{"name":"forged"}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn a53_a_status_write_says_what_is_stored() {
    a_status_write_says_what_is_stored(&town().await).await;
}

pub(super) async fn a_status_write_says_what_is_stored(town: &Town) {
    town.made(PODS, &pod("a", &reading(NATIVE))).await;
    let status = format!("{PODS}/a/status");
    let forged = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "b", "uid": "1" }]);
    for metadata in [
        json!({ "annotations": { "tenure.dev/owner-references": FORGED } }),
        json!({ "annotations": { "tenure.dev/owner-references": FORGED }, "ownerReferences": forged }),
        json!({ "annotations": { "tenure.dev/owner-references": null }, "ownerReferences": forged }),
    ] {
        let patch = json!({ "metadata": metadata, "status": { "message": "seen" } });
        let (code, said) = town.send("PATCH", &status, MERGE, &patch).await;
        assert_eq!(code, 200, "{said}");
        let after = town.get(&format!("{PODS}/a")).await;
        assert_eq!(after["status"]["message"], "seen");
        assert_eq!(after["metadata"].get("ownerReferences"), None);
        holds(&after);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a53_a_status_write_gives_no_annotation_to_pods_that_do_not_read() {
    let town = town().await;
    let plain = json!({ "containers": [{ "name": "a", "image": "x" }] });
    town.made(PODS, &pod("a", &plain)).await;
    let patch = json!({ "metadata": { "annotations": { "tenure.dev/owner-references": FORGED } } });
    let (code, said) = town.send("PATCH", &format!("{PODS}/a/status"), MERGE, &patch).await;
    assert_eq!(code, 200, "{said}");
    assert_eq!(annotation(&town.get(&format!("{PODS}/a")).await), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a55_a_binding_with_the_annotation_is_refused_both_ways() {
    a_binding_with_it_is_refused(&town().await).await;
}

pub(super) async fn a_binding_with_it_is_refused(town: &Town) {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
    town.made("/api/v1/nodes", &node).await;
    town.made(PODS, &pod("a", &reading(NATIVE))).await;
    let binding = |annotations: Value| {
        json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": "a", "annotations": annotations },
            "target": { "apiVersion": "v1", "kind": "Node", "name": "n" },
        })
    };
    let forged = binding(json!({ "tenure.dev/owner-references": FORGED }));
    for path in [format!("{PODS}/a/binding"), "/api/v1/namespaces/default/bindings".to_owned()] {
        let (code, said) = town.create(&path, &forged).await;
        assert_eq!(code, 403, "{path}: {said}");
        assert!(said.to_string().contains("is written by admission only"), "{said}");
    }
    let (code, said) =
        town.create(&format!("{PODS}/a/binding"), &binding(json!({ "b": "c" }))).await;
    assert_eq!(code, 201, "{said}");
    let bound = town.get(&format!("{PODS}/a")).await;
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["metadata"]["annotations"]["b"], "c");
    holds(&bound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a55_references_that_are_no_text_or_too_much_are_refused() {
    let town = town().await;
    let with = |name: &str, owners: Value| {
        let mut object = pod(name, &reading(NATIVE));
        object["metadata"]["ownerReferences"] = owners;
        object
    };
    for letter in ["\u{7}", "\u{b}", "\u{1f}", "\u{7f}"] {
        let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": format!("a{letter}b"), "uid": "1" });
        let (code, said) = town.create(PODS, &with("a", json!([owner]))).await;
        assert_eq!(code, 422, "{letter:?}: {said}");
        assert!(said.to_string().contains("may not hold control characters"), "{said}");
    }
    let many = |count: usize| -> Value {
        let owner = |n: usize| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "x".repeat(200), "uid": n.to_string() });
        (0..count).map(owner).collect()
    };
    let (code, said) = town.create(PODS, &with("b", many(300))).await;
    assert_eq!(code, 422, "{said}");
    assert!(said.to_string().contains("owner references take more than 64 KiB"), "{said}");
    holds(&town.made(PODS, &with("c", many(200))).await);
    // Pods that do not read may have whatever references the server takes.
    let mut plain = with("d", many(300));
    plain["spec"] = json!({ "containers": [{ "name": "a", "image": "x" }] });
    town.made(PODS, &plain).await;
}
