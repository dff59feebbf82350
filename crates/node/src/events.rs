//! Tells of what happens to pods and the node as Event objects (R114). Telling never waits and never
//! fails the one who tells; the same words again only count up.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_lifecycle::written;
use tenure_machinery::{Object, ObjectExt as _};
use tenure_supervise::keep_running;
use tokio::sync::{Mutex, mpsc};

use crate::client::Client;
use crate::clock;

/// How long an event waits, so that its write never delays the status it is about.
const LATER: Duration = Duration::from_millis(50);
/// How many events may wait; more are dropped, for they are only words.
const WAITING: usize = 1024;
/// How many different events are remembered for counting.
const REMEMBERED: usize = 4096;

/// How grave an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Grade {
    Normal,
    Warning,
}

/// Whom an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EventSubject {
    kind: &'static str,
    namespace: String,
    name: String,
    uid: String,
    field: String,
}

impl EventSubject {
    /// A pod.
    pub(crate) fn pod(pod: &Object) -> EventSubject {
        EventSubject {
            kind: "Pod",
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.str_at(&["metadata", "uid"]).unwrap_or_default().to_owned(),
            field: String::new(),
        }
    }

    /// The node; its events are in the default namespace.
    pub(crate) fn node(name: &str) -> EventSubject {
        let (namespace, name, uid) = (String::new(), name.to_owned(), name.to_owned());
        EventSubject { kind: "Node", namespace, name, uid, field: String::new() }
    }

    /// A Service.
    pub(crate) fn service((namespace, name): &(String, String), uid: &str) -> EventSubject {
        let (namespace, name) = (namespace.clone(), name.clone());
        EventSubject { kind: "Service", namespace, name, uid: uid.to_owned(), field: String::new() }
    }

    /// One container of the pod; `list` is `containers`, `initContainers` or `ephemeralContainers`.
    pub(crate) fn container(&self, list: &str, name: &str) -> EventSubject {
        EventSubject { field: format!("spec.{list}{{{name}}}"), ..self.clone() }
    }
}

struct PendingEvent {
    subject: EventSubject,
    grade: Grade,
    reason: &'static str,
    message: String,
    at: Timestamp,
}

/// A mouth; clones speak through the same one.
#[derive(Clone)]
pub(crate) struct Events {
    out: mpsc::Sender<PendingEvent>,
}

impl Events {
    /// A mouth, and the work of carrying what it says to the server.
    pub(crate) fn new(client: Client, node: String) -> (Events, impl Future<Output = ()> + Send) {
        let (out, told) = mpsc::channel(WAITING);
        let told = Arc::new(Mutex::new(told));
        let carrying = keep_running("events of the node", move || {
            let (client, node, told) = (client.clone(), node.clone(), Arc::clone(&told));
            async move { carry(&client, &node, &mut *told.lock().await).await }
        });
        (Events { out }, carrying)
    }

    pub(crate) fn tell(
        &self,
        subject: &EventSubject,
        grade: Grade,
        reason: &'static str,
        message: String,
    ) {
        let told = PendingEvent {
            subject: subject.clone(),
            grade,
            reason,
            message,
            at: clock::timestamp(),
        };
        if self.out.try_send(told).is_err() {
            tracing::debug!(reason, "an event was dropped");
        }
    }
}

/// What was said before: the event's name and how often.
struct PostedEvent {
    name: String,
    count: u64,
}

async fn carry(client: &Client, node: &str, told: &mut mpsc::Receiver<PendingEvent>) {
    let mut said: HashMap<u64, PostedEvent> = HashMap::new();
    while let Some(event) = told.recv().await {
        let age =
            Duration::try_from(clock::timestamp().duration_since(event.at)).unwrap_or_default();
        tokio::time::sleep(LATER.saturating_sub(age)).await;
        let mut hasher = DefaultHasher::new();
        (&event.subject, event.grade, event.reason, &event.message).hash(&mut hasher);
        let key = hasher.finish();
        let place = match event.subject.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        };
        let path = format!("/api/v1/namespaces/{place}/events");
        if let Some(before) = said.get_mut(&key) {
            before.count += 1;
            let patch = json!({"count": before.count, "lastTimestamp": written(event.at)});
            let patch = patch.as_object().cloned().unwrap_or_default();
            if client.patch(&format!("{path}/{}", before.name), &patch).await.is_ok() {
                continue;
            }
        }
        let object = event_object(&event, place, node, key);
        let name = object.name().to_owned();
        match client.post(&path, &object).await {
            Ok(_) => {
                if said.len() >= REMEMBERED {
                    said.clear();
                }
                said.insert(key, PostedEvent { name, count: 1 });
            }
            Err(error) => tracing::debug!(%error, "an event was not taken"),
        }
    }
}

fn event_object(event: &PendingEvent, namespace: &str, node: &str, key: u64) -> Object {
    let subject = &event.subject;
    let mut involved = json!({
        "kind": subject.kind, "name": subject.name, "uid": subject.uid,
    });
    if let Some(involved) = involved.as_object_mut() {
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                involved.insert(name.to_owned(), value.into());
            }
        };
        put("namespace", &subject.namespace);
        put("fieldPath", &subject.field);
        put("apiVersion", if subject.kind == "Pod" { "v1" } else { "" });
    }
    let time = written(event.at);
    let stamp = event.at.as_nanosecond() as u64 ^ key;
    let object = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{}.{stamp:016x}", subject.name), "namespace": namespace},
        "involvedObject": involved,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "type": match event.grade { Grade::Normal => "Normal", Grade::Warning => "Warning" },
        "reportingComponent": "kubelet",
        "reportingInstance": node,
    });
    match object {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
