//! The status of a Job (JB8, JB9).

use alloc::string::ToString;
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use super::count::JobPodCounts;
use super::finish::Finish;
use super::job_view::JobView;
use crate::intent::{ControllerIntent, EventReport, InvolvedObject, UpdateEndpoint};
use crate::resource::BuiltinResource;
use crate::{condition, owner, pod, time};

/// A status that differs from the stored one, and what to tell once it is written.
pub(super) struct JobStatusUpdate {
    pub(super) write: Option<ControllerIntent>,
    pub(super) notes: Vec<EventReport>,
}

pub(super) fn change(
    observed: &JobView<'_>,
    tally: &JobPodCounts,
    finish: Option<&Finish>,
) -> JobStatusUpdate {
    let known = observed.job.map_at(&["status"]).cloned().unwrap_or_default();
    let mut status = known.clone();
    counts(&mut status, observed, tally);
    let mut notes = Vec::new();
    let about = InvolvedObject::of(BuiltinResource::Jobs, observed.job);
    match finish {
        Some(finish) => end(&mut status, observed, tally, finish, &about, &mut notes),
        None if !owner::deleting(observed.job) => pause(&mut status, observed, &about, &mut notes),
        None => {}
    }
    let write = (status != known).then(|| {
        let mut object = Object::clone(&observed.job.object);
        object.insert("status".to_string(), Value::Object(status));
        ControllerIntent::update(
            BuiltinResource::Jobs,
            object,
            UpdateEndpoint::Status,
            observed.job.revision,
        )
    });
    JobStatusUpdate { write, notes }
}

fn counts(status: &mut Object, observed: &JobView<'_>, tally: &JobPodCounts) {
    put(status, "active", observed.active.len() as i64);
    put(status, "succeeded", tally.succeeded);
    put(status, "failed", tally.failed);
    let ready = observed.active.iter().filter(|pod| pod::ready(pod)).count();
    status.insert("ready".to_string(), ready.into());
    status.insert("terminating".to_string(), observed.terminating.into());
    if let Some(start) = observed.started() {
        status.entry("startTime").or_insert_with(|| time::written(start).into());
    }
    let mut uncounted = Object::new();
    for (kind, uids) in
        [("succeeded", &tally.uncounted_succeeded), ("failed", &tally.uncounted_failed)]
    {
        if !uids.is_empty() {
            uncounted.insert(kind.to_string(), uids.as_slice().into());
        }
    }
    status.insert("uncountedTerminatedPods".to_string(), Value::Object(uncounted));
    if observed.spec.indexed {
        if observed.done.is_empty() {
            status.remove("completedIndexes");
        } else {
            status.insert("completedIndexes".to_string(), observed.done.to_string().into());
        }
        if let Some(lost) = &observed.lost {
            status.insert("failedIndexes".to_string(), lost.to_string().into());
        }
    }
}

/// Sets a count, or leaves it out when it is zero.
fn put(status: &mut Object, name: &str, count: i64) {
    if count == 0 {
        status.remove(name);
    } else {
        status.insert(name.to_string(), count.into());
    }
}

/// First that it is over; in a later pass, when no pod is left to wait for, how it ended.
fn end(
    status: &mut Object,
    observed: &JobView<'_>,
    tally: &JobPodCounts,
    finish: &Finish,
    about: &InvolvedObject,
    notes: &mut Vec<EventReport>,
) {
    if !finish.known {
        set(status, finish.target(), "True", &finish.reason, &finish.message, observed);
        return;
    }
    if !observed.active.is_empty() || observed.terminating > 0 || !tally.settled() {
        return;
    }
    set(status, finish.last(), "True", &finish.reason, &finish.message, observed);
    if !finish.success {
        notes.push(about.warning(&finish.reason, finish.message.as_str()));
        return;
    }
    status.insert("completionTime".to_string(), time::written(observed.now).into());
    if observed.spec.completions.is_some_and(|wanted| tally.succeeded > wanted) {
        let message = "Too many succeeded pods running after completion count reached";
        notes.push(about.warning("TooManySucceededPods", message));
    }
    notes.push(about.normal("Completed", "Job completed"));
}

/// Whether it is suspended; a Job that never was says nothing. The clock starts anew on resuming.
fn pause(
    status: &mut Object,
    observed: &JobView<'_>,
    about: &InvolvedObject,
    notes: &mut Vec<EventReport>,
) {
    if observed.spec.suspended {
        if set(status, "Suspended", "True", "JobSuspended", "Job suspended", observed) {
            status.remove("startTime");
            notes.push(about.normal("Suspended", "Job suspended"));
        }
    } else if condition::find(status.list_at(&["conditions"]), "Suspended").is_some()
        && set(status, "Suspended", "False", "JobResumed", "Job resumed", observed)
    {
        status.insert("startTime".to_string(), time::written(observed.now).into());
        notes.push(about.normal("Resumed", "Job resumed"));
    }
}

/// Sets a condition where it stands, or at the end; says whether it is another than before.
fn set(
    status: &mut Object,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    observed: &JobView<'_>,
) -> bool {
    let now = time::written(observed.now);
    let new = json!({
        "type": kind, "status": value, "reason": reason, "message": message,
        "lastProbeTime": now, "lastTransitionTime": now,
    });
    let mut conditions: Vec<Value> = status.list_at(&["conditions"]).to_vec();
    let place = conditions.iter_mut().find(|c| c.get("type") == new.get("type"));
    match place {
        Some(old) => {
            let same = |name: &str| old.get(name) == new.get(name);
            if same("status") && same("reason") && same("message") {
                return false;
            }
            *old = new;
        }
        None => conditions.push(new),
    }
    status.insert("conditions".to_string(), Value::Array(conditions));
    true
}
