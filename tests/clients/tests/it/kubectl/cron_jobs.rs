//! CronJobs over the minutes that a test has: what starts beside what still runs, and what is kept. Rules of
//! spec/workload-controllers.md: cj1 and its neighbours.

use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Kubectl;

const NODES: [&str; 5] = ["--ephemeral", "--nodes", "1", "--runtime", "none"];

/// A CronJob of every minute whose pods run until somebody ends them, or succeed at once.
fn cron(name: &str, runs: bool, more: Value) -> Value {
    let outcome = if runs { "run" } else { "succeed" };
    let template = json!({
        "metadata": {"annotations": {"tenure.dev/outcome": outcome}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    });
    let mut cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}});
    for (member, value) in more.as_object().unwrap() {
        cron["spec"][member] = value.clone();
    }
    cron
}

impl Kubectl {
    fn jobs_of(&self, cron: &str) -> Vec<String> {
        let list = self.ok(&["get", "jobs", "--output=json"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        let of = |job: &&Value| {
            job["metadata"]["ownerReferences"][0]["name"] == cron
                && job["metadata"].get("deletionTimestamp").is_none()
        };
        let name = |job: &Value| job["metadata"]["name"].as_str().unwrap().to_owned();
        let mut names: Vec<String> =
            list["items"].as_array().unwrap().iter().filter(of).map(name).collect();
        names.sort();
        names
    }

    fn jobs_until(
        &self,
        cron: &str,
        limit: Duration,
        holds: impl Fn(&[String]) -> bool,
    ) -> Vec<String> {
        let begin = Instant::now();
        loop {
            let jobs = self.jobs_of(cron);
            if holds(&jobs) {
                return jobs;
            }
            assert!(begin.elapsed() < limit, "{cron}: {jobs:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Has a CronJob believe that it started last a while ago, so that a start is due.
    fn due(&self, cron: &str) {
        let ago = Timestamp::now() - Duration::from_secs(90);
        let path = format!("/apis/batch/v1/namespaces/shop/cronjobs/{cron}");
        for _ in 0..10 {
            let mut object: Value =
                serde_json::from_str(&self.ok(&["get", "--raw", &path])).unwrap();
            object["status"]["lastScheduleTime"] = json!(ago.to_string());
            let path = format!("{path}/status");
            let mut child = self.command(&["replace", "--raw", &path, "--filename", "-"]);
            let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
            // Its controller may have written meanwhile.
            if child.wait_with_output().unwrap().status.success() {
                return;
            }
        }
        panic!("the status of {cron} cannot be written");
    }
}

/// CronJob should schedule multiple jobs concurrently; should not schedule new jobs when ForbidConcurrent; should
/// replace jobs when ReplaceConcurrent; should not schedule jobs when suspended.
#[test]
fn what_starts_beside_what_still_runs_is_for_the_policy_to_say() {
    let kubectl = Kubectl::start_with(&NODES);
    let policies = ["Allow", "Forbid", "Replace"];
    for policy in policies {
        let name = policy.to_lowercase();
        let cron = cron(&name, true, json!({"concurrencyPolicy": policy}));
        kubectl.feed(&["create", "--filename", "-"], &cron.to_string());
        kubectl.due(&name);
    }
    let paused = cron("paused", true, json!({"suspend": true}));
    kubectl.feed(&["create", "--filename", "-"], &paused.to_string());
    kubectl.due("paused");
    let usual = Duration::from_secs(10);
    let first: Vec<Vec<String>> = policies
        .iter()
        .map(|policy| kubectl.jobs_until(&policy.to_lowercase(), usual, |jobs| !jobs.is_empty()))
        .collect();
    // The next minute comes.
    let minute = Duration::from_secs(80);
    let allowed = kubectl.jobs_until("allow", minute, |jobs| jobs.len() > first[0].len());
    assert!(allowed.starts_with(&first[0]), "{allowed:?} after {first:?}");
    let replaced =
        kubectl.jobs_until("replace", usual, |jobs| jobs.len() == 1 && *jobs != first[2]);
    let active = ".status.active[*].name";
    let look = || kubectl.value("cronjob/replace", active);
    let begin = Instant::now();
    while look() != replaced[0] {
        assert!(begin.elapsed() < usual, "{}", look());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(kubectl.jobs_of("forbid"), first[1]);
    assert_eq!(kubectl.value("cronjob/forbid", active), first[1][0]);
    let events = kubectl.ok(&["get", "events", "--field-selector", "involvedObject.name=forbid"]);
    assert!(events.contains("JobAlreadyActive"), "{events}");
    assert_eq!(kubectl.jobs_of("paused"), [""; 0]);
}

/// CronJob should delete successful finished jobs with limit of one successful job, failed ones with a limit of
/// one failed job; those that somebody started by hand count as well.
#[test]
fn as_many_ended_jobs_are_kept_as_the_history_limits_say() {
    let kubectl = Kubectl::start_with(&NODES);
    for (name, outcome, limits) in [
        ("good", "complete", json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0})),
        ("bad", "failed", json!({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 1})),
    ] {
        let mut cron = cron(name, false, limits);
        cron["spec"]["schedule"] = json!("0 3 31 12 *");
        let spec = &mut cron["spec"]["jobTemplate"]["spec"];
        spec["backoffLimit"] = json!(0);
        if outcome == "failed" {
            spec["template"]["metadata"]["annotations"]["tenure.dev/outcome"] = json!("fail");
        }
        kubectl.feed(&["create", "--filename", "-"], &cron.to_string());
        for round in 1..=3 {
            let job = format!("{name}-{round}");
            if !kubectl.starts_cron_job(name, &job) {
                return;
            }
            let wait = format!("--for=condition={outcome}");
            kubectl.ok(&["wait", &wait, &format!("job/{job}"), "--timeout=20s"]);
            kubectl.jobs_until(name, Duration::from_secs(30), |jobs| *jobs == [&*job]);
            // The times by which the oldest is found are whole seconds.
            std::thread::sleep(Duration::from_millis(1100));
        }
        let hand = ".metadata.annotations.cronjob\\.kubernetes\\.io/instantiate";
        assert_eq!(kubectl.value(&format!("job/{name}-3"), hand), "manual");
    }
}
