//! Watches that keep [`Following`] current, for whoever keeps grants in step with old ones (M4). What has to be
//! done is told, and carried out by the caller: nothing is written here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{AbortHandle, BoxStream, SelectAll};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use tenure_reference::{Expressions, GROUP, Resource, Strategy};
use tokio::time::Instant;

use super::clock;
use super::discovery;
use super::feed::{DISCOVERY_PAUSE, DISCOVERY_PAUSE_WAITING};
use super::watches::{Tagged, WatchUpdate, WatchedNames, fields, in_full, watch_all};
use crate::migrate::{Converted, Following, MigrationPlan, Origins, SOURCE_GROUP};
use crate::served::{api_resource, row};

/// How long changes are gathered before anything is done about them.
const GATHERED: Duration = Duration::from_millis(20);

/// What is always watched.
const FIXED: [FollowSource; 3] =
    [FollowSource::Old, FollowSource::Strategies, FollowSource::Grants];

/// What a watch is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FollowSource {
    Old,
    Strategies,
    Grants,
    Origins(Origins),
}

impl FollowSource {
    /// The type, and the version at which it is read; `None` is the preferred one.
    fn kind(&self) -> (Resource, Option<&str>) {
        match self {
            FollowSource::Old => (Resource::new(SOURCE_GROUP, "referencegrants"), None),
            FollowSource::Strategies => (Resource::new(GROUP, "referencestrategies"), None),
            FollowSource::Grants => (Resource::new(GROUP, "referencegrants"), None),
            FollowSource::Origins((resource, version)) => (resource.clone(), Some(version)),
        }
    }
}

/// An open watch.
struct OpenWatch {
    api: ApiResource,
    handle: AbortHandle,
    seen: WatchedNames,
    /// Whether everything has been told since it was opened or began anew.
    listed: bool,
    /// Whether it failed, which is said once.
    failed: bool,
    /// The strategies that read what it tells; none unless it tells origins.
    strategies: Vec<Strategy>,
}

/// Something to act on, or to say.
#[derive(Debug)]
pub enum MigrationEvent {
    /// Everything is known: what has to be done, and what came of each source, by its namespace and name.
    Plan(MigrationPlan, Vec<(String, Converted)>),
    /// Something cannot be read now, and is tried again: nothing is done meanwhile.
    Unread(String),
}

/// Old grants, strategies, origins and grants, as watches tell them.
pub struct Follow {
    client: kube::Client,
    state: Following,
    watches: SelectAll<BoxStream<'static, Tagged<FollowSource>>>,
    open: BTreeMap<FollowSource, OpenWatch>,
    discovery_due: Instant,
    /// Said once, until the cluster answers.
    silent: bool,
    /// When to look next what has to be done.
    due: Option<Instant>,
}

impl Follow {
    /// Begins to watch. Bundled strategies say what references are for where none is in force.
    #[must_use]
    pub fn start(
        client: kube::Client,
        bundled: Vec<Strategy>,
        expressions: Arc<dyn Expressions + Send + Sync>,
    ) -> Follow {
        Follow {
            client,
            state: Following::new(bundled, expressions),
            watches: SelectAll::new(),
            open: BTreeMap::new(),
            discovery_due: clock::timer_instant(),
            silent: false,
            due: None,
        }
    }

    /// Waits until everything is known and something has changed.
    pub async fn next(&mut self) -> MigrationEvent {
        loop {
            if self.is_synced() && self.due.is_some_and(|due| due <= clock::timer_instant()) {
                self.due = None;
                let (plan, sources) = self.state.plan();
                return MigrationEvent::Plan(plan, sources);
            }
            let due = self.due.filter(|_| self.is_synced());
            let problem = tokio::select! {
                Some((source, listed)) = self.watches.next() => self.take(&source, listed),
                () = tokio::time::sleep_until(self.discovery_due) => self.discover().await,
                () = sleep_until(due) => None,
            };
            if let Some(problem) = problem {
                return MigrationEvent::Unread(problem);
            }
        }
    }

    /// Looks again what has to be done, even if nothing changes until then.
    pub fn again_in(&mut self, pause: Duration) {
        let at = clock::timer_instant() + pause;
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// A grant was written; its watch will say so later.
    pub fn wrote(&mut self, grant: Value) {
        self.state.put_grant(grant);
    }

    /// A grant was deleted; its watch will say so later.
    pub fn deleted(&mut self, namespace: &str, name: &str) {
        self.state.remove_grant(namespace, name);
    }

    /// Whether everything that decides has been seen.
    fn is_synced(&self) -> bool {
        FIXED.iter().all(|source| self.open.contains_key(source))
            && self.open.values().all(|open| open.listed)
    }

    /// Asks what is served; what to say, if there is no answer.
    async fn discover(&mut self) -> Option<String> {
        let answer = discovery::served(&self.client).await;
        let mut pause = DISCOVERY_PAUSE_WAITING;
        let problem = match answer {
            Ok(served) => {
                self.state.serve(served);
                for source in FIXED {
                    self.watch(source, Vec::new());
                }
                self.follow_origins();
                self.again_in(GATHERED);
                let missing = self.missing();
                if missing.is_none() {
                    pause = DISCOVERY_PAUSE;
                }
                missing.map(|missing| format!("{missing}: not served"))
            }
            Err(error) => Some(format!("what is served: {}", in_full(&error))),
        };
        self.discovery_due = clock::timer_instant() + pause;
        let silent = std::mem::replace(&mut self.silent, problem.is_some());
        problem.filter(|_| !silent)
    }

    /// A type without which nothing can be done, and which is not served.
    fn missing(&self) -> Option<Resource> {
        let mut types = FIXED.iter().map(|source| source.kind().0);
        types.find(|resource| row(self.state.served(), resource).is_none())
    }

    /// Opens a watch, unless the same one is open.
    fn watch(&mut self, source: FollowSource, strategies: Vec<Strategy>) {
        let (resource, version) = source.kind();
        let row = row(self.state.served(), &resource);
        let Some(api) = row.and_then(|row| api_resource(row, version)) else { return };
        let same = |open: &OpenWatch| open.api == api && open.strategies == strategies;
        if self.open.get(&source).is_some_and(same) {
            return;
        }
        let (events, handle) = watch_all(&self.client, &api, source.clone());
        self.watches.push(events);
        // What was seen before and is not told again is gone.
        let seen = self.open.remove(&source).map(OpenWatch::close).unwrap_or_default();
        let open = OpenWatch { api, handle, seen, listed: false, failed: false, strategies };
        self.open.insert(source, open);
    }

    /// Opens and closes watches of origins, as sources and strategies want them.
    fn follow_origins(&mut self) {
        let wanted = self.state.origins().clone();
        let gone = self.open.keys().filter_map(|source| match source {
            FollowSource::Origins(of) if !wanted.contains_key(of) => Some(of.clone()),
            _ => None,
        });
        for of in gone.collect::<Vec<_>>() {
            self.state.forget(&of);
            self.open.remove(&FollowSource::Origins(of)).map(OpenWatch::close);
        }
        for (of, strategies) in wanted {
            self.watch(FollowSource::Origins(of), strategies);
        }
    }

    /// Takes in what a watch tells; what to say, if it failed.
    fn take(
        &mut self,
        source: &FollowSource,
        listed: watcher::Result<Event<DynamicObject>>,
    ) -> Option<String> {
        let open = self.open.get_mut(source)?;
        let event = match listed {
            Ok(event) => event,
            Err(error) => {
                let said = std::mem::replace(&mut open.failed, true);
                return (!said).then(|| format!("{}: {}", source.kind().0, in_full(&error)));
            }
        };
        open.failed = false;
        match open.seen.take(event) {
            WatchUpdate::Begins => open.listed = false,
            WatchUpdate::Put(object) => self.put(source, Value::Object(fields(*object))),
            WatchUpdate::Gone(place) => self.remove(source, &place),
            WatchUpdate::Ended(gone) => {
                open.listed = true;
                gone.iter().for_each(|place| self.remove(source, place));
            }
        }
        // Old grants and strategies say which origins decide, and how they are read.
        let is_told = |source| self.open.get(source).is_some_and(|open| open.listed);
        if matches!(source, FollowSource::Old | FollowSource::Strategies)
            && is_told(&FollowSource::Old)
            && is_told(&FollowSource::Strategies)
        {
            self.follow_origins();
        }
        self.again_in(GATHERED);
        None
    }

    fn put(&mut self, source: &FollowSource, mut object: Value) {
        // Items of a list do not say what they are.
        if let (Some(open), Some(fields)) = (self.open.get(source), object.as_object_mut()) {
            fields.insert("apiVersion".to_owned(), open.api.api_version.clone().into());
            fields.insert("kind".to_owned(), open.api.kind.clone().into());
        }
        match source {
            FollowSource::Old => self.state.put_source(object),
            FollowSource::Strategies => self.state.put_strategy(&object),
            FollowSource::Grants => self.state.put_grant(object),
            FollowSource::Origins(of) => self.state.put_origin(of, &object),
        }
    }

    fn remove(&mut self, source: &FollowSource, (namespace, name): &(String, String)) {
        match source {
            FollowSource::Old => self.state.remove_source(namespace, name),
            FollowSource::Strategies => self.state.remove_strategy(name),
            FollowSource::Grants => self.state.remove_grant(namespace, name),
            FollowSource::Origins(of) => self.state.remove_origin(of, namespace, name),
        }
    }
}

impl OpenWatch {
    fn close(self) -> WatchedNames {
        self.handle.abort();
        self.seen
    }
}

/// Sleeps until a time; without one, for good.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
