//! Looks whether the servers that APIServices name are available, and says so in their status (api-server
//! R131e). What counts as available is decided in engine `workload`.
//!
//! ```text
//!   APIService, its Service or a slice of it changes ──► look ──► ask the server ──► status
//!   nothing happened for a while ───────────────────────┘
//! ```

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::Revision;
use tenure_machinery::Object;
use tenure_server::internal_writer::{Actor, InternalWriteOutcome, InternalWriter};
use tenure_workload::api_service::availability::{
    Availability, LOOK_AGAIN, RETRY_WITHIN, ServiceTarget, wrong,
};
use tenure_world::{Change, Interest, Record, World};

use crate::clock;
use crate::follow::{Follower, Want};
use crate::progress::Load;
use crate::queue::{Finished, WorkQueue};

/// What readiness calls it.
pub(crate) const NAME: &str = "api-services";
const API_SERVICES: &str = "/registry/apiregistration.k8s.io/apiservices/";
const SERVICES: &str = "/registry/services/specs/";
const SLICES: &str = "/registry/endpointslices/";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// How many servers are asked at the same time: one that hangs keeps few others waiting.
const ASKED_AT_ONCE: usize = 64;
const ACTOR: Actor = Actor { account: "system:apiserver", manager: "kube-apiserver" };

/// The follower.
pub(crate) struct ApiServices {
    writer: InternalWriter,
    /// The Services that APIServices name.
    // INVARIANT: holds exactly the APIServices that name one.
    targets: HashMap<Arc<str>, ServiceTarget>,
    queue: WorkQueue<Arc<str>>,
    asking: usize,
}

/// What came of a look.
pub(crate) struct Looked {
    name: Arc<str>,
    finished: Finished,
}

impl ApiServices {
    pub(crate) fn new(writer: InternalWriter) -> ApiServices {
        let queue = WorkQueue::new(|_: &Arc<str>| false);
        ApiServices { writer, targets: HashMap::new(), queue, asking: 0 }
    }

    /// Takes in an APIService as it is.
    fn learn(&mut self, record: &Record) {
        let mut object: Object = serde_json::from_slice(record.bytes()).unwrap_or_default();
        let name: Arc<str> = record.name().into();
        match ServiceTarget::of(&object) {
            Some(target) => {
                self.targets.insert(Arc::clone(&name), target);
                self.queue.wake(name);
            }
            None => {
                self.targets.remove(&name);
                // One that named a Service before says so still.
                if Availability::local().put(&mut object, clock::timestamp()) {
                    self.queue.wake(name);
                }
            }
        }
    }

    /// Looks again at whatever names a Service.
    fn wake(&mut self, namespace: &str, service: &str) {
        for (name, target) in &self.targets {
            if target.namespace == namespace && target.name == service {
                self.queue.wake(Arc::clone(name));
            }
        }
    }
}

impl Follower for ApiServices {
    type Ended = Looked;
    type Message = Infallible;

    fn name(&self) -> &'static str {
        NAME
    }

    fn start(&mut self, state: &World) -> Vec<Interest> {
        *self = ApiServices::new(self.writer.clone());
        for record in state.range(API_SERVICES, None) {
            self.learn(record);
        }
        [API_SERVICES, SERVICES, SLICES].map(|prefix| Interest::Prefix(prefix.into())).into()
    }

    fn see(&mut self, _state: &World, change: &Change) {
        if self.targets.is_empty() && !change.key.starts_with(API_SERVICES) {
            return;
        }
        let Some(record) = change.after.as_ref().or(change.before.as_ref()) else { return };
        if change.key.starts_with(SLICES) {
            let of = |record: &Arc<Record>| record.label(SERVICE_NAME).map(str::to_owned);
            let mut services: Vec<String> =
                change.before.iter().chain(&change.after).filter_map(of).collect();
            services.dedup();
            services.iter().for_each(|service| self.wake(record.namespace(), service));
        } else if change.key.starts_with(SERVICES) {
            self.wake(record.namespace(), record.name());
        } else if change.after.is_some() {
            let before = self.targets.contains_key(record.name());
            // A status that was written here is no reason to ask once more.
            if !before || !is_only_status(change) {
                self.learn(record);
            }
        } else {
            self.targets.remove(record.name());
        }
    }

    fn hear(&mut self, message: Infallible) {
        match message {}
    }

    fn next(&mut self, now: Instant, _seen: Revision) -> Want<Looked> {
        if self.asking < ASKED_AT_ONCE {
            let Some(name) = self.queue.take(now) else { return Want::Rest(self.queue.due()) };
            let target = self.targets.get(&name).cloned();
            self.asking += 1;
            let writer = self.writer.clone();
            // Asked by whoever is free: the thread of the engines decides meanwhile.
            let looking = tokio::spawn({
                let name = Arc::clone(&name);
                async move { look(&writer, &name, target.as_ref()).await }
            });
            return Want::Task(Box::pin(async move {
                let failed = Finished::Failed { within: RETRY_WITHIN };
                let finished = looking.await.unwrap_or_else(|error| {
                    tracing::error!(%error, api_service = &*name, "a look broke down");
                    failed
                });
                Looked { name, finished }
            }));
        }
        Want::Rest(None)
    }

    fn ended(&mut self, looked: Looked, now: Instant) {
        self.asking -= 1;
        self.queue.finish(looked.name, looked.finished, Duration::ZERO, now);
    }

    fn load(&self) -> Load {
        Load { depth: self.queue.depth(), idle: self.queue.is_idle(), ..Load::default() }
    }
}

/// Whether a change left everything as it was but what is said of availability.
fn is_only_status(change: &Change) -> bool {
    let spec = |record: &Arc<Record>| {
        let object: Object = serde_json::from_slice(record.bytes()).unwrap_or_default();
        (record.uid().to_owned(), object.get("spec").cloned())
    };
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    spec(before) == spec(after)
}

/// Looks at one APIService, and writes what came of it.
async fn look(writer: &InternalWriter, name: &str, target: Option<&ServiceTarget>) -> Finished {
    let wrong = target.and_then(|target| wrong_before(writer, target));
    let mut ended = Finished::Done(target.map(|_| LOOK_AGAIN));
    let availability = match (wrong, target) {
        (_, None) => Availability::local(),
        (Some(wrong), _) => {
            writer.forget_api_service(name);
            wrong
        }
        (None, Some(_)) => {
            let Some(requested) = writer.check_api_service(name).await else { return ended };
            if requested.is_err() {
                ended = Finished::Failed { within: RETRY_WITHIN };
            }
            Availability::answered(&requested)
        }
    };
    match write(writer, name, target, &availability).await {
        Ok(()) => ended,
        Err(why) => {
            tracing::debug!(api_service = name, why, "its availability was not written");
            Finished::Failed { within: RETRY_WITHIN }
        }
    }
}

/// What is wrong as far as it can be seen from here.
fn wrong_before(writer: &InternalWriter, target: &ServiceTarget) -> Option<Availability> {
    let state = writer.world().current();
    let read = |record: &Arc<Record>| -> Object {
        serde_json::from_slice(record.bytes()).unwrap_or_default()
    };
    let ServiceTarget { namespace, name, .. } = target;
    let service = state.get(&format!("{SERVICES}{namespace}/{name}")).map(read);
    let prefix = format!("{SLICES}{namespace}/");
    let slices = state.range(&prefix, None);
    let slices = slices.filter(|record| record.label(SERVICE_NAME) == Some(name));
    let slices: Vec<Object> = slices.map(read).collect();
    wrong(target, service.as_ref(), slices.iter())
}

async fn write(
    writer: &InternalWriter,
    name: &str,
    target: Option<&ServiceTarget>,
    availability: &Availability,
) -> Result<(), String> {
    let record = writer.world().current().get(&format!("{API_SERVICES}{name}")).cloned();
    let Some(record) = record else { return Ok(()) };
    let mut object = writer.read(&record).map_err(|failure| failure.message)?;
    // What was asked is about the Service that it named then.
    if ServiceTarget::of(&object).as_ref() != target {
        return Ok(());
    }
    if !availability.put(&mut object, clock::timestamp()) {
        return Ok(());
    }
    match writer.update(ACTOR, &record, "status", object, Vec::new()).await {
        Ok(InternalWriteOutcome::Moved) => Err("it has moved".to_owned()),
        Ok(_) => Ok(()),
        Err(failure) => Err(failure.message),
    }
}
