//! Writes events, one after the other beside the work, so that nobody waits for them.
//!
//! The recorder says which; an event that cannot be written is lost, as everywhere in Kubernetes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};
use tenure_server::internal_writer::{Actor, InternalWriteOutcome, InternalWriter};
use tokio::sync::mpsc;

use crate::clock;
use crate::recorder::{EventRecorder, Notice, Telling};

/// Events are written under this name.
const ACTOR: Actor = Actor { account: "event-recorder", manager: "kube-controller-manager" };
/// How many events may wait; further ones are dropped.
const WAITING_MOST: usize = 4096;
/// How often a count that lost a race is raised again.
const TRIES: usize = 4;

/// The end that work tells to.
pub(crate) struct EventPublisher {
    recorder: Mutex<EventRecorder>,
    queue: mpsc::Sender<(Notice, Telling)>,
}

impl EventPublisher {
    /// A teller, and what has to be written.
    pub(crate) fn new() -> (EventPublisher, mpsc::Receiver<(Notice, Telling)>) {
        let (queue, waiting) = mpsc::channel(WAITING_MOST);
        (EventPublisher { recorder: Mutex::default(), queue }, waiting)
    }

    /// Tells something, unless too much was told lately.
    pub(crate) fn tell(&self, notice: Notice) {
        let reported = self.recorder().tell(&notice, clock::timestamp());
        if let Some(telling) = reported
            && self.queue.try_send((notice, telling)).is_err()
        {
            tracing::debug!("too many events wait; one was dropped");
        }
    }

    fn recorder(&self) -> MutexGuard<'_, EventRecorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what was told until nobody is left to tell.
    pub(crate) async fn run(
        &self,
        writer: &InternalWriter,
        waiting: &mut mpsc::Receiver<(Notice, Telling)>,
    ) {
        while let Some((notice, telling)) = waiting.recv().await {
            match telling {
                Telling::New { namespace, event } => create(writer, &namespace, event).await,
                Telling::Again { namespace, name, count, last, message } => {
                    let said = EventUpdate { count, last: &last, message: &message };
                    if !raise(writer, &namespace, &name, &said).await {
                        // It expired meanwhile: its story goes on in a new one.
                        let now = clock::timestamp();
                        let anew = self.recorder().tell_anew(&notice, &name, now);
                        if let Some(event) = anew {
                            create(writer, &namespace, event).await;
                        }
                    }
                }
            }
        }
    }
}

async fn create(writer: &InternalWriter, namespace: &str, event: Object) {
    let made = writer.create(ACTOR, ("", "events"), namespace, event, Vec::new()).await;
    if let Err(failure) = made {
        tracing::debug!(namespace, reason = %failure.message, "an event could not be written");
    }
}

/// What an event says when it happens again.
struct EventUpdate<'a> {
    count: i64,
    last: &'a str,
    message: &'a str,
}

/// Raises the count of an event; false when there is none.
async fn raise(
    writer: &InternalWriter,
    namespace: &str,
    name: &str,
    said: &EventUpdate<'_>,
) -> bool {
    for _ in 0..TRIES {
        let Ok(key) = writer.key(("", "events"), namespace, name) else { return true };
        let Some(record) = writer.world().current().get(&key).cloned() else { return false };
        let Ok(Value::Object(mut event)) = serde_json::from_slice(record.bytes()) else {
            return true;
        };
        let known = event.int_at(&["count"]).unwrap_or(0);
        event.insert("count".into(), said.count.max(known).into());
        event.insert("lastTimestamp".into(), said.last.into());
        event.insert("message".into(), said.message.into());
        match writer.update(ACTOR, &record, "", event, Vec::new()).await {
            Ok(InternalWriteOutcome::Moved) => {}
            Ok(InternalWriteOutcome::Gone) => return false,
            Ok(InternalWriteOutcome::Stored(_)) | Err(_) => return true,
        }
    }
    true
}
