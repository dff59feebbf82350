//! What the status of a simulated pod should be now, and when to look at it again.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use crate::{condition, owner, time};

/// What a pod says about its own end.
const OUTCOME: &str = "tenure.dev/outcome";
/// The code its containers end with; 0 is a good end.
const EXIT_CODE: &str = "tenure.dev/exit-code";
/// How long it runs before it ends, in whole seconds.
const DURATION: &str = "tenure.dev/duration-seconds";
/// How long it runs before it is ready, in whole seconds.
const READY_AFTER: &str = "tenure.dev/ready-after-seconds";
/// How many of a hundred such pods fail; which ones is decided by their uids.
const FAILURES: &str = "tenure.dev/failure-percent";
/// How long something that ends by itself takes, in seconds, if it does not say.
const MOMENT_SECONDS: i64 = 1;
/// How long a container that failed rests at first and at most, in seconds.
const REST_SECONDS: (i64, i64) = (10, 300);

/// A step in the life of a pod.
pub(super) struct LifecycleStep {
    /// Its status, if that changes.
    pub(super) status: Option<Object>,
    /// When the next step comes by itself.
    pub(super) wait: Option<Duration>,
}

/// How a pod will end.
#[derive(Clone, Copy, PartialEq)]
enum PodOutcome {
    Succeed,
    Fail,
    Run,
}

/// A whole number that an annotation of a pod says.
fn number(pod: &Object, name: &str) -> Option<i64> {
    owner::annotation(pod, name)?.trim().parse().ok().filter(|number| *number >= 0)
}

/// A number below a hundred that a uid always gives, spread evenly.
fn lot(pod: &Object) -> i64 {
    let mixed = owner::uid(pod).bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    i64::try_from((mixed >> 32) % 100).unwrap_or_default()
}

fn outcome(pod: &Object) -> PodOutcome {
    if number(pod, FAILURES).is_some_and(|failures| lot(pod) < failures) {
        return PodOutcome::Fail;
    }
    match number(pod, EXIT_CODE) {
        Some(0) => return PodOutcome::Succeed,
        Some(_) => return PodOutcome::Fail,
        None => {}
    }
    match owner::annotation(pod, OUTCOME) {
        Some("succeed") => return PodOutcome::Succeed,
        Some("fail") => return PodOutcome::Fail,
        Some("run") => return PodOutcome::Run,
        _ => {}
    }
    let restarts = matches!(pod.str_at(&["spec", "restartPolicy"]), None | Some("" | "Always"));
    let job = owner::controller_of(pod).and_then(|entry| entry.str_at(&["kind"])) == Some("Job");
    let mut containers = pod.list_at(&["spec", "containers"]).iter();
    let reported = containers.any(|c| c.get("command").is_some() || c.get("args").is_some());
    // Who runs something to its end, ends well unless it says otherwise.
    if !restarts && (job || reported) { PodOutcome::Succeed } else { PodOutcome::Run }
}

/// The next step of a pod that has not ended; `address` is what it gets if it has none.
pub(super) fn step(
    pod: &Object,
    host: &str,
    address: Option<String>,
    now: Timestamp,
) -> LifecycleStep {
    if address.is_none() && runs_on(pod) {
        return LifecycleStep { status: None, wait: None };
    }
    let known = pod.map_at(&["status"]).cloned().unwrap_or_default();
    let mut status = known.clone();
    if let Some(address) = address {
        status.insert("hostIP".to_string(), host.into());
        status.insert("hostIPs".to_string(), json!([{"ip": host}]));
        status.insert("podIP".to_string(), address.as_str().into());
        status.insert("podIPs".to_string(), json!([{"ip": address}]));
        status.set_default("startTime", time::written(now));
    } else if status.str_at(&["podIP"]).is_none_or(str::is_empty) {
        // No address is left: the pod waits until one is.
        return LifecycleStep { status: None, wait: Some(Duration::from_secs(1)) };
    }
    let began = time::at(&status, &["startTime"]).unwrap_or(now);
    let ends = outcome(pod);
    let due = time::after(began, moment(pod));
    let ready = time::after(began, number(pod, READY_AFTER).unwrap_or_default());
    let mut wait = None;
    if ends == PodOutcome::Run || due > now {
        if ends != PodOutcome::Run {
            wait = Some(time::until(due, now));
        }
        if ready > now {
            let until = time::until(ready, now);
            wait = Some(wait.map_or(until, |wait| wait.min(until)));
        }
        running(pod, &mut status, ready <= now, now);
    } else if ends == PodOutcome::Succeed {
        finished(pod, &mut status, "Succeeded", ("Completed", 0), now);
    } else if pod.str_at(&["spec", "restartPolicy"]) == Some("Never") {
        finished(pod, &mut status, "Failed", ("Error", code(pod)), now);
    } else {
        wait = Some(failing(pod, &mut status, began, now));
    }
    LifecycleStep { status: (status != known).then_some(status), wait }
}

/// How long a pod runs that ends by itself, in seconds.
fn moment(pod: &Object) -> i64 {
    number(pod, DURATION).unwrap_or(MOMENT_SECONDS)
}

/// What the containers of a pod that fails end with.
fn code(pod: &Object) -> i64 {
    number(pod, EXIT_CODE).filter(|code| *code != 0).unwrap_or(1)
}

/// Whether a pod runs as it should and will go on so: nearly all of them, nearly always.
pub(super) fn runs_on(pod: &Object) -> bool {
    let conditions = pod.list_at(&["status", "conditions"]);
    let good = |name: &str| condition::is(conditions, name, "True");
    let containers = pod.list_at(&["status", "containerStatuses"]);
    let ready = |status: &Value| status.get("ready").and_then(Value::as_bool) == Some(true);
    pod.str_at(&["status", "phase"]) == Some("Running")
        && pod.str_at(&["status", "podIP"]).is_some_and(|address| !address.is_empty())
        && ["Ready", "ContainersReady", "Initialized", "PodScheduled"].into_iter().all(good)
        && containers.len() == pod.list_at(&["spec", "containers"]).len()
        && containers.iter().all(ready)
        && pod.list_at(&["spec", "readinessGates"]).is_empty()
        && outcome(pod) == PodOutcome::Run
}

/// The status of a pod whose containers were stopped.
pub(super) fn killed(pod: &Object, now: Timestamp) -> Object {
    let mut status = pod.map_at(&["status"]).cloned().unwrap_or_default();
    finished(pod, &mut status, "Failed", ("Error", 137), now);
    status
}

fn running(pod: &Object, status: &mut Object, ready: bool, now: Timestamp) {
    let started = status.str_at(&["startTime"]).unwrap_or_default().to_string();
    status.insert("phase".to_string(), "Running".into());
    let state = json!({"running": {"startedAt": started}});
    containers(pod, status, &state, None, ready, 0);
    let missing = gates(pod, status);
    conditions(status, ready, ready && missing.is_none(), now, missing.as_deref());
}

fn finished(
    pod: &Object,
    status: &mut Object,
    phase: &str,
    (reason, code): (&str, i64),
    now: Timestamp,
) {
    let started = status.str_at(&["startTime"]).map_or_else(|| time::written(now), String::from);
    status.insert("phase".to_string(), phase.into());
    let ended = json!({"terminated": {
        "exitCode": code, "reason": reason,
        "startedAt": started, "finishedAt": time::written(now),
    }});
    containers(pod, status, &ended, None, false, 0);
    conditions(status, false, false, now, None);
}

/// A pod whose containers fail and are started again, ever more rarely.
fn failing(pod: &Object, status: &mut Object, began: Timestamp, now: Timestamp) -> Duration {
    let (mut rest, most) = REST_SECONDS;
    let (mut count, mut at) = (0, time::after(began, moment(pod)));
    let mut next = time::after(at, rest);
    while next <= now {
        at = next;
        count += 1;
        rest = (rest * 2).min(most);
        next = time::after(at, rest);
    }
    status.insert("phase".to_string(), "Running".into());
    let ended = json!({"terminated": {
        "exitCode": code(pod), "reason": "Error",
        "startedAt": time::written(began), "finishedAt": time::written(at),
    }});
    let words = format!("back-off {rest}s restarting failed container");
    let state = json!({"waiting": {"reason": "CrashLoopBackOff", "message": words}});
    containers(pod, status, &state, Some(&ended), false, count);
    conditions(status, false, false, now, None);
    time::until(next, now)
}

/// The first readiness gate that is not open.
fn gates(pod: &Object, status: &Object) -> Option<String> {
    let gates = pod.list_at(&["spec", "readinessGates"]).iter();
    let mut gates = gates.filter_map(|gate| gate.get("conditionType").and_then(Value::as_str));
    let known = status.list_at(&["conditions"]);
    gates
        .find(|gate| !condition::is(known, gate, "True"))
        .map(|gate| format!("the status of pod readiness gate {gate:?} is not \"True\", but False"))
}

/// Writes the state of all containers; those that come first have ended well.
fn containers(
    pod: &Object,
    status: &mut Object,
    state: &Value,
    last: Option<&Value>,
    ready: bool,
    restarts: i64,
) {
    let started = status.str_at(&["startTime"]).unwrap_or_default().to_string();
    let done = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started,
    }});
    let one = |container: &Value, state: &Value, ready: bool, started: bool| {
        let text = |name: &str| container.get(name).and_then(Value::as_str).unwrap_or_default();
        json!({
            "name": text("name"),
            "image": text("image"),
            "imageID": text("image"),
            "containerID": format!("none://{}/{}", owner::uid(pod), text("name")),
            "ready": ready,
            "started": started,
            "restartCount": restarts,
            "state": state,
            "lastState": last.cloned().unwrap_or_else(|| json!({})),
        })
    };
    let stays = |c: &Value| c.get("restartPolicy").and_then(Value::as_str) == Some("Always");
    let main = pod.list_at(&["spec", "containers"]).iter();
    let main: Vec<Value> = main.map(|c| one(c, state, ready, ready)).collect();
    status.insert("containerStatuses".to_string(), Value::Array(main));
    let first = pod.list_at(&["spec", "initContainers"]);
    if !first.is_empty() {
        let first = first.iter().map(|c| match stays(c) {
            true => one(c, state, ready, ready),
            false => one(c, &done, true, false),
        });
        status.insert("initContainerStatuses".to_string(), Value::Array(first.collect()));
    }
}

fn conditions(
    status: &mut Object,
    started: bool,
    ready: bool,
    now: Timestamp,
    missing: Option<&str>,
) {
    let ended = matches!(status.str_at(&["phase"]), Some("Succeeded" | "Failed"));
    let truth = |holds: bool| if holds { "True" } else { "False" };
    let why = match (ended, missing) {
        _ if ready => "",
        (true, _) => "PodCompleted",
        (false, Some(_)) => "ReadinessGatesNotReady",
        (false, None) => "ContainersNotReady",
    };
    let whole = if started { "" } else { why };
    let mut list: Vec<Value> = status.list_at(&["conditions"]).to_vec();
    let wanted = [
        ("PodReadyToStartContainers", truth(!ended), "", ""),
        ("Initialized", "True", if ended { "PodCompleted" } else { "" }, ""),
        ("Ready", truth(ready), why, missing.unwrap_or_default()),
        ("ContainersReady", truth(started), whole, ""),
        ("PodScheduled", "True", "", ""),
    ];
    for (kind, holds, reason, message) in wanted {
        if condition::find(&list, kind).is_some_and(|known| {
            known.str_at(&["status"]) == Some(holds)
                && known.str_at(&["reason"]).unwrap_or_default() == reason
        }) {
            continue;
        }
        let mut new = condition::new(kind, holds, reason, message, now);
        new.retain(|_, value| value.as_str() != Some(""));
        new.insert("lastProbeTime".to_string(), Value::Null);
        condition::set(&mut list, new);
    }
    status.insert("conditions".to_string(), Value::Array(list));
}
