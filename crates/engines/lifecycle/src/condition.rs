//! The conditions of a pod (R96).

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt as _};

use crate::observation::{Observed, ObservedContainer};
use crate::phase::{Phase, initialised, sidecar_started};
use crate::spec::{ContainerSpec, ContainerType, LifecycleSpec};
use crate::status::written;

/// The conditions that the agent alone sets.
const OWN: [&str; 8] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    "DisruptionTarget",
    PENDING,
    IN_PROGRESS,
];

/// What is wanted of resources was not given yet (R111b).
pub(crate) const PENDING: &str = "PodResizePending";
/// What was given of resources did not reach every container yet (R111b).
pub(crate) const IN_PROGRESS: &str = "PodResizeInProgress";

/// What is said of one condition.
struct ConditionResult {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl ConditionResult {
    const fn yes() -> ConditionResult {
        ConditionResult { holds: true, reason: "", message: String::new() }
    }

    fn no(reason: &'static str, message: String) -> ConditionResult {
        ConditionResult { holds: false, reason, message }
    }
}

/// Whether a container is ready.
pub(crate) fn is_ready(container: &ContainerSpec, observed: &Observed) -> bool {
    let Some(seen) = observed.container(&container.name) else { return false };
    match container.role {
        ContainerType::Init => seen.ended().is_some_and(|ended| ended.code == 0),
        ContainerType::Ephemeral => false,
        ContainerType::Sidecar | ContainerType::Regular => {
            let stopping =
                matches!(seen.busy, Some(crate::observation::ContainerTransition::Stopping { .. }));
            seen.runs()
                && !stopping
                && is_started(container, seen)
                && (!container.readiness || seen.ready)
        }
    }
}

/// Whether a container has started, as its startup probe sees it.
pub(crate) fn is_started(container: &ContainerSpec, seen: &ObservedContainer) -> bool {
    match container.role {
        // An init container has started once it runs; it has no probe.
        ContainerType::Init => seen.runs(),
        _ => seen.runs() && (!container.startup || seen.startup_passed),
    }
}

/// Every condition of a pod, those of others first.
pub(crate) fn conditions(
    spec: &LifecycleSpec,
    observed: &Observed,
    phase: Phase,
    previous: &Object,
    now: Timestamp,
) -> Vec<Value> {
    let old = previous.list_at(&["conditions"]);
    let mut all: Vec<Value> = old
        .iter()
        .filter(|condition| {
            let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
            !OWN.contains(&kind) || (kind == "DisruptionTarget" && observed.evicted.is_none())
        })
        .cloned()
        .collect();
    if let Some(why) = &observed.evicted
        && why.reason == "Evicted"
    {
        let verdict = ConditionResult {
            holds: true,
            reason: "TerminationByKubelet",
            message: why.message.clone(),
        };
        all.push(said(spec, "DisruptionTarget", verdict, old, now));
    }
    let containers = containers_ready(spec, observed, phase);
    let ready = ready(spec, &containers, old);
    let prepared = ConditionResult {
        // A sandbox is made only once the volumes are there; a refresh that fails takes nothing away.
        holds: observed.sandbox && !observed.cleaned,
        reason: "",
        message: String::new(),
    };
    all.push(said(spec, "PodReadyToStartContainers", prepared, old, now));
    all.push(said(spec, "Initialized", is_initialised(spec, observed, phase), old, now));
    all.push(said(spec, "Ready", ready, old, now));
    all.push(said(spec, "ContainersReady", containers, old, now));
    all.push(said(spec, "PodScheduled", ConditionResult::yes(), old, now));
    all.extend(resize(spec, observed, phase, old, now));
    all
}

/// How far a change of resources is; nothing where none is wanted, or nothing runs any more.
fn resize(
    spec: &LifecycleSpec,
    observed: &Observed,
    phase: Phase,
    old: &[Value],
    now: Timestamp,
) -> Vec<Value> {
    let mut all = Vec::new();
    if phase.is_final() {
        return all;
    }
    let at = |generation: i64, mut condition: Value| {
        if let Some(map) = condition.as_object_mut().filter(|_| generation > 0) {
            map.insert("observedGeneration".to_string(), generation.into());
        }
        condition
    };
    if let Some(pending) = &observed.resize.pending {
        let (reason, message) = (pending.reason(), pending.message.clone());
        let verdict = ConditionResult { holds: true, reason, message };
        all.push(at(pending.generation, said(spec, PENDING, verdict, old, now)));
    }
    if let Some(generation) = observed.resize.in_progress {
        let reason = if observed.resize.error.is_some() { "Error" } else { "" };
        let message = observed.resize.error.clone().unwrap_or_default();
        let verdict = ConditionResult { holds: true, reason, message };
        all.push(at(generation, said(spec, IN_PROGRESS, verdict, old, now)));
    }
    all
}

fn is_initialised(spec: &LifecycleSpec, observed: &Observed, phase: Phase) -> ConditionResult {
    if initialised(spec, observed) {
        let done = phase == Phase::Succeeded && spec.inits().next().is_some();
        return ConditionResult {
            reason: if done { "PodCompleted" } else { "" },
            ..ConditionResult::yes()
        };
    }
    let incomplete: Vec<&str> = spec
        .inits()
        .filter(|container| match container.role {
            ContainerType::Sidecar => !sidecar_started(container, observed),
            _ => !is_ready(container, observed),
        })
        .map(|container| container.name.as_str())
        .collect();
    if incomplete.is_empty() {
        return ConditionResult::yes();
    }
    let message = format!("containers with incomplete status: {}", listed(&incomplete));
    ConditionResult::no("ContainersNotInitialized", message)
}

fn containers_ready(spec: &LifecycleSpec, observed: &Observed, phase: Phase) -> ConditionResult {
    match phase {
        Phase::Succeeded => return ConditionResult::no("PodCompleted", String::new()),
        Phase::Failed => return ConditionResult::no("PodFailed", String::new()),
        Phase::Pending | Phase::Running => {}
    }
    let unready: Vec<&str> = spec
        .containers
        .iter()
        .filter(|container| {
            matches!(container.role, ContainerType::Sidecar | ContainerType::Regular)
        })
        .filter(|container| !is_ready(container, observed))
        .map(|container| container.name.as_str())
        .collect();
    if unready.is_empty() {
        return ConditionResult::yes();
    }
    let message = format!("containers with unready status: {}", listed(&unready));
    ConditionResult::no("ContainersNotReady", message)
}

fn ready(spec: &LifecycleSpec, containers: &ConditionResult, old: &[Value]) -> ConditionResult {
    if !containers.holds {
        return ConditionResult::no(containers.reason, containers.message.clone());
    }
    let unmet: Vec<String> =
        spec.gates.iter().filter_map(|gate| unmet(gate, find(old, gate))).collect();
    if unmet.is_empty() {
        return ConditionResult::yes();
    }
    ConditionResult::no("ReadinessGatesNotReady", unmet.join(", "))
}

fn unmet(gate: &str, condition: Option<&Value>) -> Option<String> {
    let Some(condition) = condition else {
        return Some(format!(
            "corresponding condition of pod readiness gate \"{gate}\" does not exist."
        ));
    };
    let status = condition.get("status").and_then(Value::as_str).unwrap_or_default();
    (status != "True").then(|| {
        format!("the status of pod readiness gate \"{gate}\" is not \"True\", but {status}")
    })
}

fn find<'a>(conditions: &'a [Value], kind: &str) -> Option<&'a Value> {
    conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
}

/// Names as a list is printed.
fn listed(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}

/// A condition; its time moves only when its truth does.
fn said(
    spec: &LifecycleSpec,
    kind: &str,
    verdict: ConditionResult,
    old: &[Value],
    now: Timestamp,
) -> Value {
    let status = if verdict.holds { "True" } else { "False" };
    let before = find(old, kind).filter(|condition| {
        condition.get("status").and_then(Value::as_str) == Some(status)
            && condition.get("lastTransitionTime").is_some_and(Value::is_string)
    });
    let since = before
        .and_then(|condition| condition.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| Value::String(written(now)));
    let mut condition = json!({
        "type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since,
    });
    if let Some(map) = condition.as_object_mut() {
        if spec.generation > 0 {
            map.insert("observedGeneration".to_string(), spec.generation.into());
        }
        if !verdict.reason.is_empty() {
            map.insert("reason".to_string(), verdict.reason.into());
        }
        if !verdict.message.is_empty() {
            map.insert("message".to_string(), verdict.message.into());
        }
    }
    condition
}
