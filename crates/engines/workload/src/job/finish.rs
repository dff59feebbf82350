//! Whether a Job is over, and why (JB6, JB8).

use alloc::string::{String, ToString};

use serde_json::Value;
use tenure_machinery::ObjectExt;

use super::job_view::JobView;
use super::policy::{self, Judgement};
use crate::condition;

/// That a Job is over: told in the status at once, made final when its pods are gone and counted.
pub(super) struct Finish {
    pub(super) success: bool,
    pub(super) reason: String,
    pub(super) message: String,
    /// The status says so already.
    pub(super) known: bool,
}

impl Finish {
    fn new(success: bool, reason: &str, message: impl Into<String>) -> Finish {
        Finish { success, reason: reason.to_string(), message: message.into(), known: false }
    }

    fn failure(reason: &str, message: impl Into<String>) -> Finish {
        Finish::new(false, reason, message)
    }

    /// The type of the condition that comes first.
    pub(super) fn target(&self) -> &'static str {
        if self.success { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    /// The type of the condition that comes last.
    pub(super) fn last(&self) -> &'static str {
        if self.success { "Complete" } else { "Failed" }
    }
}

/// What was decided before holds; then failures are looked at, then successes.
pub(super) fn of(sight: &JobView<'_>) -> Option<Finish> {
    known(sight, true)
        .or_else(|| known(sight, false))
        .or_else(|| by_policy(sight))
        .or_else(|| by_limits(sight))
        .or_else(|| by_pieces(sight))
        .or_else(|| by_completions(sight))
}

fn known(sight: &JobView<'_>, success: bool) -> Option<Finish> {
    let mut finish = Finish { known: true, ..Finish::new(success, "", "") };
    let conditions = sight.job.list_at(&["status", "conditions"]);
    let told = condition::find(conditions, finish.target())?;
    if told.str_at(&["status"]) != Some("True") {
        return None;
    }
    finish.reason = told.str_at(&["reason"]).unwrap_or_default().to_string();
    finish.message = told.str_at(&["message"]).unwrap_or_default().to_string();
    Some(finish)
}

fn by_policy(sight: &JobView<'_>) -> Option<Finish> {
    let failed = sight.pods.iter().filter(|pod| sight.failed(pod));
    let mut judged = failed.map(|pod| policy::judge(sight.job, pod));
    judged.find_map(|judgement| match judgement {
        Judgement::FailJob(why) => Some(Finish::failure("PodFailurePolicy", why)),
        _ => None,
    })
}

fn by_limits(sight: &JobView<'_>) -> Option<Finish> {
    if sight.failures() > sight.spec.backoff_limit || restarted_too_often(sight) {
        let message = "Job has reached the specified backoff limit";
        return Some(Finish::failure("BackoffLimitExceeded", message));
    }
    let late = sight.deadline().is_some_and(|end| end <= sight.now);
    late.then(|| {
        Finish::failure("DeadlineExceeded", "Job was active longer than specified deadline")
    })
}

/// Pods that restart in place are limited by their restarts.
fn restarted_too_often(sight: &JobView<'_>) -> bool {
    let policy = sight.job.str_at(&["spec", "template", "spec", "restartPolicy"]);
    if policy != Some("OnFailure") {
        return false;
    }
    let running = sight.pods.iter().filter(|pod| {
        matches!(pod.str_at(&["status", "phase"]).unwrap_or_default(), "Running" | "Pending")
    });
    let restarts: i64 = running
        .flat_map(|pod| {
            let regular = pod.list_at(&["status", "containerStatuses"]);
            regular.iter().chain(pod.list_at(&["status", "initContainerStatuses"]))
        })
        .filter_map(|status| status.get("restartCount").and_then(Value::as_i64))
        .sum();
    restarts > 0 && restarts >= sight.spec.backoff_limit
}

fn by_pieces(sight: &JobView<'_>) -> Option<Finish> {
    if !sight.spec.indexed {
        return None;
    }
    let (pieces, done) = (sight.spec.pieces(), sight.done.total());
    let lost = sight.lost.as_ref().map_or(0, |lost| lost.total());
    if sight.spec.failed_indexes_max.is_some_and(|most| lost > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Finish::failure("MaxFailedIndexesExceeded", message));
    }
    if lost > 0 && lost + done >= pieces {
        return Some(Finish::failure("FailedIndexes", "Job has failed indexes"));
    }
    let why = policy::enough(sight.job, &sight.done, pieces)?;
    Some(Finish::new(true, "SuccessPolicy", why))
}

/// Without a number of completions one success is enough, once the others have ended too.
fn by_completions(sight: &JobView<'_>) -> Option<Finish> {
    let wanted = sight.spec.completions.unwrap_or(1);
    let met = sight.active.is_empty() && sight.succeeded() >= wanted;
    let message = "Reached expected number of succeeded pods";
    met.then(|| Finish::new(true, "CompletionsReached", message))
}
