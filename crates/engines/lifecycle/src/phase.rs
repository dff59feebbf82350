//! The phase of a pod (R90 to R95a): one word for all its containers.

use crate::observation::{ContainerTermination, InstanceState, Observed, ObservedContainer};
use crate::spec::{ContainerSpec, ContainerType, LifecycleSpec};

/// One word for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Accepted, not yet running.
    Pending,
    /// At least one container runs or will run again.
    Running,
    /// Every container ended well and none will run again.
    Succeeded,
    /// Every container ended, one of them badly, and none will run again.
    Failed,
}

impl Phase {
    /// As the status says it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
        }
    }

    /// As the status says it; `None` for any other word.
    #[must_use]
    pub fn read(word: &str) -> Option<Phase> {
        let all = [Phase::Pending, Phase::Running, Phase::Succeeded, Phase::Failed];
        all.into_iter().find(|phase| phase.word() == word)
    }

    /// Whether the pod never leaves it.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

/// How a container counts.
enum ContainerPhase<'a> {
    Waits,
    Runs,
    Stopped(&'a ContainerTermination),
    Unknown,
}

fn counts(seen: Option<&ObservedContainer>) -> ContainerPhase<'_> {
    let Some(seen) = seen else { return ContainerPhase::Waits };
    match (seen.state(), &seen.last) {
        (Some(InstanceState::Running { .. }), _) => ContainerPhase::Runs,
        (Some(InstanceState::Ended(_)), _) if seen.resizing => ContainerPhase::Runs,
        (Some(InstanceState::Ended(ended)), _) => ContainerPhase::Stopped(ended),
        (Some(InstanceState::Unknown), _) => ContainerPhase::Unknown,
        (Some(InstanceState::Created) | None, Some((_, ended))) => ContainerPhase::Stopped(ended),
        (Some(InstanceState::Created) | None, None) => ContainerPhase::Waits,
    }
}

/// Whether a container that ended this way is started again while its pod goes on.
#[must_use]
pub fn may_restart(container: &ContainerSpec, ended: &ContainerTermination) -> bool {
    container.restarts_after(ended.code)
}

/// Whether regular containers were ever begun.
pub(crate) fn initialised(spec: &LifecycleSpec, observed: &Observed) -> bool {
    spec.regular().any(|container| {
        let seen = observed.container(&container.name);
        seen.is_some_and(|seen| seen.current.is_some() || seen.last.is_some())
    })
}

/// Whether a sidecar is as far as its successors need.
pub(crate) fn sidecar_started(container: &ContainerSpec, observed: &Observed) -> bool {
    let seen = observed.container(&container.name);
    seen.is_some_and(|seen| seen.runs() && (!container.startup || seen.startup_passed))
}

/// The phase that follows from the containers alone; a pod that is `terminal` restarts nothing.
#[must_use]
pub fn pod_phase(spec: &LifecycleSpec, observed: &Observed, terminal: bool) -> Phase {
    let mut pending = false;
    let before = !initialised(spec, observed);
    for container in spec.with_role(ContainerType::Init) {
        match counts(observed.container(&container.name)) {
            ContainerPhase::Stopped(ended) if ended.code == 0 => {}
            ContainerPhase::Stopped(ended) if !may_restart(container, ended) => {
                return Phase::Failed;
            }
            ContainerPhase::Stopped(_) => {}
            ContainerPhase::Waits | ContainerPhase::Runs | ContainerPhase::Unknown => {
                pending |= before
            }
        }
    }
    let (mut waiting, mut running, mut unknown) = (false, false, false);
    for container in spec.with_role(ContainerType::Sidecar) {
        match counts(observed.container(&container.name)) {
            ContainerPhase::Runs => {
                running = true;
                pending |= before && !sidecar_started(container, observed);
            }
            ContainerPhase::Waits => {
                waiting = true;
                pending |= before;
            }
            ContainerPhase::Stopped(_) => {}
            ContainerPhase::Unknown => unknown = true,
        }
    }
    let (mut stopped, mut well, mut again) = (0_usize, 0_usize, false);
    for container in spec.regular() {
        match counts(observed.container(&container.name)) {
            ContainerPhase::Waits => waiting = true,
            ContainerPhase::Runs => running = true,
            ContainerPhase::Unknown => unknown = true,
            ContainerPhase::Stopped(ended) => {
                stopped += 1;
                well += usize::from(ended.code == 0);
                again |= may_restart(container, ended);
            }
        }
    }
    if pending || waiting {
        return Phase::Pending;
    }
    if unknown {
        return Phase::Pending;
    }
    if running {
        return Phase::Running;
    }
    match () {
        () if stopped == 0 => Phase::Pending,
        () if again && !terminal => Phase::Running,
        () if stopped == well => Phase::Succeeded,
        () => Phase::Failed,
    }
}
