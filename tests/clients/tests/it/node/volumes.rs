//! What upstream's end-to-end tests ask of the volumes of pods, by their names, as one table for every
//! runtime. Each row is a pod; what it finds in its volumes it writes to its log.

mod rows;

use serde_json::{Value, json};

use super::house::{House, On};

/// How many pods run at once.
const AT_ONCE: usize = 6;

/// One row.
struct Row {
    /// Upstream's name of it.
    name: String,
    /// The pod, without name and image.
    pod: Value,
    /// What a line of the log has to be. The pod ends then, unless something is changed.
    shows: Vec<Shows>,
    /// What is changed while the pod runs, once the log shows all that.
    then: Vec<Then>,
}

enum Shows {
    /// A line.
    Line(String),
    /// The name of the pod.
    Name,
    /// A line whose rest after this is good.
    Rest(&'static str, fn(&str) -> bool),
}

/// A change: arguments of kubectl, and a line that the log shows after it.
struct Then {
    change: Vec<String>,
    shows: String,
}

#[test]
fn upstreams_volumes_on_the_runtime_process() {
    run(On::Process);
}

#[test]
fn upstreams_volumes_on_the_runtime_cri() {
    run(On::Cri);
}

/// Runs the table and tells of every row how it went.
fn run(on: On) {
    let Some(house) = House::open(on, &[]) else { return };
    for (namespace, object) in rows::objects() {
        let arguments = ["create", "--namespace", namespace, "--filename", "-"];
        house.kubectl.feed(&arguments, &object.to_string());
    }
    let rows = rows::rows();
    let mut failed = Vec::new();
    for (batch, rows) in rows.chunks(AT_ONCE).enumerate() {
        let name = |row: usize| format!("volume-{}", batch * AT_ONCE + row);
        for (number, row) in rows.iter().enumerate() {
            house.create(&whole(&house, &name(number), row));
        }
        for (number, row) in rows.iter().enumerate() {
            let went = try_one(&house, &name(number), row);
            println!("{} {}", if went.is_ok() { "ok" } else { "FAILED" }, row.name);
            failed.extend(went.err().map(|why| format!("{}: {why}", row.name)));
        }
    }
    println!("{on:?}: {} passed, {} failed", rows.len() - failed.len(), failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn try_one(house: &House, pod: &str, row: &Row) -> Result<(), String> {
    let all = |log: &String| row.shows.iter().all(|shows| is_in(pod, log, shows));
    if row.then.is_empty() {
        let object = format!("pod/{pod}");
        let look = || house.kubectl.value(&object, ".status.phase");
        let phase = house
            .until(&format!("{pod} ends"), look, |phase| phase == "Succeeded" || phase == "Failed");
        let log = all_logs(house, pod);
        return match phase == "Succeeded" && all(&log) {
            true => Ok(()),
            false => Err(format!("{phase}: {log}")),
        };
    }
    house.until(&format!("{}: the log of {pod}", row.name), || house.log(pod), all);
    for then in &row.then {
        let change: Vec<&str> = then.change.iter().map(String::as_str).collect();
        house.kubectl.ok(&change);
        house.log_with(pod, &format!("{}\n", then.shows));
    }
    house.delete_pod(pod);
    Ok(())
}

/// The logs of all containers.
fn all_logs(house: &House, pod: &str) -> String {
    house.kubectl.ok(&["logs", pod, "--all-containers"])
}

fn is_in(pod: &str, log: &str, shows: &Shows) -> bool {
    log.lines().any(|line| match shows {
        Shows::Line(text) => line == text,
        Shows::Name => line == pod,
        Shows::Rest(before, good) => line.strip_prefix(before).is_some_and(good),
    })
}

/// The pod with what all of them have.
fn whole(house: &House, name: &str, row: &Row) -> Value {
    let mut pod = row.pod.clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(name);
    pod["spec"]["restartPolicy"] = json!("Never");
    for container in pod["spec"]["containers"].as_array_mut().unwrap() {
        container["image"] = json!(house.image());
    }
    pod
}

/// ServiceAccounts should mount an API token into pods: the server knows whose token it is.
#[test]
fn a_token_in_a_pod_names_its_account_and_its_pod() {
    let house = House::open(On::Process, &[]).unwrap();
    house.create(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"terminationGracePeriodSeconds": 1,
            "containers": [{"name": "c", "image": "host", "command": ["sleep", "600"]}]},
    }));
    house.phase("p", "Running");
    let token = house.exec("p", &["cat", &format!("{}/token", rows::TOKENS)]);
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    let arguments = ["create", "--filename", "-", "--output", "json"];
    let said = house.kubectl.feed(&arguments, &review.to_string());
    let status = serde_json::from_str::<Value>(&said).unwrap()["status"].clone();
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["user"]["username"], "system:serviceaccount:shop:default");
    let pod = &status["user"]["extra"]["authentication.kubernetes.io/pod-name"];
    assert_eq!(pod, &json!(["p"]), "{status}");
}
