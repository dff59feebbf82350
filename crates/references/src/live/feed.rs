//! The task that feeds an index: it watches what the index needs, and tells it what it sees.
//!
//! Of the strategies only what these consumers serve is taken over, so that no origin is read that they have
//! nothing to do with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{AbortHandle, BoxStream, SelectAll};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use serde_json::{Map, Value};
use tenure_reference::{Consumer, GROUP, Need, ReferenceApiKind, Resource, Strategy, Triple};
use tokio::time::Instant;

use super::clock;
use super::consumers::subject_of;
use super::watches::{Tagged, WatchUpdate, WatchedNames, fields, place, watch_all};
use super::{FeedScope, LiveIndexState, discovery};
use crate::names::ObjectName;

/// How often the cluster is asked what it serves. New types may appear at any time, and a consumer has no
/// right to watch their definitions.
pub(super) const DISCOVERY_PAUSE: Duration = Duration::from_secs(30);
/// The same, while a strategy names a type that was not served.
pub(super) const DISCOVERY_PAUSE_WAITING: Duration = Duration::from_secs(1);

/// The three kinds.
const KINDS: [(ReferenceApiKind, &str, &str); 3] = [
    (ReferenceApiKind::Strategy, "ReferenceStrategy", "referencestrategies"),
    (ReferenceApiKind::Consumer, "ClusterReferenceConsumer", "clusterreferenceconsumers"),
    (ReferenceApiKind::Grant, "ReferenceGrant", "referencegrants"),
];

/// What a watch is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FeedSource {
    Kind(ReferenceApiKind),
    Origins(Resource, String),
}

struct IndexUpdater {
    client: kube::Client,
    shared: Arc<LiveIndexState>,
    watches: SelectAll<BoxStream<'static, Tagged<FeedSource>>>,
    handles: BTreeMap<(Resource, String), AbortHandle>,
    kinds: BTreeMap<ReferenceApiKind, WatchedNames>,
    origins: BTreeMap<Resource, WatchedNames>,
    strategies: BTreeMap<String, Strategy>,
    consumers: BTreeMap<String, Consumer>,
    discovery_due: Instant,
}

/// Runs until it is aborted.
pub(super) async fn run(client: kube::Client, shared: Arc<LiveIndexState>) {
    let mut feed = IndexUpdater {
        client,
        shared,
        watches: SelectAll::new(),
        handles: BTreeMap::new(),
        kinds: BTreeMap::new(),
        origins: BTreeMap::new(),
        strategies: BTreeMap::new(),
        consumers: BTreeMap::new(),
        discovery_due: clock::timer_instant(),
    };
    // Without knowing what is served, an index that has seen everything would know nothing.
    while !feed.discover().await {
        tokio::time::sleep(DISCOVERY_PAUSE_WAITING).await;
    }
    for (kind, name, plural) in KINDS {
        let gvk = GroupVersionKind::gvk(GROUP, "v1alpha1", name);
        feed.open(FeedSource::Kind(kind), &ApiResource::from_gvk_with_plural(&gvk, plural));
    }
    loop {
        let due = feed.discovery_due;
        tokio::select! {
            Some((source, told)) = feed.watches.next() => feed.take(source, told),
            () = tokio::time::sleep_until(due) => {
                feed.discover().await;
            }
        }
        feed.follow_needs();
        let ready = feed.shared.read().is_ready();
        feed.shared.ready.send_if_modified(|was| std::mem::replace(was, ready) != ready);
    }
}

impl IndexUpdater {
    /// Asks what is served; whether there was an answer.
    async fn discover(&mut self) -> bool {
        let answer = discovery::served(&self.client).await;
        let answered = answer.is_ok();
        match answer {
            Ok(types) => {
                *self.shared.served.write().unwrap_or_else(std::sync::PoisonError::into_inner) =
                    types.clone();
                self.shared.write().serve(types);
            }
            Err(error) => self.shared.tell(Some(format!("what is served: {error}"))),
        }
        let pause = match self.waits() {
            true => DISCOVERY_PAUSE_WAITING,
            false => DISCOVERY_PAUSE,
        };
        self.discovery_due = clock::timer_instant() + pause;
        answered
    }

    /// Whether a strategy of this consumer names a type that is not served.
    fn waits(&self) -> bool {
        let served = self.shared.served();
        let missing = |wanted: &Resource| !served.iter().any(|row| row.resource == *wanted);
        let triples = self.triples();
        triples.iter().any(|triple| missing(&triple.origin) || missing(&triple.target))
    }

    fn open(&mut self, source: FeedSource, resource: &ApiResource) -> AbortHandle {
        let (events, handle) = watch_all(&self.client, resource, source);
        self.watches.push(events);
        handle
    }

    /// Starts and ends watches of origins as the index wants them.
    fn follow_needs(&mut self) {
        let needs = self.shared.write().needs();
        for need in needs {
            let (Need::Feed(resource, version) | Need::Stop(resource, version)) = &need;
            let key = (resource.clone(), version.clone());
            if let Some(handle) = self.handles.remove(&key) {
                handle.abort();
            }
            let api = self.shared.api_resource(resource, Some(version));
            if let (Need::Feed(..), Some(api)) = (&need, api) {
                let source = FeedSource::Origins(key.0.clone(), key.1.clone());
                let handle = self.open(source, &api.resource);
                self.handles.insert(key, handle);
            }
        }
    }

    fn take(&mut self, source: FeedSource, told: watcher::Result<Event<DynamicObject>>) {
        let event = match told {
            Ok(event) => event,
            Err(error) => return self.shared.tell(Some(format!("{}: {error}", name_of(&source)))),
        };
        match self.seen(&source).take(event) {
            WatchUpdate::Begins => {}
            WatchUpdate::Put(object) => self.put(&source, *object),
            WatchUpdate::Gone((namespace, name)) => self.remove(&source, &namespace, &name),
            WatchUpdate::Ended(gone) => {
                for (namespace, name) in gone {
                    self.remove(&source, &namespace, &name);
                }
                self.mark_synced(&source);
            }
        }
    }

    fn seen(&mut self, source: &FeedSource) -> &mut WatchedNames {
        match source {
            FeedSource::Kind(kind) => self.kinds.entry(*kind).or_default(),
            FeedSource::Origins(resource, _) => self.origins.entry(resource.clone()).or_default(),
        }
    }

    fn mark_synced(&mut self, source: &FeedSource) {
        self.shared.tell(None);
        match source {
            FeedSource::Kind(kind) => self.shared.write().mark_kind_synced(*kind),
            FeedSource::Origins(resource, version) => {
                self.shared.write().mark_origins_synced(resource, version);
            }
        }
    }

    fn put(&mut self, source: &FeedSource, object: DynamicObject) {
        let (_, name) = place(&object);
        match source {
            FeedSource::Origins(resource, version) => {
                let mut value = fields(object);
                // Items of a list do not say what they are.
                value.insert("apiVersion".into(), version.clone().into());
                self.shared.write().put_origin(resource, &Value::Object(value));
            }
            FeedSource::Kind(kind) => self.put_kind(*kind, &name, fields(object)),
        }
    }

    fn put_kind(&mut self, kind: ReferenceApiKind, name: &str, mut value: Map<String, Value>) {
        let called = KINDS.iter().find(|(known, ..)| *known == kind).map(|(_, called, _)| *called);
        value.insert("kind".into(), called.unwrap_or_default().into());
        match kind {
            ReferenceApiKind::Strategy => match Strategy::from_object(&value) {
                Ok(strategy) => {
                    self.strategies.insert(name.to_owned(), strategy);
                    self.refresh(name);
                    return;
                }
                Err(_) => drop(self.strategies.remove(name)),
            },
            ReferenceApiKind::Consumer => {
                if let FeedScope::EachConsumer = self.shared.scope {
                    value.insert("subject".into(), subject_of(name));
                }
                let consumer = Consumer::from_object(&value).ok();
                let mine = consumer.filter(|consumer| match &self.shared.scope {
                    FeedScope::One(who) => who.is(&consumer.subject),
                    FeedScope::EachConsumer | FeedScope::Everybody => true,
                });
                match mine {
                    Some(consumer) => drop(self.consumers.insert(name.to_owned(), consumer)),
                    None => {
                        self.consumers.remove(name);
                        // The classes of others are none of this consumer's reading.
                        value.remove("classSelector");
                    }
                }
            }
            ReferenceApiKind::Grant => {}
        }
        if let Err(why) = self.shared.write().put(&Value::Object(value)) {
            self.shared.tell(Some(format!("{} `{name}`: {why}", called.unwrap_or_default())));
        }
        if kind == ReferenceApiKind::Consumer {
            self.refresh_all();
        }
    }

    fn remove(&mut self, source: &FeedSource, namespace: &str, name: &str) {
        let object = |kind: &str| serde_json::json!({ "kind": kind, "metadata": { "namespace": namespace, "name": name } });
        match source {
            FeedSource::Origins(resource, _) => {
                let gone = ObjectName {
                    resource: resource.clone(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                self.shared.write().remove_origin(&gone.as_obj());
            }
            FeedSource::Kind(ReferenceApiKind::Strategy) => {
                self.strategies.remove(name);
                self.shared.write().remove_strategy(name);
            }
            FeedSource::Kind(ReferenceApiKind::Consumer) => {
                self.consumers.remove(name);
                // Of the three kinds, so it is understood.
                let _ = self.shared.write().remove(&object("ClusterReferenceConsumer"));
                self.refresh_all();
            }
            FeedSource::Kind(ReferenceApiKind::Grant) => {
                let _ = self.shared.write().remove(&object("ReferenceGrant"));
            }
        }
    }

    /// What this consumer serves.
    fn triples(&self) -> BTreeSet<Triple> {
        self.consumers.values().flat_map(|consumer| consumer.references.iter().cloned()).collect()
    }

    fn refresh_all(&mut self) {
        let names: Vec<String> = self.strategies.keys().cloned().collect();
        names.iter().for_each(|name| self.refresh(name));
    }

    /// Hands the part of a strategy to the index that this consumer serves.
    fn refresh(&mut self, name: &str) {
        let Some(strategy) = self.strategies.get(name) else { return };
        match narrowed(strategy, &self.triples()) {
            Some(strategy) => self.shared.write().put_strategy(strategy),
            None => self.shared.write().remove_strategy(name),
        }
        if self.waits() {
            self.discovery_due =
                self.discovery_due.min(clock::timer_instant() + DISCOVERY_PAUSE_WAITING);
        }
    }
}

/// A strategy with nothing but the references that are served; `None` when none is.
///
/// Versions without such references stay, since they have their part in which version is active (R58).
fn narrowed(strategy: &Strategy, triples: &BTreeSet<Triple>) -> Option<Strategy> {
    let mut strategy = strategy.clone();
    let origin = strategy.origin.clone();
    for version in &mut strategy.versions {
        version.references.retain(|path| {
            let (target, purpose) = (path.target.clone(), path.purpose.clone());
            triples.contains(&Triple { origin: origin.clone(), target, purpose })
        });
    }
    strategy.versions.iter().any(|version| !version.references.is_empty()).then_some(strategy)
}

fn name_of(source: &FeedSource) -> String {
    match source {
        FeedSource::Kind(kind) => {
            let plural = KINDS.iter().find(|(known, ..)| known == kind).map(|(.., plural)| *plural);
            format!("{}.{GROUP}", plural.unwrap_or_default())
        }
        FeedSource::Origins(resource, _) => resource.to_string(),
    }
}
