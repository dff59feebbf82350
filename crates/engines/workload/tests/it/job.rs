//! Rules of spec/workload-controllers.md: Job.

use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{Act, BuiltinResource, IntentPropagation, owner};

use crate::world::World;

pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// A Job `web` as the server stores it, with more in its spec.
pub(crate) fn job(more: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "web"},
        "spec": {
            "parallelism": 1, "completions": 1, "backoffLimit": 6,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
            "template": {
                "metadata": {"labels": {"batch.kubernetes.io/controller-uid": "u"}},
                "spec": {"restartPolicy": "Never",
                         "containers": [{"name": "c", "image": "example.test/img:1"}]},
            },
        },
    });
    for (name, value) in more.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    job
}

pub(crate) fn world(more: Value) -> World {
    let mut world = World::new();
    world.create(job(more));
    world.settle();
    world
}

pub(crate) fn status(world: &World) -> Value {
    world.json(BuiltinResource::Jobs, "web")["status"].clone()
}

/// The pods that have not ended and are not being deleted.
pub(crate) fn active(world: &World) -> Vec<String> {
    let pods = world.list(BuiltinResource::Pods);
    let active = pods.iter().filter(|pod| tenure_workload::pod::active(pod));
    active.map(|pod| pod.name().to_owned()).collect()
}

/// Ends the first active pod in a phase.
pub(crate) fn end(world: &mut World, phase: &str) -> String {
    let name = active(world)[0].clone();
    world.end(&name, phase);
    world.settle();
    name
}

/// The types, states and reasons of the conditions.
pub(crate) fn conditions(world: &World) -> Vec<String> {
    let status = status(world);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let text = |c: &Value, name: &str| c[name].as_str().unwrap().to_owned();
    conditions
        .iter()
        .map(|c| format!("{} {} {}", text(c, "type"), text(c, "status"), text(c, "reason")))
        .collect()
}

fn spec(world: &mut World, edit: impl FnOnce(&mut Value)) {
    world.edit(BuiltinResource::Jobs, "web", |job| edit(&mut job["spec"]));
    world.settle();
}

#[test]
fn jb2_pods_carry_the_finalizer() {
    let world = world(json!({}));
    let pod = Value::Object((*world.list(BuiltinResource::Pods)[0].object).clone());
    assert_eq!(pod["metadata"]["finalizers"], json!([TRACKING]));
    assert_eq!(pod["metadata"]["generateName"], "web-");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "Job");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["apiVersion"], "batch/v1");
}

#[test]
fn jb2_adoption_brings_the_finalizer_and_release_takes_it() {
    let mut world = World::new();
    world.create(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stray",
        "labels": {"batch.kubernetes.io/controller-uid": "u"}}}));
    world.create(job(json!({})));
    world.settle();
    assert_eq!(
        world.names(BuiltinResource::Pods),
        ["stray"],
        "the orphan is the one that was wanted"
    );
    assert_eq!(
        world.json(BuiltinResource::Pods, "stray")["metadata"]["finalizers"],
        json!([TRACKING])
    );
    world.edit(BuiltinResource::Pods, "stray", |pod| pod["metadata"]["labels"] = json!({"x": "y"}));
    world.settle();
    let stray = world.json(BuiltinResource::Pods, "stray");
    assert!(stray["metadata"]["finalizers"].is_null());
    assert!(stray["metadata"]["ownerReferences"].is_null());
    assert_eq!(active(&world).len(), 2, "another takes its place");
    assert!(status(&world)["failed"].is_null());
}

#[test]
fn jb3_the_status_names_a_pod_before_it_goes_and_counts_it_after() {
    let mut world = world(json!({"completions": 2}));
    let name = active(&world)[0].clone();
    let uid = owner::uid(&world.get(BuiltinResource::Pods, &name)).to_owned();
    world.writes.clear();
    world.check = Some(|world| {
        // A pod that has ended and let go is named or counted.
        let status = status(world);
        let uncounted = &status["uncountedTerminatedPods"]["succeeded"];
        let named = uncounted.as_array().map_or(0, Vec::len);
        let counted = usize::try_from(status["succeeded"].as_u64().unwrap_or_default()).unwrap();
        let pods = world.list(BuiltinResource::Pods);
        let ended = pods.iter().filter(|p| p.str_at(&["status", "phase"]) == Some("Succeeded"));
        let gone = ended.filter(|pod| !owner::has_finalizer(pod, TRACKING)).count();
        assert!(named + counted >= gone && counted <= gone, "{status}");
    });
    // The finalizer cannot be removed: the pod stays named and is not counted.
    world.refuse(|intent| match &intent.act {
        Act::Update { resource: BuiltinResource::Pods, .. } => Some((500, "InternalError", "no")),
        _ => None,
    });
    world.end(&name, "Succeeded");
    world.settle();
    assert_eq!(status(&world)["uncountedTerminatedPods"], json!({"succeeded": [uid]}));
    assert!(status(&world)["succeeded"].is_null());
    world.allow();
    world.advance(1);
    assert_eq!(status(&world)["uncountedTerminatedPods"], json!({}));
    assert_eq!(status(&world)["succeeded"], 1);
    world.restart();
    world.settle();
    assert_eq!(status(&world)["succeeded"], 1, "nothing is counted twice");
}

#[test]
fn jb3_at_most_500_at_a_time() {
    let mut world = World::new();
    world.create(job(json!({"completions": 600, "parallelism": 600})));
    world.settle();
    let pods = active(&world);
    assert_eq!(pods.len(), 600);
    world.check = Some(|world| {
        let named = status(world)["uncountedTerminatedPods"]["succeeded"].as_array().map(Vec::len);
        assert!(named.unwrap_or_default() <= 500);
    });
    for pod in &pods {
        world.end(pod, "Succeeded");
    }
    world.settle();
    assert_eq!(status(&world)["succeeded"], 600);
    assert_eq!(conditions(&world).last().unwrap(), "Complete True CompletionsReached");
}

#[test]
fn jb4_parallelism_and_completions_bound_the_active() {
    let mut world = world(json!({"completions": 5, "parallelism": 3}));
    assert_eq!(active(&world).len(), 3);
    for left in [3, 3, 2, 1] {
        end(&mut world, "Succeeded");
        assert_eq!(active(&world).len(), left);
    }
    end(&mut world, "Succeeded");
    assert_eq!(status(&world)["succeeded"], 5);
    assert_eq!(world.list(BuiltinResource::Pods).len(), 5);
}

#[test]
fn jb4_without_completions_one_success_ends_the_making() {
    let mut world = World::new();
    let mut queue = job(json!({"parallelism": 3}));
    queue["spec"]["completions"] = Value::Null;
    world.create(queue);
    world.settle();
    assert_eq!(active(&world).len(), 3);
    end(&mut world, "Succeeded");
    assert_eq!(active(&world).len(), 2, "the others run on");
    assert!(conditions(&world).is_empty());
    end(&mut world, "Failed");
    assert_eq!(active(&world).len(), 1, "and are not replaced");
    end(&mut world, "Succeeded");
    assert_eq!(status(&world)["succeeded"], 2);
    assert_eq!(conditions(&world).last().unwrap(), "Complete True CompletionsReached");
}

#[test]
fn jb4_surplus_goes_without_failures_and_the_unready_first() {
    let mut world = world(json!({"completions": 4, "parallelism": 3}));
    let all = active(&world);
    world.ready(&all[0]);
    world.settle();
    spec(&mut world, |spec| spec["parallelism"] = 1.into());
    assert_eq!(active(&world), [all[0].clone()]);
    assert_eq!(world.names(BuiltinResource::Pods), [all[0].clone()]);
    assert!(status(&world)["failed"].is_null());
    assert_eq!(world.events.iter().filter(|e| e.contains("SuccessfulDelete")).count(), 2);
}

#[test]
fn jb6_failures_beyond_the_limit_end_the_job() {
    let mut world = world(json!({"backoffLimit": 1, "parallelism": 2, "completions": 2}));
    let bound = active(&world)[1].clone();
    world.ready(&bound);
    end(&mut world, "Failed");
    assert!(conditions(&world).is_empty());
    world.advance(10);
    let last = active(&world).into_iter().find(|name| *name != bound).unwrap();
    world.end(&last, "Failed");
    world.settle();
    assert_eq!(conditions(&world), ["FailureTarget True BackoffLimitExceeded"], "one terminates");
    assert_eq!(status(&world)["terminating"], 1);
    world.let_go(&bound);
    world.settle();
    assert_eq!(conditions(&world)[1], "Failed True BackoffLimitExceeded");
    assert_eq!(status(&world)["failed"], 3, "what had to stop has failed too");
    assert!(status(&world)["completionTime"].is_null());
    let told = "Warning BackoffLimitExceeded Job has reached the specified backoff limit";
    assert_eq!(world.events.last().unwrap(), told);
}

#[test]
fn jb6_restarts_count_where_pods_restart_in_place() {
    for (limit, restarts, over) in [(0, 0, false), (0, 1, true), (2, 1, false), (2, 2, true)] {
        let mut wanted = job(json!({"backoffLimit": limit}));
        wanted["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
        let mut world = World::new();
        world.create(wanted);
        world.settle();
        let name = active(&world)[0].clone();
        world.edit_status(BuiltinResource::Pods, &name, |status| {
            *status = json!({"phase": "Running", "containerStatuses": [
                {"name": "c", "restartCount": restarts}]});
        });
        world.settle();
        assert_eq!(!conditions(&world).is_empty(), over, "{restarts} of {limit}");
    }
}

#[test]
fn jb6_the_deadline_ends_the_job() {
    let mut world = world(json!({"activeDeadlineSeconds": 60}));
    world.advance(59);
    assert!(conditions(&world).is_empty());
    world.advance(1);
    assert_eq!(
        conditions(&world),
        ["FailureTarget True DeadlineExceeded", "Failed True DeadlineExceeded"]
    );
    assert_eq!(status(&world)["failed"], 1);
    assert!(world.names(BuiltinResource::Pods).is_empty());
}

#[test]
fn jb6_a_deleted_pod_has_failed_unless_only_failed_ones_are_replaced() {
    for (policy, failed) in [("TerminatingOrFailed", true), ("Failed", false)] {
        let mut world = world(json!({"podReplacementPolicy": policy}));
        let name = active(&world)[0].clone();
        world.ready(&name);
        world.delete(BuiltinResource::Pods, &name, None);
        world.settle();
        world.advance(10);
        assert_eq!(status(&world)["failed"] == 1, failed, "{policy}");
        assert_eq!(active(&world).len(), usize::from(failed), "{policy}");
        world.let_go(&name);
        world.settle();
        world.advance(10);
        assert_eq!(status(&world)["failed"], 1, "{policy}");
        assert_eq!(active(&world).len(), 1, "{policy}");
        assert!(!world.names(BuiltinResource::Pods).contains(&name));
    }
}

fn with_policy(rules: Value) -> World {
    world(json!({"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": rules}}))
}

fn exit(world: &mut World, code: i64) -> String {
    let name = active(world)[0].clone();
    world.edit_status(BuiltinResource::Pods, &name, |status| {
        *status = json!({"phase": "Failed", "containerStatuses": [
            {"name": "c", "state": {"terminated": {"exitCode": code}}}]});
    });
    world.settle();
    name
}

#[test]
fn jb6_a_policy_fails_the_job_or_ignores_the_failure() {
    let rules = json!([
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}},
        {"action": "Ignore", "onExitCodes": {"operator": "NotIn", "values": [1, 42]}},
    ]);
    let mut world = with_policy(rules);
    exit(&mut world, 7);
    assert!(status(&world)["failed"].is_null(), "ignored");
    world.advance(10);
    exit(&mut world, 1);
    assert_eq!(status(&world)["failed"], 1, "counted");
    world.advance(20);
    let name = exit(&mut world, 42);
    assert_eq!(
        conditions(&world),
        ["FailureTarget True PodFailurePolicy", "Failed True PodFailurePolicy"]
    );
    let message = format!(
        "Container c for pod default/{name} failed with exit code 42 matching FailJob rule at index 0"
    );
    assert_eq!(status(&world)["conditions"][1]["message"], message.as_str());
    assert_eq!(status(&world)["failed"], 2);
}

#[test]
fn jb6_a_policy_looks_at_conditions() {
    let rules = json!([{"action": "FailJob",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    let mut world = with_policy(rules);
    let name = active(&world)[0].clone();
    world.edit_status(BuiltinResource::Pods, &name, |status| {
        *status = json!({"phase": "Failed",
            "conditions": [{"type": "DisruptionTarget", "status": "True"}]});
    });
    world.settle();
    let message = format!(
        "Pod default/{name} has condition DisruptionTarget matching FailJob rule at index 0"
    );
    assert_eq!(status(&world)["conditions"][0]["message"], message.as_str());
}

#[test]
fn jb7_each_failure_doubles_the_wait_and_a_success_forgets_it() {
    let mut world = world(json!({"completions": 3}));
    for wait in [10, 20, 40] {
        let name = active(&world)[0].clone();
        let now = world.now.to_string();
        world.edit_status(BuiltinResource::Pods, &name, |status| {
            *status = json!({"phase": "Failed", "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": now}]});
        });
        world.settle();
        world.advance(wait - 1);
        assert!(active(&world).is_empty(), "{wait}");
        world.advance(1);
        assert_eq!(active(&world).len(), 1, "{wait}");
    }
    end(&mut world, "Succeeded");
    assert_eq!(active(&world).len(), 1, "at once");
}

#[test]
fn jb8_conditions_come_in_two_steps() {
    let mut world = world(json!({}));
    world.check = Some(|world| {
        let known = conditions(world);
        assert!(known.first().is_none_or(|c| c.starts_with("SuccessCriteriaMet")), "{known:?}");
    });
    world.writes.clear();
    end(&mut world, "Succeeded");
    assert_eq!(
        conditions(&world),
        ["SuccessCriteriaMet True CompletionsReached", "Complete True CompletionsReached"]
    );
    let statuses = world.writes.iter().filter(|w| *w == "update jobs/web status").count();
    assert_eq!(statuses, 2, "{:?}", world.writes);
    assert!(status(&world)["completionTime"].is_string());
    assert_eq!(world.events.last().unwrap(), "Normal Completed Job completed");
}

#[test]
fn jb8_suspending_deletes_pods_and_resuming_starts_the_clock_anew() {
    let mut world = world(json!({"parallelism": 2, "completions": 2}));
    world.advance(100);
    spec(&mut world, |spec| spec["suspend"] = true.into());
    assert!(world.names(BuiltinResource::Pods).is_empty());
    assert_eq!(conditions(&world), ["Suspended True JobSuspended"]);
    let suspended = status(&world);
    assert!(suspended["startTime"].is_null() && suspended["failed"].is_null());
    spec(&mut world, |spec| spec["suspend"] = false.into());
    assert_eq!(conditions(&world), ["Suspended False JobResumed"]);
    assert_eq!(status(&world)["startTime"], world.now.to_string());
    assert_eq!(active(&world).len(), 2);
    for told in ["Normal Suspended Job suspended", "Normal Resumed Job resumed"] {
        assert_eq!(world.events.iter().filter(|event| *event == told).count(), 1);
    }
}

#[test]
fn jb8_suspended_from_the_start() {
    let world = world(json!({"suspend": true, "activeDeadlineSeconds": 1}));
    assert!(world.names(BuiltinResource::Pods).is_empty());
    let status = status(&world);
    assert!(status["startTime"].is_null());
    assert_eq!(status["conditions"].as_array().unwrap().len(), 1);
}

#[test]
fn jb8_no_completions_are_complete_at_once() {
    let world = world(json!({"completions": 0}));
    assert!(world.writes.iter().all(|write| !write.contains("pods/")));
    assert_eq!(conditions(&world).last().unwrap(), "Complete True CompletionsReached");
}

#[test]
fn jb9_zero_counts_are_left_out_but_for_two() {
    let mut world = world(json!({"parallelism": 2, "completions": 2}));
    let start = world.now.to_string();
    let expected = json!({"active": 2, "ready": 0, "terminating": 0, "startTime": start,
                          "uncountedTerminatedPods": {}});
    assert_eq!(status(&world), expected);
    let name = active(&world)[0].clone();
    world.ready(&name);
    world.settle();
    assert_eq!(status(&world)["ready"], 1);
    world.delete(BuiltinResource::Pods, &name, None);
    world.settle();
    assert_eq!(status(&world)["terminating"], 1);
}

#[test]
fn jb10_pods_of_a_deleted_job_are_let_go() {
    for how in [None, Some(IntentPropagation::Background), Some(IntentPropagation::Orphan)] {
        let mut world = world(json!({"parallelism": 2, "completions": 2}));
        world.delete(BuiltinResource::Jobs, "web", how);
        world.settle();
        let left = world.list(BuiltinResource::Pods);
        if how == Some(IntentPropagation::Orphan) {
            assert_eq!(left.len(), 2);
            assert!(left.iter().all(|pod| !owner::has_finalizer(pod, TRACKING)));
            assert!(left.iter().all(|pod| !owner::deleting(pod)));
        } else {
            assert!(left.is_empty(), "{how:?}");
        }
    }
}

#[test]
fn jb10_a_terminating_job_lets_go_and_makes_no_more() {
    let mut world = World::new();
    let mut held = job(json!({"parallelism": 2, "completions": 2}));
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    world.create(held);
    world.settle();
    world.delete(BuiltinResource::Jobs, "web", None);
    world.settle();
    assert_eq!(world.names(BuiltinResource::Pods).len(), 2);
    let pods = world.list(BuiltinResource::Pods);
    assert!(pods.iter().all(|pod| !owner::has_finalizer(pod, TRACKING)));
}

#[test]
fn jb10_strays_are_let_go_and_pods_of_others_are_not() {
    let mut world = World::new();
    let pod = |name: &str, owners: Value| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "finalizers": [TRACKING], "ownerReferences": owners}})
    };
    let entry = |version: &str, kind: &str| {
        json!([{"apiVersion": version, "kind": kind, "name": "o", "uid": "uid-00001",
                "controller": true}])
    };
    // Something with that uid exists, so that nothing is collected.
    world.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "o"}}));
    world.create(pod("alone", json!([])));
    world.create(pod("jobless", entry("batch/v1", "Job")));
    world.create(pod("foreign", entry("example.test/v1", "Job")));
    world.settle();
    let held = |name: &str| owner::has_finalizer(&world.get(BuiltinResource::Pods, name), TRACKING);
    assert_eq!(["alone", "jobless", "foreign"].map(held), [false, false, true]);
}

#[test]
fn jb10_a_finished_job_lets_go_of_what_it_still_holds() {
    let mut world = world(json!({}));
    let name = end(&mut world, "Succeeded");
    world.edit(BuiltinResource::Pods, &name, |pod| {
        pod["metadata"]["finalizers"] = json!([TRACKING])
    });
    world.settle();
    assert!(!owner::has_finalizer(&world.get(BuiltinResource::Pods, &name), TRACKING));
    assert_eq!(status(&world)["succeeded"], 1);
}

#[test]
fn jb11_a_finished_job_goes_when_its_time_is_over() {
    let mut world = world(json!({"ttlSecondsAfterFinished": 30}));
    world.advance(100);
    assert_eq!(world.names(BuiltinResource::Jobs), ["web"], "it has not finished");
    end(&mut world, "Succeeded");
    world.advance(29);
    assert_eq!(world.names(BuiltinResource::Jobs), ["web"]);
    // More time counts from the end as well.
    spec(&mut world, |spec| spec["ttlSecondsAfterFinished"] = 40.into());
    world.advance(10);
    assert_eq!(world.names(BuiltinResource::Jobs), ["web"]);
    world.advance(1);
    assert!(world.names(BuiltinResource::Jobs).is_empty());
    assert!(world.names(BuiltinResource::Pods).is_empty());
}

#[test]
fn jb11_zero_seconds_are_at_once() {
    let mut world = world(json!({"ttlSecondsAfterFinished": 0, "backoffLimit": 0}));
    end(&mut world, "Failed");
    assert!(world.names(BuiltinResource::Jobs).is_empty());
    assert!(world.names(BuiltinResource::Pods).is_empty());
}

#[test]
fn jb12_another_manager_is_left_alone() {
    let world = world(json!({"managedBy": "example.test/mine"}));
    assert!(world.names(BuiltinResource::Pods).is_empty());
    assert!(status(&world).is_null());
    let ours = self::world(json!({"managedBy": "kubernetes.io/job-controller"}));
    assert_eq!(active(&ours).len(), 1);
}

#[test]
fn jb14_events_tell_of_pods_and_of_too_many_successes() {
    let mut world = world(json!({"completions": 2, "parallelism": 2}));
    let all = active(&world);
    assert_eq!(world.events[0], format!("Normal SuccessfulCreate Created pod: {}", all[0]));
    // Both end before the Job is looked at again, and one of them is not needed any more.
    world.edit(BuiltinResource::Jobs, "web", |job| job["spec"]["completions"] = 1.into());
    for pod in &all {
        world.end(pod, "Succeeded");
    }
    world.settle();
    assert_eq!(status(&world)["succeeded"], 2);
    let tail = &world.events[world.events.len() - 2..];
    assert_eq!(
        tail,
        [
            "Warning TooManySucceededPods Too many succeeded pods running after completion count \
             reached",
            "Normal Completed Job completed"
        ]
    );
}

#[test]
fn pt4_refused_pods_do_not_keep_the_status_from_being_written() {
    let mut world = World::new();
    world.refuse(|intent| match &intent.act {
        Act::Create { resource: BuiltinResource::Pods, .. } => Some((403, "Forbidden", "quota")),
        _ => None,
    });
    world.create(job(json!({"parallelism": 3, "completions": 3})));
    world.settle();
    assert!(status(&world)["startTime"].is_string());
    // One try after the Job came and one after its status was written, of one pod each.
    assert_eq!(world.events, ["Warning FailedCreate Error creating: quota"; 2]);
}
