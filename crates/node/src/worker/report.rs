//! What the server is told of the pod: its status, whenever that is news (R98).

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_lifecycle::{clip_messages, pod_status};
use tenure_machinery::{Object, ObjectExt as _};

use crate::client::{Answered, ClientError};
use crate::clock;
use crate::follow::lighten;
use crate::worker::{Worker, WorkerMessage};

/// The waits after a write that failed.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How much of the end of a log is read for last words; lines carry a few words of their own.
const TAIL_BYTES: u64 = 16 * 1024;
/// How long the steps of a start are held back: most pods run before, and are told once.
const HOLD: Duration = Duration::from_millis(50);
/// The conditions that only the agent sets.
const OWN: [&str; 7] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    PASSING[0],
    PASSING[1],
];
/// Those of them that go again (R111b).
const PASSING: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];

/// What was told and what is yet to be told.
#[derive(Default)]
pub(super) struct StatusReporter {
    /// The status as it should be.
    wanted: Option<Object>,
    writing: bool,
    /// Since when there is news that can wait.
    held: Option<Timestamp>,
    after: Option<Timestamp>,
    told: bool,
    /// What was written last, so that a server that keeps something else is not told for ever.
    last: Option<Object>,
    pub(super) failures: u32,
    pub(super) deleting: bool,
}

impl StatusReporter {
    /// Whether the server has been told everything.
    pub(super) fn settled(&self) -> bool {
        self.told && !self.writing
    }

    /// Somebody else wrote the pod, so what was written before may have to be written again.
    pub(super) fn heard(&mut self) {
        self.last = None;
    }

    /// How long the next try waits.
    pub(super) fn retry_wait(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => RETRY_FIRST.saturating_mul(1 << failures.min(10)).min(RETRY_MAX),
        }
    }

    /// The pod with the status as it should be.
    pub(super) fn shown(&self, pod: &Arc<Object>) -> Arc<Object> {
        // At rest the server has the status as it should be, and a second copy would only cost memory.
        let Some(status) = self.wanted.as_ref().filter(|_| !self.told) else {
            return Arc::clone(pod);
        };
        let mut shown = Object::clone(pod);
        shown.insert("status".to_owned(), Value::Object(status.clone()));
        Arc::new(shown)
    }
}

impl Worker {
    /// Writes the status if the server has another.
    pub(super) fn write_status(&mut self, now: Timestamp, wake: &mut Timestamp) {
        let none = Object::new();
        let stored = self.pod.map_at(&["status"]).unwrap_or(&none);
        let previous = match &self.report.wanted {
            Some(wanted) => joined(stored, wanted),
            None => stored.clone(),
        };
        let mut status = if self.seen.over && self.report.wanted.is_none() {
            // An end that was told before this agent began stays as it was told.
            previous
        } else {
            pod_status(&self.spec, &self.seen, &previous, now)
        };
        clip(&mut status);
        let patch = difference(stored, &status);
        self.report.wanted = Some(status);
        let difference_gone = patch.is_none();
        let patch = patch.filter(|patch| self.report.last.as_ref() != Some(patch));
        self.report.told = patch.is_none();
        if difference_gone {
            // Nothing is left that could be told for ever.
            self.report.last = None;
        }
        let Some(patch) = patch.filter(|_| !self.report.writing && !self.report.deleting) else {
            return;
        };
        let can_wait = patch_can_wait(stored, &patch) && self.seen.ending.is_none();
        let held = can_wait.then(|| *self.report.held.get_or_insert(now) + HOLD);
        if let Some(after) = self.report.after.max(held).filter(|after| *after > now) {
            *wake = (*wake).min(after);
            return;
        }
        self.report.writing = true;
        self.report.held = None;
        self.report.last = Some(patch.clone());
        let (namespace, name) = (&self.key.namespace, &self.key.name);
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        let body = json!({"metadata": {"uid": self.key.uid}, "status": patch});
        let body = body.as_object().cloned().unwrap_or_default();
        let (client, out) = (self.shared.client.clone(), self.out.clone());
        self.work.spawn(async move {
            let answer = client.patch(&path, &body).await;
            // A worker that is gone has nothing to tell.
            let _ = out.send(WorkerMessage::Written(answer));
        });
    }

    pub(super) fn written(&mut self, answer: Answered<Object>) {
        self.report.writing = false;
        match answer {
            Ok(mut object) => {
                (self.report.failures, self.report.after) = (0, None);
                lighten(&mut object);
                self.take_pod(Arc::new(object));
            }
            Err(ClientError::Refused { code: 404 | 409, message, .. }) => {
                // Another pod has the name now, or none has; the watch says which.
                tracing::debug!(why = message, pod = self.key.name, "a status was not taken");
                self.report.last = None;
                self.report.after = Some(clock::timestamp() + Duration::from_secs(1));
            }
            Err(error) => {
                tracing::debug!(
                    %error, pod = self.key.name, "a status was not taken"
                );
                self.report.failures += 1;
                self.report.last = None;
                self.report.after = Some(clock::timestamp() + self.report.retry_wait());
            }
        }
    }
}

/// The stored status with what the agent said last, which may not be stored yet.
fn joined(stored: &Object, wanted: &Object) -> Object {
    let mut joined = stored.clone();
    for name in ["phase", "reason", "message"] {
        match wanted.get(name) {
            Some(value) => joined.insert(name.to_owned(), value.clone()),
            None => joined.remove(name),
        };
    }
    let own = |condition: &&Value| {
        let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default();
        OWN.contains(&kind)
    };
    let others = stored.list_at(&["conditions"]).iter().filter(|condition| !own(condition));
    let mine = wanted.list_at(&["conditions"]).iter().filter(own);
    let conditions: Vec<Value> = others.chain(mine).cloned().collect();
    joined.insert("conditions".to_owned(), conditions.into());
    joined
}

/// What must be patched so that the server has the status as it should be; nothing if it has.
fn difference(stored: &Object, wanted: &Object) -> Option<Object> {
    let mut patch = Object::new();
    for (name, value) in wanted {
        if name == "conditions" {
            let old = stored.list_at(&["conditions"]);
            let mut news: Vec<Value> = wanted
                .list_at(&["conditions"])
                .iter()
                .filter(|condition| !old.iter().any(|old| alike(old, condition)))
                .map(|condition| replaced(old, condition))
                .collect();
            let has = |list: &[Value], kind: &str| {
                list.iter().any(|one| one.get("type").and_then(Value::as_str) == Some(kind))
            };
            let gone = |kind: &&str| has(old, kind) && !has(wanted.list_at(&["conditions"]), kind);
            let gone = PASSING.into_iter().filter(gone);
            news.extend(gone.map(|kind| json!({"$patch": "delete", "type": kind})));
            if !news.is_empty() {
                patch.insert(name.clone(), news.into());
            }
            continue;
        }
        if stored.get(name).is_some_and(|stored| alike(stored, value)) {
            continue;
        }
        let value = match (name.as_str(), value) {
            // These lists are merged by address unless told otherwise.
            ("podIPs" | "hostIPs", Value::Array(items)) if stored.contains_key(name) => {
                let first = json!({"$patch": "replace"});
                Value::Array(std::iter::once(first).chain(items.iter().cloned()).collect())
            }
            (_, value) => value.clone(),
        };
        patch.insert(name.clone(), value);
    }
    for name in ["reason", "message"] {
        if stored.contains_key(name) && !wanted.contains_key(name) {
            patch.insert(name.to_owned(), Value::Null);
        }
    }
    (!patch.is_empty()).then_some(patch)
}

/// Whether a patch only tells that a pod is on its way.
fn patch_can_wait(stored: &Object, patch: &Object) -> bool {
    let creating = |status: &Value| {
        let reason = status.pointer("/state/waiting/reason").and_then(Value::as_str);
        matches!(reason, Some("ContainerCreating" | "PodInitializing"))
    };
    let pending = matches!(stored.str_at(&["phase"]), None | Some("Pending"));
    let quiet = ["phase", "reason", "message"].iter().all(|name| match patch.get(*name) {
        None => true,
        Some(value) => value == "Pending",
    });
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    pending && quiet && lists.iter().all(|list| patch.list_at(&[list]).iter().all(creating))
}

/// A condition that takes the place of the old one: lists are merged by type, and what the new one
/// does not say must be taken away by name.
fn replaced(old: &[Value], condition: &Value) -> Value {
    let mut condition = condition.clone();
    let kind = condition.get("type").cloned();
    let before = old.iter().find(|old| old.get("type") == kind.as_ref());
    let before = before.and_then(Value::as_object).into_iter().flatten();
    if let Some(map) = condition.as_object_mut() {
        for (name, _) in before {
            map.entry(name.clone()).or_insert(Value::Null);
        }
    }
    condition
}

/// Whether two values say the same; what is null or empty says nothing.
fn alike(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let covered = |one: &Object, other: &Object| {
                one.iter().all(|(name, value)| match other.get(name) {
                    Some(found) => alike(value, found),
                    None => hollow(value),
                })
            };
            covered(left, right) && covered(right, left)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| alike(left, right))
        }
        (left, right) => left == right || (hollow(left) && hollow(right)),
    }
}

fn hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(hollow),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Cuts the last words of all containers so that they fit together (R99).
fn clip(status: &mut Object) {
    let mut found: Vec<&mut String> = Vec::new();
    for list in status.values_mut().filter_map(Value::as_array_mut) {
        for container in list.iter_mut().filter_map(Value::as_object_mut) {
            let message = container
                .get_mut("state")
                .and_then(|state| state.get_mut("terminated"))
                .and_then(|terminated| terminated.get_mut("message"));
            if let Some(Value::String(message)) = message {
                found.push(message);
            }
        }
    }
    clip_messages(&mut found);
}

/// The end of a log without the words the log adds to each line.
pub(super) fn log_tail(path: &Path) -> String {
    let mut text = String::new();
    let Ok(mut file) = std::fs::File::open(path) else { return text };
    let length = file.metadata().map_or(0, |data| data.len());
    if file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).is_err() {
        return text;
    }
    let mut bytes = Vec::new();
    if file.take(TAIL_BYTES).read_to_end(&mut bytes).is_err() {
        return text;
    }
    for line in String::from_utf8_lossy(&bytes).split_inclusive('\n') {
        // Time, stream, tag and then the line; the first may be cut.
        let mut words = line.splitn(4, ' ');
        let (Some(_), Some(_), Some(tag), Some(said)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        match tag {
            "F" => text.push_str(said),
            _ => text.push_str(said.trim_end_matches('\n')),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use super::*;

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn r98_only_differences_are_written() {
        let stored = object(json!({
            "phase": "Pending", "qosClass": "BestEffort", "reason": "x",
            "podIPs": [{"ip": "a"}],
            "conditions": [
                {"type": "Ready", "status": "False", "message": "m"},
                {"type": "x", "status": "True"},
            ],
        }));
        let wanted = object(json!({
            "phase": "Running", "qosClass": "BestEffort",
            "podIPs": [{"ip": "b"}],
            "conditions": [{"type": "x", "status": "True"}, {"type": "Ready", "status": "True"}],
        }));
        let patch = difference(&stored, &wanted).unwrap();
        let expected = json!({
            "phase": "Running", "reason": null,
            "podIPs": [{"$patch": "replace"}, {"ip": "b"}],
            "conditions": [{"type": "Ready", "status": "True", "message": null}],
        });
        assert_eq!(Value::Object(patch), expected);
        assert_eq!(difference(&wanted, &wanted), None);
        let with_nothing = object(json!({"phase": "Running", "a": {"b": {}, "c": null}}));
        let without = object(json!({"phase": "Running", "a": {}}));
        assert_eq!(difference(&without, &with_nothing), None, "nothing is not worth a write");
    }

    #[test]
    fn r111b_conditions_of_a_change_of_resources_go_again() {
        let stored = object(json!({"conditions": [
            {"type": "PodResizeInProgress", "status": "True"},
            {"type": "x", "status": "True"},
        ]}));
        let wanted = object(json!({"conditions": []}));
        let patch = difference(&stored, &wanted).unwrap();
        let gone = json!([{"$patch": "delete", "type": "PodResizeInProgress"}]);
        assert_eq!(patch["conditions"], gone);
    }

    #[test]
    fn r98_only_the_steps_of_a_start_can_wait() {
        let pending = object(json!({"phase": "Pending"}));
        let state = |state: Value| object(json!({"containerStatuses": [{"state": state}]}));
        let creating = state(json!({"waiting": {"reason": "ContainerCreating"}}));
        let conditions = object(json!({"conditions": [{"type": "Initialized"}], "podIP": "a"}));
        assert!(patch_can_wait(&Object::new(), &creating));
        assert!(patch_can_wait(&pending, &conditions));
        for news in [
            state(json!({"waiting": {"reason": "ErrImagePull"}})),
            state(json!({"running": {}})),
            object(json!({"phase": "Running"})),
            object(json!({"reason": "Evicted"})),
        ] {
            assert!(!patch_can_wait(&pending, &news), "{news:?}");
        }
        let running = object(json!({"phase": "Running"}));
        assert!(!patch_can_wait(&running, &conditions), "a pod that runs is told of at once");
    }

    #[test]
    fn r98_conditions_of_others_are_never_written_over() {
        let stored = object(json!({"conditions": [{"type": "x", "status": "False"}]}));
        let wanted = object(json!({"phase": "Running", "conditions": [
            {"type": "x", "status": "True"}, {"type": "Ready", "status": "True"},
        ]}));
        let joined = joined(&stored, &wanted);
        let expected =
            json!([{"type": "x", "status": "False"}, {"type": "Ready", "status": "True"}]);
        assert_eq!(joined["conditions"], expected);
    }

    #[test]
    fn r99_the_end_of_a_log_loses_its_stamps() {
        let folder = std::env::temp_dir().join(format!("tenure-tail-{}", std::process::id()));
        let text = "2026-11-15T02:30:00.0Z stdout F one\n2026-11-15T02:30:00.0Z stderr P tw\n\
                    2026-11-15T02:30:00.0Z stderr F o words\n";
        std::fs::write(&folder, text).unwrap();
        assert_eq!(log_tail(&folder), "one\ntwo words\n");
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(log_tail(&folder), "");
    }
}
