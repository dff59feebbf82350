//! Rules of spec/downward-api.md: the agent of a node against a real server and a runtime that does
//! what a test says; sections 11 to 13 and 15.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_host::{Config, ControlPlane, NodeOptions, NodeRuntime};
use tenure_lifecycle::{NodeCapacity, RestartBackoff};
use tenure_node::client::Client;
use tenure_node::{GivenRuntime, RuntimeChoice, Server};

use crate::scripted::Scripted;

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct House {
    pub(crate) plane: ControlPlane,
    pub(crate) client: Client,
    pub(crate) runtime: Scripted,
}

pub(crate) fn object(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().cloned().unwrap()
}

impl House {
    pub(crate) async fn new() -> House {
        House::with(Scripted::new(), Config::ephemeral()).await
    }

    pub(crate) async fn with(runtime: Scripted, config: Config) -> House {
        let given = RuntimeChoice::Given(GivenRuntime(std::sync::Arc::new(runtime.clone())));
        let config = Config {
            nodes: 1,
            runtime: NodeRuntime::Real(Box::new(given)),
            node: NodeOptions {
                backoff: RestartBackoff::curve(Duration::from_millis(300), Duration::from_secs(1)),
                room: NodeCapacity {
                    cpu_millis: 4000,
                    memory_bytes: 8 << 30,
                    storage_bytes: 1 << 40,
                    pods: 110,
                },
                ..config.node
            },
            ..config
        };
        let plane = ControlPlane::start(config).await.unwrap();
        let client = administrator(&plane);
        let house = House { plane, client, runtime };
        house
            .until("/api/v1/nodes/node-1", "the node is ready", |node| {
                condition(node, "Ready")["status"] == "True"
            })
            .await;
        house.account().await;
        house
    }

    /// Pods cannot be made before their namespace has its account.
    async fn account(&self) {
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        self.until(path, "there is an account", |_| true).await;
    }

    pub(crate) async fn make(&self, pod: Value) -> Value {
        Value::Object(self.client.post(PODS, &object(pod)).await.unwrap())
    }

    pub(crate) async fn get(&self, path: &str) -> Option<Value> {
        self.client.get(path).await.ok().map(Value::Object)
    }

    pub(crate) async fn until(
        &self,
        path: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let begin = Instant::now();
        loop {
            let found = self.get(path).await;
            if let Some(found) = found.as_ref().filter(|found| wanted(found)) {
                return found.clone();
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{path}: not {what}: {found:#?}\n{:?}",
                self.runtime.said()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn pod(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        self.until(&format!("{PODS}/{name}"), what, wanted).await
    }

    async fn gone(&self, name: &str) {
        let begin = Instant::now();
        while self.get(&format!("{PODS}/{name}")).await.is_some() {
            assert!(begin.elapsed() < PATIENCE, "{name} stays; {:?}", self.runtime.said());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn delete(&self, name: &str, grace: Option<i64>) {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        if let Some(grace) = grace {
            options["gracePeriodSeconds"] = grace.into();
        }
        self.client.delete(&format!("{PODS}/{name}"), &object(options)).await.unwrap();
    }

    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let path =
            format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{name}");
        let list = self.get(&path).await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }
}

pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    static NONE: Value = Value::Null;
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    found.unwrap_or(&NONE)
}

pub(crate) fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

pub(crate) fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}

pub(crate) fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 3,
            "containers": [{"name": name, "image": "i"}],
        },
    });
    for (member, value) in spec.as_object().unwrap() {
        pod["spec"][member] = value.clone();
    }
    pod
}

/// A client with the rights of the administrator.
pub(crate) fn administrator(plane: &ControlPlane) -> Client {
    Client::new(&Server {
        url: plane.url().to_owned(),
        authority_pem: plane.authority_pem().to_owned(),
        certificate_pem: plane.admin().certificate_pem.clone(),
        key_pem: plane.admin().key_pem.clone(),
        ..Server::default()
    })
    .unwrap()
}

pub(crate) fn ready(pod: &Value) -> bool {
    condition(pod, "Ready")["status"] == "True"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r97_r98_a_pod_runs_and_its_status_says_so() {
    let house = House::new().await;
    house.make(pod("a", json!({}))).await;
    let found = house.pod("a", "ready", ready).await;
    assert_eq!(phase(&found), "Running");
    assert_eq!(found["status"]["podIP"], "10.1.2.3");
    assert_eq!(found["status"]["hostIP"], "127.0.0.1");
    assert_eq!(container(&found)["containerID"], "scripted://0001-a");
    assert_eq!(found["status"]["observedGeneration"], found["metadata"]["generation"]);
    let begin = Instant::now();
    let events = loop {
        let events = house.events("a").await;
        let whole = events.iter().any(|event| event == "Started");
        if whole || begin.elapsed() > PATIENCE {
            break events;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    for reason in ["Scheduled", "Pulled", "Created", "Started"] {
        assert!(events.iter().any(|event| event == reason), "{reason} in {events:?}");
    }
    // R98: a pod that does not change is not written.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = house.get(&format!("{PODS}/a")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = house.get(&format!("{PODS}/a")).await.unwrap();
    assert_eq!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"]);
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r101_r102_containers_are_restarted_with_growing_waits() {
    let house = House::new().await;
    house.make(pod("a", json!({}))).await;
    house.pod("a", "ready", ready).await;
    house.runtime.exit("a", 3);
    let again = house.pod("a", "restarted", |pod| container(pod)["restartCount"] == 1).await;
    assert_eq!(container(&again)["lastState"]["terminated"]["exitCode"], 3);
    house.runtime.exit("a", 4);
    let waits = house
        .pod("a", "waiting", |pod| {
            container(pod)["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        })
        .await;
    assert_eq!(phase(&waits), "Running");
    house.pod("a", "running again", |pod| container(pod)["restartCount"] == 2).await;

    house.make(pod("once", json!({"restartPolicy": "Never"}))).await;
    house.pod("once", "ready", ready).await;
    house.runtime.exit("once", 0);
    let done = house.pod("once", "done", |pod| phase(pod) == "Succeeded").await;
    assert_eq!(condition(&done, "Ready")["reason"], "PodCompleted");
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r100_init_containers_come_one_after_another() {
    let house = House::new().await;
    let inits = json!([
        {"name": "one", "image": "i"},
        {"name": "side", "image": "i", "restartPolicy": "Always"},
        {"name": "two", "image": "i"},
    ]);
    house.make(pod("a", json!({"initContainers": inits, "restartPolicy": "Never"}))).await;
    let runs = |name: &'static str| {
        move |pod: &Value| {
            let all = pod["status"]["initContainerStatuses"].as_array().cloned();
            all.into_iter()
                .flatten()
                .any(|one| one["name"] == name && one["state"]["running"].is_object())
        }
    };
    house.pod("a", "at one", runs("one")).await;
    assert!(!house.runtime.said().contains(&"start side".to_owned()));
    house.runtime.exit("one", 0);
    house.pod("a", "at two", runs("two")).await;
    house.runtime.exit("two", 0);
    house.pod("a", "ready", ready).await;
    house.runtime.exit("a", 0);
    house.pod("a", "done", |pod| phase(pod) == "Succeeded").await;
    let started: Vec<String> =
        house.runtime.said().into_iter().filter(|said| said.starts_with("start ")).collect();
    assert_eq!(started, ["start one", "start side", "start two", "start a"]);
    assert!(house.runtime.said().iter().any(|said| said.starts_with("stop side")));
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r106_r108_a_deleted_pod_goes_when_its_processes_are_gone() {
    let house = House::new().await;
    let hook = json!([{
        "name": "a", "image": "i",
        "lifecycle": {"preStop": {"exec": {"command": ["farewell"]}}},
    }]);
    house.make(pod("a", json!({"containers": hook, "terminationGracePeriodSeconds": 2}))).await;
    house.pod("a", "ready", ready).await;
    house.runtime.stubborn("a");
    let begin = Instant::now();
    house.delete("a", None).await;
    house.gone("a").await;
    assert!(begin.elapsed() >= Duration::from_secs(2), "{:?}", begin.elapsed());
    let said = house.runtime.said();
    let at = |word: &str| said.iter().position(|found| found.starts_with(word));
    assert!(at("run farewell") < at("stop a"), "{said:?}");
    assert!(at("stop a") < at("remove sandbox"), "{said:?}");
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r106_force_skips_the_hook() {
    let house = House::new().await;
    let hook = json!([{
        "name": "a", "image": "i",
        "lifecycle": {"preStop": {"exec": {"command": ["farewell"]}}},
    }]);
    house.make(pod("a", json!({"containers": hook}))).await;
    house.pod("a", "ready", ready).await;
    house.delete("a", Some(0)).await;
    house.gone("a").await;
    let begin = Instant::now();
    while !house.runtime.said().contains(&"remove sandbox".to_owned()) {
        assert!(begin.elapsed() < PATIENCE, "{:?}", house.runtime.said());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!house.runtime.said().contains(&"run farewell".to_owned()));
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r110_probes_decide() {
    let house = House::new().await;
    let probe = |word: &str| json!({"exec": {"command": [word]}, "periodSeconds": 1, "failureThreshold": 1});
    let containers = json!([{
        "name": "a", "image": "i", "startupProbe": probe("startup"),
        "readinessProbe": probe("readiness"), "livenessProbe": probe("liveness"),
    }]);
    house.runtime.command("readiness", 1);
    house.make(pod("a", json!({"containers": containers}))).await;
    let found = house.pod("a", "started", |pod| container(pod)["started"] == true).await;
    assert!(!ready(&found));
    house.runtime.command("readiness", 0);
    house.pod("a", "ready", ready).await;
    house.runtime.command("readiness", 1);
    let found = house.pod("a", "unready", |pod| !ready(pod)).await;
    assert_eq!(container(&found)["restartCount"], 0, "readiness kills nobody");
    house.runtime.command("liveness", 1);
    house
        .pod("a", "killed", |pod| container(pod)["lastState"]["terminated"]["exitCode"] == 143)
        .await;
    assert!(house.events("a").await.contains(&"Unhealthy".to_owned()));
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r97_what_keeps_a_container_from_starting_is_told() {
    let house = House::new().await;
    let image = json!([{"name": "a", "image": "missing/image"}]);
    house.make(pod("image", json!({"containers": image}))).await;
    let waits = |word: &'static str| {
        move |pod: &Value| container(pod)["state"]["waiting"]["reason"] == word
    };
    house.pod("image", "told", waits("ErrImagePull")).await;
    house.pod("image", "waiting", waits("ImagePullBackOff")).await;

    let from = json!([{"name": "config", "image": "i", "env": [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "k"}}},
    ]}]);
    house.make(pod("config", json!({"containers": from}))).await;
    let found = house.pod("config", "told", waits("CreateContainerConfigError")).await;
    let message = container(&found)["state"]["waiting"]["message"].as_str().unwrap();
    assert!(message.contains("later"), "{message}");
    let map = json!({"metadata": {"name": "later"}, "data": {"k": "v"}});
    house.client.post("/api/v1/namespaces/default/configmaps", &object(map)).await.unwrap();
    house.pod("config", "ready", ready).await;
    let env = house.runtime.config("config").unwrap().env;
    assert!(env.iter().any(|(name, value)| name == "A" && value.0 == b"v"));
    assert!(!format!("{env:?}").contains("\"v\""), "values are never shown");

    let bad = json!([{"name": "unrunnable", "image": "i"}]);
    house.make(pod("bad", json!({"containers": bad, "restartPolicy": "Never"}))).await;
    let found = house.pod("bad", "failed", |pod| phase(pod) == "Failed").await;
    let terminated = &container(&found)["state"]["terminated"];
    assert_eq!(
        (&terminated["exitCode"], &terminated["reason"]),
        (&json!(128), &json!("StartError"))
    );
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r111_a_pod_that_does_not_fit_is_refused_by_the_node() {
    let house = House::new().await;
    let containers = json!([{
        "name": "a", "image": "i", "resources": {"requests": {"cpu": "64"}},
    }]);
    house.make(pod("a", json!({"containers": containers, "nodeName": "node-1"}))).await;
    let found = house.pod("a", "refused", |pod| phase(pod) == "Failed").await;
    assert_eq!(found["status"]["reason"], "OutOfcpu");
    let selector = json!({"nodeName": "node-1", "nodeSelector": {"x": "y"}});
    house.make(pod("b", selector)).await;
    let found = house.pod("b", "refused", |pod| phase(pod) == "Failed").await;
    assert_eq!(found["status"]["reason"], "NodeAffinity");
    assert!(!house.runtime.said().iter().any(|said| said.starts_with("create")));
    for name in ["a", "b"] {
        house.delete(name, None).await;
        house.gone(name).await;
    }
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r105_a_deadline_ends_a_pod() {
    let house = House::new().await;
    house.make(pod("a", json!({"activeDeadlineSeconds": 1}))).await;
    house.pod("a", "ready", ready).await;
    let found = house.pod("a", "failed", |pod| phase(pod) == "Failed").await;
    assert_eq!(found["status"]["reason"], "DeadlineExceeded");
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r103_a_new_image_restarts_the_container() {
    let house = House::new().await;
    house.make(pod("a", json!({}))).await;
    house.pod("a", "ready", ready).await;
    let patch = json!({"spec": {"containers": [{"name": "a", "image": "other"}]}});
    house.client.patch(&format!("{PODS}/a"), &object(patch)).await.unwrap();
    let found =
        house.pod("a", "changed", |pod| ready(pod) && container(pod)["image"] == "other").await;
    assert_eq!(container(&found)["restartCount"], 1);
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r154_a_runtime_that_goes_away_and_comes_back_loses_nothing() {
    let house = House::new().await;
    house.make(pod("a", json!({}))).await;
    house.pod("a", "ready", ready).await;
    house.runtime.go_away(true);
    house.make(pod("b", json!({}))).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let found = house.get(&format!("{PODS}/a")).await.unwrap();
    assert!(ready(&found), "what runs is not doubted");
    house.runtime.go_away(false);
    house.pod("b", "ready", ready).await;
    let found = house.get(&format!("{PODS}/a")).await.unwrap();
    assert_eq!(container(&found)["restartCount"], 0);
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r134_r135_r136_r137_the_node_is_known_and_known_again() {
    let house = House::new().await;
    // A node that is known but not ready yet will be written once more, and so will its taints.
    let node = house
        .until("/api/v1/nodes/node-1", "ready", |node| {
            condition(node, "Ready")["status"] == "True" && node["spec"]["taints"].is_null()
        })
        .await;
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "node-1");
    assert_eq!(node["status"]["allocatable"]["cpu"], "4");
    assert_eq!(node["status"]["allocatable"]["memory"], "8Gi");
    assert_eq!(node["status"]["addresses"][0]["address"], "127.0.0.1");
    assert!(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().unwrap() > 0);
    for calm in ["MemoryPressure", "DiskPressure", "PIDPressure"] {
        assert_eq!(condition(&node, calm)["status"], "False");
    }
    let features = node["status"]["declaredFeatures"].as_array().cloned().unwrap_or_default();
    assert_eq!(features, [json!("DownwardAPIOwnerReferences")]);
    // R135: a node that does not change is not written.
    tokio::time::sleep(Duration::from_secs(11)).await;
    let later = house.get("/api/v1/nodes/node-1").await.unwrap();
    assert_eq!(later["metadata"]["resourceVersion"], node["metadata"]["resourceVersion"]);
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1";
    let lease = house.until(path, "held", |lease| lease["spec"]["renewTime"].is_string()).await;
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
    let options = object(json!({"apiVersion": "v1", "kind": "DeleteOptions"}));
    house.client.delete("/api/v1/nodes/node-1", &options).await.unwrap();
    house
        .until("/api/v1/nodes/node-1", "back", |found| {
            found["metadata"]["uid"] != node["metadata"]["uid"]
        })
        .await;
    house.plane.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r83_an_agent_finds_what_ran_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        || Config { listen: ([127, 0, 0, 1], 0).into(), ..Config::new(folder.path().join("data")) };
    let runtime = Scripted::new();
    let house = House::with(runtime.clone(), config()).await;
    house.make(pod("a", json!({}))).await;
    house.make(pod("b", json!({}))).await;
    let first = house.pod("a", "ready", ready).await;
    house.pod("b", "ready", ready).await;
    // A copy of what ran is what a killed agent would have left; the end below stops the rest.
    let left = runtime.left();
    house.plane.stop().await;
    let house = House::with(left.clone(), config()).await;
    let again = house.pod("a", "ready", ready).await;
    assert_eq!(container(&again)["containerID"], container(&first)["containerID"]);
    assert_eq!(container(&again)["restartCount"], 0);
    assert!(!left.said().iter().any(|said| said.starts_with("create")), "{:?}", left.said());
    left.exit("a", 1);
    house.pod("a", "restarted", |pod| container(pod)["restartCount"] == 1).await;
    house.plane.stop().await;
}
