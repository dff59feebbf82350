//! Making and deleting the pods of a Job that is not over (JB4, JB5, JB7).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use super::job_view::{self, JobView};
use super::{BURST, TRACKING, backoff, count, policy, release_and_delete};
use crate::controller::{Pass, ReconcileResult};
use crate::intent::{ControllerIntent, InvolvedObject};
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;
use crate::{owner, pod, time};

/// The longest `generateName` that leaves room for what the server adds.
const PREFIX_MAX: usize = 58;

/// Deletes what is too much, or else makes what is missing.
pub(super) fn manage(
    pass: &Pass<'_>,
    observed: &JobView<'_>,
    waits: &backoff::JobBackoff,
    about: &InvolvedObject,
    out: &mut ReconcileResult,
) {
    let wanted = wanted(observed);
    let mut surplus = surplus(observed, observed.active.len().saturating_sub(wanted));
    surplus.truncate(BURST);
    if !surplus.is_empty() {
        out.intents.extend(release_and_delete(&surplus, about));
        return;
    }
    let going = if observed.spec.replaces_failed_only { observed.terminating } else { 0 };
    let missing = wanted.saturating_sub(going + observed.active.len()).min(BURST);
    let missing = missing.min(pod::room_to_wait(&observed.active));
    if missing == 0 || pod::namespace_closed(pass) {
        return;
    }
    let made = if observed.spec.indexed {
        pieces(observed, waits, missing)
    } else {
        alone(observed, waits, missing)
    };
    match made {
        Ok(pods) => out.intents.extend(creations(pods, about)),
        Err(wait) => out.wake_after(wait),
    }
}

/// How many pods should be active.
fn wanted(observed: &JobView<'_>) -> usize {
    let (parallelism, succeeded) = (observed.spec.parallelism, observed.succeeded());
    let wanted = match observed.spec.completions {
        _ if observed.spec.suspended => 0,
        Some(completions) => parallelism.min(completions - succeeded),
        // After the first success those that run may end, and no other comes.
        None if succeeded > 0 => return observed.active.len(),
        None => parallelism,
    };
    usize::try_from(wanted).unwrap_or_default()
}

/// At least so many active pods that may go, those that lose least first; of an indexed Job also all
/// without a piece and all but one of each piece.
fn surplus(observed: &JobView<'_>, least: usize) -> Vec<VersionedObject> {
    let mut pods = observed.active.clone();
    pods.sort_by_key(|pod| Reverse(worth(pod)));
    let mut surplus = Vec::new();
    if observed.spec.indexed {
        // The pods that are worth most come first and take their pieces.
        let mut taken = BTreeSet::new();
        let keeps =
            |pod: &VersionedObject| observed.has_piece(pod) && taken.insert(job_view::index(pod));
        let (kept, rest): (Vec<VersionedObject>, Vec<VersionedObject>) =
            pods.into_iter().partition(keeps);
        (pods, surplus) = (kept, rest);
    }
    while surplus.len() < least {
        let Some(pod) = pods.pop() else { break };
        surplus.push(pod);
    }
    surplus
}

/// How far a pod has come; more stays longer.
fn worth(pod: &Object) -> impl Ord + use<> {
    let phase = match pod::phase(pod) {
        "Unknown" => 1,
        "Running" => 2,
        _ => 0,
    };
    let restarts = pod.list_at(&["status", "containerStatuses"]).iter();
    let restarts = restarts.filter_map(|s| s.get("restartCount").and_then(Value::as_i64)).max();
    (
        !pod::node(pod).is_empty(),
        phase,
        pod::ready(pod),
        Reverse(pod::ready_since(pod)),
        Reverse(restarts),
        Reverse(time::created(pod)),
        pod.name().to_string(),
    )
}

/// Pods of a Job without pieces: all the same.
fn alone(
    observed: &JobView<'_>,
    waits: &backoff::JobBackoff,
    missing: usize,
) -> Result<Vec<Object>, Duration> {
    if let Some(wait) = waits.left(observed.now) {
        return Err(wait);
    }
    Ok(template(observed).map(|pod| alloc::vec![pod; missing]).unwrap_or_default())
}

/// Pods for the lowest pieces that nobody works on (JB5).
fn pieces(
    observed: &JobView<'_>,
    waits: &backoff::JobBackoff,
    missing: usize,
) -> Result<Vec<Object>, Duration> {
    let mut taken = observed.done.clone();
    taken.extend(observed.active.iter().filter_map(|pod| job_view::index(pod)));
    if observed.spec.replaces_failed_only {
        let going = observed.pods.iter().filter(|pod| pod::terminating(pod));
        taken.extend(going.filter_map(|pod| job_view::index(pod)));
    }
    if let Some(lost) = &observed.lost {
        taken.merge(lost);
    }
    let mut open = taken.missing(missing, observed.spec.pieces());
    let before: BTreeMap<i64, &VersionedObject> =
        count::predecessors(observed).into_iter().collect();
    if observed.spec.per_index.is_none() {
        if let Some(wait) = waits.left(observed.now) {
            return Err(wait);
        }
    } else {
        // Each piece waits for itself; only when all do is there nothing to make.
        let wait = |index: &i64| {
            let failed = before.get(index)?;
            let failures = count::absolute_failures(failed) + 1;
            backoff::left(failures, backoff::ended(failed), observed.now)
        };
        let shortest = open.iter().filter_map(wait).min();
        open.retain(|index| wait(index).is_none());
        if let (true, Some(shortest)) = (open.is_empty(), shortest) {
            return Err(shortest);
        }
    }
    let Some(made) = template(observed) else { return Ok(Vec::new()) };
    Ok(open.into_iter().map(|index| piece(observed, &made, index, before.get(&index))).collect())
}

/// A pod as the template says, held until it is counted.
fn template(observed: &JobView<'_>) -> Option<Object> {
    let template = observed.job.map_at(&["spec", "template"])?;
    let mut pod = pod::from_template(template, BuiltinResource::Jobs, observed.job)?;
    owner::add_finalizer(&mut pod, TRACKING);
    Some(pod)
}

/// The pod of one piece, which takes over the failures of the one before it.
fn piece(
    observed: &JobView<'_>,
    made: &Object,
    index: i64,
    before: Option<&&VersionedObject>,
) -> Object {
    let mut pod = made.clone();
    let (number, job) = (index.to_string(), observed.job.name());
    owner::annotate(&mut pod, job_view::INDEX, &number);
    if observed.spec.per_index.is_some() {
        let known = |name: &str| before.map_or(0, |before| job_view::failures(before, name));
        let (mut failures, mut ignored) = (known(job_view::FAILURES), known(job_view::IGNORED));
        if let Some(before) = before {
            let counts = policy::judge(observed.job, before).counts();
            *(if counts { &mut failures } else { &mut ignored }) += 1;
        }
        owner::annotate(&mut pod, job_view::FAILURES, &failures.to_string());
        if ignored > 0 {
            owner::annotate(&mut pod, job_view::IGNORED, &ignored.to_string());
        }
    }
    let metadata = pod.map_mut("metadata");
    metadata.insert("generateName".to_string(), prefix(job, index).into());
    metadata.map_mut("labels").insert(job_view::INDEX.to_string(), number.into());
    let spec = pod.map_mut("spec");
    spec.insert("hostname".to_string(), format!("{job}-{index}").into());
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            tell_index(container);
        }
    }
    pod
}

/// Job and piece, the former cut where both together are too long.
fn prefix(job: &str, index: i64) -> String {
    let end = format!("-{index}-");
    let room = PREFIX_MAX.saturating_sub(end.len());
    format!("{}{end}", job.get(..room).unwrap_or(job))
}

/// Lets a container read its piece, unless it has a variable of that name.
fn tell_index(container: &mut Object) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let mut variables = container.list_at(&["env"]).to_vec();
    if variables.iter().any(|variable| variable.get("name") == Some(&NAME.into())) {
        return;
    }
    let path = format!("metadata.labels['{}']", job_view::INDEX);
    variables.push(json!({"name": NAME, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
    container.insert("env".to_string(), Value::Array(variables));
}

/// Creates pods in growing batches (PT4).
fn creations(pods: Vec<Object>, about: &InvolvedObject) -> Vec<ControllerIntent> {
    let numbered = pods.into_iter().enumerate();
    numbered
        .map(|(place, pod)| {
            let starts_batch = (place + 1).is_power_of_two();
            pod::creation(pod, about).together(!starts_batch)
        })
        .collect()
}
