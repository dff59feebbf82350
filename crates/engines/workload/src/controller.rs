//! The shape that every controller has: which changes concern it, and what it wants done.
//!
//! ```text
//!   Change ──► wake ──► Key ──► queue of the host ──► reconcile(Pass) ──► Outcome
//!                                                       ▲     └─ questions ──► API
//!                                                       └──────── answers ◄────┘
//! ```
//!
//! The host owns queues, timers, retries and memory; a controller owns nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tenure_core::Revision;
use tenure_machinery::{Object, ObjectExt};

use crate::autoscaler::AutoscalerMemory;
use crate::daemonset::PodFailures;
use crate::intent::{ControllerIntent, FailedIntent};
use crate::job::JobBackoff;
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};

/// What one pass of a controller is about; nearly always an object's namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReconcileKey {
    /// Empty for objects without a namespace.
    pub namespace: Arc<str>,
    /// The name; a controller with a single task may use an empty one.
    pub name: Arc<str>,
}

impl ReconcileKey {
    /// The key of these names.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> ReconcileKey {
        ReconcileKey { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    #[must_use]
    pub fn of(object: &Object) -> ReconcileKey {
        ReconcileKey::new(object.namespace(), object.name())
    }
}

/// An object as it was and as it is (CR11); at the start of a host every object comes as new.
#[derive(Clone, Copy, Debug)]
pub struct ObjectChange<'a> {
    /// What kind of object.
    pub resource: BuiltinResource,
    /// Before, if there was one.
    pub before: Option<&'a VersionedObject>,
    /// After, if there still is one.
    pub after: Option<&'a VersionedObject>,
}

impl<'a> ObjectChange<'a> {
    /// The object as it is, or as it last was.
    #[must_use]
    pub fn object(&self) -> Option<&'a VersionedObject> {
        self.after.or(self.before)
    }
}

/// The end of an object of any kind, custom ones too.
#[derive(Clone, Copy, Debug)]
pub struct Departure<'a> {
    /// The API group; empty for core.
    pub group: &'a str,
    /// The resource, such as `pods`.
    pub resource: &'a str,
    /// Empty where the resource has no namespaces.
    pub namespace: &'a str,
}

/// Why the API did not answer a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRefusal {
    /// The code of the response.
    pub code: u16,
    /// The message of the Status.
    pub message: String,
}

/// What the API answered, by the path that was asked for.
pub type ApiAnswers = BTreeMap<String, Result<Value, ApiRefusal>>;

/// Everything a pass may depend on (PU1, PU2).
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// What it is about.
    pub key: &'a ReconcileKey,
    /// What there is.
    pub view: &'a dyn ClusterView,
    /// The time.
    pub now: Timestamp,
    /// What the last pass for this key left behind; lost when the host restarts.
    pub memory: &'a ReconcileMemory,
    /// What of the last pass was refused; empty when everything was done.
    pub refused: &'a [FailedIntent],
    /// What the API answered to the questions of the passes before that only asked.
    pub answers: &'a ApiAnswers,
}

/// What a pass leaves for the next one; never needed to be right, only to be quiet or quick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReconcileMemory {
    /// Nothing to remember.
    #[default]
    Nothing,
    /// Something was told about this generation of the object already.
    Reported(i64),
    /// These texts were told, or looked at, already and still hold.
    Said(BTreeSet<String>),
    /// The objects of these uids were to be deleted.
    Tried(BTreeSet<String>),
    /// Somebody else has to have seen what was written up to this revision.
    Seen(Revision),
    /// Something has been so since this time.
    Since(Timestamp),
    /// Pods failed on these nodes, so that their successors come later each time (DS5).
    Failures(PodFailures),
    /// Pods of a Job failed, so that their successors come later each time (JB7).
    Backoff(JobBackoff),
    /// What sizes were recommended lately, and how they changed (HA5).
    Autoscaler(AutoscalerMemory),
}

/// What a pass wants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReconcileResult {
    /// What to do, in this order (PU3).
    pub intents: Vec<ControllerIntent>,
    /// Kept for the next pass.
    pub memory: ReconcileMemory,
    /// Call again after this time even if nothing changes; replaces any earlier wish for the key.
    pub requeue_after: Option<Duration>,
    /// Paths of the server's own API to read, under the account of the controller. A pass with questions
    /// only asks: everything else it says counts for nothing, and it is called again with the answers.
    pub questions: BTreeSet<String>,
}

impl ReconcileResult {
    /// Adds an intent.
    pub fn push(&mut self, intent: ControllerIntent) {
        self.intents.push(intent);
    }

    /// Asks to be called again after this time, or earlier if that was asked already.
    pub fn wake_after(&mut self, wait: Duration) {
        self.requeue_after = Some(self.requeue_after.map_or(wait, |known| known.min(wait)));
    }
}

/// A program of Kubernetes that has controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubernetesProgram {
    /// kube-controller-manager, and any other whose controllers say themselves whose name their writes bear.
    ControllerManager,
    /// kube-apiserver, which writes in its own name and whose controllers always run.
    ApiServer,
}

/// A built-in controller: a stateless function with a name.
pub trait Controller: Send + Sync {
    /// As `--controllers` writes it, such as `replicaset-controller`.
    fn name(&self) -> &'static str;

    /// The older name that `--controllers` also takes, such as `replicaset`.
    fn alias(&self) -> &'static str;

    /// The source of its events, such as `replicaset-controller`.
    fn component(&self) -> &'static str {
        self.name()
    }

    /// The program that does its work where Kubernetes is several.
    fn program(&self) -> KubernetesProgram {
        KubernetesProgram::ControllerManager
    }

    /// Whose name its writes bear: an account in `kube-system`, such as `replicaset-controller`, or with a
    /// colon in it a whole user name.
    fn account(&self) -> &'static str {
        match self.program() {
            KubernetesProgram::ControllerManager => self.component(),
            KubernetesProgram::ApiServer => "system:apiserver",
        }
    }

    /// The name that the fields it writes are managed under.
    fn manager(&self) -> &'static str {
        match self.program() {
            KubernetesProgram::ControllerManager => "kube-controller-manager",
            KubernetesProgram::ApiServer => "kube-apiserver",
        }
    }

    /// Whether it brings to an end what others began: its keys come before theirs, so that much work
    /// is done piece by piece.
    fn comes_first(&self) -> bool {
        false
    }

    /// Whether `*` turns it on; otherwise it must be named.
    fn on_by_default(&self) -> bool {
        true
    }

    /// Whether it runs wherever the server does unless it is turned off by its name: without it what
    /// clients are promised by the API itself would not happen.
    fn is_essential(&self) -> bool {
        self.program() == KubernetesProgram::ApiServer
    }

    /// The longest that something refused waits until it is tried again.
    fn retries_within(&self) -> Duration {
        Duration::from_secs(1000)
    }

    /// The resources whose changes concern it.
    fn watches(&self) -> &'static [BuiltinResource];

    /// The keys that a change of a watched resource concerns.
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    );

    /// The keys that the end of an object concerns, whatever its kind; for whoever waits until all are gone.
    fn wake_by_departure(
        &self,
        _: &Departure<'_>,
        _: &dyn ClusterView,
        _: &mut dyn FnMut(ReconcileKey),
    ) {
    }

    /// What to do about one key.
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult;
}
