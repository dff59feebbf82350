//! Jobs whose pods really fail and are evicted, by the names of upstream's end-to-end tests.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::house::{House, On};

fn job(name: &str, rules: Value, script: &str, folder: &TempDir) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {
        "parallelism": 2, "completions": 2, "backoffLimit": 0, "completionMode": "Indexed",
        "podFailurePolicy": {"rules": rules},
        "template": {"spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "host", "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "hostPath": {"path": folder.path(), "type": "DirectoryOrCreate"}}],
        }},
    }})
}

/// A folder that every pod may write to: root in a container is nobody on the machine.
fn shared() -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    folder
}

/// The conditions of a Job, as `type reason`.
fn conditions(house: &House, job: &str) -> Vec<String> {
    let status = house.get(&format!("job/{job}"))["status"].clone();
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|one| {
            format!(
                "{} {}",
                one["type"].as_str().unwrap(),
                one["reason"].as_str().unwrap_or_default()
            )
        })
        .collect()
}

/// The name of the pod of an index, once it runs.
fn running(house: &House, job: &str, index: u32) -> String {
    let selector = format!(
        "batch.kubernetes.io/job-name={job},batch.kubernetes.io/job-completion-index={index}"
    );
    let name = "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}";
    let look = || house.kubectl.ok(&["get", "pods", "--selector", &selector, "--output", name]);
    house.until(&format!("index {index} of {job} runs"), look, |name| !name.is_empty())
}

/// Job should allow to use the pod failure policy on exit code to fail the job early.
#[test]
fn a_job_fails_early_where_its_policy_says_so() {
    let folder = shared();
    let house = House::open(On::Process, &["--allow-privileged-process"]).unwrap();
    let rules = json!([
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [41]}},
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}},
    ]);
    let script = "if [ $JOB_COMPLETION_INDEX = 1 ]; then exec sleep 1000; fi; \
        while ! [ -e /data/go ]; do sleep 0.1; done; exit 42";
    let mut job = job("early", rules, script, &folder);
    job["spec"]["backoffLimit"] = json!(6);
    house.create(&job);
    let other = running(&house, "early", 1);
    std::fs::write(folder.path().join("go"), "").unwrap();
    house.kubectl.ok(&["wait", "--for=condition=Failed", "job/early", "--timeout=60s"]);
    assert_eq!(
        conditions(&house, "early"),
        ["FailureTarget PodFailurePolicy", "Failed PodFailurePolicy"]
    );
    let status = house.get("job/early")["status"].clone();
    let why = status["conditions"][1]["message"].as_str().unwrap();
    assert!(why.contains("exit code 42 matching FailJob rule at index 1"), "{why}");
    assert_eq!((&status["failed"], &status["active"]), (&json!(2), &Value::Null), "{status}");
    // Whatever else ran of it was ended, and nothing was begun anew.
    let look = || house.kubectl.ok(&["get", "pods", "--output=name"]);
    house.until("the other is gone", look, |pods| !pods.contains(&other));
}

/// Job should allow to use a pod failure policy to ignore failure matching on DisruptionTarget condition, and
/// on exit code.
#[test]
fn a_job_ignores_evictions_and_exit_codes_that_its_policy_names() {
    let folder = shared();
    let house = House::open(On::Process, &["--allow-privileged-process"]).unwrap();
    let rules = json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
    ]);
    // The first pod of an index never succeeds, the second one does.
    let script = "mark=/data/$JOB_COMPLETION_INDEX; [ -e $mark ] && exit 0; touch $mark; \
        [ $JOB_COMPLETION_INDEX = 1 ] && exit 7; exec sleep 1000";
    house.create(&job("patient", rules, script, &folder));
    let evicted = running(&house, "patient", 0);
    let look = || folder.path().join("0").exists();
    house.until("the first pod has left its mark", look, |marked| *marked);
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": evicted}});
    let path = format!("/api/v1/namespaces/shop/pods/{evicted}/eviction");
    house.kubectl.feed(&["create", "--raw", &path, "--filename", "-"], &eviction.to_string());
    house.kubectl.ok(&["wait", "--for=condition=Complete", "job/patient", "--timeout=60s"]);
    let expected = ["SuccessCriteriaMet CompletionsReached", "Complete CompletionsReached"];
    assert_eq!(conditions(&house, "patient"), expected);
    let status = house.get("job/patient")["status"].clone();
    assert_eq!((&status["succeeded"], &status["failed"]), (&json!(2), &Value::Null), "{status}");
    assert_eq!(status["completedIndexes"], "0,1");
}
