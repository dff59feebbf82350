//! Rules of spec/downward-api.md: resources that change while a pod runs (R111b).

use serde_json::{Value, json};

use crate::agent::{House, PODS, object};

fn pod(name: &str, cpu: &str, memory: &str) -> Value {
    let amounts = json!({"cpu": cpu, "memory": memory});
    json!({
        "metadata": {"name": name},
        "spec": {"restartPolicy": "OnFailure", "containers": [{
            "name": name, "image": "i",
            "resources": {"requests": amounts, "limits": amounts},
        }]},
    })
}

/// Asks for other resources, as a client does.
async fn resize(house: &House, name: &str, cpu: &str, memory: &str) -> i64 {
    let wanted = pod(name, cpu, memory)["spec"]["containers"][0]["resources"].clone();
    let patch = json!({"spec": {"containers": [{"name": name, "resources": wanted}]}});
    let path = format!("{PODS}/{name}/resize");
    let resized = house.client.patch(&path, &object(patch)).await.unwrap();
    resized["metadata"]["generation"].as_i64().unwrap()
}

/// The first container has these amounts, and nothing of the change is left to be done.
fn has(pod: &Value, generation: i64, cpu: &str, memory: &str) -> bool {
    let status = &pod["status"]["containerStatuses"][0];
    let amounts = json!({"cpu": cpu, "memory": memory});
    status["resources"] == json!({"requests": amounts, "limits": amounts})
        && status["allocatedResources"] == amounts
        && pod["status"]["observedGeneration"] == generation
        && ["PodResizePending", "PodResizeInProgress"]
            .iter()
            .all(|kind| reason(pod, kind).is_none())
}

/// The reason of a condition of a change.
fn reason(pod: &Value, kind: &str) -> Option<String> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some(found["reason"].as_str().unwrap_or_default().to_owned())
}

async fn told(house: &House, reason: &str) -> Value {
    let path = format!("/api/v1/namespaces/default/events?fieldSelector=reason%3D{reason}");
    let list = house.until(&path, "it is told", |list| list["items"][0].is_object()).await;
    list["items"][0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r111b_a_container_gets_other_resources_without_a_restart() {
    let house = House::new().await;
    house.make(pod("a", "20m", "35Mi")).await;
    house.pod("a", "running", |pod| has(pod, 1, "20m", "35Mi")).await;
    for (cpu, memory) in [("25m", "30Mi"), ("20m", "35Mi")] {
        let generation = resize(&house, "a", cpu, memory).await;
        let seen = house.pod("a", "resized", |pod| has(pod, generation, cpu, memory)).await;
        assert_eq!(seen["status"]["containerStatuses"][0]["restartCount"], 0);
        assert_eq!(seen["status"]["phase"], "Running");
    }
    assert_eq!(house.runtime.said().iter().filter(|said| *said == "update a").count(), 2);
    let limits = house.runtime.config("a").unwrap().limits;
    assert_eq!((limits.cpu_quota, limits.memory), (Some(2000), Some(35 << 20)));
    let started = told(&house, "ResizeStarted").await;
    let message = started["message"].as_str().unwrap();
    let summary: Value =
        serde_json::from_str(message.strip_prefix("Pod resize started: ").unwrap()).unwrap();
    assert_eq!(summary["generation"], 2);
    assert_eq!(summary["containers"][0]["resources"]["limits"]["cpu"], "25m");
    told(&house, "ResizeCompleted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r111b_a_container_starts_again_where_its_policy_says_so() {
    let house = House::new().await;
    let mut wanted = pod("a", "20m", "35Mi");
    wanted["spec"]["containers"][0]["resizePolicy"] = json!([
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
        {"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
    house.make(wanted).await;
    house.pod("a", "running", |pod| has(pod, 1, "20m", "35Mi")).await;
    let generation = resize(&house, "a", "25m", "35Mi").await;
    let seen = house.pod("a", "resized", |pod| has(pod, generation, "25m", "35Mi")).await;
    assert_eq!(seen["status"]["containerStatuses"][0]["restartCount"], 0);
    let generation = resize(&house, "a", "25m", "40Mi").await;
    let seen = house.pod("a", "resized", |pod| has(pod, generation, "25m", "40Mi")).await;
    assert_eq!(seen["status"]["containerStatuses"][0]["restartCount"], 1);
    let seen = house.pod("a", "running", |pod| pod["status"]["phase"] == "Running").await;
    assert_eq!(seen["status"]["containerStatuses"][0]["ready"], true);
    let limits = house.runtime.config("a").unwrap().limits;
    assert_eq!(limits.memory, Some(40 << 20), "it was made with what it was given");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r111b_what_does_not_fit_waits_until_there_is_room() {
    let house = House::new().await;
    house.make(pod("big", "3", "35Mi")).await;
    house.make(pod("small", "500m", "35Mi")).await;
    for name in ["big", "small"] {
        house.pod(name, "running", |pod| pod["status"]["phase"] == "Running").await;
    }
    let generation = resize(&house, "small", "2", "35Mi").await;
    let waits =
        house.pod("small", "deferred", |pod| reason(pod, "PodResizePending").is_some()).await;
    assert_eq!(reason(&waits, "PodResizePending").unwrap(), "Deferred");
    let status = &waits["status"]["containerStatuses"][0];
    assert_eq!(status["allocatedResources"]["cpu"], "500m");
    assert_eq!(status["resources"]["limits"]["cpu"], "500m");
    let event = told(&house, "ResizeDeferred").await;
    assert_eq!(event["type"], "Warning");
    // What another pod gives back is enough.
    resize(&house, "big", "1", "35Mi").await;
    house.pod("small", "resized", |pod| has(pod, generation, "2", "35Mi")).await;
}
