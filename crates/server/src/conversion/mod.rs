//! Custom objects in another version than the one they are stored in, by webhooks of users (R129).
//!
//! ```text
//!   record ──► parsed, defaulted ──► review ──► call ──► answer, checked ──► pruned ──► record in the version
//! ```
//!
//! A call takes as long as somebody else's server likes, so it is made by whoever asked, between requests'
//! seats, and never where writes get their order or watches are woken. What is parsed and written for many
//! objects is done aside. Readers inside the server read what is stored and ask nobody.

mod metrics;
mod review;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tenure_machinery::validate::text;
use tenure_machinery::{Failure, Object, ObjectExt};
use tenure_outbound::Connect;
use tenure_world::{Draft, Record};
use tokio::sync::Semaphore;

use crate::clock::{self, Chance};
use crate::custom::{Custom, finish};
use crate::fair;
use crate::offload::OffloadPool;
use crate::registry::ServedKind;
use crate::webhook_client::{CallSettings, WebhookClient};

use metrics::{ConversionMetrics, ConversionRoute};
use review::{ConversionFault, ConversionReviewVersion};
use shared::SharedConversions;

/// How long a call may take, with the wait for its turn.
const LIMIT: Duration = Duration::from_secs(30);
/// How many calls of one webhook run at a time: one that calls itself through this server comes to an end.
const CALLS_MOST: usize = 64;
/// How much is sent in one call: so many bytes of stored objects, so many objects.
const SENT_BYTES_MAX: usize = 4 * 1024 * 1024;
const SENT_OBJECTS_MAX: usize = 1000;
/// The longest answer that is read: what was sent, grown a few times.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;
/// From here on parsing and writing is left to threads that step back behind requests.
const LONG_BYTES: usize = 256 * 1024;

/// Who converts the objects of a definition.
pub(crate) struct ConversionWebhook {
    definition: String,
    kind: String,
    /// None where it takes no version that the server speaks.
    version: Option<ConversionReviewVersion>,
    client: WebhookClient,
    turns: Semaphore,
}

impl ConversionWebhook {
    /// The webhook of a definition, if it has one.
    pub(crate) fn of(definition: &Object) -> Option<Arc<ConversionWebhook>> {
        let conversion = definition.map_at(&["spec", "conversion"])?;
        if text(conversion, "strategy") != "Webhook" {
            return None;
        }
        let none = Object::new();
        let config = conversion.map_at(&["webhook", "clientConfig"]).unwrap_or(&none);
        let versions = conversion.list_at(&["webhook", "conversionReviewVersions"]);
        let kind = definition.str_at(&["spec", "names", "kind"]).unwrap_or_default();
        Some(Arc::new(ConversionWebhook {
            definition: definition.name().to_owned(),
            kind: kind.to_owned(),
            version: ConversionReviewVersion::first_of(versions),
            client: WebhookClient::new(config),
            turns: Semaphore::new(CALLS_MOST),
        }))
    }

    /// 500 without a reason, as upstream answers.
    fn failure(&self, from: &str, why: &str) -> Failure {
        let message = format!("conversion webhook for {from}, Kind={} {why}", self.kind);
        Failure::new(500, "", message)
    }
}

/// Converts, and knows what was converted for watches.
pub(crate) struct Conversions {
    connect: Arc<dyn Connect>,
    offload: Arc<OffloadPool>,
    chance: Chance,
    metrics: ConversionMetrics,
    shared: SharedConversions,
}

impl Conversions {
    pub(crate) fn new(connect: Arc<dyn Connect>, offload: Arc<OffloadPool>) -> Conversions {
        Conversions {
            connect,
            offload,
            chance: Chance::default(),
            metrics: ConversionMetrics::default(),
            shared: SharedConversions::default(),
        }
    }

    /// What calls came to.
    pub(crate) fn metrics(&self) -> &ConversionMetrics {
        &self.metrics
    }

    /// A record in the form of a kind.
    ///
    /// # Errors
    /// The webhook did not convert it.
    pub(crate) async fn record(
        &self,
        user: &str,
        served: &Arc<ServedKind>,
        record: Arc<Record>,
    ) -> Result<Arc<Record>, Failure> {
        if !served.needs_conversion(&record) {
            return Ok(record);
        }
        let mut converted = Box::pin(self.call_for_records(user, served, vec![record])).await?;
        converted.pop().ok_or_else(|| Failure::internal("a conversion without its object"))
    }

    /// The members of a record in the form of a kind.
    ///
    /// # Errors
    /// As [`Conversions::record`]; the record cannot be read.
    pub(crate) async fn read(
        &self,
        user: &str,
        served: &Arc<ServedKind>,
        record: &Arc<Record>,
    ) -> Result<Object, Failure> {
        if !served.needs_conversion(record) {
            return served.read(record);
        }
        served.read(&*self.record(user, served, Arc::clone(record)).await?)
    }

    /// Records in the form of a kind, in their order. Those that have it are not sent, the others as few
    /// calls as their number allows.
    ///
    /// # Errors
    /// One of them could not be converted.
    pub(crate) async fn records(
        &self,
        user: &str,
        served: &Arc<ServedKind>,
        mut records: Vec<Arc<Record>>,
    ) -> Result<Vec<Arc<Record>>, Failure> {
        for part in parts(served, &records) {
            let sent = part.iter().filter_map(|at| records.get(*at)).cloned().collect();
            let converted = Box::pin(self.call_for_records(user, served, sent)).await?;
            for (at, record) in part.into_iter().zip(converted) {
                if let Some(place) = records.get_mut(at) {
                    *place = record;
                }
            }
        }
        Ok(records)
    }

    async fn call_for_records(
        &self,
        user: &str,
        served: &Arc<ServedKind>,
        records: Vec<Arc<Record>>,
    ) -> Result<Vec<Arc<Record>>, Failure> {
        let Some(custom) = &served.custom else { return Ok(records) };
        let Some(hook) = &custom.conversion else { return Ok(records) };
        let bytes = records.iter().map(|record| record.bytes().len()).sum();
        let originals = {
            let (records, custom) = (records.clone(), Arc::clone(custom));
            move || records.iter().map(|record| custom.read_stored(record)).collect()
        };
        let written = {
            let (served, hook) = (Arc::clone(served), Arc::clone(hook));
            move |converted: Vec<Object>| {
                let fields = served.selectable_paths();
                let all = records.iter().zip(converted);
                let written = all.map(|(record, mut object)| {
                    let from = record.api_version();
                    let wrong = |why: String| hook.failure(from, &format!("returned {why}"));
                    let schema = served.custom.as_ref().and_then(|custom| custom.schema.as_deref());
                    finish(&mut object, schema).map_err(wrong)?;
                    let draft = Draft::encode(&served.kind.kind, &served.api_version, &object);
                    let record = record.reshape(draft, fields.clone());
                    record.map(Arc::new).map_err(|error| wrong(error.to_string()))
                });
                written.collect()
            }
        };
        self.ask(user, hook, &served.api_version, bytes, originals, written).await
    }

    /// Objects of a definition in one of its versions, in their order; those that are in it are not sent.
    ///
    /// # Errors
    /// One of them could not be converted.
    pub(crate) async fn objects(
        &self,
        user: &str,
        custom: &Custom,
        mut objects: Vec<Object>,
        to: &str,
    ) -> Result<Vec<Object>, Failure> {
        let Some(hook) = &custom.conversion else { return Ok(objects) };
        let differs = |object: &Object| object.str_at(&["apiVersion"]) != Some(to);
        let others = objects.iter_mut().enumerate().filter(|(_, object)| differs(object));
        let (places, sent): (Vec<usize>, Vec<Object>) =
            others.map(|(at, object)| (at, std::mem::take(object))).unzip();
        if places.is_empty() {
            return Ok(objects);
        }
        let finished = {
            let (hook, schema) = (Arc::clone(hook), custom.schema_of(to).cloned());
            let from = sent.first().map_or("", version_of).to_owned();
            move |mut converted: Vec<Object>| {
                for object in &mut converted {
                    let wrong = |why: String| hook.failure(&from, &format!("returned {why}"));
                    finish(object, schema.as_deref()).map_err(wrong)?;
                }
                Ok(converted)
            }
        };
        let requested = self.ask(user, hook, to, 0, move || Ok(sent), finished);
        for (at, object) in places.into_iter().zip(Box::pin(requested).await?) {
            if let Some(place) = objects.get_mut(at) {
                *place = object;
            }
        }
        Ok(objects)
    }

    /// One call: what is made is sent, and what comes back is finished.
    async fn ask<T: Send + 'static>(
        &self,
        user: &str,
        hook: &Arc<ConversionWebhook>,
        to: &str,
        bytes: usize,
        make: impl FnOnce() -> Result<Vec<Object>, Failure> + Send + 'static,
        finished: impl FnOnce(Vec<Object>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let version = hook
            .version
            .ok_or_else(|| hook.failure(to, "failed: no supported conversion review versions"))?;
        let uid = self.chance.uid();
        let (originals, body) = {
            let (uid, to) = (uid.clone(), to.to_owned());
            let prepare = move || {
                let originals = make()?;
                let body = review::request(version, &uid, &to, &originals);
                Ok::<_, Failure>((originals, Bytes::from(body)))
            };
            self.do_work(user, bytes, prepare).await??
        };
        let from = originals.first().and_then(|object| object.str_at(&["apiVersion"]));
        let from = from.unwrap_or_default().to_owned();
        let begun = clock::instant();
        let answered = self.call(hook, body).await;
        let came = match answered {
            Err(why) => Err((ConversionFault::Call, format!("failed: {why}"))),
            Ok(answer) => {
                let (bytes, to) = (bytes.max(answer.len()), to.to_owned());
                let read =
                    move || review::read(version, &uid, &to, &answer, &originals).map(finished);
                self.do_work(user, bytes, read).await?
            }
        };
        let route = ConversionRoute { definition: &hook.definition, from: &from, to };
        let fault = came.as_ref().err().map(|(fault, _)| *fault);
        self.metrics.observe(&route, fault, begun.elapsed());
        came.map_err(|(_, why)| {
            tracing::warn!(definition = hook.definition, error = why, "objects are not converted");
            hook.failure(&from, &why)
        })?
    }

    /// Calls a webhook when it is its turn.
    async fn call(&self, hook: &ConversionWebhook, body: Bytes) -> Result<Bytes, String> {
        fair::rest();
        let begun = clock::instant();
        let late = |_| "context deadline exceeded (too many calls of it wait)".to_owned();
        let turn = tokio::time::timeout(LIMIT, hook.turns.acquire()).await.map_err(late)?;
        let _turn = turn.map_err(|error| error.to_string())?;
        let settings = CallSettings {
            agent: "kube-apiserver",
            limit: LIMIT.saturating_sub(begun.elapsed()).max(Duration::from_secs(1)),
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        hook.client.post(&self.connect, settings, body).await.map_err(|error| error.to_string())
    }

    /// Does short work on the spot and long work aside.
    async fn do_work<T: Send + 'static>(
        &self,
        user: &str,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        if bytes <= LONG_BYTES {
            return Ok(work());
        }
        fair::rest();
        let done = self.offload.go_on(user, work).await;
        done.ok_or_else(|| Failure::internal("a conversion was cut short"))
    }
}

/// Reads the answer to a review, for the fuzz targets.
pub(crate) fn read_review_answer(
    v1: bool,
    uid: &str,
    desired: &str,
    body: &[u8],
    originals: &[Object],
) -> Result<Vec<Object>, String> {
    let version = if v1 { ConversionReviewVersion::V1 } else { ConversionReviewVersion::V1Beta1 };
    review::read(version, uid, desired, body, originals).map_err(|(_, why)| why)
}

/// Which of some records need a webhook to be shown as a kind, a call's worth together.
fn parts(served: &ServedKind, records: &[Arc<Record>]) -> Vec<Vec<usize>> {
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, record) in records.iter().enumerate() {
        if !served.needs_conversion(record) {
            continue;
        }
        bytes += record.bytes().len();
        match parts.last_mut() {
            Some(part) if part.len() < SENT_OBJECTS_MAX && bytes <= SENT_BYTES_MAX => part.push(at),
            _ => {
                bytes = record.bytes().len();
                parts.push(vec![at]);
            }
        }
    }
    parts
}

/// The version that an object says it is in.
pub(crate) fn version_of(object: &Object) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
}
