//! A collection that several pods of the node read from, followed while one of them needs it: trust
//! bundles, and the requests for certificates of this node's pods. What a pod takes from it is decided
//! elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_downward::ValueInput;
use tenure_machinery::{Object, ObjectExt as _};
use tenure_supervise::keep_running;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::client::Client;
use crate::follow::{CollectionEvent, follow};
use crate::objects::InputCallback;

/// Which pod, by its uid, a change of an object concerns.
type Concerns = fn(&Object) -> Option<&str>;

/// One collection.
pub(crate) struct SharedCollection {
    client: Client,
    path: String,
    input: ValueInput,
    concerns: Option<Concerns>,
    state: Mutex<CollectionState>,
    /// Counts what was heard.
    heard: watch::Sender<u64>,
}

#[derive(Default)]
struct CollectionState {
    objects: BTreeMap<(String, String), Arc<Object>>,
    /// Whether everything was read once; till then, why not.
    unread: Option<String>,
    read: bool,
    users: BTreeMap<String, InputCallback>,
    task: Option<AbortHandle>,
}

fn key(object: &Object) -> (String, String) {
    (object.namespace().to_owned(), object.name().to_owned())
}

impl SharedCollection {
    /// A collection at a path; without `concerns`, a change concerns every pod that reads from it.
    pub(crate) fn new(
        client: Client,
        path: String,
        input: ValueInput,
        concerns: Option<Concerns>,
    ) -> Arc<SharedCollection> {
        Arc::new(SharedCollection {
            client,
            path,
            input,
            concerns,
            state: Mutex::default(),
            heard: watch::Sender::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, CollectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the collection for a pod, or no more; nobody follows what no pod needs.
    pub(crate) fn hold(self: &Arc<Self>, uid: &str, wanted: bool, tell: &InputCallback) {
        let mut state = self.state();
        if wanted {
            state.users.entry(uid.to_owned()).or_insert_with(|| Arc::clone(tell));
            if state.task.is_none() {
                state.task = Some(self.begin());
            }
        } else if state.users.remove(uid).is_some() && state.users.is_empty() {
            if let Some(task) = state.task.take() {
                task.abort();
            }
            *state = CollectionState::default();
            self.heard.send_replace(0);
        }
    }

    fn begin(self: &Arc<Self>) -> AbortHandle {
        let (shared, client, path) = (Arc::downgrade(self), self.client.clone(), self.path.clone());
        let following = keep_running("a collection of pods", move || {
            let shared = shared.clone();
            follow(client.clone(), path.clone(), move |event| {
                let Some(shared) = shared.upgrade() else { return false };
                shared.learn(event);
                true
            })
        });
        tokio::spawn(following).abort_handle()
    }

    fn learn(&self, event: CollectionEvent) {
        let mut state = self.state();
        // What was said to a follower that nobody needs any more counts for nothing.
        if state.task.is_none() {
            return;
        }
        let concerned = match event {
            CollectionEvent::All(all) => {
                state.objects = all.into_iter().map(|object| (key(&object), object)).collect();
                (state.read, state.unread) = (true, None);
                None
            }
            CollectionEvent::Put(object) => {
                state.objects.insert(key(&object), Arc::clone(&object));
                Some(object)
            }
            CollectionEvent::Gone(object) => {
                state.objects.remove(&key(&object));
                Some(object)
            }
            CollectionEvent::Unread(why) => {
                // A server that is away changes nothing that was read before.
                state.unread = Some(why);
                drop(state);
                self.heard.send_modify(|heard| *heard += 1);
                return;
            }
        };
        let uid = concerned.as_deref().zip(self.concerns).map(|(object, of)| of(object));
        let told: Vec<InputCallback> = match uid {
            Some(uid) => uid.and_then(|uid| state.users.get(uid)).cloned().into_iter().collect(),
            None => state.users.values().cloned().collect(),
        };
        drop(state);
        self.heard.send_modify(|heard| *heard += 1);
        for tell in told {
            tell(self.input.clone());
        }
    }

    /// Waits until the collection was read once, or nobody can tell.
    pub(crate) async fn settle(&self) {
        let mut heard = self.heard.subscribe();
        // Whoever reads finds out what is missing.
        let _ = heard.wait_for(|heard| *heard > 0).await;
    }

    /// Waits for anything new; begin to listen before what is known is looked at.
    pub(crate) fn listen(&self) -> watch::Receiver<u64> {
        self.heard.subscribe()
    }

    /// Everything there is.
    pub(crate) fn all(&self) -> Result<Vec<Arc<Object>>, String> {
        let state = self.state();
        if state.read {
            return Ok(state.objects.values().cloned().collect());
        }
        let why = state.unread.clone();
        Err(why.unwrap_or_else(|| format!("{} was not read yet", self.input)))
    }

    /// One object, if it is seen.
    pub(crate) fn one(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.state().objects.get(&key).cloned()
    }
}
