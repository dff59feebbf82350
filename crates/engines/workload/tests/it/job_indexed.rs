//! Rules of spec/workload-controllers.md: indexed Jobs.

use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{BuiltinResource, owner, pod};

use crate::job::{conditions, job, status};
use crate::world::World;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

fn world(more: Value) -> World {
    let mut indexed = job(more);
    indexed["spec"]["completionMode"] = "Indexed".into();
    let mut world = World::new();
    world.create(indexed);
    world.settle();
    world
}

/// The pieces that active pods work on.
fn busy(world: &World) -> Vec<i64> {
    let pods = world.list(BuiltinResource::Pods);
    let active = pods.iter().filter(|pod| pod::active(pod));
    let mut busy: Vec<i64> =
        active.map(|pod| owner::annotation(pod, INDEX).unwrap().parse().unwrap()).collect();
    busy.sort_unstable();
    busy
}

/// The active pod of a piece.
fn of(world: &World, index: i64) -> String {
    let pods = world.list(BuiltinResource::Pods);
    let mut active = pods.iter().filter(|pod| pod::active(pod));
    let found = active.find(|pod| owner::annotation(pod, INDEX) == Some(&index.to_string()));
    found.unwrap().name().to_owned()
}

fn end(world: &mut World, index: i64, phase: &str) {
    let (name, now) = (of(world, index), world.now.to_string());
    world.edit_status(BuiltinResource::Pods, &name, |status| {
        *status = json!({"phase": phase, "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": now}]});
    });
    world.settle();
}

#[test]
fn jb5_pods_know_their_piece() {
    let world = world(json!({"completions": 2, "parallelism": 2}));
    let pod = world.json(BuiltinResource::Pods, &of(&world, 1));
    assert_eq!(pod["metadata"]["generateName"], "web-1-");
    assert_eq!(pod["metadata"]["annotations"], json!({INDEX: "1"}));
    assert_eq!(pod["metadata"]["labels"][INDEX], "1");
    assert_eq!(pod["spec"]["hostname"], "web-1");
    let path = format!("metadata.labels['{INDEX}']");
    assert_eq!(
        pod["spec"]["containers"][0]["env"],
        json!([{"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}])
    );
}

#[test]
fn jb5_a_long_name_leaves_room_for_the_piece() {
    let mut long = job(json!({"completionMode": "Indexed"}));
    long["metadata"]["name"] = "x".repeat(63).into();
    let mut world = World::new();
    world.create(long);
    world.settle();
    let prefix = world.list(BuiltinResource::Pods)[0].at(&["metadata", "generateName"]).cloned();
    assert_eq!(prefix, Some(format!("{}-0-", "x".repeat(55)).into()));
}

#[test]
fn jb5_the_lowest_open_piece_is_next() {
    let mut world = world(json!({"completions": 6, "parallelism": 3}));
    assert_eq!(busy(&world), [0, 1, 2]);
    end(&mut world, 0, "Succeeded");
    end(&mut world, 2, "Succeeded");
    assert_eq!(status(&world)["completedIndexes"], "0,2");
    assert_eq!(status(&world)["succeeded"], 2);
    assert_eq!(busy(&world), [1, 3, 4]);
    end(&mut world, 1, "Failed");
    world.advance(10);
    assert_eq!(busy(&world), [1, 3, 4]);
    for index in [3, 4, 5, 1] {
        end(&mut world, index, "Succeeded");
    }
    assert_eq!(status(&world)["completedIndexes"], "0-5");
    assert_eq!(status(&world)["failed"], 1);
    assert_eq!(conditions(&world)[1], "Complete True CompletionsReached");
}

#[test]
fn jb5_duplicates_and_strangers_go() {
    let mut world = world(json!({"completions": 3, "parallelism": 3}));
    let uid = owner::uid(&world.get(BuiltinResource::Jobs, "web")).to_owned();
    for (name, index) in [("again", json!("1")), ("far", json!("9")), ("none", Value::Null)] {
        let annotations = if index.is_null() { json!({}) } else { json!({INDEX: index}) };
        world.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": name, "annotations": annotations,
            "labels": {"batch.kubernetes.io/controller-uid": "u"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "web",
                                 "uid": uid, "controller": true}]}}));
    }
    world.settle();
    assert_eq!(busy(&world), [0, 1, 2]);
    assert_eq!(world.names(BuiltinResource::Pods).len(), 3);
    assert!(status(&world)["failed"].is_null());
}

#[test]
fn jb5_fewer_pieces_forget_those_beyond() {
    let mut world = world(json!({"completions": 4, "parallelism": 4}));
    end(&mut world, 3, "Succeeded");
    world.edit(BuiltinResource::Jobs, "web", |job| {
        job["spec"]["completions"] = 2.into();
        job["spec"]["parallelism"] = 2.into();
    });
    world.settle();
    assert_eq!(busy(&world), [0, 1]);
    assert!(status(&world)["completedIndexes"].is_null());
    assert!(status(&world)["succeeded"].is_null());
}

#[test]
fn jb8_a_success_policy_ends_the_job_early() {
    let mut world = world(json!({
        "completions": 4, "parallelism": 4,
        "successPolicy": {"rules": [
            {"succeededIndexes": "1-2"},
            {"succeededIndexes": "0,3", "succeededCount": 1}]},
    }));
    end(&mut world, 1, "Succeeded");
    assert!(conditions(&world).is_empty());
    end(&mut world, 3, "Succeeded");
    assert_eq!(
        conditions(&world),
        ["SuccessCriteriaMet True SuccessPolicy", "Complete True SuccessPolicy"]
    );
    assert_eq!(status(&world)["conditions"][0]["message"], "Matched rules at index 1");
    let status = status(&world);
    assert!(status["failed"].is_null(), "those that had to stop did not fail: {status}");
    assert_eq!(status["succeeded"], 2);
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2);
}

/// Job with successPolicy should succeeded when all indexes succeeded.
#[test]
fn jb8_a_success_policy_is_the_reason_also_when_every_piece_succeeded() {
    let mut world = world(json!({
        "completions": 2, "parallelism": 2, "successPolicy": {"rules": [{"succeededCount": 2}]},
    }));
    end(&mut world, 0, "Succeeded");
    assert!(conditions(&world).is_empty());
    end(&mut world, 1, "Succeeded");
    assert_eq!(
        conditions(&world),
        ["SuccessCriteriaMet True SuccessPolicy", "Complete True SuccessPolicy"]
    );
    assert_eq!(status(&world)["completedIndexes"], "0,1");
}

fn with_limit(more: Value) -> World {
    let mut spec = json!({"completions": 3, "parallelism": 3, "backoffLimit": i32::MAX,
                          "backoffLimitPerIndex": 1});
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    world(spec)
}

#[test]
fn jb6_each_piece_has_its_own_limit() {
    let mut world = with_limit(json!({}));
    assert_eq!(status(&world)["failedIndexes"], "");
    let first = of(&world, 1);
    end(&mut world, 1, "Failed");
    assert_eq!(busy(&world), [0, 2]);
    assert!(owner::has_finalizer(&world.get(BuiltinResource::Pods, &first), crate::job::TRACKING));
    world.advance(10);
    assert_eq!(busy(&world), [0, 1, 2]);
    let second = world.json(BuiltinResource::Pods, &of(&world, 1));
    let count = &second["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"];
    assert_eq!(count, "1");
    assert_eq!(status(&world)["failed"], 1);
    end(&mut world, 1, "Failed");
    world.advance(1_000);
    assert_eq!(status(&world)["failedIndexes"], "1");
    assert_eq!(busy(&world), [0, 2], "given up");
    end(&mut world, 0, "Succeeded");
    end(&mut world, 2, "Succeeded");
    assert_eq!(conditions(&world)[1], "Failed True FailedIndexes");
    assert_eq!(status(&world)["completedIndexes"], "0,2");
    assert_eq!(status(&world)["failed"], 2);
}

#[test]
fn jb6_too_many_lost_pieces_end_the_job() {
    let mut world = with_limit(json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1}));
    end(&mut world, 0, "Failed");
    assert!(conditions(&world).is_empty());
    end(&mut world, 1, "Failed");
    assert_eq!(conditions(&world)[1], "Failed True MaxFailedIndexesExceeded");
    assert_eq!(status(&world)["failedIndexes"], "0,1");
    assert_eq!(status(&world)["failed"], 3);
}

#[test]
fn jb6_a_policy_gives_up_a_piece_or_ignores_its_failure() {
    let rules = json!([
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
    ]);
    let mut world = with_limit(json!({
        "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": rules}}));
    for (index, code) in [(0, 42), (1, 7)] {
        let (name, now) = (of(&world, index), world.now.to_string());
        world.edit_status(BuiltinResource::Pods, &name, |status| {
            *status = json!({"phase": "Failed", "containerStatuses": [
                {"name": "c", "state": {"terminated": {"exitCode": code, "finishedAt": now}}}]});
        });
    }
    world.settle();
    world.advance(1_000);
    assert_eq!(status(&world)["failedIndexes"], "0");
    assert_eq!(busy(&world), [1, 2]);
    let annotations =
        world.json(BuiltinResource::Pods, &of(&world, 1))["metadata"]["annotations"].clone();
    assert_eq!(annotations["batch.kubernetes.io/job-index-failure-count"], "0");
    assert_eq!(annotations["batch.kubernetes.io/job-index-ignored-failure-count"], "1");
    assert_eq!(status(&world)["failed"], 1);
}
