//! Copies of just what is referenced, in place of a watch of every Secret there is (R114).
//!
//! ```text
//!   target came into reach ──► open a watch of this one name ──► copy
//!   the last reference went ──► close it, erase the copy
//! ```
//!
//! Two origins that name one target share one watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use futures::StreamExt as _;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::stream::{AbortHandle, BoxStream, SelectAll, abortable};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watch_object};

use super::{LiveIndexState, References, Task};
use crate::index::{Readable, TargetChange};
use crate::names::ObjectName;

/// What there is of targets, while it may be read.
#[derive(Default)]
struct Copies {
    /// INVARIANT: a key for every open watch; the value is there while the object is.
    objects: RwLock<BTreeMap<ObjectName, Option<Arc<DynamicObject>>>>,
    listeners: Mutex<Vec<UnboundedSender<ObjectName>>>,
}

impl Copies {
    /// Puts the copy of an open target; `None` when there is no such object.
    fn put(&self, name: &ObjectName, object: Option<DynamicObject>) {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.insert(name.clone(), object.map(Arc::new));
        drop(objects);
        self.tell(name);
    }

    fn erase(&self, name: &ObjectName) {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let erased = objects.remove(name).is_some();
        drop(objects);
        if erased {
            self.tell(name);
        }
    }

    fn tell(&self, name: &ObjectName) {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.unbounded_send(name.clone()).is_ok());
    }
}

/// Keeps a copy of every target the consumer may read, by one watch of one name each.
///
/// The service account needs no right on the targets: the watches are allowed by the references themselves.
pub struct ReferencedCache {
    copies: Arc<Copies>,
    _task: Task,
}

impl ReferencedCache {
    /// Starts on the current runtime. `references` must go on living: it says what to open and to close.
    #[must_use]
    pub fn start(client: kube::Client, references: &References) -> ReferencedCache {
        let copies = Arc::new(Copies::default());
        let work = CacheWorker {
            client,
            shared: Arc::clone(&references.shared),
            copies: Arc::clone(&copies),
            handles: BTreeMap::new(),
            watches: SelectAll::new(),
        };
        let task = tokio::spawn(work.run(references.readable()));
        ReferencedCache { copies, _task: Task(task) }
    }

    /// The object, when it may be read, exists and has been seen.
    #[must_use]
    pub fn get(&self, target: &ObjectName) -> Option<Arc<DynamicObject>> {
        let objects = self.copies.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.get(target).cloned().flatten()
    }

    /// The targets that are watched now.
    #[must_use]
    pub fn watched(&self) -> Vec<ObjectName> {
        let objects = self.copies.objects.read().unwrap_or_else(PoisonError::into_inner);
        objects.keys().cloned().collect()
    }

    /// The names of targets whose copy came, changed or went, from now on.
    #[must_use]
    pub fn changes(&self) -> UnboundedReceiver<ObjectName> {
        let (sender, receiver) = unbounded();
        let mut listeners = self.copies.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push(sender);
        receiver
    }
}

type CopyUpdate = (ObjectName, watcher::Result<Option<DynamicObject>>);

struct CacheWorker {
    client: kube::Client,
    shared: Arc<LiveIndexState>,
    copies: Arc<Copies>,
    handles: BTreeMap<ObjectName, AbortHandle>,
    watches: SelectAll<BoxStream<'static, CopyUpdate>>,
}

impl CacheWorker {
    async fn run(mut self, mut readable: Readable) {
        loop {
            tokio::select! {
                // What must be closed comes before what arrives.
                biased;
                change = readable.next() => match change {
                    Some(TargetChange::Opened(name)) => self.open(name),
                    Some(TargetChange::Closed(name)) => self.close(&name),
                    None => return,
                },
                Some((name, told)) = self.watches.next(), if !self.watches.is_empty() => {
                    self.take(&name, told);
                }
            }
        }
    }

    fn open(&mut self, name: ObjectName) {
        let Some(api) = self.shared.api_resource(&name.resource, None) else { return };
        let api = api.in_namespace(self.client.clone(), &name.namespace);
        let tag = name.clone();
        let events = watch_object(api, &name.name).default_backoff();
        let (events, handle) = abortable(events.map(move |told| (tag.clone(), told)));
        self.watches.push(events.boxed());
        self.copies.put(&name, None);
        if let Some(before) = self.handles.insert(name, handle) {
            before.abort();
        }
    }

    fn close(&mut self, name: &ObjectName) {
        if let Some(handle) = self.handles.remove(name) {
            handle.abort();
        }
        self.copies.erase(name);
    }

    fn take(&mut self, name: &ObjectName, told: watcher::Result<Option<DynamicObject>>) {
        match told {
            Ok(object) => self.copies.put(name, object),
            // The server is ahead of this index: what it no longer shows is no longer kept. The watch goes
            // on trying until the index agrees.
            Err(error) if is_forbidden(&error) => self.copies.put(name, None),
            // An API server that is away takes nothing from what is known.
            Err(_) => {}
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    let code = |error: &kube::Error| match error {
        kube::Error::Api(status) => status.code,
        _ => 0,
    };
    let code = match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            code(error)
        }
        watcher::Error::WatchError(status) => status.code,
        _ => 0,
    };
    code == 403
}
