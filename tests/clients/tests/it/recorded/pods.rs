//! What pods and those who make them are refused, counted and deleted by, as upstream's source has it. Names
//! in comments are those of upstream's end-to-end suite.

use super::*;

fn pod(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["containers"] = json!([{"name": "c", "image": "i"}]);
    json!({"metadata": {"name": name}, "spec": spec})
}

/// RuntimeClass should reject a Pod requesting a non-existent RuntimeClass, and a deleted one; should schedule
/// a Pod requesting a RuntimeClass and initialize its Overhead.
#[tokio::test]
async fn r252_a_pod_gets_what_its_runtime_class_says_and_is_refused_without_it() {
    let asked = Asked::new();
    let path = format!("{NS}/pods");
    let wants = |name: &str| pod(name, json!({"runtimeClassName": "fast"}));
    let refused = asked.ask("POST", &path, JSON, wants("early")).await;
    assert_eq!((refused.0, &refused.1["reason"]), (403, &json!("Forbidden")), "{}", refused.1);
    assert!(refused.1["message"].as_str().unwrap().contains("RuntimeClass \"fast\" not found"));

    let classes = "/apis/node.k8s.io/v1/runtimeclasses";
    let overhead = json!({"cpu": "10m", "memory": "1Mi"});
    let class = json!({"metadata": {"name": "fast"}, "handler": "h", "overhead": {"podFixed": overhead},
        "scheduling": {"nodeSelector": {"kind": "fast"}, "tolerations": [{"key": "t", "operator": "Exists"}]}});
    asked.post(classes, class).await;
    let made = asked.post(&path, wants("made")).await;
    assert_eq!(made["spec"]["overhead"], overhead);
    assert_eq!(made["spec"]["nodeSelector"], json!({"kind": "fast"}));
    assert!(
        made["spec"]["tolerations"]
            .as_array()
            .unwrap()
            .contains(&json!({"key": "t", "operator": "Exists"}))
    );

    let one = format!("{classes}/fast");
    assert_eq!(asked.ask("DELETE", &one, JSON, Value::Null).await.0, 200);
    assert_eq!(asked.ask("POST", &path, JSON, wants("late")).await.0, 403);
}

/// Pod Generation: pod generation should start at 1 and increment per update; custom-set generation on new
/// pods and graceful delete; issue 500 podspec updates and verify generation and observedGeneration.
#[tokio::test]
async fn r61_the_generation_of_a_pod_counts_changes_of_its_spec() {
    let asked = Asked::new();
    let list = format!("{NS}/pods");
    let mut body = pod("p", json!({"terminationGracePeriodSeconds": 100, "nodeName": "nowhere"}));
    body["metadata"]["generation"] = json!(100);
    let made = asked.post(&list, body).await;
    assert_eq!(made["metadata"]["generation"], 1, "what a client sends is not looked at");
    let path = format!("{list}/p");
    let generation = |object: &Value| object["metadata"]["generation"].as_i64().unwrap();
    for (at, patch, expected) in [
        ("", json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}}), 1),
        ("", json!({"metadata": {"generation": 7}}), 1),
        ("/status", json!({"status": {"message": "m"}}), 1),
        ("", json!({"spec": {"activeDeadlineSeconds": 5000}}), 2),
        ("", json!({"spec": {"activeDeadlineSeconds": 5000}}), 2),
        ("", json!({"spec": {"containers": [{"name": "c", "image": "j"}]}}), 3),
    ] {
        let kind = "application/strategic-merge-patch+json";
        let (code, patched) = asked.ask("PATCH", &format!("{path}{at}"), kind, patch).await;
        assert_eq!((code, generation(&patched)), (200, expected), "{patched}");
    }
    // Whoever deletes gracefully changes what is wanted of the pod as well.
    let (code, deleted) = asked.ask("DELETE", &path, JSON, Value::Null).await;
    assert_eq!((code, generation(&deleted)), (200, 4), "{deleted}");
}

/// StatefulSet should list, patch and delete a collection of StatefulSets; should have a working scale
/// subresource.
#[tokio::test]
async fn r77_stateful_sets_are_listed_patched_scaled_and_deleted_together() {
    let asked = Asked::new();
    let list = format!("{APPS}/statefulsets");
    for name in ["a", "b", "other"] {
        let team = if name == "other" { "y" } else { "x" };
        let set = json!({"metadata": {"name": name, "labels": {"team": team}}, "spec": {"replicas": 1,
            "serviceName": "s", "selector": {"matchLabels": {"app": name}}, "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        asked.post(&list, set).await;
    }
    let team = format!("{list}?labelSelector=team%3Dx");
    assert_eq!(asked.get(&team).await["items"].as_array().unwrap().len(), 2);
    let patch = json!({"metadata": {"labels": {"patched": "yes"}}, "spec": {"replicas": 2, "template": {
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "j"}]}}}});
    let kind = "application/strategic-merge-patch+json";
    let (code, patched) = asked.ask("PATCH", &format!("{list}/a"), kind, patch).await;
    assert_eq!((code, &patched["metadata"]["generation"]), (200, &json!(2)), "{patched}");
    let template = &patched["spec"]["template"]["spec"];
    assert_eq!(
        (&template["terminationGracePeriodSeconds"], &template["containers"][0]["image"]),
        (&json!(0), &json!("j"))
    );

    let path = format!("{list}/a/scale");
    let mut scale = asked.get(&path).await;
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!(2), &json!("app=a"))
    );
    scale["metadata"]["resourceVersion"] = json!("");
    scale["spec"]["replicas"] = json!(3);
    assert_eq!(asked.ask("PUT", &path, JSON, scale).await.0, 200);
    let (code, scaled) = asked.ask("PATCH", &path, kind, json!({"spec": {"replicas": 4}})).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(4)), "{scaled}");
    assert_eq!(asked.get(&format!("{list}/a")).await["spec"]["replicas"], 4);

    assert_eq!(asked.ask("DELETE", &team, JSON, Value::Null).await.0, 200);
    for _ in 0..200 {
        let left = asked.get(&list).await["items"].as_array().unwrap().clone();
        if left.len() == 1 {
            assert_eq!(left[0]["metadata"]["name"], "other");
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the sets are never gone");
}
