//! What the agent observes of a pod: sandbox, volumes, container instances, work under way.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use tenure_machinery::Object;

use crate::backoff::RestartBackoff;
use crate::fit::PodRejection;
use crate::resize::PodResize;

/// A pod as it is on the node.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    /// Whether there is a sandbox that runs.
    pub sandbox: bool,
    /// Whether a sandbox is being made.
    pub sandbox_busy: bool,
    /// When a sandbox may be tried again.
    pub sandbox_after: Option<Timestamp>,
    /// Whether every volume is set up.
    pub volumes: bool,
    /// Why the node does not take the pod, if it does not (R111).
    pub refused: Option<PodRejection>,
    /// Why the node puts the pod out, if it does (R112).
    pub evicted: Option<PodRejection>,
    /// Whether the pod is gone from the server without having ended here.
    pub forgotten: bool,
    /// When the node accepted the pod.
    pub started: Option<Timestamp>,
    /// When its end began, with the grace it was given then.
    pub ending: Option<Timestamp>,
    /// That the node ends, and the pod does not: its containers end now and are started again when the node
    /// is back.
    pub leaving: Option<Leaving>,
    /// Addresses of the pod, the main one first.
    pub pod_addresses: Vec<String>,
    /// Addresses of the node, the main one first.
    pub host_addresses: Vec<String>,
    /// How far a change of its resources is (R111b).
    pub resize: PodResize,
    /// Its containers by name; one that is not here was never made.
    pub containers: BTreeMap<String, ObservedContainer>,
    /// Whether its phase was final before this agent began.
    pub over: bool,
    /// Whether its sandbox was stopped and its volumes let go.
    pub cleaned: bool,
    /// Whether what was left of it was removed, too.
    pub removed: bool,
}

/// That the node of a pod ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// Since when.
    pub since: Timestamp,
    /// How long the node waits for any pod, in seconds; a pod that wants less gets less.
    pub grace_seconds_max: i64,
}

/// A container as it is on the node.
#[derive(Debug, Clone, Default)]
pub struct ObservedContainer {
    /// Its newest instance.
    pub current: Option<ContainerInstance>,
    /// How the instance before ended.
    pub last: Option<(String, ContainerTermination)>,
    /// What keeps the next instance from being made.
    pub waiting: Option<WaitingState>,
    /// When the next try may be made.
    pub after: Option<Timestamp>,
    /// How often it was started again.
    pub restarts: u32,
    /// The verdict of its readiness probe; without a probe ignored.
    pub ready: bool,
    /// Whether its startup probe passed; without a probe ignored.
    pub startup_passed: bool,
    /// Work under way.
    pub busy: Option<ContainerTransition>,
    /// How long the next start waits.
    pub backoff: RestartBackoff,
    /// That it must end although the pod goes on: a probe or a hook failed.
    pub kill: Option<KillOrder>,
    /// The resources that its newest instance has; none where that was not followed.
    pub resources: Option<Object>,
    /// Whether it ends, or ended, only to be started again with other resources, whatever its policy says of
    /// ends (R111b).
    pub resizing: bool,
}

/// That a container must end although its pod goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KillOrder {
    /// What people read.
    pub message: String,
    /// Its own grace; without one the pod's.
    pub grace_seconds: Option<i64>,
}

/// Work under way on a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerTransition {
    /// It is being made and started.
    Starting,
    /// It is being stopped and will be killed then.
    Stopping {
        /// When it will be killed.
        until: Timestamp,
    },
}

/// One instance of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerInstance {
    /// Its id with the runtime's scheme.
    pub id: String,
    /// The image as the pod named it when it was made.
    pub image: String,
    /// What the runtime calls the image.
    pub image_id: String,
    /// What it does.
    pub state: InstanceState,
}

/// What an instance does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum InstanceState {
    /// Made, not started.
    #[default]
    Created,
    /// Runs.
    Running {
        /// Since when.
        started: Timestamp,
    },
    /// Ended.
    Ended(ContainerTermination),
    /// Nobody knows any more.
    Unknown,
}

/// How an instance ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerTermination {
    /// When it began.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub finished: Option<Timestamp>,
    /// Its exit code.
    pub code: i64,
    /// `Completed`, `Error`, `OOMKilled`, …
    pub reason: String,
    /// Its last words.
    pub message: String,
}

/// What a container waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitingState {
    /// One word.
    pub reason: String,
    /// What people read.
    pub message: String,
}

impl ObservedContainer {
    /// Whether it runs.
    #[must_use]
    pub fn runs(&self) -> bool {
        matches!(self.state(), Some(InstanceState::Running { .. }))
    }

    /// Whether something of it may still be there to be stopped.
    #[must_use]
    pub fn lives(&self) -> bool {
        matches!(
            self.state(),
            Some(InstanceState::Running { .. } | InstanceState::Created | InstanceState::Unknown)
        )
    }

    /// What its newest instance does.
    #[must_use]
    pub fn state(&self) -> Option<&InstanceState> {
        self.current.as_ref().map(|instance| &instance.state)
    }

    /// How its newest instance ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<&ContainerTermination> {
        match self.state() {
            Some(InstanceState::Ended(ended)) => Some(ended),
            _ => None,
        }
    }
}

impl Observed {
    /// What is seen of a container.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&ObservedContainer> {
        self.containers.get(name)
    }

    /// Whether something of the pod may still be there to be stopped.
    #[must_use]
    pub fn lives(&self) -> bool {
        let lives = |seen: &ObservedContainer| seen.busy.is_some() || seen.lives();
        self.sandbox_busy || self.containers.values().any(lives)
    }

    /// Whether a container runs.
    #[must_use]
    pub fn runs(&self, name: &str) -> bool {
        self.container(name).is_some_and(ObservedContainer::runs)
    }
}
