//! Runs synthesis: watches in, writes out. What is written is decided in `synthesis.rs`.
//!
//! ```text
//!   ConsumerReferences ──┐
//!   consumers, Roles,    ├──► Synthesis ──► requests, few at once, while we are the leader ──┐
//!   RoleBindings ────────┘        ▲                                                         │
//!                                 └─────────────────────────────────────────────────────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{AbortHandle, BoxStream, FuturesUnordered, SelectAll, abortable};
use futures::{FutureExt as _, StreamExt as _};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::Value;
use tenure_references::live::ConsumerReferences;
use tenure_references::{Consumer, GROUP, TargetChange};

use super::roles::{self, RoleOwner, ShardKey};
use super::synthesis::{GuardOutcome, RoleKind, RoleOutcome, RoleWork, Synthesis};
use crate::api::{self, text};
use crate::clock;
use crate::leader::Leadership;
use crate::status::AccessStatus;
use crate::{AttachFeature, FEATURE, MANAGED_BY, NAMESPACE};

/// How many requests are under way at once.
const REQUESTS: usize = 16;
/// How long one may take; what is not over by then may be done by the next leader.
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
/// How often the state is shown to whoever looks.
const REPORT_PAUSE: Duration = Duration::from_millis(250);
/// The policy that refuses open Roles.
const GUARD: &str = "access-synthesis.tenure.dev";

/// What a watch is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SynthesisSource {
    Consumers,
    Stored(RoleKind),
}

type WatchItem = (SynthesisSource, watcher::Result<Event<DynamicObject>>);
type Request = Pin<Box<dyn Future<Output = EndedRequest> + Send>>;

enum EndedRequest {
    Work(RoleWork, RoleOutcome),
    Guard(ShardKey, GuardOutcome),
}

struct SynthesisHost {
    client: kube::Client,
    references: ConsumerReferences,
    leadership: Arc<Leadership>,
    status: Arc<AccessStatus>,
    synthesis: Synthesis,
    readable: SelectAll<BoxStream<'static, (String, TargetChange)>>,
    followed: BTreeMap<String, AbortHandle>,
    uids: BTreeMap<String, String>,
    /// What the list that is being told has so far.
    fresh: BTreeSet<ShardKey>,
    fresh_bindings: BTreeSet<ShardKey>,
    fresh_consumers: BTreeSet<String>,
    listed: BTreeSet<SynthesisSource>,
    adopted: bool,
    index_ready: bool,
}

/// Runs until it is dropped.
pub(super) async fn run(
    client: kube::Client,
    leadership: Arc<Leadership>,
    status: Arc<AccessStatus>,
) {
    let references = ConsumerReferences::start(client.clone());
    let mut watches = watches(&client);
    let mut host = SynthesisHost {
        client,
        references,
        leadership,
        status,
        synthesis: Synthesis::new(),
        readable: SelectAll::new(),
        followed: BTreeMap::new(),
        uids: BTreeMap::new(),
        fresh: BTreeSet::new(),
        fresh_bindings: BTreeSet::new(),
        fresh_consumers: BTreeSet::new(),
        listed: BTreeSet::new(),
        adopted: false,
        index_ready: false,
    };
    let mut requests: FuturesUnordered<Request> = FuturesUnordered::new();
    let mut report = tokio::time::interval(REPORT_PAUSE);
    loop {
        host.start_requests(&mut requests);
        let due = host.synthesis.due().filter(|_| host.may_write() && requests.len() < REQUESTS);
        let later = clock::timer_instant() + Duration::from_secs(3600);
        tokio::select! {
            Some(item) = watches.next() => host.take(item),
            Some((consumer, change)) = host.readable.next(), if !host.readable.is_empty() => {
                host.turn(&consumer, change);
                // What turned together is decided together.
                while let Some(Some((consumer, change))) = host.readable.next().now_or_never() {
                    host.turn(&consumer, change);
                }
            }
            Some(ended) = requests.next(), if !requests.is_empty() => host.end(ended),
            () = tokio::time::sleep_until(due.unwrap_or(later)), if due.is_some() => {}
            _ = report.tick() => host.report(),
        }
    }
}

fn watches(client: &kube::Client) -> SelectAll<BoxStream<'static, WatchItem>> {
    let (manager, tenure) = MANAGED_BY;
    let labels = format!("{manager}={tenure},{FEATURE}={}", AttachFeature::Access.name());
    let resource = |group: &str, version: &str, kind: &str, plural: &str| {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    };
    let rbac = "rbac.authorization.k8s.io";
    let all = [
        (
            SynthesisSource::Consumers,
            resource(GROUP, "v1alpha1", "ClusterReferenceConsumer", "clusterreferenceconsumers"),
        ),
        (SynthesisSource::Stored(RoleKind::Role), resource(rbac, "v1", "Role", "roles")),
        (
            SynthesisSource::Stored(RoleKind::Binding),
            resource(rbac, "v1", "RoleBinding", "rolebindings"),
        ),
    ];
    let streams = all.into_iter().map(|(source, resource)| {
        let api: kube::Api<DynamicObject> = kube::Api::all_with(client.clone(), &resource);
        let config = match source {
            SynthesisSource::Consumers => watcher::Config::default(),
            SynthesisSource::Stored(_) => watcher::Config::default().labels(&labels),
        };
        let events = watcher(api, config).default_backoff();
        events.map(move |event| (source, event)).boxed()
    });
    streams.collect()
}

impl SynthesisHost {
    /// Nothing is written before everything is known that could be overwritten.
    fn may_write(&self) -> bool {
        self.adopted && self.leadership.leads(clock::timer_instant())
    }

    fn start_requests(&mut self, requests: &mut FuturesUnordered<Request>) {
        while self.may_write() && requests.len() < REQUESTS {
            let Some(work) = self.synthesis.next(clock::timer_instant()) else { return };
            requests.push(Box::pin(carry_out(self.client.clone(), work)));
        }
    }

    fn end(&mut self, ended: EndedRequest) {
        let now = clock::timer_instant();
        match ended {
            EndedRequest::Work(work, outcome) => {
                if let RoleOutcome::Failed(why) = &outcome {
                    tracing::warn!(work = name_of(&work), why, "a Role could not be written");
                }
                self.synthesis.ended(&work, outcome, now);
            }
            EndedRequest::Guard(key, outcome) => {
                if outcome == GuardOutcome::Accepted {
                    tracing::error!(
                        policy = GUARD,
                        "the policy that keeps Roles closed is not in force: nothing is written"
                    );
                }
                self.synthesis.guard_ended(&key, outcome, now);
            }
        }
    }

    fn turn(&mut self, consumer: &str, change: TargetChange) {
        let now = clock::timer_instant();
        match change {
            TargetChange::Opened(target) => self.synthesis.target_opened(consumer, &target, now),
            TargetChange::Closed(target) => self.synthesis.target_closed(consumer, &target, now),
        }
    }

    fn take(&mut self, (source, event): WatchItem) {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(?source, why = in_full(&error), "a watch failed and is begun again");
                self.status.watch_failed(plural_of(source), Some(in_full(&error)));
                return;
            }
        };
        match source {
            SynthesisSource::Consumers => self.take_consumer(event),
            SynthesisSource::Stored(kind) => self.take_stored(kind, event),
        }
        self.begin();
    }

    fn take_consumer(&mut self, event: Event<DynamicObject>) {
        match event {
            Event::Init => self.fresh_consumers.clear(),
            Event::InitApply(object) => {
                let object = fields(object);
                self.fresh_consumers.insert(text(&object, "/metadata/name").to_owned());
                self.put_consumer(&object);
            }
            Event::Apply(object) => self.put_consumer(&fields(object)),
            Event::Delete(object) => self.drop_consumer(text(&fields(object), "/metadata/name")),
            Event::InitDone => {
                let fresh = std::mem::take(&mut self.fresh_consumers);
                let gone: Vec<String> =
                    self.uids.keys().filter(|name| !fresh.contains(*name)).cloned().collect();
                gone.iter().for_each(|name| self.drop_consumer(name));
                self.mark_listed(SynthesisSource::Consumers);
            }
        }
    }

    fn put_consumer(&mut self, object: &Value) {
        let name = text(object, "/metadata/name").to_owned();
        let uid = text(object, "/metadata/uid").to_owned();
        let before = self.uids.insert(name.clone(), uid.clone());
        if before.as_ref().is_some_and(|before| *before != uid) {
            self.synthesis.drop_consumer(&name, clock::timer_instant());
        }
        let consumer = object.as_object().and_then(|fields| Consumer::from_object(fields).ok());
        let owner =
            consumer.map(|consumer| RoleOwner { uid: uid.clone(), subject: consumer.subject });
        self.synthesis.put_consumer(&name, owner, clock::timer_instant());
        if self.adopted && before != Some(uid) {
            self.follow(&name);
        }
    }

    fn drop_consumer(&mut self, name: &str) {
        self.uids.remove(name);
        if let Some(followed) = self.followed.remove(name) {
            followed.abort();
        }
        self.synthesis.drop_consumer(name, clock::timer_instant());
    }

    /// Hears from now on what a consumer may read.
    fn follow(&mut self, consumer: &str) {
        let name = consumer.to_owned();
        let changes = self.references.readable(consumer).map(move |change| (name.clone(), change));
        let (changes, handle) = abortable(changes);
        self.readable.push(changes.boxed());
        if let Some(before) = self.followed.insert(consumer.to_owned(), handle) {
            before.abort();
        }
    }

    fn take_stored(&mut self, kind: RoleKind, event: Event<DynamicObject>) {
        let (now, writing) = (clock::timer_instant(), self.may_write());
        match event {
            Event::Init => self.fresh_of(kind).clear(),
            Event::InitApply(object) => {
                let object = fields(object);
                if let Some(key) = ShardKey::of(&object) {
                    self.fresh_of(kind).insert(key);
                }
                self.synthesis.seen(kind, object, writing, now);
            }
            Event::Apply(object) => self.synthesis.seen(kind, fields(object), writing, now),
            Event::Delete(object) => self.synthesis.lost(kind, &fields(object), writing, now),
            Event::InitDone => {
                let fresh = std::mem::take(self.fresh_of(kind));
                self.synthesis.listed(kind, &fresh, now);
                self.mark_listed(SynthesisSource::Stored(kind));
            }
        }
    }

    fn fresh_of(&mut self, kind: RoleKind) -> &mut BTreeSet<ShardKey> {
        match kind {
            RoleKind::Role => &mut self.fresh,
            RoleKind::Binding => &mut self.fresh_bindings,
        }
    }

    fn mark_listed(&mut self, source: SynthesisSource) {
        self.listed.insert(source);
        self.status.watch_failed(plural_of(source), None);
    }

    /// Takes over what was written before, once all of it is known.
    fn begin(&mut self) {
        if self.adopted || self.listed.len() < 3 {
            return;
        }
        self.synthesis.adopt();
        self.adopted = true;
        let consumers: Vec<String> = self.uids.keys().cloned().collect();
        consumers.iter().for_each(|consumer| self.follow(consumer));
    }

    fn report(&mut self) {
        if self.adopted && !self.index_ready && self.references.is_ready() {
            // What was live when the index became ready is in the streams already.
            while let Some(Some((consumer, change))) = self.readable.next().now_or_never() {
                self.turn(&consumer, change);
            }
            self.index_ready = true;
            self.synthesis.index_ready(clock::timer_instant());
            tracing::info!("everything is known; Roles follow references");
        }
        let mut problems: Vec<String> =
            self.synthesis.problems().map(|(name, why)| format!("{name}: {why}")).collect();
        problems.extend(self.references.problem());
        problems.extend(self.leadership.problem().map(|why| format!("Lease: {why}")));
        if self.synthesis.lacks_guard() {
            problems.push(format!("the policy {GUARD} is not in force: nothing is written"));
        }
        self.status.report(crate::status::SynthesisReport {
            index_ready: self.index_ready,
            leads: self.leadership.leads(clock::timer_instant()),
            names: self.synthesis.names(),
            behind: self.synthesis.behind(),
            counts: self.synthesis.counts,
            problems,
        });
    }
}

fn plural_of(source: SynthesisSource) -> &'static str {
    match source {
        SynthesisSource::Consumers => "clusterreferenceconsumers",
        SynthesisSource::Stored(kind) => kind.plural(),
    }
}

fn name_of(work: &RoleWork) -> String {
    match work {
        RoleWork::Get(key, kind)
        | RoleWork::Apply(key, kind, _)
        | RoleWork::Delete(key, kind, _) => key.path(kind.plural()),
        RoleWork::Guard(key) => key.name(),
    }
}

async fn carry_out(client: kube::Client, work: RoleWork) -> EndedRequest {
    let in_time = tokio::time::timeout(REQUEST_LIMIT, answer(&client, &work)).await;
    match (work, in_time) {
        (RoleWork::Guard(key), Ok(Err(why))) => EndedRequest::Guard(key, guard_outcome(why)),
        (RoleWork::Guard(key), Ok(Ok(_))) => EndedRequest::Guard(key, GuardOutcome::Accepted),
        (RoleWork::Guard(key), Err(_)) => {
            EndedRequest::Guard(key, GuardOutcome::Failed("no answer in time".to_owned()))
        }
        (work, Ok(Ok(Some(object)))) => EndedRequest::Work(work, RoleOutcome::Found(object)),
        (work, Ok(Ok(None))) => EndedRequest::Work(work, RoleOutcome::Gone),
        (work, Ok(Err(why))) => EndedRequest::Work(work, RoleOutcome::Failed(why.reason())),
        (work, Err(_)) => {
            EndedRequest::Work(work, RoleOutcome::Failed("no answer in time".to_owned()))
        }
    }
}

/// What the server says; none for what is not there.
async fn answer(client: &kube::Client, work: &RoleWork) -> Result<Option<Value>, api::ApiError> {
    match work {
        RoleWork::Get(key, kind) => match api::get(client, &key.path(kind.plural())).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        },
        RoleWork::Apply(key, kind, object) => {
            api::apply(client, &key.path(kind.plural()), object, false).await.map(Some)
        }
        RoleWork::Delete(key, kind, uid) => {
            api::delete(client, &key.path(kind.plural()), uid).await.map(|_| None)
        }
        RoleWork::Guard(key) => {
            let key = ShardKey { namespace: NAMESPACE.to_owned(), shard: 0, ..key.clone() };
            let open = roles::open_role(&key);
            api::apply(client, &key.path("roles"), &open, true).await.map(Some)
        }
    }
}

fn guard_outcome(error: api::ApiError) -> GuardOutcome {
    let why = error.reason();
    if why.contains(GUARD) { GuardOutcome::Refused } else { GuardOutcome::Failed(why) }
}

fn fields(object: DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    // Who wrote what takes more room than all the rest.
    if let Some(meta) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        meta.remove("managedFields");
    }
    value
}

/// An error with everything underneath, in one line.
fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}
