//! Rules of spec/workload-controllers.md: Jobs under random orders, crashes and users.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::job::finished;
use tenure_workload::{BuiltinResource, VersionedObject, owner, pod};

use crate::job::{TRACKING, conditions, job, status};
use crate::world::World;

#[derive(Clone, Debug)]
enum Step {
    Parallelism(i64),
    Suspend(bool),
    DeletePod(usize),
    EndPod(usize, bool),
    Advance(i64),
    Restart,
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0_i64..5).prop_map(Step::Parallelism),
        1 => any::<bool>().prop_map(Step::Suspend),
        2 => (0_usize..8).prop_map(Step::DeletePod),
        3 => (0_usize..8, any::<bool>()).prop_map(|(place, well)| Step::EndPod(place, well)),
        2 => (1_i64..50).prop_map(Step::Advance),
        1 => Just(Step::Restart),
        3 => Just(Step::Settle),
    ]
}

fn take(world: &mut World, step: &Step) {
    let over = finished(&world.get(BuiltinResource::Jobs, "web")).is_some();
    let running = |world: &World, place: usize| {
        let pods = world.list(BuiltinResource::Pods).into_iter();
        pods.filter(runs).nth(place).map(|pod| pod.name().to_owned())
    };
    match step {
        Step::Parallelism(size) if !over => {
            world.edit(BuiltinResource::Jobs, "web", |job| {
                job["spec"]["parallelism"] = (*size).into()
            });
        }
        Step::Suspend(on) if !over => {
            world.edit(BuiltinResource::Jobs, "web", |job| job["spec"]["suspend"] = (*on).into());
        }
        Step::DeletePod(place) => {
            if let Some(name) = running(world, *place) {
                world.delete(BuiltinResource::Pods, &name, None);
            }
        }
        Step::EndPod(place, well) => {
            if let Some(name) = running(world, *place) {
                world.end(&name, if *well { "Succeeded" } else { "Failed" });
            }
        }
        Step::Advance(seconds) => world.advance(*seconds),
        Step::Restart => world.restart(),
        Step::Settle => world.settle(),
        _ => {}
    }
}

fn runs(pod: &VersionedObject) -> bool {
    pod::active(pod)
}

/// What must hold after every single write (JB3, JB8).
fn invariants(world: &World) {
    let Some(web) = world.list(BuiltinResource::Jobs).into_iter().next() else { return };
    let pods = world.list(BuiltinResource::Pods);
    let counts = |phase: &str| {
        let ended = pods.iter().filter(|p| p.str_at(&["status", "phase"]) == Some(phase));
        let (held, free): (Vec<_>, Vec<_>) =
            ended.partition(|pod| owner::has_finalizer(pod, TRACKING));
        (held.len(), free.len())
    };
    let number =
        |name: &str| usize::try_from(web.int_at(&["status", name]).unwrap_or_default()).unwrap();
    let named = |name: &str| web.list_at(&["status", "uncountedTerminatedPods", name]).len();
    let (_, free) = counts("Succeeded");
    let indexed = web.str_at(&["spec", "completionMode"]) == Some("Indexed");
    if !indexed {
        // Pods that succeeded stay, so what is counted can be seen.
        assert!(number("succeeded") <= free, "counted before it was let go");
        assert!(number("succeeded") + named("succeeded") >= free, "let go before it was named");
    }
    if finished(&web).is_some() {
        assert_eq!(named("succeeded") + named("failed"), 0);
        assert_eq!(web.int_at(&["status", "active"]), None);
        assert_eq!(web.int_at(&["status", "terminating"]), Some(0));
        let text = conditions(world).join("; ");
        let success = text.contains("SuccessCriteriaMet") && text.contains("Complete");
        let failure = text.contains("FailureTarget") && text.contains("Failed");
        assert!(success != failure, "{text}");
    }
}

/// The numbers in a text such as `1,3-5`.
fn numbers(text: &str) -> Vec<i64> {
    let ranges = text.split(',').filter(|range| !range.is_empty());
    ranges
        .flat_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<i64>().unwrap()..=last.parse::<i64>().unwrap()
        })
        .collect()
}

/// Lets the Job run to its end.
fn run_to_end(world: &mut World) {
    world.edit(BuiltinResource::Jobs, "web", |job| {
        if job["spec"]["parallelism"] == 0 {
            job["spec"]["parallelism"] = 1.into();
        }
        job["spec"]["suspend"] = false.into();
    });
    for _ in 0..40 {
        world.settle();
        world.advance(600);
    }
}

/// Lets the Job run to its end and looks at what is left.
fn finish(world: &mut World, wanted: &Value) {
    run_to_end(world);
    let web = world.get(BuiltinResource::Jobs, "web");
    let end = finished(&web).unwrap_or_else(|| panic!("{} {:#?}", status(world), world.writes));
    let complete = end.str_at(&["type"]) == Some("Complete");
    let (status, completions) = (status(world), wanted["completions"].as_i64().unwrap());
    let succeeded = status["succeeded"].as_i64().unwrap_or_default();
    assert_eq!(complete, succeeded >= completions, "{status}");
    let failed = status["failed"].as_i64().unwrap_or_default();
    if !complete {
        assert!(failed > wanted["backoffLimit"].as_i64().unwrap(), "{status}");
    }
    let pods = world.list(BuiltinResource::Pods);
    assert!(pods.iter().all(|pod| !owner::has_finalizer(pod, TRACKING) && !owner::deleting(pod)));
    let kept = pods.iter().filter(|p| p.str_at(&["status", "phase"]) == Some("Succeeded")).count();
    if status["completedIndexes"].is_null() {
        assert_eq!(i64::try_from(kept).unwrap(), succeeded, "each success is counted once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn jb3_every_end_is_counted_once_whatever_crashes(
        seed in any::<u64>(),
        completions in 1_i64..6,
        parallelism in 1_i64..5,
        limit in 0_i64..4,
        indexed in any::<bool>(),
        steps in prop::collection::vec(step(), 0..16),
    ) {
        let mut world = World::chaotic(seed);
        world.check = Some(invariants);
        let mode = if indexed { "Indexed" } else { "NonIndexed" };
        let wanted = json!({"completions": completions, "parallelism": parallelism,
                            "backoffLimit": limit, "completionMode": mode});
        world.create(job(wanted.clone()));
        for step in &steps {
            take(&mut world, step);
        }
        finish(&mut world, &wanted);
    }

    #[test]
    fn jb6_every_piece_is_done_or_given_up_whatever_crashes(
        seed in any::<u64>(),
        pieces in 1_i64..6,
        parallelism in 1_i64..5,
        limit in 0_i64..3,
        steps in prop::collection::vec(step(), 0..12),
    ) {
        let mut world = World::chaotic(seed);
        world.check = Some(invariants);
        world.create(job(json!({
            "completions": pieces, "parallelism": parallelism, "completionMode": "Indexed",
            "backoffLimit": i32::MAX, "backoffLimitPerIndex": limit})));
        for step in &steps {
            take(&mut world, step);
        }
        run_to_end(&mut world);
        let status = status(&world);
        let lost = status["failedIndexes"].as_str().unwrap();
        let done = status["completedIndexes"].as_str().unwrap_or_default();
        prop_assert_eq!(numbers(lost).len() + numbers(done).len(), usize::try_from(pieces).unwrap());
        let last = conditions(&world).pop().unwrap();
        let expected = if lost.is_empty() { "Complete True CompletionsReached" }
            else { "Failed True FailedIndexes" };
        prop_assert_eq!(last, expected);
        let failed = usize::try_from(status["failed"].as_i64().unwrap_or_default()).unwrap();
        let least = numbers(lost).len() * (usize::try_from(limit).unwrap() + 1);
        prop_assert!(failed >= least, "{} failures, {} at least", failed, least);
    }

    #[test]
    fn jb10_no_pod_hangs_when_its_job_is_deleted(
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 0..8),
    ) {
        let mut world = World::chaotic(seed);
        world.create(job(json!({"completions": 4, "parallelism": 3})));
        for step in &steps {
            take(&mut world, step);
        }
        world.delete(BuiltinResource::Jobs, "web", None);
        world.settle();
        world.restart();
        world.settle();
        prop_assert!(world.names(BuiltinResource::Pods).is_empty());
    }
}
