//! The index for all consumers at once: for whoever writes down what each gives, and for whoever answers requests.

use std::sync::Arc;

use serde_json::{Value, json};
use tenure_reference::{Attributes, Selectors};

use super::{FeedScope, LiveIndexState, Task, feed};
use crate::index::Readable;
use crate::names::Identity;

/// The user that stands for a consumer. No requester is called so: who asks an API server is known there by
/// another name.
fn user_of(consumer: &str) -> String {
    format!("tenure:consumer:{consumer}")
}

/// The same as the subject of the consumer.
pub(super) fn subject_of(consumer: &str) -> Value {
    json!({ "kind": "User", "name": user_of(consumer) })
}

/// What each ClusterReferenceConsumer may read, kept current by watches; for those who write it down elsewhere.
///
/// It reads the three reference kinds and the origins of all consumers.
pub struct ConsumerReferences {
    shared: Arc<LiveIndexState>,
    _task: Task,
}

impl ConsumerReferences {
    /// Starts watching on the current runtime.
    #[must_use]
    pub fn start(client: kube::Client) -> ConsumerReferences {
        let shared = LiveIndexState::new(FeedScope::EachConsumer, Selectors::default());
        let task = tokio::spawn(feed::run(client, Arc::clone(&shared)));
        ConsumerReferences { shared, _task: Task(task) }
    }

    /// The targets that a consumer may read, as they come and go, first of all those there are. The consumer
    /// need not exist yet.
    #[must_use]
    pub fn readable(&self, consumer: &str) -> Readable {
        let who = Identity { user: user_of(consumer), groups: Vec::new() };
        self.shared.write().readable(who)
    }

    /// Whether everything there is has been seen; until then more may be missing than is.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.read().is_ready()
    }

    /// Waits until everything there is has been seen once.
    pub async fn ready(&self) {
        self.shared.ready().await;
    }

    /// What went wrong last, such as a kind that may not be read; `None` when everything was read since.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.shared.problem()
    }
}

/// What references give to whoever asks, kept current by watches; for those who answer an API server.
///
/// It reads the three reference kinds and the origins of all consumers.
pub struct ClusterReferences {
    shared: Arc<LiveIndexState>,
    _task: Task,
}

impl ClusterReferences {
    /// Starts watching on the current runtime.
    #[must_use]
    pub fn start(client: kube::Client) -> ClusterReferences {
        let shared = LiveIndexState::new(FeedScope::Everybody, Selectors::default());
        let task = tokio::spawn(feed::run(client, Arc::clone(&shared)));
        ClusterReferences { shared, _task: Task(task) }
    }

    /// Whether a request is allowed because of a reference; none until everything has been seen once.
    #[must_use]
    pub fn decides(&self, asked: &Attributes<'_>) -> Option<bool> {
        let index = self.shared.read();
        index.is_ready().then(|| index.decides(asked))
    }

    /// What went wrong last, such as a kind that may not be read; `None` when everything was read since.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.shared.problem()
    }
}
