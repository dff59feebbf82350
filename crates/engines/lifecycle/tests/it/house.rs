//! Pods as text, and what is seen of them as a few words.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tenure_lifecycle::{
    ContainerInstance, ContainerTermination, InstanceState, LifecycleSpec, Observed,
    ObservedContainer, RestartBackoff,
};
use tenure_machinery::Object;

/// The moment all tests begin at.
pub(crate) fn zero() -> Timestamp {
    "2026-11-15T02:30:00Z".parse().unwrap()
}

/// So many seconds later.
pub(crate) fn at(seconds: i64) -> Timestamp {
    zero() + SignedDuration::from_secs(seconds)
}

/// A pod: `init` and `sidecar` come first, everything else is a regular container.
pub(crate) fn pod(restart: &str, containers: &[(&str, &str)]) -> Value {
    let of = |roles: &[&str]| -> Vec<Value> {
        let kept = containers.iter().filter(|(_, role)| roles.contains(role));
        kept.map(|(name, role)| match *role {
            "sidecar" => json!({"name": name, "image": "i", "restartPolicy": "Always"}),
            _ => json!({"name": name, "image": "i"}),
        })
        .collect()
    };
    json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 3},
        "spec": {
            "restartPolicy": restart,
            "initContainers": of(&["init", "sidecar"]),
            "containers": of(&["main"]),
            "ephemeralContainers": of(&["look"]),
        },
    })
}

pub(crate) fn spec(pod: &Value) -> LifecycleSpec {
    LifecycleSpec::read(pod.as_object().unwrap())
}

/// What is seen: `run`, `0`, `1` for an exit code, `wait`, `made`, `lost`; `-` is nothing at all.
/// `1>run` ran before and ended with 1.
pub(crate) fn observed(words: &[(&str, &str)]) -> Observed {
    let mut observed = Observed {
        sandbox: true,
        volumes: true,
        started: Some(zero()),
        pod_addresses: vec!["10.0.0.7".into()],
        host_addresses: vec!["192.0.2.1".into()],
        ..Observed::default()
    };
    for (name, word) in words {
        if *word != "-" {
            observed.containers.insert((*name).into(), seen(word));
        }
    }
    observed
}

pub(crate) fn seen(word: &str) -> ObservedContainer {
    let (last, word) = word.split_once('>').map_or((None, word), |(last, now)| (Some(last), now));
    let state = match word {
        "run" => Some(InstanceState::Running { started: zero() }),
        "made" => Some(InstanceState::Created),
        "lost" => Some(InstanceState::Unknown),
        "wait" => None,
        code => Some(InstanceState::Ended(ended(code.parse().unwrap()))),
    };
    let current = state.map(|state| ContainerInstance {
        id: "process://c".into(),
        image: "i".into(),
        image_id: "host".into(),
        state,
    });
    let last = last.map(|code| ("process://b".to_owned(), ended(code.parse().unwrap())));
    ObservedContainer {
        current,
        last,
        backoff: RestartBackoff::default(),
        ..ObservedContainer::default()
    }
}

pub(crate) fn ended(code: i64) -> ContainerTermination {
    let reason = if code == 0 { "Completed" } else { "Error" };
    ContainerTermination {
        started: Some(zero()),
        finished: Some(at(1)),
        code,
        reason: reason.into(),
        message: String::new(),
    }
}

/// The condition of a status.
pub(crate) fn condition<'a>(status: &'a Object, kind: &str) -> &'a Value {
    let conditions = status.get("conditions").unwrap().as_array().unwrap();
    conditions.iter().find(|condition| condition.get("type").unwrap() == kind).unwrap()
}

/// Status, reason and message of a condition.
pub(crate) fn verdict(status: &Object, kind: &str) -> (String, String, String) {
    let condition = condition(status, kind);
    let text =
        |name: &str| condition.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}
