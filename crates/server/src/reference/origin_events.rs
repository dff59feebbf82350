//! Events on origins whose references could not be found: too many of them, or an expression failed (R72, R79).
//!
//! ```text
//!   commit ──► reports ──► a short queue ──► one event each, counted when it happens again
//! ```
//!
//! Nobody waits for an event, and one that cannot be written is lost, as everywhere in Kubernetes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_core::Revision;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_reference::{Failed, PathFailure};
use tenure_world::Record;
use tokio::sync::{Mutex, mpsc};

use crate::api::ApiServer;
use crate::clock::{self, now};
use crate::internal;
use crate::internal_writer::{Actor, InternalWriter};

const ACTOR: Actor = Actor { account: "reference-authorizer", manager: "reference-authorizer" };
/// How many reports may wait; further ones are dropped.
const WAITING_MOST: usize = 1024;
/// How many events are remembered, to be counted instead of written again.
const REMEMBERED_MOST: usize = 4096;
/// An event is counted up at most this often.
const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// How long a commit may take to be seen.
const COMMIT_MOST: Duration = Duration::from_secs(1);
/// What remains of the name of an origin in the name of an event.
const NAME_MOST: usize = 230;

/// Reports, with the revision that brought them.
type ReportReceiver = mpsc::Receiver<(Revision, PathFailure)>;

/// The end that commits tell to.
pub(crate) struct ReportQueue {
    queue: mpsc::Sender<(Revision, PathFailure)>,
    /// Whoever writes events holds the lock; when that one panics the next finds what waits.
    waiting: Mutex<ReportReceiver>,
}

impl Default for ReportQueue {
    fn default() -> ReportQueue {
        let (queue, waiting) = mpsc::channel(WAITING_MOST);
        ReportQueue { queue, waiting: Mutex::new(waiting) }
    }
}

impl ReportQueue {
    /// Tells everything, unless too much waits already.
    pub(super) fn tell(&self, at: Revision, reports: &mut Vec<PathFailure>) {
        for report in reports.drain(..) {
            if self.queue.try_send((at, report)).is_err() {
                tracing::debug!("too many reports of references wait; one was dropped");
            }
        }
    }
}

/// Writes what is told as events, until the server stops.
pub async fn run(api: Arc<ApiServer>) {
    let mut stop = api.stop.clone();
    tokio::select! {
        () = tell(&api) => {}
        // A sender that is gone can never ask, so it counts as having asked.
        _ = stop.wait_for(|requested| *requested) => {}
    }
}

async fn tell(api: &Arc<ApiServer>) {
    let mut waiting = api.access.reference_authorizer().teller().waiting.lock().await;
    let writer = InternalWriter::new(Arc::clone(api));
    let mut reported: BTreeMap<String, Instant> = BTreeMap::new();
    while let Some((at, report)) = waiting.recv().await {
        let name = event_name(&report);
        if reported.get(&name).is_some_and(|at| at.elapsed() < AGAIN_AFTER) {
            continue;
        }
        if reported.len() >= REMEMBERED_MOST {
            reported.clear();
        }
        // The commit tells before others see it.
        api.world.wait_for(at, COMMIT_MOST).await;
        if let Err(failure) = write(api, &writer, &name, &report).await {
            tracing::debug!(name, reason = %failure.message, "an event could not be written");
        }
        reported.insert(name, clock::instant());
    }
}

/// The same for the same path in the same origin.
fn event_name(report: &PathFailure) -> String {
    let what = (&report.strategy, &report.path, reason(&report.failed));
    let origin = (&report.origin.group, &report.origin.resource);
    let mut hasher = DefaultHasher::new();
    (what, origin).hash(&mut hasher);
    let mut name = report.name.clone();
    let end = (0..=NAME_MOST.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    name.truncate(end.unwrap_or_default());
    format!("{name}.{:016x}", hasher.finish())
}

fn reason(failed: &Failed) -> &'static str {
    match failed {
        Failed::TooMuch(_) => "ReferenceLimitExceeded",
        Failed::Expression(_) => "ReferenceExpressionFailed",
    }
}

fn message(report: &PathFailure) -> String {
    let PathFailure { strategy, path, .. } = report;
    let why = match &report.failed {
        Failed::TooMuch(_) => "finds more here than is looked at".to_owned(),
        Failed::Expression(why) => format!("failed: {why}"),
    };
    let mut text = format!("{path} of ReferenceStrategy {strategy:?} {why}; it leads to nothing");
    let end = (0..=1000.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or_default());
    text
}

async fn write(
    api: &ApiServer,
    writer: &InternalWriter,
    name: &str,
    report: &PathFailure,
) -> Result<(), Failure> {
    let served = internal::find(api, &report.origin.group, &report.origin.resource)?;
    let state = api.world.current();
    // Whoever is gone needs no event.
    let Some(origin) = state.get(&served.key(&report.namespace, &report.name)) else {
        return Ok(());
    };
    let namespace = if report.namespace.is_empty() { "default" } else { &report.namespace };
    let key = writer.key(("", "events"), namespace, name)?;
    let said = message(report);
    if let Some(record) = state.get(&key) {
        return count_up(writer, record, &said).await;
    }
    let now = now();
    let event = json!({
        "metadata": { "name": name, "namespace": namespace },
        "involvedObject": {
            "apiVersion": served.api_version, "kind": served.kind.kind,
            "namespace": report.namespace, "name": report.name, "uid": origin.uid(),
            "resourceVersion": origin.revision().to_string(),
        },
        "reason": reason(&report.failed), "message": said, "type": "Warning", "count": 1,
        "firstTimestamp": now, "lastTimestamp": now,
        "source": { "component": "reference-authorizer" },
        "reportingComponent": "reference-authorizer", "reportingInstance": "",
    });
    let Value::Object(event) = event else { return Ok(()) };
    writer.create(ACTOR, ("", "events"), namespace, event, Vec::new()).await.map(drop)
}

/// A count that loses a race is lost.
async fn count_up(
    writer: &InternalWriter,
    record: &Arc<Record>,
    said: &str,
) -> Result<(), Failure> {
    let event = serde_json::from_slice::<Object>(record.bytes());
    let Ok(mut event) = event else { return Ok(()) };
    let count = event.int_at(&["count"]).unwrap_or(1).saturating_add(1);
    event.insert("count".into(), count.into());
    event.insert("lastTimestamp".into(), now().into());
    event.insert("message".into(), said.into());
    writer.update(ACTOR, record, "", event, Vec::new()).await.map(drop)
}
