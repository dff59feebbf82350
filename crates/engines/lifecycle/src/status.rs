//! What the status of a pod says: containers, addresses, phase (R96 to R98).

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt as _};

use crate::condition;
use crate::observation::{ContainerTermination, InstanceState, Observed, ObservedContainer};
use crate::phase::{Phase, may_restart, pod_phase};
use crate::plan;
use crate::spec::{ContainerSpec, ContainerType, LifecycleSpec};

/// What is said of a container whose end nobody saw.
const LOST: &str = "The container could not be located when the pod was terminated";

/// A time as objects write it.
#[must_use]
pub fn written(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The whole status, made from the one before.
#[must_use]
pub fn pod_status(
    spec: &LifecycleSpec,
    observed: &Observed,
    previous: &Object,
    now: Timestamp,
) -> Object {
    let mut status = previous.clone();
    if let Some(refusal) = &observed.refused {
        return refused(spec, &refusal.reason, &refusal.message, status, observed);
    }
    let phase = phase(spec, observed, previous, now);
    status.insert("phase".to_owned(), phase.word().into());
    if spec.generation > 0 {
        status.insert("observedGeneration".to_owned(), spec.generation.into());
    }
    match why_failed(spec, observed, now).filter(|_| phase == Phase::Failed) {
        Some((reason, message)) => {
            status.insert("reason".to_owned(), reason.into());
            status.insert("message".to_owned(), message.into());
        }
        None if phase.is_final() => {}
        None => {
            status.remove("reason");
            status.remove("message");
        }
    }
    if let Some(started) = observed.started {
        status.insert("startTime".to_owned(), written(started).into());
    }
    addresses(observed, &mut status);
    for (list, roles) in [
        ("initContainerStatuses", &[ContainerType::Init, ContainerType::Sidecar][..]),
        ("containerStatuses", &[ContainerType::Regular]),
        ("ephemeralContainerStatuses", &[ContainerType::Ephemeral]),
    ] {
        let items: Vec<Value> = spec
            .containers
            .iter()
            .filter(|container| roles.contains(&container.role))
            .map(|container| Value::Object(container_status(spec, container, observed, now)))
            .collect();
        if items.is_empty() {
            status.remove(list);
        } else {
            status.insert(list.to_owned(), items.into());
        }
    }
    let conditions = condition::conditions(spec, observed, phase, previous, now);
    status.insert("conditions".to_owned(), conditions.into());
    status
}

/// The phase, which is final once it was said so, and never final while something still lives.
fn phase(spec: &LifecycleSpec, observed: &Observed, previous: &Object, now: Timestamp) -> Phase {
    let before = previous.str_at(&["phase"]).and_then(Phase::read);
    if let Some(before) = before.filter(|phase| phase.is_final()) {
        return before;
    }
    let terminal = plan::ends(spec, observed, now);
    let living = observed.containers.values().any(ObservedContainer::lives);
    let phase = pod_phase(spec, observed, terminal);
    if living && phase.is_final() {
        // A sidecar or a container that is being killed still runs.
        return before.unwrap_or(Phase::Running);
    }
    if !living && why_failed(spec, observed, now).is_some() {
        return Phase::Failed;
    }
    match phase {
        // A pod that goes before all its containers ran did not succeed.
        Phase::Pending | Phase::Running if terminal && observed.cleaned => Phase::Failed,
        phase => phase,
    }
}

/// Why the node ends the pod, if it does.
fn why_failed(
    spec: &LifecycleSpec,
    observed: &Observed,
    now: Timestamp,
) -> Option<(String, String)> {
    if let Some(evicted) = &observed.evicted {
        return Some((evicted.reason.clone(), evicted.message.clone()));
    }
    plan::past_deadline(spec, observed, now).then(|| {
        let message = "Pod was active on the node longer than the specified deadline";
        ("DeadlineExceeded".to_owned(), message.to_owned())
    })
}

fn refused(
    spec: &LifecycleSpec,
    reason: &str,
    message: &str,
    mut status: Object,
    observed: &Observed,
) -> Object {
    status.insert("phase".to_owned(), Phase::Failed.word().into());
    status.insert("reason".to_owned(), reason.into());
    status.insert("message".to_owned(), format!("Pod was rejected: {message}").into());
    if spec.generation > 0 {
        status.insert("observedGeneration".to_owned(), spec.generation.into());
    }
    if let Some(started) = observed.started {
        status.insert("startTime".to_owned(), written(started).into());
    }
    status
}

fn addresses(observed: &Observed, status: &mut Object) {
    for (one, many, addresses) in [
        ("hostIP", "hostIPs", &observed.host_addresses),
        ("podIP", "podIPs", &observed.pod_addresses),
    ] {
        let Some(first) = addresses.first() else { continue };
        status.insert(one.to_owned(), first.as_str().into());
        let all: Vec<Value> = addresses.iter().map(|address| json!({"ip": address})).collect();
        status.insert(many.to_owned(), all.into());
    }
}

/// The status of one container (R97).
#[must_use]
pub fn container_status(
    spec: &LifecycleSpec,
    container: &ContainerSpec,
    observed: &Observed,
    now: Timestamp,
) -> Object {
    let none = ObservedContainer::default();
    let seen = observed.container(&container.name).unwrap_or(&none);
    let mut status = Object::new();
    let mut put = |name: &str, value: Value| status.insert(name.to_owned(), value);
    put("name", container.name.as_str().into());
    put("restartCount", seen.restarts.into());
    put("ready", condition::is_ready(container, observed).into());
    put("started", condition::is_started(container, seen).into());
    let (state, last) = states(spec, container, seen, observed, now);
    put("state", state);
    put("lastState", last);
    let current = seen.current.as_ref();
    let image = current.map_or(container.image.as_str(), |instance| instance.image.as_str());
    put("image", image.into());
    put("imageID", current.map_or("", |instance| instance.image_id.as_str()).into());
    if let Some(instance) = current.filter(|instance| !instance.id.is_empty()) {
        put("containerID", instance.id.as_str().into());
        // What the container has, and what it was given; a change may be on its way (R111b).
        let given = container.object.map_at(&["resources"]);
        if let Some(resources) = seen.resources.as_ref().or(given) {
            put("resources", Value::Object(resources.clone()));
        }
        if let Some(requests) = given.and_then(|given| given.map_at(&["requests"])) {
            put("allocatedResources", Value::Object(requests.clone()));
        }
    }
    let mounts: Vec<Value> =
        container.object.list_at(&["volumeMounts"]).iter().filter_map(mounted).collect();
    if !mounts.is_empty() {
        put("volumeMounts", mounts.into());
    }
    status
}

fn mounted(mount: &Value) -> Option<Value> {
    let mount = mount.as_object()?;
    let mut said = json!({
        "name": mount.str_at(&["name"])?, "mountPath": mount.str_at(&["mountPath"])?,
    });
    if mount.bool_at(&["readOnly"]) == Some(true)
        && let Some(said) = said.as_object_mut()
    {
        said.insert("readOnly".to_owned(), true.into());
        said.insert("recursiveReadOnly".to_owned(), "Disabled".into());
    }
    Some(said)
}

/// What the container does and what it did before.
fn states(
    spec: &LifecycleSpec,
    container: &ContainerSpec,
    seen: &ObservedContainer,
    observed: &Observed,
    now: Timestamp,
) -> (Value, Value) {
    let before = seen.last.as_ref().map_or_else(|| json!({}), |(id, ended)| terminated(id, ended));
    let waiting = |reason: &str, message: &str| {
        let mut waiting = json!({"reason": reason});
        if let Some(map) = waiting.as_object_mut().filter(|_| !message.is_empty()) {
            map.insert("message".to_owned(), message.into());
        }
        json!({"waiting": waiting})
    };
    let Some(instance) = &seen.current else {
        let state = match &seen.waiting {
            Some(why) => waiting(&why.reason, &why.message),
            // What never was and never will be has no truth that could be told.
            None if observed.cleaned => lost(),
            None => waiting(default_reason(spec), ""),
        };
        return (state, before);
    };
    match &instance.state {
        InstanceState::Running { started } => {
            (json!({"running": {"startedAt": written(*started)}}), before)
        }
        InstanceState::Created => (waiting(default_reason(spec), ""), before),
        InstanceState::Unknown => {
            let ended = ContainerTermination {
                code: 137,
                reason: "ContainerStatusUnknown".to_owned(),
                message: LOST.to_owned(),
                ..ContainerTermination::default()
            };
            (terminated(&instance.id, &ended), before)
        }
        InstanceState::Ended(ended) => {
            let over = plan::ends(spec, observed, now);
            if !over && let Some(why) = &seen.waiting {
                return (waiting(&why.reason, &why.message), terminated(&instance.id, ended));
            }
            let due = plan::restart_due(seen, ended);
            if !over && !seen.resizing && may_restart(container, ended) && due > now {
                let message = backoff_message(spec, container, seen);
                return (waiting("CrashLoopBackOff", &message), terminated(&instance.id, ended));
            }
            (terminated(&instance.id, ended), before)
        }
    }
}

fn lost() -> Value {
    let ended = ContainerTermination {
        code: 137,
        reason: "ContainerStatusUnknown".to_owned(),
        message: LOST.to_owned(),
        ..ContainerTermination::default()
    };
    terminated("", &ended)
}

fn default_reason(spec: &LifecycleSpec) -> &'static str {
    if spec.inits().next().is_some() { "PodInitializing" } else { "ContainerCreating" }
}

/// The message of a container that waits to be started again (R101).
fn backoff_message(
    spec: &LifecycleSpec,
    container: &ContainerSpec,
    seen: &ObservedContainer,
) -> String {
    format!(
        "back-off {} restarting failed container={} pod={}_{}({})",
        short(seen.backoff.wait),
        container.name,
        spec.name,
        spec.namespace,
        spec.uid
    )
}

/// A length of time as it is printed upstream: `10s`, `1m20s`, `100ms`.
fn short(wait: core::time::Duration) -> String {
    let (minutes, seconds) = (wait.as_secs() / 60, wait.as_secs() % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{}ms", wait.as_millis()),
        (0, seconds) if wait.subsec_millis() > 0 => {
            format!("{seconds}.{}s", format!("{:03}", wait.subsec_millis()).trim_end_matches('0'))
        }
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

fn terminated(id: &str, ended: &ContainerTermination) -> Value {
    let mut said = Object::new();
    said.insert("exitCode".to_owned(), ended.code.into());
    said.insert("reason".to_owned(), ended.reason.as_str().into());
    if !ended.message.is_empty() {
        said.insert("message".to_owned(), ended.message.as_str().into());
    }
    for (name, time) in [("startedAt", ended.started), ("finishedAt", ended.finished)] {
        said.insert(name.to_owned(), time.map_or(Value::Null, |time| written(time).into()));
    }
    if !id.is_empty() {
        said.insert("containerID".to_owned(), id.into());
    }
    json!({"terminated": said})
}
