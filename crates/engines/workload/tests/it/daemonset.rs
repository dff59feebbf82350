//! Rules of spec/workload-controllers.md: DaemonSet.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{Act, BuiltinResource, IntentPropagation, owner};

use crate::replicas::template;
use crate::world::World;

const SETS: BuiltinResource = BuiltinResource::DaemonSets;

/// A DaemonSet `web`, with the defaults that a server gives it.
pub(crate) fn set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "web"},
        "spec": {
            "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "selector": {"matchLabels": {"app": "web"}},
            "template": template("1"),
        },
    })
}

/// Adds a node.
pub(crate) fn node(world: &mut World, name: &str) {
    world.create(json!({"kind": "Node", "metadata": {"name": name, "labels": {"t": "x"}},
        "spec": {}}));
}

/// A world with so many nodes and this set.
fn world(nodes: usize, set: Value) -> World {
    let mut world = World::new();
    for number in 1..=nodes {
        node(&mut world, &format!("n{number}"));
    }
    world.create(set);
    world.settle();
    world
}

fn all_ready(nodes: usize, set: Value) -> World {
    let mut world = world(nodes, set);
    make_ready(&mut world);
    world
}

fn make_ready(world: &mut World) {
    for pod in world.list(BuiltinResource::Pods) {
        if !owner::deleting(&pod) && pod.str_at(&["status", "phase"]) == Some("Pending") {
            world.ready(pod.name());
        }
    }
    world.settle();
}

fn let_go(world: &mut World) {
    for pod in world.list(BuiltinResource::Pods) {
        if owner::deleting(&pod) {
            world.let_go(pod.name());
        }
    }
    world.settle();
}

fn surging(max: Value) -> Value {
    let mut set = set();
    set["spec"]["updateStrategy"]["rollingUpdate"] = json!({"maxSurge": max, "maxUnavailable": 0});
    set
}

fn update(world: &mut World, version: &str) {
    world.edit(SETS, "web", |set| set["spec"]["template"] = template(version));
    world.settle();
}

fn status(world: &World) -> Value {
    world.json(SETS, "web")["status"].clone()
}

const AIM: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";

fn target(pod: &Value) -> String {
    let aimed = pod.pointer(&format!("{AIM}/nodeSelectorTerms/0/matchFields/0/values/0"));
    pod["spec"]["nodeName"].as_str().or(aimed.and_then(Value::as_str)).unwrap().to_owned()
}

/// Node, version and a dash where it is being deleted, of every pod, by node.
fn pods(world: &World) -> String {
    let mut all: Vec<String> = world
        .list(BuiltinResource::Pods)
        .iter()
        .map(|pod| {
            let going = if owner::deleting(pod) { "-" } else { "" };
            let version = owner::label(pod, "v").unwrap_or_default();
            format!("{}:{version}{going}", target(&Value::Object((*pod.object).clone())))
        })
        .collect();
    all.sort();
    all.join(" ")
}

fn taint(world: &mut World, name: &str, effect: &str) {
    let taints = json!([{"key": "own", "value": "x", "effect": effect}]);
    world.edit(BuiltinResource::Nodes, name, |node| node["spec"]["taints"] = taints);
    world.settle();
}

#[test]
fn ds1_one_pod_on_every_node_that_is_a_place() {
    let mut wanted = set();
    wanted["spec"]["template"]["spec"]["nodeSelector"] = json!({"t": "x"});
    let mut world = world(2, wanted);
    world.create(json!({"kind": "Node", "metadata": {"name": "n3", "labels": {"t": "y"}}}));
    world.settle();
    assert_eq!(pods(&world), "n1:1 n2:1");
    node(&mut world, "n4");
    world.settle();
    assert_eq!(pods(&world), "n1:1 n2:1 n4:1", "a node that joins gets its pod");
    let mut named = set();
    named["spec"]["template"]["spec"]["nodeName"] = "n2".into();
    world.edit(SETS, "web", |set| set["spec"] = named["spec"].clone());
    world.settle();
    assert_eq!(status(&world)["desiredNumberScheduled"], 1);
}

#[test]
fn ds1_no_schedule_keeps_running_pods_and_makes_none() {
    let mut world = all_ready(1, set());
    taint(&mut world, "n1", "NoSchedule");
    assert_eq!(pods(&world), "n1:1");
    let found = status(&world);
    assert_eq!(
        (&found["numberMisscheduled"], &found["desiredNumberScheduled"]),
        (&json!(1), &json!(0)),
        "the status follows at once"
    );
    world.delete(BuiltinResource::Pods, &world.names(BuiltinResource::Pods)[0].clone(), None);
    world.settle();
    let_go(&mut world);
    assert_eq!(pods(&world), "");
    world.edit(BuiltinResource::Nodes, "n1", |node| node["spec"] = json!({}));
    world.settle();
    assert_eq!(pods(&world), "n1:1");
}

#[test]
fn ds1_no_execute_and_other_labels_end_pods() {
    let mut world = all_ready(1, set());
    taint(&mut world, "n1", "NoExecute");
    assert_eq!(pods(&world), "n1:1-");
    let mut wanted = set();
    wanted["spec"]["template"]["spec"]["nodeSelector"] = json!({"t": "x"});
    let mut world = all_ready(1, wanted);
    world.edit(BuiltinResource::Nodes, "n1", |node| node["metadata"]["labels"] = json!({}));
    world.settle();
    assert_eq!(pods(&world), "n1:1-");
    assert_eq!(
        status(&world),
        json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 1,
            "numberReady": 0, "observedGeneration": 1})
    );
    let_go(&mut world);
    assert_eq!(status(&world)["numberMisscheduled"], 0);
}

#[test]
fn ds2_tolerations_are_added_after_those_of_the_template() {
    let mut wanted = set();
    wanted["spec"]["template"]["spec"]["tolerations"] =
        json!([{"key": "own", "operator": "Exists"}]);
    let mut world = World::new();
    world.create(
        json!({"kind": "Node", "metadata": {"name": "n1"}, "spec": {"unschedulable": true,
        "taints": [{"key": "own", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}}),
    );
    world.create(wanted);
    world.settle();
    let pod = Value::Object((*world.list(BuiltinResource::Pods)[0].object).clone());
    let toleration = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    assert_eq!(
        pod["spec"]["tolerations"],
        json!([{"key": "own", "operator": "Exists"},
            toleration("not-ready", "NoExecute"), toleration("unreachable", "NoExecute"),
            toleration("disk-pressure", "NoSchedule"), toleration("memory-pressure", "NoSchedule"),
            toleration("pid-pressure", "NoSchedule"), toleration("unschedulable", "NoSchedule")])
    );
}

#[test]
fn ds3_pods_are_aimed_not_bound() {
    let world = world(1, set());
    let pod = Value::Object((*world.list(BuiltinResource::Pods)[0].object).clone());
    assert_eq!(pod["spec"]["nodeName"], json!(null));
    assert_eq!(
        pod.pointer(AIM).unwrap(),
        &json!({"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]})
    );
    assert_eq!(pod["metadata"]["generateName"], "web-");
}

#[test]
fn ds4_pods_carry_the_hash_and_the_old_count() {
    let mut wanted = set();
    wanted["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": "7"});
    let world = world(1, wanted);
    let revision = &world.list(BuiltinResource::ControllerRevisions)[0];
    let hash = owner::label(revision, "controller-revision-hash").unwrap();
    let pod = Value::Object((*world.list(BuiltinResource::Pods)[0].object).clone());
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "web", "v": "1", "controller-revision-hash": hash,
            "pod-template-generation": "7"})
    );
}

#[test]
fn ds5_the_oldest_pod_of_a_node_stays() {
    let mut world = all_ready(1, set());
    let first = world.list(BuiltinResource::Pods)[0].clone();
    let mut second = Value::Object((*first.object).clone());
    second["metadata"]["name"] = "web-0".into();
    second["spec"].as_object_mut().unwrap().remove("nodeName");
    world.create(second);
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods), [first.name()], "bound before unbound");
}

#[test]
fn ds5_ended_pods_are_replaced_later_each_time() {
    let mut world = world(1, set());
    let fail = |world: &mut World| {
        let name = world.names(BuiltinResource::Pods)[0].clone();
        world.end(&name, "Failed");
        world.settle();
        name
    };
    let first = fail(&mut world);
    assert!(!world.names(BuiltinResource::Pods).contains(&first), "at once");
    let told = format!(
        "Warning FailedDaemonPod Found failed daemon pod default/{first} on node n1, \
         will try to kill it"
    );
    assert!(world.events.contains(&told));
    let second = fail(&mut world);
    assert!(world.names(BuiltinResource::Pods).contains(&second), "not within a second");
    world.advance(1);
    assert!(!world.names(BuiltinResource::Pods).contains(&second));
    let third = fail(&mut world);
    world.advance(1);
    assert!(world.names(BuiltinResource::Pods).contains(&third), "now it takes two");
    world.advance(1);
    assert!(!world.names(BuiltinResource::Pods).contains(&third));
    let name = world.names(BuiltinResource::Pods)[0].clone();
    world.end(&name, "Succeeded");
    world.settle();
    assert!(!world.names(BuiltinResource::Pods).contains(&name), "success does not wait");
    assert!(world.events.iter().any(|event| event.starts_with("Normal SucceededDaemonPod ")));
}

#[test]
fn ds6_old_pods_go_one_by_one() {
    let mut world = all_ready(3, set());
    update(&mut world, "2");
    assert_eq!(pods(&world), "n1:1- n2:1 n3:1");
    let_go(&mut world);
    assert_eq!(pods(&world), "n1:2 n2:1 n3:1", "the new pod is not available yet");
    for _ in 0..3 {
        make_ready(&mut world);
        let_go(&mut world);
    }
    assert_eq!(pods(&world), "n1:2 n2:2 n3:2");
    assert_eq!(status(&world)["updatedNumberScheduled"], 3);
}

#[test]
fn ds6_a_rollback_replaces_only_what_was_updated() {
    let mut world = all_ready(5, set());
    let old = |world: &World| -> Vec<String> {
        let pods = world.list(BuiltinResource::Pods);
        let own = pods.iter().filter(|pod| !owner::deleting(pod));
        own.filter(|pod| owner::label(pod, "v") == Some("1"))
            .map(|pod| pod.name().to_owned())
            .collect()
    };
    // The new pod never becomes ready, so no other one is replaced.
    update(&mut world, "2");
    let_go(&mut world);
    assert_eq!(pods(&world), "n1:2 n2:1 n3:1 n4:1 n5:1");
    let kept = old(&world);
    update(&mut world, "1");
    let_go(&mut world);
    make_ready(&mut world);
    assert_eq!(pods(&world), "n1:1 n2:1 n3:1 n4:1 n5:1");
    let now = old(&world);
    assert!(kept.len() == 4 && kept.iter().all(|name| now.contains(name)), "{kept:?} {now:?}");
}

#[test]
fn ds6_unavailable_pods_are_replaced_at_once() {
    let mut world = all_ready(3, set());
    for pod in world.list(BuiltinResource::Pods).iter().skip(1) {
        world.set_ready(pod.name(), false);
    }
    update(&mut world, "2");
    assert_eq!(pods(&world), "n1:1 n2:1- n3:1-");
}

#[test]
fn ds6_percentages_round_up_and_nothing_means_one() {
    for (said, many) in [(json!("40%"), 2), (json!("41%"), 3), (json!(0), 1), (json!("0%"), 1)] {
        let mut wanted = set();
        wanted["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = said.clone();
        let mut world = all_ready(5, wanted);
        update(&mut world, "2");
        let going =
            world.list(BuiltinResource::Pods).iter().filter(|pod| owner::deleting(pod)).count();
        assert_eq!(going, many, "{said}");
    }
}

#[test]
fn ds6_surge_makes_the_new_pod_first() {
    let mut world = all_ready(2, surging(json!(1)));
    update(&mut world, "2");
    assert_eq!(pods(&world), "n1:1 n1:2 n2:1");
    make_ready(&mut world);
    assert_eq!(pods(&world), "n1:1- n1:2 n2:1 n2:2");
    let_go(&mut world);
    make_ready(&mut world);
    let_go(&mut world);
    assert_eq!(pods(&world), "n1:2 n2:2");
}

#[test]
fn ds6_with_surge_an_unready_old_pod_gets_its_successor_at_once() {
    let mut world = all_ready(2, surging(json!(1)));
    for pod in world.list(BuiltinResource::Pods) {
        world.set_ready(pod.name(), false);
    }
    update(&mut world, "2");
    assert_eq!(pods(&world), "n1:1- n1:2 n2:1- n2:2");
}

#[test]
fn ds6_with_surge_a_leaving_node_waits_for_the_others() {
    let mut world = all_ready(2, surging(json!(1)));
    for pod in world.list(BuiltinResource::Pods) {
        let here = target(&Value::Object((*pod.object).clone()));
        world.set_ready(pod.name(), here == "n2");
    }
    // No new pod may come to n2, but the one that is there may stay.
    taint(&mut world, "n2", "NoSchedule");
    update(&mut world, "2");
    assert_eq!(pods(&world), "n1:1- n1:2 n2:1", "nobody else serves yet");
    let_go(&mut world);
    make_ready(&mut world);
    assert_eq!(pods(&world), "n1:2 n2:1-");
}

#[test]
fn ds6_on_delete_leaves_pods_to_others() {
    let mut wanted = set();
    wanted["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let mut world = world(1, wanted);
    update(&mut world, "2");
    assert_eq!(pods(&world), "n1:1");
    assert_eq!(
        status(&world),
        json!({"currentNumberScheduled": 1, "desiredNumberScheduled": 1, "numberMisscheduled": 0,
            "numberReady": 0, "numberUnavailable": 1, "observedGeneration": 2})
    );
    world.delete(BuiltinResource::Pods, &world.names(BuiltinResource::Pods)[0].clone(), None);
    world.settle();
    assert_eq!(pods(&world), "n1:2");
}

#[test]
fn ds7_a_terminating_set_does_nothing() {
    let mut held = set();
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    let mut world = all_ready(1, held);
    world.delete(SETS, "web", None);
    let before = status(&world);
    world.delete(BuiltinResource::Pods, &world.names(BuiltinResource::Pods)[0].clone(), None);
    let_go(&mut world);
    node(&mut world, "n2");
    world.settle();
    assert_eq!((pods(&world).as_str(), status(&world)), ("", before));
}

#[test]
fn ds8_status_counts_nodes() {
    let mut world = world(2, set());
    assert_eq!(
        status(&world),
        json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0,
            "numberReady": 0, "numberUnavailable": 2, "observedGeneration": 1,
            "updatedNumberScheduled": 2})
    );
    world.ready(&world.names(BuiltinResource::Pods)[0].clone());
    world.settle();
    assert_eq!(
        status(&world),
        json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0,
            "numberReady": 1, "numberAvailable": 1, "numberUnavailable": 1,
            "observedGeneration": 1, "updatedNumberScheduled": 2})
    );
}

#[test]
fn ds8_availability_takes_its_time() {
    let mut wanted = set();
    wanted["spec"]["minReadySeconds"] = 10.into();
    let mut world = all_ready(1, wanted);
    assert_eq!(
        (&status(&world)["numberReady"], &status(&world)["numberAvailable"]),
        (&json!(1), &json!(null))
    );
    world.advance(10);
    assert_eq!(status(&world)["numberAvailable"], 1);
}

#[test]
fn ds8_status_is_kept_while_pods_are_refused() {
    let mut world = World::new();
    node(&mut world, "n1");
    world.refuse(|intent| match &intent.act {
        Act::Create { resource: BuiltinResource::Pods, .. } => Some((403, "Forbidden", "quota")),
        _ => None,
    });
    world.create(set());
    world.settle();
    assert_eq!(status(&world)["desiredNumberScheduled"], 1);
    assert!(world.events.contains(&"Warning FailedCreate Error creating: quota".to_owned()));
}

#[test]
fn ds9_pods_aimed_at_nodes_that_are_gone_go() {
    let mut world = world(2, set());
    let bound = world
        .list(BuiltinResource::Pods)
        .into_iter()
        .find(|pod| target(&Value::Object((*pod.object).clone())) == "n2");
    world.ready(bound.unwrap().name());
    world.settle();
    world.delete(BuiltinResource::Nodes, "n1", None);
    world.delete(BuiltinResource::Nodes, "n2", None);
    world.settle();
    assert_eq!(pods(&world), "n2:1", "a bound pod is left to others");
    assert_eq!(
        status(&world),
        json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0,
            "numberReady": 0, "observedGeneration": 1})
    );
}

#[test]
fn ds1_an_empty_selector_is_told_once() {
    let mut wanted = set();
    wanted["spec"]["selector"] = json!({});
    let mut world = world(1, wanted);
    world.restart();
    world.create(json!({"kind": "Pod", "metadata": {"name": "stray", "labels": {"app": "web"}}}));
    world.settle();
    assert!(owner::controller_of(&world.get(BuiltinResource::Pods, "stray")).is_none());
    let told = world.events.iter().filter(|event| event.starts_with("Warning SelectingAll "));
    assert_eq!(told.count(), 2, "once, and once more after the host began anew");
}

#[test]
fn cr5_orphans_are_adopted_again() {
    let mut world = all_ready(1, set());
    let before = world.names(BuiltinResource::Pods);
    world.delete(SETS, "web", Some(IntentPropagation::Orphan));
    world.settle();
    assert!(owner::controller_of(&world.list(BuiltinResource::Pods)[0]).is_none());
    world.create(set());
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods), before);
    assert!(owner::controller_of(&world.list(BuiltinResource::Pods)[0]).is_some());
}

#[derive(Clone, Debug)]
enum Step {
    Template(u8),
    Strategy(i64, i64),
    Join(u8),
    Leave(u8),
    Taint(u8, usize),
    DeletePod(usize),
    FailPod(usize),
    Restart,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_u8..5).prop_map(Step::Template),
        1 => (0_i64..3, 0_i64..3).prop_map(|(surge, less)| Step::Strategy(surge, less)),
        2 => (1_u8..6).prop_map(Step::Join),
        1 => (1_u8..6).prop_map(Step::Leave),
        1 => (1_u8..6, 0_usize..3).prop_map(|(node, effect)| Step::Taint(node, effect)),
        2 => (0_usize..6).prop_map(Step::DeletePod),
        1 => (0_usize..6).prop_map(Step::FailPod),
        1 => Just(Step::Restart),
        3 => Just(Step::Settle),
    ]
}

fn take(world: &mut World, step: &Step) {
    let living = |world: &World, place: usize| {
        let pods = world.list(BuiltinResource::Pods).into_iter();
        pods.filter(|pod| !owner::deleting(pod)).nth(place).map(|pod| pod.name().to_owned())
    };
    let there = |world: &World, number: u8| {
        world.names(BuiltinResource::Nodes).contains(&format!("n{number}"))
    };
    match step {
        Step::Template(version) => {
            world.edit(SETS, "web", |set| set["spec"]["template"] = template(&version.to_string()));
        }
        Step::Strategy(surge, less) => world.edit(SETS, "web", |set| {
            set["spec"]["updateStrategy"]["rollingUpdate"] =
                json!({"maxSurge": surge, "maxUnavailable": less});
        }),
        Step::Join(number) if !there(world, *number) => node(world, &format!("n{number}")),
        Step::Leave(number) if there(world, *number) => {
            let name = format!("n{number}");
            world.delete(BuiltinResource::Nodes, &name, None);
            // Pods bound to a node that is gone are taken away by others.
            for pod in world.list(BuiltinResource::Pods) {
                if pod.str_at(&["spec", "nodeName"]) == Some(name.as_str()) {
                    world.delete(BuiltinResource::Pods, pod.name(), None);
                }
            }
        }
        Step::Taint(number, effect) if there(world, *number) => {
            let taints = match ["", "NoSchedule", "NoExecute"][*effect] {
                "" => json!([]),
                effect => json!([{"key": "own", "effect": effect}]),
            };
            let name = format!("n{number}");
            world.edit(BuiltinResource::Nodes, &name, |node| node["spec"]["taints"] = taints);
        }
        Step::DeletePod(place) => {
            if let Some(name) = living(world, *place) {
                world.delete(BuiltinResource::Pods, &name, None);
            }
        }
        Step::FailPod(place) => {
            if let Some(name) = living(world, *place) {
                world.end(&name, "Failed");
            }
        }
        Step::Restart => world.restart(),
        Step::Settle => world.settle(),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn pu4_whatever_happens_every_place_has_one_pod_of_today(
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let mut world = World::chaotic(seed);
        node(&mut world, "n9");
        world.create(set());
        for step in &steps {
            take(&mut world, step);
        }
        for _ in 0..8 {
            world.settle();
            world.advance(1_000);
        }
        // A node with NoSchedule may still have a pod, but need not.
        let found = world.json(SETS, "web");
        let version = found["spec"]["template"]["metadata"]["labels"]["v"].as_str().unwrap();
        for node in world.list(BuiltinResource::Nodes) {
            let taints = node.list_at(&["spec", "taints"]);
            let effect = taints.first().and_then(|taint| taint["effect"].as_str());
            let here: Vec<String> = world.list(BuiltinResource::Pods).iter()
                .filter(|pod| pod.str_at(&["spec", "nodeName"]) == Some(node.name()))
                .map(|pod| owner::label(pod, "v").unwrap().to_owned())
                .collect();
            match effect {
                None => prop_assert_eq!(here, [version], "{}", node.name()),
                Some("NoExecute") => prop_assert!(here.is_empty(), "{}", node.name()),
                Some(_) => prop_assert!(here.len() <= 1, "{}", node.name()),
            }
        }
        let wanted = &found["status"]["desiredNumberScheduled"];
        prop_assert_eq!(&found["status"]["currentNumberScheduled"], wanted);
        prop_assert_eq!(&found["status"]["numberUnavailable"], &json!(null));
    }
}
