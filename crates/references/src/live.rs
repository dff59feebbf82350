//! The index kept current by watches of kube-rs, and a cache of just what is referenced.
//!
//! ```text
//!   the three kinds ─┐                                   ┌─► check, watch
//!   your origins ────┴─► one task ──► RefIndex (locked) ─┤
//!   discovery                                            └─► ReferencedCache: one watch for each live target
//! ```
//!
//! Both need a tokio runtime, and end when they are dropped. Nothing is written to the cluster.

mod cache;
mod clock;
mod consumers;
mod discovery;
mod feed;
mod follow;
mod snapshot;
mod watches;

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kube::core::{ApiResource, DynamicObject};
use tenure_reference::{Resource, Selectors, ServedType};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::index::{Filter, Readable, RefIndex, VerdictUpdates};
use crate::names::Identity;
use crate::served;

pub use cache::ReferencedCache;
pub use consumers::{ClusterReferences, ConsumerReferences};
pub use discovery::served;
pub use follow::{Follow, MigrationEvent};
pub use snapshot::{ProposedObjects, Snapshot, UnreadableResource};

/// Which consumers an index is for.
enum FeedScope {
    /// Those of one requester, whose origins alone are read.
    One(Identity),
    /// All of them, each as a requester of its own.
    EachConsumer,
    /// All of them, for whoever asks.
    Everybody,
}

/// What the task and its users share.
struct LiveIndexState {
    scope: FeedScope,
    index: RwLock<RefIndex>,
    served: RwLock<Vec<ServedType>>,
    ready: watch::Sender<bool>,
    problem: Mutex<Option<String>>,
}

impl LiveIndexState {
    fn new(scope: FeedScope, selectors: Selectors) -> Arc<LiveIndexState> {
        Arc::new(LiveIndexState {
            scope,
            index: RwLock::new(RefIndex::new().with_selectors(selectors)),
            served: RwLock::new(Vec::new()),
            ready: watch::Sender::new(false),
            problem: Mutex::new(None),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, RefIndex> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, RefIndex> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn served(&self) -> RwLockReadGuard<'_, Vec<ServedType>> {
        self.served.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A type as kube-rs wants it, at a version or at the preferred one.
    fn api_resource(
        &self,
        resource: &Resource,
        version: Option<&str>,
    ) -> Option<WatchableResource> {
        let served = self.served();
        let row = served::row(&served, resource)?;
        let resource = served::api_resource(row, version)?;
        Some(WatchableResource { resource, namespaced: row.namespaced })
    }

    async fn ready(&self) {
        let mut ready = self.ready.subscribe();
        // The sender lives as long as this.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

/// A type, and where its objects are.
struct WatchableResource {
    resource: ApiResource,
    namespaced: bool,
}

impl WatchableResource {
    fn in_namespace(&self, client: kube::Client, namespace: &str) -> kube::Api<DynamicObject> {
        match self.namespaced {
            true => kube::Api::namespaced_with(client, namespace, &self.resource),
            false => kube::Api::all_with(client, &self.resource),
        }
    }
}

/// A task that ends with whoever started it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A [`RefIndex`] that watches keep current, for one consumer.
///
/// It reads the three reference kinds and the origins of this consumer, nothing else: give its service
/// account `get`, `list` and `watch` on those, and nothing on its targets (R115).
pub struct References {
    shared: Arc<LiveIndexState>,
    who: Identity,
    _task: Task,
}

impl References {
    /// Starts watching on the current runtime. `who` is the identity the client has.
    #[must_use]
    pub fn start(client: kube::Client, who: Identity) -> References {
        References::start_selecting(client, who, Selectors::default())
    }

    /// The same where the API server lets authors write selectors (D9, D13). The service account then also needs
    /// `list` and `watch` on namespaces, and on the types of classes that its consumers select.
    #[must_use]
    pub fn start_selecting(
        client: kube::Client,
        who: Identity,
        selectors: Selectors,
    ) -> References {
        let shared = LiveIndexState::new(FeedScope::One(who.clone()), selectors);
        let task = tokio::spawn(feed::run(client, Arc::clone(&shared)));
        References { shared, who, _task: Task(task) }
    }

    /// The index, to ask it. Changes wait while this is held: never hold it across an `await`.
    pub fn read(&self) -> RwLockReadGuard<'_, RefIndex> {
        self.shared.read()
    }

    /// Waits until everything there is has been seen once; before, nothing is allowed.
    pub async fn ready(&self) {
        self.shared.ready().await;
    }

    /// Changes of verdicts, first what is allowed already (R112).
    #[must_use]
    pub fn watch(&self, filter: Filter) -> VerdictUpdates {
        self.shared.write().watch(filter)
    }

    /// The targets this consumer may read, as they come and go.
    #[must_use]
    pub fn readable(&self) -> Readable {
        self.shared.write().readable(self.who.clone())
    }

    /// What went wrong last, such as a kind that may not be read; `None` when everything was read since.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.shared.problem()
    }
}
