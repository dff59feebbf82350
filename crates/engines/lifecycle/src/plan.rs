//! What to do next for a pod: start, stop, finish, look again (R100 to R107).
//!
//! ```text
//!   goes on:  volumes ─► sandbox ─► init, init, sidecar … ─► all containers
//!   ends:     containers, with a hook first ─► sidecars, last one first ─► finish
//!   leaves:   the same without the last step: the node ends, the pod does not
//! ```

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use jiff::Timestamp;

use crate::observation::{
    ContainerTermination, ContainerTransition, InstanceState, Observed, ObservedContainer,
};
use crate::phase::{initialised, may_restart, sidecar_started};
use crate::spec::{ContainerSpec, ContainerType, LifecycleSpec};

/// What is left for the stop signal even if the hook used everything.
pub const MIN_GRACE: Duration = Duration::from_secs(2);
/// The grace of a pod that is put out, or whose object is gone already.
const SHORT_GRACE_SECONDS: i64 = 1;

/// What to do, and when to ask again if nothing changes before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodPlan {
    /// In this order; all may run at once.
    pub actions: Vec<PodAction>,
    /// When to ask again.
    pub wake: Option<Timestamp>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodAction {
    /// Make the sandbox.
    MakeSandbox,
    /// Make a container and start it.
    Start {
        /// Its name.
        container: String,
        /// Whether an instance of it was there before.
        again: bool,
    },
    /// Stop a container.
    Stop(Kill),
    /// Stop the sandbox and let go of volumes; nothing lives any more.
    Finish {
        /// Remove everything, for the pod goes too.
        remove: bool,
    },
}

/// How a container is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// Its name.
    pub container: String,
    /// What people read.
    pub message: String,
    /// Whether its hook runs first.
    pub hook: bool,
    /// When it is killed; the hook and the stop signal share the time until then.
    pub until: Timestamp,
}

impl PodPlan {
    fn wake_at(&mut self, time: Timestamp) {
        self.wake = Some(self.wake.map_or(time, |wake| wake.min(time)));
    }
}

/// Whether the pod was active for longer than it may be (R105).
pub(crate) fn past_deadline(spec: &LifecycleSpec, observed: &Observed, now: Timestamp) -> bool {
    deadline(spec, observed).is_some_and(|deadline| deadline <= now)
}

fn deadline(spec: &LifecycleSpec, observed: &Observed) -> Option<Timestamp> {
    Some(later(observed.started?, spec.deadline_seconds?))
}

/// Whether the pod restarts nothing any more: it is deleted, put out, too old, or done.
#[must_use]
pub fn is_ending(spec: &LifecycleSpec, observed: &Observed, now: Timestamp) -> bool {
    ends(spec, observed, now)
}

/// Whether the pod restarts nothing any more.
pub(crate) fn ends(spec: &LifecycleSpec, observed: &Observed, now: Timestamp) -> bool {
    spec.deletion.is_some()
        || observed.forgotten
        || observed.over
        || observed.refused.is_some()
        || observed.evicted.is_some()
        || past_deadline(spec, observed, now)
        || completed(spec, observed)
}

/// Whether every container has done what it should and none is started again.
fn completed(spec: &LifecycleSpec, observed: &Observed) -> bool {
    let over = |container: &ContainerSpec| {
        let seen = observed.container(&container.name);
        let seen = seen.filter(|seen| seen.busy.is_none() && !seen.resizing);
        seen.and_then(ObservedContainer::ended).filter(|ended| !may_restart(container, ended))
    };
    let init_failed = spec
        .with_role(ContainerType::Init)
        .any(|container| over(container).is_some_and(|ended| ended.code != 0));
    init_failed || spec.regular().all(|container| over(container).is_some())
}

/// When a container that ended may be started again (R101).
pub(crate) fn restart_due(seen: &ObservedContainer, ended: &ContainerTermination) -> Timestamp {
    let wait = jiff::SignedDuration::try_from(seen.backoff.wait).unwrap_or_default();
    let due = ended.finished.map(|finished| finished.checked_add(wait).unwrap_or(finished));
    due.max(seen.after).unwrap_or(Timestamp::MIN)
}

/// What to do next.
#[must_use]
pub fn next_actions(spec: &LifecycleSpec, observed: &Observed, now: Timestamp) -> PodPlan {
    let mut plan = PodPlan::default();
    if observed.cleaned && (observed.removed || !(spec.deletion.is_some() || observed.forgotten)) {
        return plan;
    }
    if ends(spec, observed, now) {
        end(spec, observed, now, &mut plan);
        return plan;
    }
    if let Some(leaving) = observed.leaving {
        let grace = spec.grace_seconds.min(leaving.grace_seconds_max);
        stop_all(spec, observed, Grace { from: leaving.since, seconds: grace }, now, &mut plan);
        return plan;
    }
    if let Some(deadline) = deadline(spec, observed) {
        plan.wake_at(deadline);
    }
    end_some(spec, observed, now, &mut plan);
    let wanted = wanted(spec, observed, now, &mut plan);
    if wanted.is_empty() || !observed.volumes {
        return plan;
    }
    if !observed.sandbox {
        match observed.sandbox_after.filter(|after| *after > now) {
            _ if observed.sandbox_busy => {}
            Some(after) => plan.wake_at(after),
            None => plan.actions.push(PodAction::MakeSandbox),
        }
        return plan;
    }
    plan.actions.extend(wanted);
    plan
}

/// The starts that are due now.
fn wanted(
    spec: &LifecycleSpec,
    observed: &Observed,
    now: Timestamp,
    plan: &mut PodPlan,
) -> Vec<PodAction> {
    let mut wanted = Vec::new();
    let mut start = |container: &ContainerSpec| {
        if let Some(action) = start(container, observed.container(&container.name), now, plan) {
            wanted.push(action);
        }
    };
    for container in spec.with_role(ContainerType::Ephemeral) {
        start(container);
    }
    let begun = initialised(spec, observed);
    for container in spec.inits() {
        let done = match container.role {
            ContainerType::Sidecar => sidecar_started(container, observed),
            _ => {
                begun
                    || observed
                        .container(&container.name)
                        .and_then(ObservedContainer::ended)
                        .is_some_and(|ended| ended.code == 0)
            }
        };
        if !done {
            start(container);
            if !begun {
                return wanted;
            }
        }
    }
    for container in spec.regular() {
        start(container);
    }
    wanted
}

/// A start, if the container is to be started and its time has come.
fn start(
    container: &ContainerSpec,
    seen: Option<&ObservedContainer>,
    now: Timestamp,
    plan: &mut PodPlan,
) -> Option<PodAction> {
    let action = |again| Some(PodAction::Start { container: container.name.clone(), again });
    let Some(seen) = seen else { return action(false) };
    if seen.busy.is_some() {
        return None;
    }
    let due = match seen.state() {
        Some(InstanceState::Running { .. }) => return None,
        // What ends to have other resources neither failed nor is done.
        Some(InstanceState::Ended(_)) if seen.resizing => seen.after.unwrap_or(Timestamp::MIN),
        Some(InstanceState::Ended(ended)) if !may_restart(container, ended) => return None,
        Some(InstanceState::Ended(ended)) => restart_due(seen, ended),
        Some(InstanceState::Created | InstanceState::Unknown) | None => {
            seen.after.unwrap_or(Timestamp::MIN)
        }
    };
    if container.role == ContainerType::Ephemeral && seen.current.is_some() {
        return None;
    }
    if due > now {
        plan.wake_at(due);
        return None;
    }
    action(seen.current.is_some() || seen.last.is_some())
}

/// Stops containers that must end although the pod goes on (R103, liveness).
fn end_some(spec: &LifecycleSpec, observed: &Observed, now: Timestamp, plan: &mut PodPlan) {
    for container in &spec.containers {
        let Some(seen) = observed.container(&container.name) else { continue };
        if !seen.runs() || seen.busy.is_some() || container.role == ContainerType::Ephemeral {
            continue;
        }
        let changed = seen.current.as_ref().is_some_and(|found| found.image != container.image);
        let (message, grace) = match &seen.kill {
            Some(order) => (order.message.clone(), order.grace_seconds),
            None if changed => {
                let name = &container.name;
                (format!("Container {name} definition changed, will be restarted"), None)
            }
            None => continue,
        };
        let until = later(now, grace.unwrap_or(spec.grace_seconds));
        let container = container.name.clone();
        plan.actions.push(PodAction::Stop(Kill { container, message, hook: true, until }));
    }
}

/// Stops everything, and finishes when nothing lives (R106, R107).
fn end(spec: &LifecycleSpec, observed: &Observed, now: Timestamp, plan: &mut PodPlan) {
    let remove = spec.deletion.is_some() || observed.forgotten;
    let mut grace =
        Grace { from: observed.ending.unwrap_or(now), seconds: grace_seconds(spec, observed) };
    if let Some(leaving) = observed.leaving {
        // A node that ends does not wait longer for those that end anyway (R146b).
        let last = later(leaving.since, leaving.grace_seconds_max);
        if last < grace.until() {
            grace = Grace { from: leaving.since, seconds: leaving.grace_seconds_max };
        }
    }
    if !stop_all(spec, observed, grace, now, plan) && !observed.sandbox_busy {
        plan.actions.push(PodAction::Finish { remove });
    }
}

/// How long containers have to end, and since when.
#[derive(Clone, Copy)]
struct Grace {
    from: Timestamp,
    seconds: i64,
}

impl Grace {
    fn until(self) -> Timestamp {
        later(self.from, self.seconds)
    }
}

/// Stops what is to be stopped now, sidecars last (R107); says whether anything lives.
fn stop_all(
    spec: &LifecycleSpec,
    observed: &Observed,
    grace: Grace,
    now: Timestamp,
    plan: &mut PodPlan,
) -> bool {
    let living: Vec<&ContainerSpec> =
        spec.containers.iter().filter(|container| lives(container, observed)).collect();
    if living.is_empty() {
        return false;
    }
    let until = grace.until();
    let stop = |container: &ContainerSpec, plan: &mut PodPlan| {
        let Some(seen) = observed.container(&container.name).filter(|seen| seen.lives()) else {
            return;
        };
        let sooner = match seen.busy {
            Some(ContainerTransition::Stopping { until: before }) => until < before,
            Some(ContainerTransition::Starting) => false,
            None => true,
        };
        if sooner {
            let message = format!("Stopping container {}", container.name);
            let hook = grace.seconds > 0 && !observed.forgotten;
            let container = container.name.to_owned();
            plan.actions.push(PodAction::Stop(Kill { container, message, hook, until }));
        }
    };
    let (sidecars, others): (Vec<&ContainerSpec>, Vec<&ContainerSpec>) =
        living.into_iter().partition(|container| container.role == ContainerType::Sidecar);
    for container in &others {
        stop(container, plan);
    }
    if now >= until {
        // The budget is spent: what still lives goes at once.
        for container in sidecars {
            stop(container, plan);
        }
        return true;
    }
    if others.is_empty()
        && let Some(last) = sidecars.last()
    {
        stop(last, plan);
    }
    plan.wake_at(until);
    true
}

fn lives(container: &ContainerSpec, observed: &Observed) -> bool {
    observed.container(&container.name).is_some_and(|seen| seen.busy.is_some() || seen.lives())
}

/// How long the end may take, in seconds.
fn grace_seconds(spec: &LifecycleSpec, observed: &Observed) -> i64 {
    match spec.deletion {
        _ if observed.forgotten => SHORT_GRACE_SECONDS,
        Some(deletion) => deletion.grace_seconds,
        None if observed.evicted.is_some() => SHORT_GRACE_SECONDS,
        None => spec.grace_seconds,
    }
}

fn later(from: Timestamp, seconds: i64) -> Timestamp {
    from.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}
