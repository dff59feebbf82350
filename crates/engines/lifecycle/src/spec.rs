//! The parts of a pod that its life depends on, read from the object. Nothing is decided here.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt as _};

/// The grace of a pod that names none, in seconds.
const GRACE_SECONDS: i64 = 30;

/// What a container is to its pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerType {
    /// Runs to its end before the next begins.
    Init,
    /// An init container that keeps running beside the others.
    Sidecar,
    /// One of the pod's containers.
    Regular,
    /// Added for a look inside.
    Ephemeral,
}

/// When a container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RestartPolicy {
    /// After any end.
    #[default]
    Always,
    /// After an end with another code than 0.
    OnFailure,
    /// Never.
    Never,
}

/// A rule of one container: started again for some exit codes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRestartRule {
    /// The exit codes.
    pub codes: Vec<i64>,
    /// Whether the rule holds for all others instead.
    pub not: bool,
}

/// A container as its life depends on it.
#[derive(Debug, Clone)]
pub struct ContainerSpec {
    /// Its name.
    pub name: String,
    /// What it is to the pod.
    pub role: ContainerType,
    /// Its image as the pod names it.
    pub image: String,
    /// When it is started again; the pod's policy unless it has its own.
    pub restart: RestartPolicy,
    /// Rules by exit code, before the policy.
    pub rules: Vec<ContainerRestartRule>,
    /// Whether it has a startup probe.
    pub startup: bool,
    /// Whether it has a readiness probe.
    pub readiness: bool,
    /// Whether it has a hook that runs before its end.
    pub pre_stop: bool,
    /// The whole container, for what the status copies.
    pub object: Object,
}

/// That a pod is being deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deletion {
    /// When it should be gone.
    pub deadline: Timestamp,
    /// How long it may take, in seconds.
    pub grace_seconds: i64,
}

/// A pod as its life depends on it.
#[derive(Debug, Clone)]
pub struct LifecycleSpec {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Uid of the pod.
    pub uid: String,
    /// Generation of its specification.
    pub generation: i64,
    /// When its containers are started again.
    pub restart: RestartPolicy,
    /// Its own grace in seconds.
    pub grace_seconds: i64,
    /// How long it may be active, in seconds.
    pub deadline_seconds: Option<i64>,
    /// Whether it is being deleted.
    pub deletion: Option<Deletion>,
    /// Conditions that others must set before it is ready.
    pub gates: Vec<String>,
    /// Init containers, containers, ephemeral containers, in this order.
    pub containers: Vec<ContainerSpec>,
}

impl LifecycleSpec {
    /// Reads a pod.
    #[must_use]
    pub fn read(pod: &Object) -> LifecycleSpec {
        let meta = |name| pod.str_at(&["metadata", name]).unwrap_or_default().to_owned();
        let restart = policy(pod.str_at(&["spec", "restartPolicy"])).unwrap_or_default();
        let mut containers = Vec::new();
        for (list, role) in [
            ("initContainers", ContainerType::Init),
            ("containers", ContainerType::Regular),
            ("ephemeralContainers", ContainerType::Ephemeral),
        ] {
            let items = pod.list_at(&["spec", list]).iter().filter_map(Value::as_object);
            containers.extend(items.map(|item| container(item, role, restart)));
        }
        let gates = pod.list_at(&["spec", "readinessGates"]).iter();
        LifecycleSpec {
            namespace: meta("namespace"),
            name: meta("name"),
            uid: meta("uid"),
            generation: pod.int_at(&["metadata", "generation"]).unwrap_or_default(),
            restart,
            grace_seconds: pod
                .int_at(&["spec", "terminationGracePeriodSeconds"])
                .unwrap_or(GRACE_SECONDS),
            deadline_seconds: pod.int_at(&["spec", "activeDeadlineSeconds"]),
            deletion: deletion(pod),
            gates: gates
                .filter_map(|gate| gate.get("conditionType")?.as_str())
                .map(str::to_owned)
                .collect(),
            containers,
        }
    }

    /// The containers of a role.
    pub fn with_role(&self, role: ContainerType) -> impl Iterator<Item = &ContainerSpec> {
        self.containers.iter().filter(move |container| container.role == role)
    }

    /// Init containers and sidecars, in order.
    pub fn inits(&self) -> impl DoubleEndedIterator<Item = &ContainerSpec> {
        self.containers.iter().filter(|container| container.is_init())
    }

    /// The pod's own containers.
    pub fn regular(&self) -> impl Iterator<Item = &ContainerSpec> {
        self.with_role(ContainerType::Regular)
    }

    /// The container of this name.
    #[must_use]
    pub fn container(&self, name: &str) -> Option<&ContainerSpec> {
        self.containers.iter().find(|container| container.name == name)
    }
}

impl ContainerSpec {
    /// Whether it stands among the init containers.
    #[must_use]
    pub fn is_init(&self) -> bool {
        matches!(self.role, ContainerType::Init | ContainerType::Sidecar)
    }

    /// Whether it is started again after this exit code (R102).
    #[must_use]
    pub fn restarts_after(&self, code: i64) -> bool {
        match self.role {
            ContainerType::Sidecar => return true,
            ContainerType::Ephemeral => return false,
            ContainerType::Init | ContainerType::Regular => {}
        }
        if self.rules.iter().any(|rule| rule.codes.contains(&code) != rule.not) {
            return true;
        }
        match self.restart {
            // An init container that ended well is done, whatever the policy.
            RestartPolicy::Always => self.role != ContainerType::Init || code != 0,
            RestartPolicy::OnFailure => code != 0,
            RestartPolicy::Never => false,
        }
    }
}

fn container(item: &Object, role: ContainerType, pod: RestartPolicy) -> ContainerSpec {
    let own = policy(item.str_at(&["restartPolicy"]));
    let sidecar = role == ContainerType::Init && own == Some(RestartPolicy::Always);
    let text = |name: &str| item.str_at(&[name]).unwrap_or_default().to_owned();
    ContainerSpec {
        name: text("name"),
        role: if sidecar { ContainerType::Sidecar } else { role },
        image: text("image"),
        restart: own.unwrap_or(pod),
        rules: item.list_at(&["restartPolicyRules"]).iter().filter_map(rule).collect(),
        startup: item.contains_key("startupProbe"),
        readiness: item.contains_key("readinessProbe"),
        pre_stop: item.at(&["lifecycle", "preStop"]).is_some(),
        object: item.clone(),
    }
}

fn rule(value: &Value) -> Option<ContainerRestartRule> {
    let rule = value.as_object()?;
    if rule.str_at(&["action"]) != Some("Restart") {
        return None;
    }
    let codes = rule.list_at(&["exitCodes", "values"]).iter().filter_map(Value::as_i64).collect();
    Some(ContainerRestartRule {
        codes,
        not: rule.str_at(&["exitCodes", "operator"]) == Some("NotIn"),
    })
}

fn policy(text: Option<&str>) -> Option<RestartPolicy> {
    match text? {
        "Always" => Some(RestartPolicy::Always),
        "OnFailure" => Some(RestartPolicy::OnFailure),
        "Never" => Some(RestartPolicy::Never),
        _ => None,
    }
}

fn deletion(pod: &Object) -> Option<Deletion> {
    let deadline = pod.str_at(&["metadata", "deletionTimestamp"])?.parse().ok()?;
    let grace_seconds = pod.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
    Some(Deletion { deadline, grace_seconds })
}
