//! Which finished Jobs a CronJob keeps (CJ6).

use alloc::format;
use alloc::vec::Vec;

use tenure_machinery::{Object, ObjectExt};

use crate::intent::{ControllerIntent, IntentPropagation, InvolvedObject, MessageSuffix};
use crate::resource::BuiltinResource;
use crate::view::VersionedObject;
use crate::{job, owner, time};

/// Deletes a Job with its pods.
pub(super) fn deletion(job: &VersionedObject, about: &InvolvedObject) -> ControllerIntent {
    let done = about.normal("SuccessfulDelete", format!("Deleted job {}", job.name()));
    let refused = about.warning("FailedDelete", "Deleted job: ").ending(MessageSuffix::Error);
    ControllerIntent::delete(BuiltinResource::Jobs, job)
        .propagating(IntentPropagation::Background)
        .when_done(done)
        .when_refused(refused)
        .independent()
}

/// The finished Jobs that are too many, oldest first.
pub(super) fn surplus(cron: &Object, jobs: &[VersionedObject]) -> Vec<VersionedObject> {
    let mut surplus = Vec::new();
    for (end, limit) in
        [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")]
    {
        let Some(limit) = cron.int_at(&["spec", limit]) else { continue };
        let ended = |job: &&VersionedObject| {
            let how = job::finished(job).and_then(|condition| condition.str_at(&["type"]));
            how == Some(end) && !owner::deleting(job)
        };
        let mut old: Vec<VersionedObject> = jobs.iter().filter(ended).cloned().collect();
        old.sort_by_key(|job| {
            let start = time::at(job, &["status", "startTime"]);
            // What never started comes last.
            (start.is_none(), start)
        });
        let limit = usize::try_from(limit).unwrap_or_default();
        old.truncate(old.len().saturating_sub(limit));
        surplus.extend(old);
    }
    surplus
}
