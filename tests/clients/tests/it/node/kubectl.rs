//! What an operator does with nodes and their pods through kubectl: look at them, empty a node, put a
//! pod out. Rules of spec/downward-api.md; budgets are those of spec/workload-controllers.md.

use serde_json::{Value, json};

use super::house::{House, On};

const VIOLATES: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

fn deployment(replicas: u64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{
                        "name": "web", "image": "host", "command": ["sleep", "600"],
                        "resources": {"limits": {"memory": "32Mi"}},
                        "env": [{"name": "OWNERS", "valueFrom": {
                            "fieldRef": {"fieldPath": "metadata.ownerReferences"}}}],
                        "volumeMounts": [{"name": "info", "mountPath": "/etc/podinfo"}],
                    }],
                    "volumes": [{"name": "info", "downwardAPI": {"items": [
                        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}}],
                },
            },
        },
    })
}

/// The pods of the Deployment and their nodes, once so many are ready and no other is left.
fn pods(house: &House, count: usize) -> Vec<(String, String)> {
    let path = "{range .items[?(@.status.containerStatuses[0].ready==true)]}{.metadata.name} \
                {.spec.nodeName}{\"\\n\"}{end}";
    let look = || {
        let all = house.kubectl.ok(&["get", "pods", "--output", "name"]).lines().count();
        let ready = house.kubectl.ok(&["get", "pods", "--output", &format!("jsonpath={path}")]);
        let pairs = ready.lines().filter_map(|line| line.split_once(' '));
        let pairs = pairs.map(|(pod, node)| (pod.to_owned(), node.to_owned()));
        (all, pairs.collect::<Vec<_>>())
    };
    let holds = |(all, ready): &(usize, Vec<_>)| *all == count && ready.len() == count;
    house.until(&format!("{count} pods are ready"), look, holds).1
}

/// Asks for the eviction of a pod, expects this exit code, and gives what kubectl said.
fn evict(house: &House, pod: &str, code: i32) -> String {
    let path = format!("/api/v1/namespaces/shop/pods/{pod}/eviction");
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod, "namespace": "shop"},
    });
    let arguments = ["create", "--raw", &path, "--filename", "-"];
    house.kubectl.feed_until(&arguments, &eviction.to_string(), code).1
}

#[test]
fn pods_and_nodes_are_described_and_nothing_is_measured() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&deployment(1));
    let (pod, node) = pods(&house, 1).remove(0);
    let look = || house.kubectl.ok(&["describe", "pod", &pod]);
    let said = house.until("events are told", look, |said| said.contains("Container started"));
    for part in [
        "Status:           Running",
        &format!("Node:             {node}/10.244.0.1"),
        "Controlled By:  ReplicaSet/web-",
        "Container ID:  process://",
        "memory:  32Mi",
        "OWNERS:   (v1:metadata.ownerReferences)",
        "/etc/podinfo from info (rw)",
        "DownwardAPI (a volume populated by information about the pod)",
        "metadata.labels -> labels",
        "PodReadyToStartContainers   True",
        "Scheduled",
        "Pulled",
        "Created",
        "Started",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = house.kubectl.ok(&["describe", "node", &node]);
    for part in [
        "Ready            True",
        "InternalIP:  10.244.0.1",
        "Container Runtime Version:  process://",
        "Non-terminated Pods:          (1 in total)",
        &pod,
        "HolderIdentity:  node-1",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for what in ["pods", "nodes"] {
        assert_eq!(house.kubectl.fails(&["top", what]), "error: Metrics API not available\n");
    }
}

#[test]
fn pd1_a_node_is_emptied_as_its_budgets_allow() {
    let house = House::open(On::Process, &["--nodes", "2"]).unwrap();
    let look = || house.kubectl.ok(&["get", "nodes", "--output", "name"]).lines().count();
    house.until("both nodes are there", look, |nodes| *nodes == 2);
    house.create(&deployment(2));
    let before = pods(&house, 2);
    house.create(&json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }));
    let allowed = || house.kubectl.value("pdb/web", ".status.disruptionsAllowed");
    house.until(
        "the budget is counted",
        || house.kubectl.value("pdb/web", ".status"),
        |status| status.contains("\"currentHealthy\":2"),
    );
    assert_eq!(allowed(), "0");
    let (pod, node) = &before[0];

    // Neither one pod nor the node, as long as both are needed.
    let said = evict(&house, pod, 1);
    assert_eq!(said, format!("Error from server (TooManyRequests): {VIOLATES}\n"));
    let drain = ["drain", node, "--ignore-daemonsets", "--timeout"];
    let said = house.kubectl.fails(&[&drain[..], &["2s"]].concat());
    assert!(said.contains(VIOLATES), "{said}");
    assert_eq!(pods(&house, 2), before);
    house.kubectl.ok(&["uncordon", node]);

    let patch = r#"{"spec": {"minAvailable": 1}}"#;
    house.kubectl.ok(&["patch", "pdb", "web", "--type", "merge", "--patch", patch]);
    house.until("one may go", allowed, |allowed| allowed == "1");
    evict(&house, pod, 0);
    let look = || house.kubectl.command(&["get", "pod", pod]).output().unwrap().status.success();
    house.until("the pod is gone", look, |there| !there);

    // Everything leaves the node, one after the other, and comes up elsewhere.
    pods(&house, 2);
    house.until("one may go", allowed, |allowed| allowed == "1");
    let said = house.kubectl.ok(&[&drain[..], &["80s"]].concat());
    assert!(said.contains(&format!("node/{node} drained")), "{said}");
    let after = pods(&house, 2);
    assert!(after.iter().all(|(_, place)| place != node), "{after:?}");
    assert_eq!(house.kubectl.value(&format!("node/{node}"), ".spec.unschedulable"), "true");

    // A pod that nobody would make again is only put out by force.
    house.kubectl.ok(&["uncordon", node]);
    house.create(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "host", "command": ["sleep", "600"]}],
        },
    }));
    house.phase("alone", "Running");
    let said = house.kubectl.fails(&[&drain[..], &["80s"]].concat());
    assert!(said.contains("cannot delete Pods that declare no controller"), "{said}");
    house.kubectl.ok(&[&drain[..], &["80s", "--force"]].concat());
    house.kubectl.fails(&["get", "pod", "alone"]);
    house.kubectl.ok(&["delete", "deployment", "web", "--cascade=foreground"]);
}
