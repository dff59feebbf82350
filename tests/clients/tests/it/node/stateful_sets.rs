//! StatefulSets whose pods really run and become unhealthy when they are told to, by the names of upstream's
//! end-to-end tests.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::house::{House, On};

/// How long nothing may happen where nothing should.
const QUIET: Duration = Duration::from_secs(2);
const SET: &str = "statefulset/db";

fn set(policy: &str, replicas: u32) -> Value {
    let labels = json!({"app": "db"});
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "serviceName": "db", "replicas": replicas, "podManagementPolicy": policy,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "c", "image": "host",
                "command": ["sh", "-c", "touch /data/ready; exec sleep 1000"],
                "env": [{"name": "ROUND", "value": "1"}],
                "readinessProbe": {"exec": {"command": ["test", "-f", "/data/ready"]},
                    "periodSeconds": 1, "failureThreshold": 1},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }],
            "volumes": [{"name": "data", "emptyDir": {}}],
        }},
    }})
}

/// The pods of the set, as they are now.
fn pods(house: &House) -> Vec<Value> {
    let list = house.kubectl.ok(&["get", "pods", "--selector=app=db", "--output=json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn names(pods: &[Value]) -> Vec<String> {
    let mut names: Vec<String> =
        pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

fn ready_since(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|one| one["type"] == "Ready")?;
    if ready["status"] == "True" { ready["lastTransitionTime"].as_str() } else { None }
}

/// Waits for so many pods, all of them ready, or none of them.
fn settled(house: &House, count: usize, is_ready: bool) -> Vec<Value> {
    let holds = |pods: &Vec<Value>| {
        pods.len() == count && pods.iter().all(|pod| ready_since(pod).is_some() == is_ready)
    };
    house.until(&format!("{count} pods, ready: {is_ready}"), || pods(house), holds)
}

/// Makes pods unhealthy or healthy again.
fn health(house: &House, ordinals: &[u32], verb: &str) {
    for ordinal in ordinals {
        house.exec(&format!("db-{ordinal}"), &[verb, "/data/ready"]);
    }
}

fn scale(house: &House, replicas: u32) {
    house.kubectl.ok(&["scale", SET, &format!("--replicas={replicas}")]);
}

/// The pods stay as they are for a while.
fn stays(house: &House, count: usize) {
    let begin = Instant::now();
    while begin.elapsed() < QUIET {
        let pods = pods(house);
        let going = |pod: &Value| pod["metadata"].get("deletionTimestamp").is_some();
        assert!(pods.len() == count && !pods.iter().any(going), "{:?}", names(&pods));
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Scaling should happen in predictable order and halt if any stateful pod is unhealthy.
#[test]
fn pods_come_and_go_in_order_and_wait_for_an_unhealthy_one() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&set("OrderedReady", 1));
    settled(&house, 1, true);
    health(&house, &[0], "rm");
    settled(&house, 1, false);
    scale(&house, 3);
    stays(&house, 1);
    health(&house, &[0], "touch");
    let all = settled(&house, 3, true);
    let mut before: Option<String> = None;
    for ordinal in 0..3 {
        let pod =
            all.iter().find(|pod| pod["metadata"]["name"] == format!("db-{ordinal}")).unwrap();
        let made = pod["metadata"]["creationTimestamp"].as_str().unwrap();
        assert!(before.is_none_or(|before| before.as_str() <= made), "{ordinal}");
        before = ready_since(pod).map(str::to_owned);
    }

    health(&house, &[0, 1, 2], "rm");
    settled(&house, 3, false);
    scale(&house, 0);
    stays(&house, 3);
    health(&house, &[0, 1, 2], "touch");
    // Whoever is left is always from the front.
    let begin = Instant::now();
    loop {
        let left = names(&pods(&house));
        let front: Vec<String> = (0..left.len()).map(|ordinal| format!("db-{ordinal}")).collect();
        assert_eq!(left, front);
        if left.is_empty() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Burst scaling should run to completion even with unhealthy pods.
#[test]
fn pods_of_a_parallel_set_wait_for_nobody() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&set("Parallel", 1));
    settled(&house, 1, true);
    health(&house, &[0], "rm");
    settled(&house, 1, false);
    scale(&house, 3);
    let ready = |pods: &Vec<Value>| pods.iter().filter(|pod| ready_since(pod).is_some()).count();
    house.until("two more are ready", || pods(&house), |pods| pods.len() == 3 && ready(pods) == 2);
    health(&house, &[1, 2], "rm");
    settled(&house, 3, false);
    scale(&house, 0);
    settled(&house, 0, false);
}

/// The revision that each pod has, by ordinal.
fn revisions(house: &House) -> Vec<String> {
    let mut all: Vec<(String, String)> = pods(house)
        .iter()
        .map(|pod| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let metadata = &pod["metadata"];
            (text(&metadata["name"]), text(&metadata["labels"]["controller-revision-hash"]))
        })
        .collect();
    all.sort();
    all.into_iter().map(|(_, revision)| revision).collect()
}

fn change(house: &House, patch: Value) {
    house.kubectl.ok(&["patch", SET, "--type=strategic", "--patch", &patch.to_string()]);
}

fn round(number: &str) -> Value {
    let env = json!([{"name": "ROUND", "value": number}]);
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "env": env}]}}}})
}

fn partition(ordinal: u32) -> Value {
    json!({"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": ordinal}}}})
}

/// Waits until these are the revisions of the pods, all ready, and gives the status of the set.
fn rolled(house: &House, expected: &[&String]) -> Value {
    let look = || (revisions(house), pods(house).iter().all(|pod| ready_since(pod).is_some()));
    let holds =
        |(seen, ready): &(Vec<String>, bool)| *ready && seen.iter().collect::<Vec<_>>() == expected;
    house.until(&format!("{expected:?}"), look, holds);
    let observed = |set: &Value| {
        set["metadata"]["generation"] == set["status"]["observedGeneration"]
            && set["status"]["readyReplicas"] == 3
            && set["status"]["updatedReplicas"].as_u64().unwrap_or(0) > 0
    };
    house.until("the set has seen it", || house.get(SET), observed)["status"].clone()
}

/// Should perform canary updates and phased rolling updates of template modifications; should perform rolling
/// updates and roll backs of template modifications.
#[test]
fn templates_roll_out_from_behind_as_far_as_the_partition_and_back() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&set("OrderedReady", 3));
    settled(&house, 3, true);
    let old = revisions(&house).remove(0);
    let status = rolled(&house, &[&old, &old, &old]);
    assert_eq!((&status["currentRevision"], &status["updateRevision"]), (&json!(old), &json!(old)));

    // A partition beyond the last leaves all as they are.
    change(&house, partition(3));
    change(&house, round("2"));
    stays(&house, 3);
    let new = house.get(SET)["status"]["updateRevision"].as_str().unwrap().to_owned();
    assert!(new != old && revisions(&house) == [&*old, &*old, &*old]);
    change(&house, partition(2));
    let status = rolled(&house, &[&old, &old, &new]);
    assert_eq!((&status["currentRevision"], &status["updatedReplicas"]), (&json!(old), &json!(1)));
    assert_eq!(house.exec("db-2", &["sh", "-c", "echo $ROUND"]), "2\n");
    // Pods that are made anew get the revision of their side.
    house.kubectl.ok(&["delete", "pod", "db-0", "db-2", "--grace-period=1"]);
    rolled(&house, &[&old, &old, &new]);
    change(&house, partition(1));
    rolled(&house, &[&old, &new, &new]);

    // The next waits while one is not ready.
    health(&house, &[1], "rm");
    house.until("db-1 is not ready", || house.get("pod/db-1"), |pod| ready_since(pod).is_none());
    change(&house, partition(0));
    stays(&house, 3);
    assert_eq!(revisions(&house), [&*old, &*new, &*new]);
    health(&house, &[1], "touch");
    rolled(&house, &[&new, &new, &new]);
    let all = |set: &Value| set["status"]["currentRevision"] == new;
    house.until("the new revision is the current one", || house.get(SET), all);

    change(&house, round("1"));
    rolled(&house, &[&old, &old, &old]);
    let back = |set: &Value| {
        set["status"]["currentRevision"] == old && set["status"]["updateRevision"] == old
    };
    house.until("the old revision is the current one", || house.get(SET), back);
    assert_eq!(house.exec("db-0", &["sh", "-c", "echo $ROUND"]), "1\n");
}
