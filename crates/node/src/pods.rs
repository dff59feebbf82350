//! The pods this agent knows, as others of the house may see them: who asks for a log or a command
//! finds the container here. Only the agent writes; nothing is decided here.
//!
//! ```text
//!   agent ──put, forget──► Pods ◄──find, all── serve, logs
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use tenure_machinery::Object;
use tokio::sync::watch;

use crate::runtime::{ContainerState, PodKey};

/// A handle to the pods of a node; clones see the same pods.
#[derive(Clone)]
pub struct Pods {
    known: Arc<RwLock<BTreeMap<String, Arc<KnownPod>>>>,
    changed: watch::Sender<u64>,
}

/// A pod as the agent last saw it.
#[derive(Debug, Clone, Default)]
pub struct KnownPod {
    /// Namespace, name and uid.
    pub key: PodKey,
    /// The object, with the status the agent last decided.
    pub object: Arc<Object>,
    /// The id of its sandbox, once there is one.
    pub sandbox: Option<String>,
    /// Its containers: init containers, containers, ephemeral containers, in this order.
    pub containers: Vec<KnownContainer>,
}

/// A container of a pod as the agent last saw it.
#[derive(Debug, Clone, Default)]
pub struct KnownContainer {
    /// Name in the pod.
    pub name: String,
    /// Its current instance, once one was made.
    pub current: Option<InstanceView>,
    /// The instance before, if it is still known.
    pub previous: Option<InstanceView>,
    /// Why it waits, as its status says: `ContainerCreating`, `ErrImagePull`; empty if it does not.
    pub waiting: String,
    /// Whether it was asked for with open standard input.
    pub stdin: bool,
    /// Whether it was asked for with a terminal.
    pub tty: bool,
}

/// One instance of a container.
#[derive(Debug, Clone, Default)]
pub struct InstanceView {
    /// Its id as the runtime knows it, without a scheme.
    pub id: String,
    /// Its restart count.
    pub attempt: u32,
    /// What it does.
    pub state: ContainerState,
    /// Its log file, absolute; rotated files lie beside it.
    pub log: PathBuf,
}

impl InstanceView {
    /// Whether it runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        matches!(self.state, ContainerState::Running { .. })
    }

    /// Whether it has ended, or nobody knows any more.
    #[must_use]
    pub fn ended(&self) -> bool {
        matches!(self.state, ContainerState::Exited { .. } | ContainerState::Unknown)
    }

    /// Whether it was ever started.
    #[must_use]
    pub fn ran(&self) -> bool {
        !matches!(self.state, ContainerState::Created)
    }
}

impl KnownPod {
    /// The container of this name.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&KnownContainer> {
        self.containers.iter().find(|container| container.name == name)
    }
}

impl Default for Pods {
    fn default() -> Pods {
        Pods { known: Arc::default(), changed: watch::Sender::new(0) }
    }
}

impl Pods {
    /// The pod of this name; the youngest if an old one of the same name still ends.
    #[must_use]
    pub fn find(&self, namespace: &str, name: &str) -> Option<Arc<KnownPod>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut named: Vec<&Arc<KnownPod>> = known
            .values()
            .filter(|pod| pod.key.namespace == namespace && pod.key.name == name)
            .collect();
        named.sort_by_key(|pod| pod.object.pointer_text("creationTimestamp"));
        named.last().map(|pod| Arc::clone(pod))
    }

    /// The pod of this uid.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<Arc<KnownPod>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(uid).cloned()
    }

    /// Every pod.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<KnownPod>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Puts a pod in the place of what was known of it.
    pub fn put(&self, pod: KnownPod) {
        let uid = pod.key.uid.clone();
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(uid, Arc::new(pod));
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Forgets a pod.
    pub fn forget(&self, uid: &str) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Tells of every change, for those who wait for one: a followed log that ends with its container.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

/// Reads one text of an object's metadata.
trait MetadataText {
    fn pointer_text(&self, name: &str) -> String;
}

impl MetadataText for Arc<Object> {
    fn pointer_text(&self, name: &str) -> String {
        let metadata = self.get("metadata").and_then(serde_json::Value::as_object);
        let text = metadata.and_then(|metadata| metadata.get(name));
        text.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, created: &str) -> KnownPod {
        let object = serde_json::json!({"metadata": {"creationTimestamp": created}});
        let key = PodKey { namespace: "n".into(), name: "p".into(), uid: uid.into() };
        let object = Arc::new(object.as_object().cloned().unwrap_or_default());
        KnownPod { key, object, ..KnownPod::default() }
    }

    #[test]
    fn the_youngest_of_a_name_is_found() {
        let pods = Pods::default();
        pods.put(pod("z", "2026-01-01T00:00:00Z"));
        pods.put(pod("a", "2026-01-02T00:00:00Z"));
        assert_eq!(pods.find("n", "p").unwrap().key.uid, "a");
        pods.forget("a");
        assert_eq!(pods.find("n", "p").unwrap().key.uid, "z");
        assert!(pods.find("m", "p").is_none());
    }
}
