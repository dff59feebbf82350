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
pub(super) fn of(observed: &JobView<'_>) -> Option<Finish> {
    known(observed, true)
        .or_else(|| known(observed, false))
        .or_else(|| by_policy(observed))
        .or_else(|| by_limits(observed))
        .or_else(|| by_pieces(observed))
        .or_else(|| by_completions(observed))
}

fn known(observed: &JobView<'_>, success: bool) -> Option<Finish> {
    let mut finish = Finish { known: true, ..Finish::new(success, "", "") };
    let conditions = observed.job.list_at(&["status", "conditions"]);
    let reported = condition::find(conditions, finish.target())?;
    if reported.str_at(&["status"]) != Some("True") {
        return None;
    }
    finish.reason = reported.str_at(&["reason"]).unwrap_or_default().to_string();
    finish.message = reported.str_at(&["message"]).unwrap_or_default().to_string();
    Some(finish)
}

fn by_policy(observed: &JobView<'_>) -> Option<Finish> {
    let failed = observed.pods.iter().filter(|pod| observed.failed(pod));
    let mut judged = failed.map(|pod| policy::judge(observed.job, pod));
    judged.find_map(|judgement| match judgement {
        Judgement::FailJob(why) => Some(Finish::failure("PodFailurePolicy", why)),
        _ => None,
    })
}

fn by_limits(observed: &JobView<'_>) -> Option<Finish> {
    if observed.failures() > observed.spec.backoff_limit || restarted_too_often(observed) {
        let message = "Job has reached the specified backoff limit";
        return Some(Finish::failure("BackoffLimitExceeded", message));
    }
    let late = observed.deadline().is_some_and(|end| end <= observed.now);
    late.then(|| {
        Finish::failure("DeadlineExceeded", "Job was active longer than specified deadline")
    })
}

/// Pods that restart in place are limited by their restarts.
fn restarted_too_often(observed: &JobView<'_>) -> bool {
    let policy = observed.job.str_at(&["spec", "template", "spec", "restartPolicy"]);
    if policy != Some("OnFailure") {
        return false;
    }
    let running = observed.pods.iter().filter(|pod| {
        matches!(pod.str_at(&["status", "phase"]).unwrap_or_default(), "Running" | "Pending")
    });
    let restarts: i64 = running
        .flat_map(|pod| {
            let regular = pod.list_at(&["status", "containerStatuses"]);
            regular.iter().chain(pod.list_at(&["status", "initContainerStatuses"]))
        })
        .filter_map(|status| status.get("restartCount").and_then(Value::as_i64))
        .sum();
    restarts > 0 && restarts >= observed.spec.backoff_limit
}

fn by_pieces(observed: &JobView<'_>) -> Option<Finish> {
    if !observed.spec.indexed {
        return None;
    }
    let (pieces, done) = (observed.spec.pieces(), observed.done.total());
    let lost = observed.lost.as_ref().map_or(0, |lost| lost.total());
    if observed.spec.failed_indexes_max.is_some_and(|most| lost > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Finish::failure("MaxFailedIndexesExceeded", message));
    }
    if lost > 0 && lost + done >= pieces {
        return Some(Finish::failure("FailedIndexes", "Job has failed indexes"));
    }
    let why = policy::enough(observed.job, &observed.done, pieces)?;
    Some(Finish::new(true, "SuccessPolicy", why))
}

/// Without a number of completions one success is enough, once the others have ended too.
fn by_completions(observed: &JobView<'_>) -> Option<Finish> {
    let wanted = observed.spec.completions.unwrap_or(1);
    let met = observed.active.is_empty() && observed.succeeded() >= wanted;
    let message = "Reached expected number of succeeded pods";
    met.then(|| Finish::new(true, "CompletionsReached", message))
}
