//! What upstream's end-to-end tests ask of server, scheduler and node together, by their names.

use serde_json::{Value, json};

use crate::agent::{House, PODS, condition, object, phase, pod, ready};

const NODE: &str = "/api/v1/nodes/node-1";
const DONGLE: &str = "example.com/dongle";

/// Pods Extended (pod generation): pod generation should start at 1 and increment per update.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_of_a_pod_move_with_its_spec_and_are_observed() {
    let house = House::new().await;
    let inits = json!([{"name": "init", "image": "i", "restartPolicy": "Always"}]);
    house.make(pod("a", json!({"initContainers": inits}))).await;
    let mut seen = house.pod("a", "ready", ready).await;
    let mut generation = 1;
    let spec = |path: &'static str, value: Value| {
        move |pod: &mut Value| *pod.pointer_mut(path).unwrap() = value.clone()
    };
    let toleration =
        json!([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]);
    type PodEdit = Box<dyn Fn(&mut Value)>;
    let steps: [(PodEdit, i64); 7] = [
        (Box::new(|_| ()), 0),
        // Those that admission gave it come back.
        (Box::new(spec("/spec/tolerations", toleration)), 1),
        (Box::new(|pod| pod["spec"]["activeDeadlineSeconds"] = json!(5000)), 1),
        (Box::new(spec("/spec/containers/0/image", json!("missing"))), 1),
        (Box::new(spec("/spec/initContainers/0/image", json!("j"))), 1),
        (Box::new(|pod| pod["metadata"]["annotations"] = json!({"key": "value"})), 0),
        (Box::new(|pod| pod["metadata"]["generation"] = json!(1)), 0),
    ];
    for (change, moves) in steps {
        // The agent writes too, so a PUT may have to be made again.
        loop {
            change(&mut seen);
            let path = format!("{PODS}/a");
            match house.client.put(&path, &object(seen.clone())).await {
                Ok(_) => break,
                Err(error) => {
                    assert!(error.to_string().contains("409") || moved(&error), "{error}");
                    seen = house.get(&path).await.unwrap();
                }
            }
        }
        generation += moves;
        seen = house
            .pod("a", "observed", |pod| pod["status"]["observedGeneration"] == generation)
            .await;
        assert_eq!(seen["metadata"]["generation"], generation);
    }
}

fn moved(error: &tenure_node::client::ClientError) -> bool {
    matches!(error, tenure_node::client::ClientError::Refused { code: 409, .. })
}

/// What others add to the capacity of a node can be allocated, and goes with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r135_resources_that_others_give_a_node_can_be_allocated() {
    let house = House::new().await;
    let patch = json!({"status": {"capacity": {DONGLE: "1"}}});
    house.client.patch(&format!("{NODE}/status"), &object(patch)).await.unwrap();
    house.until(NODE, "the node has it", |node| node["status"]["allocatable"][DONGLE] == "1").await;
    let patch = json!({"status": {"capacity": {DONGLE: null}}});
    house.client.patch(&format!("{NODE}/status"), &object(patch)).await.unwrap();
    house
        .until(NODE, "it is gone", |node| node["status"]["allocatable"].get(DONGLE).is_none())
        .await;
}

/// SchedulerPreemption validates pod disruption condition is added to the preempted pod.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sc3_a_preempted_pod_says_so_while_it_is_held() {
    let house = House::new().await;
    let patch = json!({"status": {"capacity": {DONGLE: "1"}, "allocatable": {DONGLE: "1"}}});
    house.client.patch(&format!("{NODE}/status"), &object(patch)).await.unwrap();
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    for (name, value) in [("low", 10), ("high", 1000)] {
        let class = json!({"metadata": {"name": name}, "value": value});
        house.client.post(classes, &object(class)).await.unwrap();
    }
    let wants = |name: &str, class: &str| {
        let amount = json!({DONGLE: "1"});
        let mut pod =
            pod(name, json!({"priorityClassName": class, "terminationGracePeriodSeconds": 0}));
        pod["spec"]["containers"][0]["resources"] = json!({"requests": amount, "limits": amount});
        pod
    };
    let mut victim = wants("victim", "low");
    victim["metadata"]["finalizers"] = json!(["example.com/held"]);
    house.make(victim).await;
    house.pod("victim", "ready", ready).await;
    house.make(wants("strong", "high")).await;
    let ends =
        house.pod("victim", "ends", |pod| pod["metadata"]["deletionTimestamp"].is_string()).await;
    let disrupted = condition(&ends, "DisruptionTarget");
    assert_eq!(
        (&disrupted["status"], &disrupted["reason"]),
        (&json!("True"), &json!("PreemptionByScheduler"))
    );
    let free = json!({"metadata": {"finalizers": null}});
    house.client.patch(&format!("{PODS}/victim"), &object(free)).await.unwrap();
    house.pod("strong", "ready", ready).await;
}

/// SchedulerPredicates validates resource limits of pods that are allowed to run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sc1_a_pod_that_no_node_has_room_for_waits_and_is_told() {
    let house = House::new().await;
    let wants = |name: &str, cpu: &str| {
        let amount = json!({"cpu": cpu});
        let mut pod = pod(name, json!({}));
        pod["spec"]["containers"][0]["resources"] = json!({"requests": amount, "limits": amount});
        pod
    };
    house.make(wants("filler", "2800m")).await;
    house.pod("filler", "running", |pod| phase(pod) == "Running").await;
    house.make(wants("additional", "2")).await;
    let path = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dadditional";
    let told = house.until(path, "it is told", |list| list["items"][0].is_object()).await;
    let told = &told["items"][0];
    assert_eq!((&told["type"], &told["reason"]), (&json!("Warning"), &json!("FailedScheduling")));
    assert!(told["metadata"]["name"].as_str().unwrap().starts_with("additional."), "{told}");
    let waits = house.get(&format!("{PODS}/additional")).await.unwrap();
    assert!(waits["spec"].get("nodeName").is_none() && phase(&waits) == "Pending");
}

/// SchedulerPredicates validates that NodeSelector is respected if matching: the label was given a moment before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r111_a_pod_is_judged_by_the_node_as_it_is_now() {
    let house = House::new().await;
    for round in 0..5 {
        let label = format!("example.com/round-{round}");
        let patch = json!({"metadata": {"labels": {&label: "yes"}}});
        house.client.patch(NODE, &object(patch)).await.unwrap();
        let name = format!("chosen-{round}");
        house.make(pod(&name, json!({"nodeSelector": {label: "yes"}}))).await;
        house.pod(&name, "running", |pod| phase(pod) == "Running").await;
    }
    let other = json!({"nodeName": "node-1", "nodeSelector": {"example.com/round-0": "no"}});
    house.make(pod("other", other)).await;
    let refused = house.pod("other", "refused", |pod| phase(pod) == "Failed").await;
    assert_eq!(refused["status"]["reason"], "NodeAffinity");
}
