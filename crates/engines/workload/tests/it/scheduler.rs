//! Rules of spec/workload-controllers.md: the scheduler.

use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::BuiltinResource;
use tenure_workload::scheduler::JoinedScheduler;

use crate::world::World;

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": "a"}},
        "spec": {},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}},
    })
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c"}]},
    })
}

fn asking(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
    pod
}

fn world(nodes: &[Value]) -> World {
    let mut world = World::of(&["kube-scheduler", "persistentvolume-binder"]);
    for node in nodes {
        world.create(node.clone());
    }
    world
}

fn place(world: &World, name: &str) -> String {
    let pod = world.get(BuiltinResource::Pods, name);
    pod.str_at(&["spec", "nodeName"]).unwrap_or_default().to_owned()
}

fn why(world: &World, name: &str) -> String {
    let pod = world.json(BuiltinResource::Pods, name);
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(condition["type"], "PodScheduled", "{pod}");
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("Unschedulable"))
    );
    condition["message"].as_str().unwrap().to_owned()
}

#[test]
fn sc1_pods_are_bound_and_told() {
    let mut world = world(&[node("n1")]);
    world.create(pod("p"));
    world.settle();
    assert_eq!(place(&world, "p"), "n1");
    assert_eq!(world.events, ["Normal Scheduled Successfully assigned default/p to n1"]);
}

#[test]
fn sc1_other_schedulers_and_gates_are_respected() {
    let mut world = world(&[node("n1")]);
    let mut other = pod("other");
    other["spec"]["schedulerName"] = "mine".into();
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.test/g"}]);
    world.create(other);
    world.create(gated);
    world.settle();
    assert_eq!((place(&world, "other"), place(&world, "gated")), (String::new(), String::new()));
    world.edit(BuiltinResource::Pods, "gated", |pod| {
        pod["spec"].as_object_mut().unwrap().remove("schedulingGates");
    });
    world.settle();
    assert_eq!(place(&world, "gated"), "n1");
}

#[test]
fn sc1_every_filter_says_why() {
    let mut cordoned = node("cordoned");
    cordoned["spec"]["unschedulable"] = true.into();
    let mut tainted = node("tainted");
    tainted["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    let cases = [
        (cordoned, pod("p"), "1 node(s) were unschedulable"),
        (tainted, pod("p"), "1 node(s) had untolerated taint(s)"),
        (node("n"), asking("p", "3"), "1 Insufficient cpu"),
    ];
    for (node, pod, expected) in cases {
        let mut world = world(&[node]);
        world.create(pod);
        world.settle();
        assert_eq!(why(&world, "p"), format!("0/1 nodes are available: {expected}."));
        assert_eq!(world.events.len(), 1, "told once: {:?}", world.events);
    }
    let mut lonely = world(&[]);
    lonely.create(pod("p"));
    lonely.settle();
    assert_eq!(why(&lonely, "p"), "no nodes available to schedule pods");
    lonely.create(node("n1"));
    lonely.settle();
    assert_eq!(place(&lonely, "p"), "n1", "a new node is noticed");
}

#[test]
fn sc1_without_nodes_of_its_own_a_server_waits_for_the_first_that_joins() {
    let mut world = World::run_by(&JoinedScheduler);
    world.create(pod("p"));
    world.create(node("by-hand"));
    world.settle();
    let waits = world.json(BuiltinResource::Pods, "p");
    assert_eq!((place(&world, "p"), &waits["status"]["conditions"]), (String::new(), &Value::Null));
    assert!(world.events.is_empty(), "{:?}", world.events);
    let mut joined = node("joined");
    joined["metadata"]["labels"]["kubernetes.io/os"] = "linux".into();
    world.create(joined);
    world.settle();
    assert_eq!(place(&world, "p"), "");
    // Its agent tells its version in the status, and nothing else changes.
    world.edit_status(BuiltinResource::Nodes, "joined", |status| {
        status["nodeInfo"] = json!({"kubeletVersion": "v1.38.0"});
    });
    world.settle();
    assert_ne!(place(&world, "p"), "");
    let mut far = pod("far");
    far["spec"]["nodeSelector"] = json!({"zone": "b"});
    world.create(far);
    world.settle();
    assert!(why(&world, "far").starts_with("0/2 nodes are available"));
}

#[test]
fn sc1_affinity_to_a_node_by_name() {
    let mut world = world(&[node("n1"), node("n2")]);
    let mut aimed = pod("p");
    aimed["spec"]["affinity"] = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}}});
    world.create(aimed);
    world.settle();
    assert_eq!(place(&world, "p"), "n2");
}

#[test]
fn sc1_requests_add_up_and_a_pod_that_goes_makes_room() {
    let mut world = world(&[node("n1")]);
    for name in ["a", "b", "c"] {
        world.create(asking(name, "1"));
    }
    world.settle();
    assert_eq!((place(&world, "a"), place(&world, "b")), ("n1".into(), "n1".into()));
    assert_eq!(why(&world, "c"), "0/1 nodes are available: 1 Insufficient cpu.");
    world.end("a", "Succeeded");
    world.settle();
    assert_eq!(place(&world, "c"), "n1");
}

#[test]
fn sc1_host_ports_are_taken_once_per_node() {
    let mut world = world(&[node("n1"), node("n2")]);
    for name in ["a", "b", "c"] {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        world.create(pod);
    }
    world.settle();
    assert_ne!(place(&world, "a"), place(&world, "b"));
    assert!(why(&world, "c").contains("2 node(s) didn't have free ports"));
}

/// HostPort validates that there is no conflict between pods with same hostPort but different hostIP and protocol;
/// SchedulerPredicates validates that there exists conflict between pods with same hostPort and protocol but one
/// using 0.0.0.0 hostIP.
#[test]
fn sc1_host_ports_clash_by_address_and_protocol() {
    let mut world = world(&[node("n1")]);
    for (name, address, protocol) in [
        ("a", "10.0.0.1", "TCP"),
        ("b", "10.0.0.2", "TCP"),
        ("c", "10.0.0.2", "UDP"),
        ("d", "0.0.0.0", "TCP"),
    ] {
        let mut pod = pod(name);
        pod["spec"]["containers"][0]["ports"] = json!([
            {"containerPort": 80, "hostPort": 80, "hostIP": address, "protocol": protocol}]);
        world.create(pod);
        world.settle();
    }
    for name in ["a", "b", "c"] {
        assert_eq!(place(&world, name), "n1", "{name}");
    }
    assert!(why(&world, "d").contains("1 node(s) didn't have free ports"));
}

#[test]
fn sc1_a_claim_is_bound_before_its_pod() {
    let mut world = world(&[node("n1")]);
    world.create(json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "local"}, "provisioner": "tenure.dev/local",
        "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer"}));
    let mut user = pod("p");
    user["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    world.create(user);
    world.settle();
    assert!(why(&world, "p").contains("persistentvolumeclaim \"data\" not found"));
    world.create(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "local", "accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "1Gi"}}}}));
    world.settle();
    let claim = world.json(BuiltinResource::PersistentVolumeClaims, "data");
    assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "n1");
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(place(&world, "p"), "n1");
}

#[test]
fn sc2_the_emptiest_node_wins_and_ties_go_by_name() {
    let mut world = world(&[node("n2"), node("n1")]);
    for name in ["a", "b", "c", "d"] {
        world.create(pod(name));
    }
    world.settle();
    let places: Vec<String> = ["a", "b", "c", "d"].iter().map(|name| place(&world, name)).collect();
    assert_eq!(places, ["n1", "n2", "n1", "n2"]);
}

#[test]
fn sc2_pods_keep_apart_and_together() {
    let term = json!([{"topologyKey": "kubernetes.io/hostname",
                       "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let mut world = world(&[node("n1"), node("n2")]);
    for name in ["a", "b", "c"] {
        let mut shy = pod(name);
        shy["spec"]["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": term}});
        world.create(shy);
    }
    world.settle();
    assert_ne!(place(&world, "a"), place(&world, "b"));
    assert!(why(&world, "c").contains("2 node(s) didn't match pod anti-affinity rules"));
    let mut fond = pod("fond");
    fond["metadata"]["labels"] = json!({"app": "other"});
    fond["spec"]["affinity"] = json!({"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname",
             "labelSelector": {"matchLabels": {"app": "nobody"}}}]}});
    world.create(fond);
    world.settle();
    assert!(why(&world, "fond").contains("2 node(s) didn't match pod affinity rules"));
}

#[test]
fn sc2_a_spread_is_kept_even() {
    let (mut one, mut two) = (node("n1"), node("n2"));
    one["metadata"]["labels"]["zone"] = "a".into();
    two["metadata"]["labels"]["zone"] = "b".into();
    two["status"]["allocatable"]["pods"] = "1".into();
    let mut world = world(&[one, two]);
    for name in ["a", "b", "c", "d"] {
        let mut even = pod(name);
        even["spec"]["topologySpreadConstraints"] = json!([
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": {"app": "web"}}}]);
        world.create(even);
    }
    world.settle();
    let bound = ["a", "b", "c", "d"].iter().filter(|name| !place(&world, name).is_empty()).count();
    assert_eq!(bound, 3, "two in zone a, one in zone b, no fourth");
}

#[test]
fn sc2_of_nodes_that_fit_the_best_liked_wins() {
    let (mut one, mut two) = (node("n1"), node("n2"));
    one["metadata"]["labels"]["disk"] = "slow".into();
    two["metadata"]["labels"]["disk"] = "fast".into();
    let fast = json!({"matchExpressions": [
        {"key": "disk", "operator": "In", "values": ["fast"]}]});
    let slow = json!({"matchExpressions": [
        {"key": "disk", "operator": "In", "values": ["slow"]}]});
    let mut world = world(&[one, two]);
    for name in ["a", "b", "c"] {
        let mut wishing = pod(name);
        wishing["spec"]["affinity"] = json!({"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "preference": slow}, {"weight": 90, "preference": fast}]}});
        world.create(wishing);
    }
    world.settle();
    let places: Vec<String> = ["a", "b", "c"].iter().map(|name| place(&world, name)).collect();
    assert_eq!(places, ["n2", "n2", "n2"], "emptiness only decides between equals");
}

#[test]
fn sc2_preferred_company_and_soft_spreads_are_followed_where_they_can_be() {
    let mut world = world(&[node("n1"), node("n2")]);
    world.create(asking("there", "1"));
    world.settle();
    assert_eq!(place(&world, "there"), "n1");
    let term = json!([{"weight": 1, "podAffinityTerm": {
        "topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}}]);
    let wish = |kind: &str, name: &str, cpu: &str| {
        let mut pod = asking(name, cpu);
        pod["metadata"]["labels"] = json!({"app": "other"});
        pod["spec"]["affinity"] =
            json!({kind: {"preferredDuringSchedulingIgnoredDuringExecution": term}});
        pod
    };
    world.create(wish("podAffinity", "near", "100m"));
    world.settle();
    assert_eq!(place(&world, "near"), "n1", "although n2 is emptier");
    world.create(wish("podAntiAffinity", "far", "100m"));
    world.settle();
    assert_eq!(place(&world, "far"), "n2");
    world.create(wish("podAffinity", "large", "1500m"));
    world.settle();
    assert_eq!(place(&world, "large"), "n2", "a wish forbids nothing");
    let mut spread = asking("spread", "100m");
    spread["metadata"]["labels"] = json!({"app": "web"});
    spread["spec"]["topologySpreadConstraints"] = json!([
        {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
         "labelSelector": {"matchLabels": {"app": "web"}}}]);
    world.create(spread);
    world.settle();
    assert_eq!(place(&world, "spread"), "n2", "where no other of its kind is");
}

#[test]
fn sc2_a_taint_that_asks_is_followed_where_there_is_another_node() {
    let mut asks = node("n1");
    asks["spec"]["taints"] = json!([{"key": "k", "effect": "PreferNoSchedule"}]);
    let mut world = world(&[asks, node("n2")]);
    for name in ["a", "b"] {
        world.create(asking(name, "1"));
    }
    world.settle();
    assert_eq!((place(&world, "a").as_str(), place(&world, "b").as_str()), ("n2", "n2"));
    world.create(asking("c", "1"));
    let mut tolerant = asking("d", "100m");
    tolerant["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    world.create(tolerant);
    world.settle();
    assert_eq!(place(&world, "c"), "n1", "n2 is full");
    assert_eq!(place(&world, "d"), "n1", "it is as good as any, and the emptier");
}

#[test]
fn sc2_a_spread_says_which_nodes_count() {
    let (mut one, mut two) = (node("n1"), node("n2"));
    one["metadata"]["labels"]["zone"] = "a".into();
    two["metadata"]["labels"]["zone"] = "b".into();
    two["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    let bound = |policies: Value| {
        let mut world = world(&[one.clone(), two.clone()]);
        for name in ["a", "b", "c"] {
            let mut even = pod(name);
            let mut spread = json!({"topologyKey": "zone", "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}}});
            spread.as_object_mut().unwrap().extend(policies.as_object().unwrap().clone());
            even["spec"]["topologySpreadConstraints"] = json!([spread]);
            world.create(even);
        }
        world.settle();
        ["a", "b", "c"].iter().filter(|name| !place(&world, name).is_empty()).count()
    };
    assert_eq!(bound(json!({})), 1, "the tainted node counts, and stays empty");
    assert_eq!(bound(json!({"nodeTaintsPolicy": "Honor"})), 3);
}

#[test]
fn sc1_a_pod_goes_where_its_volumes_are() {
    let mut world = world(&[node("n1"), node("n2")]);
    world.create(
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                 "local": {"path": "/disk"}, "storageClassName": "",
                 "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                     {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}]}]}}}}),
    );
    world.create(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "1Gi"}}}}));
    world.settle();
    for (name, cpu) in [("a", "1500m"), ("b", "1")] {
        let mut user = asking(name, cpu);
        user["spec"]["volumes"] =
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
        world.create(user);
        world.settle();
    }
    assert_eq!(place(&world, "a"), "n2");
    let why = why(&world, "b");
    assert!(why.contains("1 Insufficient cpu"), "{why}");
    assert!(why.contains("1 node(s) didn't match PersistentVolume's node affinity"), "{why}");
}

#[test]
fn sc1_a_pod_that_wants_devices_waits() {
    let mut world = world(&[node("n1")]);
    let mut wants = pod("p");
    wants["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    world.create(wants);
    world.settle();
    assert_eq!(
        why(&world, "p"),
        "0/1 nodes are available: pod has resource claims, and devices are not allocated."
    );
}

#[test]
fn sc3_a_stronger_pod_takes_the_place_of_a_weaker_one() {
    let mut world = world(&[node("n1")]);
    world.create(asking("weak", "2"));
    world.settle();
    let mut strong = asking("strong", "1");
    strong["spec"]["priority"] = 100.into();
    world.create(strong);
    world.settle();
    let going = world.get(BuiltinResource::Pods, "weak");
    assert!(going.str_at(&["metadata", "deletionTimestamp"]).is_some());
    let conditions = going.list_at(&["status", "conditions"]);
    let why = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&why["status"], &why["reason"]), (&"True".into(), &"PreemptionByScheduler".into()));
    let nominated = &world.json(BuiltinResource::Pods, "strong")["status"]["nominatedNodeName"];
    assert_eq!(nominated, "n1");
    world.let_go("weak");
    world.settle();
    assert_eq!(place(&world, "strong"), "n1");
}

/// A ReplicaSet whose pods have a priority and ask for so much of a rare resource.
fn rare(name: &str, priority: i64, replicas: usize, each: u32) -> Value {
    let asked = json!({"example.com/rare": each.to_string()});
    let container = json!({"name": "c", "resources": {"requests": asked, "limits": asked}});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"set": name}},
            "template": {
                "metadata": {"labels": {"set": name}},
                "spec": {"schedulerName": "default-scheduler", "priority": priority,
                    "containers": [container]},
            },
        },
    })
}

/// Names of the pods of a set: those on the node, and the others.
fn placed(world: &World, set: &str) -> [Vec<String>; 2] {
    let pods = world.list(BuiltinResource::Pods);
    let own = pods.iter().filter(|pod| pod.str_at(&["metadata", "labels", "set"]) == Some(set));
    let (on, off): (Vec<_>, Vec<_>) =
        own.partition(|pod| pod.str_at(&["spec", "nodeName"]).is_some());
    [on, off].map(|pods| pods.iter().map(|pod| pod.name().to_owned()).collect())
}

#[test]
fn sc3_sets_of_stronger_pods_drive_those_of_weaker_ones_out() {
    let mut full = node("n1");
    full["status"]["allocatable"] = json!({"cpu": "2", "pods": "99", "example.com/rare": "1000"});
    let mut world = World::of(&["replicaset", "kube-scheduler"]);
    world.create(full);
    let sets = [("p1", 1, 5, 40), ("p2", 2, 4, 50), ("p3", 3, 4, 95)];
    for (name, priority, replicas, each) in sets {
        world.create(rare(name, priority, replicas, each));
        world.settle();
        assert_eq!(placed(&world, name).map(|pods| pods.len()), [replicas, 0], "{name}");
    }
    let [first, _] = placed(&world, "p1");
    world.create(rare("p4", 4, 1, 400));
    world.settle();
    for name in &first {
        world.let_go(name);
    }
    world.settle();
    for (name, placed_now) in [("p2", 4), ("p3", 4), ("p4", 1)] {
        assert_eq!(placed(&world, name).map(|pods| pods.len()), [placed_now, 0], "{name}");
    }
    // The set of the weakest makes others in their place, which wait.
    let [on, off] = placed(&world, "p1");
    assert_eq!((on.len(), off.len()), (0, 5));
    assert!(off.iter().all(|name| !first.contains(name)), "{off:?}");
}
