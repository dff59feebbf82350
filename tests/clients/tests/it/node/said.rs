//! What is said of pods as they start, are probed and end, byte by byte as upstream says it. Rules of
//! spec/downward-api.md.

use serde_json::{Value, json};

use super::house::{House, On};

fn pod(house: &House, name: &str, script: &str, container: Value) -> Value {
    let mut main = json!({"name": "main", "image": house.image(), "command": ["sh", "-c", script]});
    main.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main]},
    })
}

/// Messages of the events of a pod with this reason.
fn told(house: &House, pod: &str, reason: &str) -> Vec<String> {
    let selector = format!("reason={reason},involvedObject.name={pod}");
    let all = house.kubectl.ok(&["get", "events", "--field-selector", &selector, "-o", "json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    let items = all["items"].as_array().unwrap().iter();
    items.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn r114_a_start_says_that_an_image_is_pulled_or_that_it_is_there() {
    let house = House::open(On::Process, &[]).unwrap();
    for policy in ["Always", "IfNotPresent"] {
        let name = policy.to_lowercase();
        house.create(&pod(&house, &name, "true", json!({"imagePullPolicy": policy})));
        house.phase(&name, "Succeeded");
        house.until("it started", || told(&house, &name, "Started"), |all| !all.is_empty());
        let present = "Container image \"host\" already present on machine";
        assert_eq!(told(&house, &name, "Pulled"), [present], "{policy}");
        assert_eq!(told(&house, &name, "Pulling"), Vec::<String>::new(), "{policy}");
    }
    // What must be unpacked first is told before and after, and is there from then on.
    let Some(house) = House::with_busybox(On::Process) else { return };
    for (name, first) in [("first", true), ("second", false)] {
        house.create(&pod(&house, name, "true", json!({"imagePullPolicy": "Always"})));
        house.phase(name, "Succeeded");
        let look = || told(&house, name, "Pulled");
        let pulled = house.until("it is there", look, |all| !all.is_empty());
        let begin =
            if first { "Successfully pulled image \"busybox\" in " } else { "Container image" };
        assert!(pulled.len() == 1 && pulled[0].starts_with(begin), "{name}: {pulled:?}");
        let pulling: &[&str] = if first { &["Pulling image \"busybox\""] } else { &[] };
        assert_eq!(told(&house, name, "Pulling"), pulling, "{name}");
    }
}

#[test]
fn r110_a_probe_that_fails_says_what_it_asked_for() {
    let house = House::open(On::Process, &[]).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let probe = json!({"httpGet": {"path": "/healthz?full=1", "port": port}, "periodSeconds": 1});
    house.create(&pod(&house, "probed", "exec sleep 600", json!({"readinessProbe": probe})));
    let look = || told(&house, "probed", "Unhealthy");
    let said = house.until("it is told", look, |all| !all.is_empty());
    let address = house.kubectl.value("pod/probed", ".status.podIP");
    let place = format!("{address}:{port}");
    let words = format!(
        "Readiness probe failed: Get \"http://{place}/healthz?full=1\": dial tcp {place}: connect: \
         connection refused"
    );
    assert_eq!(said[0], words);
}

#[test]
fn r99_last_words_from_the_log_end_where_they_ended() {
    let house = House::open(On::Process, &[]).unwrap();
    let fallback = || json!({"terminationMessagePolicy": "FallbackToLogsOnError"});
    for (name, script, log) in [
        ("open", "printf DONE; exit 1", "DONE"),
        ("closed", "echo DONE; exit 1", "DONE\n"),
        ("two", "echo one; printf two; exit 1", "one\ntwo"),
    ] {
        house.create(&pod(&house, name, script, fallback()));
        house.phase(name, "Failed");
        let ended = house.get(&format!("pod/{name}"));
        let ended = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!(ended["message"], log, "{name}: {ended}");
        assert_eq!(house.kubectl.ok(&["logs", name]), log, "{name}");
    }
    assert_eq!(house.kubectl.ok(&["logs", "two", "--tail", "1"]), "two");
    // A container that ended well has no last words in its log.
    house.create(&pod(&house, "well", "printf DONE", fallback()));
    house.phase("well", "Succeeded");
    let path = ".status.containerStatuses[0].state.terminated.message";
    assert_eq!(house.kubectl.value("pod/well", path), "");
}

#[test]
fn r111a_a_pod_sets_what_the_kernel_keeps_for_it_alone() {
    let house = House::open(On::Process, &[]).unwrap();
    let path = "/proc/sys/kernel/shm_rmid_forced";
    let machine = std::fs::read_to_string(path).unwrap();
    let mut tuned = pod(&house, "tuned", &format!("cat {path}"), json!({}));
    let setting = json!([{"name": "kernel.shm_rmid_forced", "value": "1"}]);
    tuned["spec"]["securityContext"] = json!({"sysctls": setting});
    house.create(&tuned);
    house.phase("tuned", "Succeeded");
    assert_eq!(house.kubectl.ok(&["logs", "tuned"]), "1\n");
    assert_eq!(std::fs::read_to_string(path).unwrap(), machine);
}

#[test]
fn r61a_names_of_any_prefix_reach_the_command() {
    let house = House::open(On::Process, &[]).unwrap();
    let data = json!({"data-1": "value-1", "data.2": "value-2"});
    house.create(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": data,
    }));
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "stringData": data});
    house.create(&secret);
    let from = json!([
        {"configMapRef": {"name": "map"}},
        {"prefix": "p-", "configMapRef": {"name": "map"}},
        {"prefix": "1s.", "secretRef": {"name": "secret"}},
    ]);
    let host =
        json!({"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}});
    // Not by a shell: some drop names that are none to them.
    let container = json!({
        "command": ["cat", "/proc/self/environ"], "envFrom": from, "env": [host],
    });
    house.create(&pod(&house, "names", "", container));
    house.phase("names", "Succeeded");
    let said = house.kubectl.ok(&["logs", "names"]);
    let all: Vec<&str> = said.split('\0').collect();
    for wanted in [
        "data-1=value-1",
        "data.2=value-2",
        "p-data-1=value-1",
        "p-data.2=value-2",
        "1s.data-1=value-1",
        "1s.data.2=value-2",
        "HOST_IP=10.244.0.1",
    ] {
        assert!(all.contains(&wanted), "{wanted}: {all:?}");
    }
}
