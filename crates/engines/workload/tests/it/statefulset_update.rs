//! Rules of spec/workload-controllers.md: StatefulSet, how it updates, and chaos.

use proptest::prelude::*;
use serde_json::json;
use tenure_machinery::ObjectExt as _;
use tenure_workload::{BuiltinResource, owner};

use crate::replicas::template;
use crate::statefulset::{
    SETS, all_ready, change, going, let_go, make_ready, parallel, pods, set, status, versions,
};
use crate::world::World;

fn update(world: &mut World, version: &str) {
    change(world, |set| set["spec"]["template"] = template(version));
}

#[test]
fn ss3_a_new_pod_below_the_partition_gets_the_current_revision() {
    let mut wanted = set(2);
    wanted["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 1.into();
    let mut world = all_ready(wanted);
    update(&mut world, "2");
    let_go(&mut world);
    assert_eq!(versions(&world), "1 2");
    make_ready(&mut world);
    world.delete(BuiltinResource::Pods, "web-0", None);
    world.settle();
    let_go(&mut world);
    assert_eq!(versions(&world), "1 2", "still from the current revision");
}

#[test]
fn ss3_without_a_block_the_status_says_how_many_keep_the_current_revision() {
    let mut wanted = set(2);
    wanted["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    let mut world = all_ready(wanted);
    // Before anything is updated both pods count as current, so one that is lost comes back old.
    world.edit(SETS, "web", |set| set["spec"]["template"] = template("2"));
    world.delete(BuiltinResource::Pods, "web-0", None);
    world.let_go("web-0");
    world.settle();
    assert_eq!(versions(&world), "1 1");
    make_ready(&mut world);
    let_go(&mut world);
    assert_eq!(versions(&world), "1 2");
}

#[test]
fn ss7_updates_go_from_the_highest_down_to_the_partition() {
    let mut wanted = set(3);
    wanted["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 1.into();
    let mut world = all_ready(wanted);
    update(&mut world, "2");
    assert_eq!(going(&world), ["web-2"]);
    let_go(&mut world);
    assert_eq!(versions(&world), "1 1 2");
    assert_eq!(going(&world), Vec::<String>::new(), "web-2 is not available yet");
    make_ready(&mut world);
    assert_eq!(going(&world), ["web-1"]);
    let_go(&mut world);
    make_ready(&mut world);
    assert_eq!((versions(&world).as_str(), going(&world).len()), ("1 2 2", 0));
    let found = status(&world);
    assert_eq!((&found["updatedReplicas"], &found["currentReplicas"]), (&json!(2), &json!(1)));
    assert_ne!(found["currentRevision"], found["updateRevision"]);
    change(&mut world, |set| {
        set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = 0.into();
    });
    let_go(&mut world);
    make_ready(&mut world);
    assert_eq!(versions(&world), "2 2 2");
    assert_eq!(status(&world)["currentRevision"], status(&world)["updateRevision"]);
}

#[test]
fn ss7_max_unavailable_says_how_many_go_at_once() {
    // Said, of, how many: percentages round down, and one may always go.
    for (said, of, many) in
        [(json!(2), 5, 2), (json!("50%"), 5, 2), (json!("10%"), 5, 1), (json!(9), 3, 3)]
    {
        let mut wanted = set(of);
        wanted["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = said.clone();
        let mut world = all_ready(wanted);
        update(&mut world, "2");
        assert_eq!(going(&world).len(), many, "{said} of {of}");
        for _ in 0..of {
            let_go(&mut world);
            make_ready(&mut world);
        }
        assert!(versions(&world).split(' ').all(|version| version == "2"));
    }
}

#[test]
fn ss7_parallel_replaces_unavailable_pods_outside_the_budget() {
    let mut world = all_ready(parallel(4));
    world.set_ready("web-0", false);
    world.set_ready("web-1", false);
    update(&mut world, "2");
    assert_eq!(going(&world), ["web-0", "web-1"], "those serve nobody; the budget is used up");
    let_go(&mut world);
    make_ready(&mut world);
    assert_eq!(going(&world), ["web-3"]);
}

#[test]
fn ss7_on_delete_leaves_pods_to_others() {
    let mut wanted = set(1);
    wanted["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    let mut world = all_ready(wanted);
    let before = status(&world)["currentRevision"].clone();
    update(&mut world, "2");
    assert_eq!(going(&world), Vec::<String>::new());
    let found = status(&world);
    assert_eq!((&found["currentRevision"], &found["updatedReplicas"]), (&before, &json!(null)));
    assert_eq!((&found["observedGeneration"], &found["currentReplicas"]), (&json!(2), &json!(1)));
    world.delete(BuiltinResource::Pods, "web-0", None);
    world.settle();
    let_go(&mut world);
    assert_eq!(versions(&world), "2");
}

#[test]
fn ss7_recreate_is_not_known_and_told_once() {
    let mut world = all_ready(set(1));
    change(&mut world, |set| set["spec"]["updateStrategy"] = json!({"type": "Recreate"}));
    world.delete(BuiltinResource::Pods, "web-0", None);
    world.settle();
    let told = world.events.iter().filter(|e| e.starts_with("Warning UnknownStrategy ")).count();
    assert_eq!(told, 1);
    assert_eq!(status(&world)["observedGeneration"], 1);
}

#[test]
fn ss8_a_stuck_update_stays_stuck() {
    let mut world = all_ready(set(2));
    update(&mut world, "bad");
    let_go(&mut world);
    world.set_ready("web-1", false);
    world.settle();
    update(&mut world, "1");
    assert_eq!(versions(&world), "1 bad", "going back does not replace the pod that hangs");
    assert_eq!(going(&world), Vec::<String>::new());
    world.delete(BuiltinResource::Pods, "web-1", None);
    world.settle();
    let_go(&mut world);
    make_ready(&mut world);
    assert_eq!(versions(&world), "1 1");
}

#[test]
fn ss10_the_update_becomes_current_when_all_pods_have_it() {
    let mut world = all_ready(set(1));
    let before = status(&world)["currentRevision"].clone();
    update(&mut world, "2");
    let_go(&mut world);
    let found = status(&world);
    let name = found["updateRevision"].clone();
    assert_eq!(
        found,
        json!({"availableReplicas": 0, "collisionCount": 0, "currentRevision": before,
            "observedGeneration": 2, "replicas": 1, "updateRevision": name, "updatedReplicas": 1})
    );
    make_ready(&mut world);
    assert_eq!(
        status(&world),
        json!({"availableReplicas": 1, "collisionCount": 0, "currentReplicas": 1,
            "currentRevision": name, "observedGeneration": 2, "readyReplicas": 1, "replicas": 1,
            "updateRevision": name, "updatedReplicas": 1})
    );
}

#[derive(Clone, Debug)]
enum Step {
    Template(u8),
    Scale(i64),
    Start(i64),
    Parallel(bool),
    Partition(i64),
    Relabel(usize),
    DeletePod(usize),
    FailPod(usize),
    Restart,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_u8..5).prop_map(Step::Template),
        3 => (0_i64..6).prop_map(Step::Scale),
        1 => (0_i64..3).prop_map(Step::Start),
        1 => any::<bool>().prop_map(Step::Parallel),
        1 => (0_i64..4).prop_map(Step::Partition),
        1 => (0_usize..6).prop_map(Step::Relabel),
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
    match step {
        Step::Template(version) => {
            world.edit(SETS, "web", |set| set["spec"]["template"] = template(&version.to_string()));
        }
        Step::Scale(size) => {
            world.edit(SETS, "web", |set| set["spec"]["replicas"] = (*size).into());
        }
        Step::Start(start) => {
            world.edit(SETS, "web", |set| set["spec"]["ordinals"] = json!({"start": start}));
        }
        Step::Parallel(on) => world.edit(SETS, "web", |set| {
            let policy = if *on { "Parallel" } else { "OrderedReady" };
            set["spec"]["podManagementPolicy"] = policy.into();
        }),
        Step::Partition(at) => world.edit(SETS, "web", |set| {
            set["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = (*at).into();
        }),
        Step::Relabel(place) => {
            if let Some(name) = living(world, *place) {
                world.edit(BuiltinResource::Pods, &name, |pod| {
                    pod["metadata"]["labels"] = json!({"app": "stray"});
                });
                world.settle();
                // Whoever took the pod gives its name back.
                if world.names(BuiltinResource::Pods).contains(&name) {
                    world.delete(BuiltinResource::Pods, &name, None);
                }
            }
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
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn pu4_whatever_happens_a_set_comes_to_rest_as_wanted(
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let mut world = World::chaotic(seed);
        let mut wanted = set(3);
        wanted["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {}}]);
        wanted["spec"]["persistentVolumeClaimRetentionPolicy"] =
            json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
        world.create(wanted);
        for step in &steps {
            take(&mut world, step);
        }
        for _ in 0..8 {
            world.settle();
            world.advance(60);
        }
        let found = world.json(SETS, "web");
        let (size, start) = (
            found["spec"]["replicas"].as_i64().unwrap(),
            found["spec"]["ordinals"]["start"].as_i64().unwrap_or(0),
        );
        let names: Vec<String> = (start..start + size).map(|n| format!("web-{n}")).collect();
        prop_assert_eq!(pods(&world), names);
        // Claims of pods that somebody else took away stay; every pod has its own.
        let claims = world.names(BuiltinResource::PersistentVolumeClaims);
        for number in start..start + size {
            prop_assert!(claims.contains(&format!("data-web-{number}")), "{number}");
        }
        let partition =
            found["spec"]["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap();
        let update = found["status"]["updateRevision"].as_str().unwrap();
        for (index, pod) in world.list(BuiltinResource::Pods).iter().enumerate() {
            if i64::try_from(index).unwrap() >= partition {
                prop_assert_eq!(owner::label(pod, "controller-revision-hash"), Some(update));
            }
        }
        prop_assert_eq!(found["status"]["replicas"].as_i64(), Some(size));
    }
}
