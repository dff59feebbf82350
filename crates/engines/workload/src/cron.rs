//! CronJob: a Job at every time that a schedule names (CJ1 to CJ8).
//!
//! ```text
//!   look at its Jobs ──► is a time due? ──► Job with the name of that time ──► status
//! ```
//!
//! The name is the lock: whatever crashes, one time makes one Job (CJ2). Jobs are never adopted (CJ7);
//! what a Job does is decided elsewhere.

mod due;
mod history;
mod status;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::controller::{
    Controller, ObjectChange, Pass, ReconcileKey, ReconcileMemory, ReconcileResult,
};
use crate::intent::{ControllerIntent, EventReport, InvolvedObject, MessageSuffix};
use crate::resource::BuiltinResource;
use crate::view::{ClusterView, VersionedObject};
use crate::{job, owner, pod, wake};
use due::Due;
use status::CronJobStatus;
use tenure_machinery::schedule::{self, Schedule};

/// The annotation that holds the time a Job was made for.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// The controller of CronJobs.
pub struct CronJobs;

impl Controller for CronJobs {
    fn name(&self) -> &'static str {
        "cronjob-controller"
    }
    fn alias(&self) -> &'static str {
        "cronjob"
    }
    fn watches(&self) -> &'static [BuiltinResource] {
        &[BuiltinResource::CronJobs, BuiltinResource::Jobs]
    }
    fn wake(
        &self,
        change: &ObjectChange<'_>,
        view: &dyn ClusterView,
        wake: &mut dyn FnMut(ReconcileKey),
    ) {
        if change.resource == BuiltinResource::CronJobs {
            wake::itself(change, wake);
            return;
        }
        for job in [change.before, change.after].into_iter().flatten() {
            if let Some(cron) = wake::controller(job, BuiltinResource::CronJobs, view) {
                wake(ReconcileKey::of(&cron));
            }
        }
    }
    fn reconcile(&self, pass: &Pass<'_>) -> ReconcileResult {
        reconcile(pass)
    }
}

/// What is told only once as long as it holds.
struct Voice<'a> {
    before: &'a ReconcileMemory,
    said: BTreeSet<String>,
    notes: Vec<EventReport>,
}

impl Voice<'_> {
    /// Tells something unless it was told about this occasion before.
    fn say(&mut self, note: EventReport, occasion: &str) {
        let what = format!("{} {occasion}", note.reason);
        let old = matches!(self.before, ReconcileMemory::Said(said) if said.contains(&what));
        if self.said.insert(what) && !old {
            self.notes.push(note);
        }
    }
}

fn reconcile(pass: &Pass<'_>) -> ReconcileResult {
    let mut out = ReconcileResult::default();
    let found = pass.view.get(BuiltinResource::CronJobs, &pass.key.namespace, &pass.key.name);
    let Some(cron) = found else { return out };
    let uid = owner::uid(&cron);
    let mut jobs = pass.view.owned_by(uid, BuiltinResource::Jobs);
    jobs.retain(|job| owner::controlled_by(job, uid) && job.namespace() == cron.namespace());
    let about = InvolvedObject::of(BuiltinResource::CronJobs, &cron);
    let mut voice = Voice { before: pass.memory, said: BTreeSet::new(), notes: Vec::new() };
    let mut status = CronJobStatus::of(&cron);
    look(&cron, &jobs, &about, &mut status, &mut voice);
    status.miss(pass.view, &about);
    if !owner::deleting(&cron) {
        let surplus = history::surplus(&cron, &jobs);
        out.intents.extend(surplus.iter().map(|job| history::deletion(job, &about)));
        begin(pass, &cron, &about, &mut status, &mut voice, &mut out);
    }
    out.intents.extend(status.write(&cron));
    let notes = voice.notes.into_iter().map(ControllerIntent::tell);
    // What is refused would silence them, and they hold in any case.
    out.intents.splice(0..0, notes);
    out.memory = if voice.said.is_empty() {
        ReconcileMemory::Nothing
    } else {
        ReconcileMemory::Said(voice.said)
    };
    out
}

/// What the Jobs say: which have ended, which run, which nobody here made (CJ5).
fn look(
    cron: &Object,
    jobs: &[VersionedObject],
    about: &InvolvedObject,
    status: &mut CronJobStatus,
    voice: &mut Voice<'_>,
) {
    let ours = status.last_start.map(|time| name(cron, time));
    for job in jobs {
        if job::finished(job).is_some() {
            status.end(job, about);
        } else if !status.runs(job) {
            if ours.as_deref() == Some(job.name()) && !owner::deleting(job) {
                status.start(job);
                continue;
            }
            let message =
                format!("Saw a job that the controller did not create or forgot: {}", job.name());
            voice.say(about.warning("UnexpectedJob", message), owner::uid(job));
        }
    }
}

/// The schedule of a CronJob and its zone; what is wrong with them is told.
fn read(
    cron: &Object,
    about: &InvolvedObject,
    voice: &mut Voice<'_>,
) -> Option<(Schedule, TimeZone)> {
    let named = cron.str_at(&["spec", "timeZone"]).unwrap_or_default();
    let Some(zone) = schedule::zone(named) else {
        let message = format!("invalid timeZone: {named:?}: unknown time zone {named}");
        voice.say(about.warning("UnknownTimeZone", message), named);
        return None;
    };
    if cron.bool_at(&["spec", "suspend"]) == Some(true) {
        return None;
    }
    let text = cron.str_at(&["spec", "schedule"]).unwrap_or_default();
    if text.contains("TZ") {
        let message = format!(
            "CRON_TZ or TZ used in schedule {text:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        voice.say(about.warning("UnsupportedSchedule", message), text);
    }
    match Schedule::parse(text, &zone) {
        Ok(schedule) => Some((schedule, zone)),
        Err(why) => {
            let message = format!("unparseable schedule: {text:?} : {why}");
            voice.say(about.warning("UnparseableSchedule", message), text);
            None
        }
    }
}

/// Starts the time that is due, if one is (CJ3, CJ4).
fn begin(
    pass: &Pass<'_>,
    cron: &VersionedObject,
    about: &InvolvedObject,
    status: &mut CronJobStatus,
    voice: &mut Voice<'_>,
    out: &mut ReconcileResult,
) {
    let Some((schedule, zone)) = read(cron, about, voice) else { return };
    if let Some(wait) = due::wait(cron, &schedule, pass.now) {
        out.wake_after(wait);
    }
    match due::due(cron, &schedule, pass.now) {
        Due::Nothing => {}
        Due::Never => {
            let text = cron.str_at(&["spec", "schedule"]).unwrap_or_default();
            let why = "time difference between two schedules is less than 1 second";
            let message = format!("invalid schedule: {text} : {why}");
            voice.say(about.warning("InvalidSchedule", message), text);
        }
        Due::Since { time, many } => {
            if many {
                let message = "too many missed start times. Set or decrease \
                    .spec.startingDeadlineSeconds or check clock skew";
                let since = cron.str_at(&["status", "lastScheduleTime"]).unwrap_or_default();
                voice.say(about.warning("TooManyMissedTimes", message), since);
            }
            start(pass, cron, about, (time, &zone), status, voice, out);
        }
    }
}

fn start(
    pass: &Pass<'_>,
    cron: &VersionedObject,
    about: &InvolvedObject,
    (time, zone): (Timestamp, &TimeZone),
    status: &mut CronJobStatus,
    voice: &mut Voice<'_>,
    out: &mut ReconcileResult,
) {
    let deadline = due::deadline(cron).map(|seconds| crate::time::after(time, seconds));
    if deadline.is_some_and(|deadline| deadline < pass.now) {
        let when = time.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S %z").to_string();
        let message = format!("Missed scheduled time to start a job: {when}");
        voice.say(about.warning("MissSchedule", message), &when);
        return;
    }
    if let Some(known) = pass.view.get(BuiltinResource::Jobs, cron.namespace(), &name(cron, time)) {
        // Made before a crash, or for another time of the same minute, or by somebody else who then
        // looks after it.
        if owner::controlled_by(&known, owner::uid(cron)) && !status.runs(&known) {
            if job::finished(&known).is_none() {
                status.start(&known);
            }
            status.last_start = Some(time);
        }
        return;
    }
    match cron.str_at(&["spec", "concurrencyPolicy"]) {
        Some("Forbid") if !status.active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency \
                policy is Forbid";
            voice.say(about.normal("JobAlreadyActive", message), &crate::time::written(time));
            return;
        }
        Some("Replace") => replace(pass, about, status, out),
        _ => {}
    }
    if pod::namespace_closed(pass) {
        return;
    }
    let done = about.normal("SuccessfulCreate", "Created job ").ending(MessageSuffix::Name);
    let refused =
        about.warning("FailedCreate", "Error creating job: ").ending(MessageSuffix::Error);
    let create = ControllerIntent::create(BuiltinResource::Jobs, made(cron, time, zone));
    out.push(create.relying_on(about.living()).when_done(done).when_refused(refused));
    status.last_start = Some(time);
}

/// Deletes what still runs to make room (CJ4).
fn replace(
    pass: &Pass<'_>,
    about: &InvolvedObject,
    status: &mut CronJobStatus,
    out: &mut ReconcileResult,
) {
    for entry in core::mem::take(&mut status.active) {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        if let Some(job) = pass.view.get(BuiltinResource::Jobs, text("namespace"), text("name")) {
            let mut deletion = history::deletion(&job, about);
            deletion.independent = false;
            out.push(deletion);
        }
    }
}

/// The name of the Job for a time (CJ2).
fn name(cron: &Object, time: Timestamp) -> String {
    format!("{}-{}", cron.name(), time.as_second() / 60)
}

/// The Job for a time (CJ2).
fn made(cron: &Object, time: Timestamp, zone: &TimeZone) -> Object {
    let mut made = Object::new();
    made.insert("apiVersion".to_string(), BuiltinResource::Jobs.api_version().into());
    made.insert("kind".to_string(), BuiltinResource::Jobs.kind().into());
    let metadata = made.map_mut("metadata");
    metadata.insert("name".to_string(), name(cron, time).into());
    metadata.insert("namespace".to_string(), cron.namespace().into());
    for kind in ["labels", "annotations"] {
        let map = cron.map_at(&["spec", "jobTemplate", "metadata", kind]);
        if let Some(map) = map.filter(|map| !map.is_empty()) {
            metadata.insert(kind.to_string(), Value::Object(map.clone()));
        }
    }
    let entry = owner::entry(BuiltinResource::CronJobs, cron);
    metadata.insert("ownerReferences".to_string(), Value::Array([entry].to_vec()));
    let spec = cron.map_at(&["spec", "jobTemplate", "spec"]).cloned().unwrap_or_default();
    made.insert("spec".to_string(), Value::Object(spec));
    owner::annotate(&mut made, SCHEDULED, &schedule::written(time, zone));
    made
}
