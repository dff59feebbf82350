//! Rules of spec/workload-controllers.md: invariants under random orders, crashes and users.

use proptest::prelude::*;
use serde_json::json;
use tenure_machinery::ObjectExt as _;
use tenure_workload::{BuiltinResource, owner, pod};

use crate::deployment::{deployment, status};
use crate::replicas::template;
use crate::world::World;

#[derive(Clone, Debug)]
enum Step {
    Template(u8),
    Scale(i64),
    Pause(bool),
    Slack(i64, i64),
    Relabel(usize),
    DeletePod(usize),
    DeleteSet(usize),
    FailPod(usize),
    Restart,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_u8..5).prop_map(Step::Template),
        3 => (0_i64..8).prop_map(Step::Scale),
        1 => any::<bool>().prop_map(Step::Pause),
        1 => (0_i64..4, 0_i64..4).prop_map(|(surge, less)| Step::Slack(surge, less)),
        1 => (0_usize..8).prop_map(Step::Relabel),
        2 => (0_usize..8).prop_map(Step::DeletePod),
        1 => (0_usize..4).prop_map(Step::DeleteSet),
        1 => (0_usize..8).prop_map(Step::FailPod),
        1 => Just(Step::Restart),
        3 => Just(Step::Settle),
    ]
}

fn take(world: &mut World, step: &Step) {
    let nth = |world: &World, resource: BuiltinResource, place: usize| {
        world.list(resource).into_iter().filter(|o| !owner::deleting(o)).nth(place)
    };
    let web = BuiltinResource::Deployments;
    match step {
        Step::Template(version) => {
            world.edit(web, "web", |web| web["spec"]["template"] = template(&version.to_string()));
        }
        Step::Scale(size) => world.edit(web, "web", |web| web["spec"]["replicas"] = (*size).into()),
        Step::Pause(on) => world.edit(web, "web", |web| web["spec"]["paused"] = (*on).into()),
        Step::Slack(surge, less) => world.edit(web, "web", |web| {
            web["spec"]["strategy"]["rollingUpdate"] =
                json!({"maxSurge": surge, "maxUnavailable": less});
        }),
        Step::Relabel(place) => {
            if let Some(pod) = nth(world, BuiltinResource::Pods, *place) {
                let name = pod.name().to_owned();
                world.edit(BuiltinResource::Pods, &name, |pod| {
                    pod["metadata"]["labels"] = json!({"app": "stray"});
                });
            }
        }
        Step::DeletePod(place) => {
            if let Some(pod) = nth(world, BuiltinResource::Pods, *place) {
                world.delete(BuiltinResource::Pods, pod.name(), None);
            }
        }
        Step::DeleteSet(place) => {
            if let Some(set) = nth(world, BuiltinResource::ReplicaSets, *place) {
                world.delete(BuiltinResource::ReplicaSets, set.name(), None);
            }
        }
        Step::FailPod(place) => {
            if let Some(pod) = nth(world, BuiltinResource::Pods, *place) {
                world.end(pod.name(), "Failed");
            }
        }
        Step::Restart => world.restart(),
        Step::Settle => world.settle(),
    }
}

/// What must hold after every single write.
fn invariants(world: &World) {
    for pod in world.list(BuiltinResource::Pods) {
        let controllers = pod
            .list_at(&["metadata", "ownerReferences"])
            .iter()
            .filter(|entry| entry["controller"] == true)
            .count();
        assert!(controllers <= 1, "{} has {controllers} controllers", pod.name());
    }
}

/// What must hold when nothing more happens.
fn converged(world: &World) {
    let web = world.json(BuiltinResource::Deployments, "web");
    let wanted = web["spec"]["replicas"].as_i64().unwrap();
    let living = world
        .list(BuiltinResource::Pods)
        .iter()
        .filter(|pod| pod::active(pod) && owner::controller_of(pod).is_some())
        .count();
    if web["spec"]["paused"] != true {
        assert_eq!(i64::try_from(living).unwrap(), wanted, "{:#?}", world.writes);
        assert_eq!(status(world)["updatedReplicas"].as_i64().unwrap_or_default(), wanted);
        assert_eq!(status(world)["availableReplicas"].as_i64().unwrap_or_default(), wanted);
    }
    assert_eq!(status(world)["observedGeneration"], web["metadata"]["generation"]);
    let revisions: Vec<i64> = world
        .list(BuiltinResource::ReplicaSets)
        .iter()
        .filter_map(|set| owner::annotation(set, crate::deployment::REVISION)?.parse().ok())
        .collect();
    let mut distinct = revisions.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), revisions.len(), "two sets share a number: {revisions:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pu3_any_history_with_crashes_converges(
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..20),
    ) {
        let mut world = World::chaotic(seed);
        world.check = Some(invariants);
        world.create(deployment(3));
        for step in &steps {
            take(&mut world, step);
        }
        world.settle();
        converged(&world);
    }

    #[test]
    fn dp9_available_pods_never_fall_below_the_limit(
        seed in any::<u64>(),
        size in 1_i64..12,
        surge in 0_i64..4,
        less in 0_i64..4,
    ) {
        let mut world = World::chaotic(seed);
        let mut web = deployment(size);
        web["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": surge, "maxUnavailable": less});
        world.create(web);
        world.settle();
        world.check = Some(within_limits);
        for version in ["2", "3", "1"] {
            world.edit(BuiltinResource::Deployments, "web", |web| web["spec"]["template"] = template(version));
            world.settle();
        }
        converged(&world);
    }
}

/// Never more pods wanted than size and surge, never fewer available than size less the slack.
///
/// Pods themselves may be more for a moment: nobody waits for an old one to be gone.
fn within_limits(world: &World) {
    invariants(world);
    let web = world.json(BuiltinResource::Deployments, "web");
    let limit = |name: &str| web["spec"]["strategy"]["rollingUpdate"][name].as_i64().unwrap();
    let size = web["spec"]["replicas"].as_i64().unwrap();
    let (surge, mut less) = (limit("maxSurge"), limit("maxUnavailable"));
    if surge == 0 && less == 0 {
        less = 1;
    }
    let pods = world.list(BuiltinResource::Pods);
    let wanted: i64 = world
        .list(BuiltinResource::ReplicaSets)
        .iter()
        .filter_map(|set| set.int_at(&["spec", "replicas"]))
        .sum();
    let ready = pods.iter().filter(|pod| pod::active(pod) && pod::ready(pod)).count();
    assert!(wanted <= size + surge, "{wanted} pods of {size} + {surge}");
    assert!(i64::try_from(ready).unwrap() >= size - less, "{ready} ready of {size} - {less}");
}

/// What a scenario writes and leaves, drawn from a seed.
fn told(seed: u64) -> (Vec<String>, Vec<String>, String) {
    let mut world = World::chaotic(seed);
    world.create(deployment(5));
    for step in [Step::Settle, Step::Template(2), Step::Scale(3), Step::DeletePod(1), Step::Settle]
    {
        take(&mut world, &step);
    }
    let left: Vec<String> =
        [BuiltinResource::Deployments, BuiltinResource::ReplicaSets, BuiltinResource::Pods]
            .into_iter()
            .flat_map(|resource| world.list(resource))
            .map(|seen| serde_json::to_string(&*seen.object).unwrap())
            .collect();
    (world.writes, world.events, left.concat())
}

#[test]
fn pu1_the_same_input_gives_the_same_bytes() {
    for seed in 1..20 {
        assert_eq!(told(seed), told(seed), "seed {seed}");
    }
}
