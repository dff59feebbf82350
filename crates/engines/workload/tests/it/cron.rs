//! Rules of spec/workload-controllers.md: CronJob.

use proptest::prelude::*;
use serde_json::{Value, json};
use tenure_machinery::ObjectExt as _;
use tenure_workload::{Act, BuiltinResource, owner};

use crate::world::World;

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// A CronJob `tick` as the server stores it, with more in its spec.
fn cron(schedule: &str, more: Value) -> Value {
    let mut cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "tick"},
        "spec": {
            "schedule": schedule, "concurrencyPolicy": "Allow", "suspend": false,
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}},
                "spec": {"completions": 1, "parallelism": 1, "template": {"spec": {}}},
            },
        },
    });
    for (name, value) in more.as_object().unwrap() {
        cron["spec"][name] = value.clone();
    }
    cron
}

/// A world with only the controller of CronJobs: Jobs end when a test says so.
fn world(schedule: &str, more: Value) -> World {
    let mut world = World::new().only(&["cronjob"]);
    world.create(cron(schedule, more));
    world.settle();
    world
}

fn status(world: &World) -> Value {
    world.json(BuiltinResource::CronJobs, "tick")["status"].clone()
}

fn active(world: &World) -> Vec<String> {
    let status = status(world);
    let active = status["active"].as_array().cloned().unwrap_or_default();
    active.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

/// Ends a Job with a condition.
fn end(world: &mut World, name: &str, how: &str) {
    let now = world.now.to_string();
    world.edit_status(BuiltinResource::Jobs, name, |status| {
        *status = json!({"startTime": now, "conditions": [
            {"type": how, "status": "True", "lastTransitionTime": now}]});
        if how == "Complete" {
            status["completionTime"] = now.into();
        }
    });
    world.settle();
}

fn told(world: &World, reason: &str) -> usize {
    world.events.iter().filter(|event| event.split(' ').nth(1) == Some(reason)).count()
}

/// The minute of a name, since the clock of a world starts with the year 2026.
fn minute(after: i64) -> String {
    format!("tick-{}", 1_767_225_600 / 60 + after)
}

#[test]
fn cj1_a_job_starts_at_its_time() {
    let mut world = world("*/5 * * * *", json!({}));
    world.advance(299);
    assert!(world.names(BuiltinResource::Jobs).is_empty());
    world.advance(2);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(5)]);
    world.advance(300);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(5), minute(10)]);
}

#[test]
fn cj1_every_counts_from_the_last_start() {
    let mut world = world("@every 90s", json!({}));
    world.advance(600);
    let expected = [1, 3, 4, 6, 7, 9].map(minute);
    assert_eq!(world.names(BuiltinResource::Jobs), expected);
}

#[test]
fn cj1_zones_shift_the_clock() {
    let mut world = world("30 9 * * *", json!({"timeZone": "Asia/Kolkata"}));
    world.advance(86_400);
    // 09:30 in Kolkata is 04:00 in UTC.
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(240)]);
    let job = world.json(BuiltinResource::Jobs, &minute(240));
    assert_eq!(job["metadata"]["annotations"][SCHEDULED], "2026-01-01T09:30:00+05:30");
}

#[test]
fn cj1_an_unknown_zone_starts_nothing_and_is_told_once() {
    let mut world = world("* * * * *", json!({"timeZone": "Nowhere/Land"}));
    world.advance(600);
    world.edit(BuiltinResource::CronJobs, "tick", |cron| {
        cron["metadata"]["labels"] = json!({"x": "y"})
    });
    world.settle();
    assert!(world.names(BuiltinResource::Jobs).is_empty());
    let words = "Warning UnknownTimeZone invalid timeZone: \"Nowhere/Land\": unknown time zone Nowhere/Land";
    assert_eq!(world.events, [words]);
}

#[test]
fn cj1_a_zone_in_the_schedule_works_and_is_warned_of() {
    let mut world = world("TZ=Asia/Kolkata 30 9 * * *", json!({}));
    world.advance(86_400);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(240)]);
    assert_eq!(told(&world, "UnsupportedSchedule"), 1);
}

#[test]
fn cj1_what_cannot_be_read_or_never_comes_is_told() {
    let unreadable = world("61 * * * *", json!({}));
    assert_eq!(told(&unreadable, "UnparseableSchedule"), 1);
    let mut never = world("0 0 31 2 *", json!({}));
    never.advance(86_400);
    assert_eq!(
        never.events,
        ["Warning InvalidSchedule invalid schedule: 0 0 31 2 * : time difference between two \
          schedules is less than 1 second"]
    );
}

#[test]
fn cj2_the_job_is_made_from_the_template() {
    let mut world = world("* * * * *", json!({}));
    world.advance(61);
    let uid = owner::uid(&world.get(BuiltinResource::CronJobs, "tick")).to_owned();
    let job = world.json(BuiltinResource::Jobs, &minute(1));
    assert_eq!(job["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(
        job["metadata"]["annotations"],
        json!({"a": "1", SCHEDULED: "2026-01-01T00:01:00Z"})
    );
    assert_eq!(
        job["metadata"]["ownerReferences"],
        json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": uid,
                "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(job["spec"]["completions"], 1);
    assert_eq!(world.events, [format!("Normal SuccessfulCreate Created job {}", minute(1))]);
}

#[test]
fn cj2_a_crash_after_the_creation_starts_nothing_twice() {
    let mut world = world("* * * * *", json!({}));
    world.refuse(|intent| match &intent.act {
        Act::Update { resource: BuiltinResource::CronJobs, .. } => {
            Some((500, "InternalError", "crash"))
        }
        _ => None,
    });
    world.advance(61);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(1)]);
    assert!(status(&world)["lastScheduleTime"].is_null());
    world.allow();
    world.restart();
    world.settle();
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(1)]);
    assert_eq!(active(&world), [minute(1)]);
    assert_eq!(status(&world)["lastScheduleTime"], "2026-01-01T00:01:00Z");
}

#[test]
fn cj2_the_name_of_somebody_else_is_left_alone() {
    let mut world = world("* * * * *", json!({}));
    world.create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": minute(1)}}));
    world.advance(61);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(1)]);
    assert!(active(&world).is_empty());
    world.advance(60);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(1), minute(2)], "the next one starts");
}

#[test]
fn cj2_a_refused_job_is_tried_again() {
    let mut world = world("0 * * * *", json!({}));
    world.refuse(|intent| match &intent.act {
        Act::Create { resource: BuiltinResource::Jobs, .. } => Some((403, "Forbidden", "quota")),
        _ => None,
    });
    world.advance(3601);
    assert!(told(&world, "FailedCreate") > 0);
    assert_eq!(world.events[0], "Warning FailedCreate Error creating job: quota");
    world.allow();
    world.advance(1);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(60)]);
    assert_eq!(active(&world), [minute(60)]);
}

#[test]
fn cj3_only_the_most_recent_missed_time_is_started() {
    let mut world = world("0 * * * *", json!({"suspend": true}));
    world.advance(5 * 3600 + 60);
    world.edit(BuiltinResource::CronJobs, "tick", |cron| cron["spec"]["suspend"] = false.into());
    world.settle();
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(300)]);
    assert_eq!(told(&world, "TooManyMissedTimes"), 0);
}

#[test]
fn cj3_too_many_missed_times_are_told_and_one_is_started() {
    let mut world = world("* * * * *", json!({"suspend": true}));
    world.advance(200 * 60 + 1);
    world.edit(BuiltinResource::CronJobs, "tick", |cron| cron["spec"]["suspend"] = false.into());
    world.settle();
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(200)]);
    assert_eq!(told(&world, "TooManyMissedTimes"), 1);
}

#[test]
fn cj3_irregular_schedules_start_their_most_recent_time_too() {
    let mut world = world("*/10 0 1 1 *", json!({"suspend": true}));
    world.advance(20 * 86_400);
    world.edit(BuiltinResource::CronJobs, "tick", |cron| cron["spec"]["suspend"] = false.into());
    world.settle();
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(50)]);
}

#[test]
fn cj3_what_is_too_late_is_not_started() {
    let mut world = world("0 * * * *", json!({"suspend": true, "startingDeadlineSeconds": 60}));
    world.advance(3600 + 61);
    world.edit(BuiltinResource::CronJobs, "tick", |cron| cron["spec"]["suspend"] = false.into());
    world.settle();
    assert!(world.names(BuiltinResource::Jobs).is_empty());
    assert_eq!(
        world.events,
        [
            "Warning MissSchedule Missed scheduled time to start a job: Thu, 01 Jan 2026 01:00:00 +0000"
        ]
    );
    world.advance(3600);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(120)]);
}

#[test]
fn cj4_allow_runs_side_by_side() {
    let mut world = world("* * * * *", json!({}));
    world.advance(121);
    assert_eq!(active(&world), [minute(1), minute(2)]);
}

#[test]
fn cj4_forbid_waits_for_the_one_that_runs() {
    let mut world = world("* * * * *", json!({"concurrencyPolicy": "Forbid"}));
    world.advance(185);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(1)]);
    assert_eq!(told(&world, "JobAlreadyActive"), 2, "once for each time");
    end(&mut world, &minute(1), "Complete");
    assert_eq!(active(&world), [minute(3)], "the most recent one starts late");
}

#[test]
fn cj4_replace_deletes_the_one_that_runs() {
    let mut world = world("* * * * *", json!({"concurrencyPolicy": "Replace"}));
    world.advance(121);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(2)]);
    assert_eq!(active(&world), [minute(2)]);
    assert_eq!(world.events[1], format!("Normal SuccessfulDelete Deleted job {}", minute(1)));
    assert_eq!(told(&world, "MissingJob"), 0);
}

#[test]
fn cj5_active_holds_references() {
    let mut world = world("* * * * *", json!({}));
    world.advance(61);
    let job = world.get(BuiltinResource::Jobs, &minute(1));
    assert_eq!(
        status(&world),
        json!({"lastScheduleTime": "2026-01-01T00:01:00Z", "active": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": minute(1), "namespace": "default",
             "uid": owner::uid(&job), "resourceVersion": job.revision.to_string()}]})
    );
}

#[test]
fn cj5_ends_and_losses_leave_the_list() {
    let mut world = world("* * * * *", json!({}));
    world.advance(181);
    end(&mut world, &minute(1), "Complete");
    let success = status(&world)["lastSuccessfulTime"].clone();
    assert_eq!(success, world.now.to_string());
    world.advance(1);
    end(&mut world, &minute(2), "Failed");
    assert_eq!(status(&world)["lastSuccessfulTime"], success);
    world.delete(BuiltinResource::Jobs, &minute(3), None);
    world.settle();
    assert!(active(&world).is_empty());
    let saw = |name: String, how: &str| {
        format!("Normal SawCompletedJob Saw completed job: {name}, condition: {how}")
    };
    let tail = world.events[world.events.len() - 3..].to_vec();
    assert_eq!(tail[..2], [saw(minute(1), "Complete"), saw(minute(2), "Failed")]);
    assert_eq!(tail[2], format!("Normal MissingJob Active job went missing: {}", minute(3)));
}

#[test]
fn cj5_a_job_made_by_hand_is_not_active_but_its_success_counts() {
    let mut world = world("* * * * *", json!({"suspend": true}));
    let uid = owner::uid(&world.get(BuiltinResource::CronJobs, "tick")).to_owned();
    world.create(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "hand",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick",
                             "uid": uid, "controller": true}]}}));
    world.settle();
    assert!(status(&world).is_null());
    let words = "Saw a job that the controller did not create or forgot: hand";
    assert_eq!(world.events, [format!("Warning UnexpectedJob {words}")]);
    end(&mut world, "hand", "Complete");
    assert_eq!(status(&world), json!({"lastSuccessfulTime": world.now.to_string()}));
}

#[test]
fn cj6_old_jobs_go_by_their_end() {
    let mut world = world("* * * * *", json!({"successfulJobsHistoryLimit": 2}));
    world.advance(1);
    for round in 1..=4 {
        world.advance(60);
        end(&mut world, &minute(round), "Complete");
    }
    for round in 5..=6 {
        world.advance(60);
        end(&mut world, &minute(round), "Failed");
    }
    assert_eq!(world.names(BuiltinResource::Jobs), [3, 4, 6].map(minute));
    assert_eq!(told(&world, "SuccessfulDelete"), 3);
}

#[test]
fn cj7_jobs_of_others_do_not_count() {
    let mut world = world("* * * * *", json!({"successfulJobsHistoryLimit": 0}));
    world.create(json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "free", "labels": {"l": "1"}}}));
    end(&mut world, "free", "Complete");
    world.advance(30);
    assert_eq!(world.names(BuiltinResource::Jobs), ["free"]);
    assert!(status(&world).is_null());
    assert!(world.json(BuiltinResource::Jobs, "free")["metadata"]["ownerReferences"].is_null());
}

#[test]
fn cj7_suspended_and_terminating_start_nothing() {
    let mut suspended = world("* * * * *", json!({"suspend": true}));
    suspended.advance(600);
    assert!(suspended.names(BuiltinResource::Jobs).is_empty() && suspended.events.is_empty());
    let mut world = World::new().only(&["cronjob"]);
    let mut held = cron("* * * * *", json!({"successfulJobsHistoryLimit": 0}));
    held["metadata"]["finalizers"] = json!(["example.test/hold"]);
    world.create(held);
    world.advance(61);
    world.settle();
    world.advance(61);
    let names = world.names(BuiltinResource::Jobs);
    world.delete(BuiltinResource::CronJobs, "tick", None);
    world.settle();
    end(&mut world, &names[0], "Complete");
    world.advance(300);
    assert_eq!(world.names(BuiltinResource::Jobs), names, "none comes and none goes");
    assert!(status(&world)["lastSuccessfulTime"].is_string(), "but the status is kept");
}

#[test]
fn cj8_the_next_look_is_just_after_the_time() {
    let mut world = world("* * * * *", json!({}));
    world.advance(60);
    assert!(world.names(BuiltinResource::Jobs).is_empty());
    world.advance(1);
    assert_eq!(world.names(BuiltinResource::Jobs), [minute(1)]);
    let created = world
        .get(BuiltinResource::Jobs, &minute(1))
        .at(&["metadata", "creationTimestamp"])
        .cloned();
    assert_eq!(created, Some("2026-01-01T00:01:00.1Z".into()));
}

#[test]
fn pu4_a_whole_day_of_runs_stays_tidy() {
    let mut world = World::new();
    world.pods_run = true;
    let mut nightly = cron("0 */6 * * *", json!({}));
    nightly["spec"]["jobTemplate"]["spec"] = crate::job::job(json!({}))["spec"].clone();
    world.create(nightly);
    world.settle();
    world.advance(2 * 86_400 + 1_000);
    let jobs = world.list(BuiltinResource::Jobs);
    assert!(jobs.iter().all(|job| tenure_workload::job::finished(job).is_some()));
    assert!(jobs.len() <= 4, "{:?}", world.names(BuiltinResource::Jobs));
    assert!(active(&world).is_empty());
    assert_eq!(told(&world, "UnexpectedJob"), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn cj2_one_time_makes_one_job_whatever_crashes(
        seed in any::<u64>(),
        policy in prop::sample::select(&["Allow", "Forbid", "Replace"][..]),
        schedule in prop::sample::select(&["*/7 * * * *", "@every 20m", "15,45 */2 * * *"][..]),
        limits in (0_i64..3, 0_i64..3),
        ttl in prop::option::of(0_i64..100),
        waits in prop::collection::vec(1_i64..4_000, 1..12),
    ) {
        let mut world = World::chaotic(seed);
        let mut wanted = cron(schedule, json!({"concurrencyPolicy": policy,
            "successfulJobsHistoryLimit": limits.0, "failedJobsHistoryLimit": limits.1}));
        let mut spec = crate::job::job(json!({"backoffLimit": 1}))["spec"].clone();
        if let Some(ttl) = ttl {
            spec["ttlSecondsAfterFinished"] = ttl.into();
        }
        wanted["spec"]["jobTemplate"]["spec"] = spec;
        world.create(wanted);
        for wait in waits {
            world.settle();
            world.advance(wait);
        }
        world.edit(BuiltinResource::CronJobs, "tick", |cron| cron["spec"]["suspend"] = true.into());
        world.settle();
        world.advance(7_200);
        let made: Vec<&String> =
            world.writes.iter().filter(|write| write.starts_with("create jobs/")).collect();
        let distinct: std::collections::BTreeSet<&&String> = made.iter().collect();
        prop_assert_eq!(distinct.len(), made.len(), "{:?}", made);
        prop_assert!(active(&world).is_empty());
        let kept = i64::try_from(world.names(BuiltinResource::Jobs).len()).unwrap();
        prop_assert!(kept <= limits.0 + limits.1);
    }
}
