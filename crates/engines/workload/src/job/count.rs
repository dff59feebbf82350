//! Counting every end once (JB3).
//!
//! ```text
//!   ended, with finalizer ──► named in the status ──► finalizer off ──► in a number
//! ```
//!
//! A pod that is named and has let go, or is gone, is moved into a number; before that nothing of it
//! may be lost, after that nothing of it is looked at.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::finish::Finish;
use super::job_view::{self, JobView};
use super::{BURST, backoff, policy, tracked};
use crate::view::VersionedObject;
use crate::{owner, pod};

/// The numbers of a status, and which pods may be let go of once it is written.
pub(super) struct JobPodCounts {
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    pub(super) uncounted_succeeded: Vec<String>,
    pub(super) uncounted_failed: Vec<String>,
    pub(super) strip: Vec<VersionedObject>,
}

impl JobPodCounts {
    /// Whether everything that ended is in a number.
    pub(super) fn settled(&self) -> bool {
        self.uncounted_succeeded.is_empty()
            && self.uncounted_failed.is_empty()
            && self.strip.is_empty()
    }

    /// Whether a pod is let go of in this pass.
    pub(super) fn strips(&self, pod: &Object) -> bool {
        self.strip.iter().any(|other| owner::uid(other) == owner::uid(pod))
    }
}

pub(super) fn tally(observed: &JobView<'_>, finish: Option<&Finish>) -> JobPodCounts {
    let mut tally = moved(observed);
    let waiting = waiting(observed);
    for pod in observed.pods.iter().filter(|pod| tracked(pod)) {
        let full = tally.uncounted_succeeded.len() + tally.uncounted_failed.len() >= BURST;
        if full || tally.strip.len() >= BURST {
            break;
        }
        if !may_go(observed, finish, &waiting, pod) {
            continue;
        }
        tally.strip.push(pod.clone());
        if observed.named(pod) || !observed.has_piece(pod) {
            continue;
        }
        // When a Job has failed, whatever has not succeeded has failed with it.
        let lost = observed.failed(pod) || finish.is_some_and(|finish| !finish.success);
        if pod::phase(pod) == "Succeeded" {
            if !observed.spec.indexed {
                tally.uncounted_succeeded.push(owner::uid(pod).to_string());
            }
        } else if lost && policy::judge(observed.job, pod).counts() {
            tally.uncounted_failed.push(owner::uid(pod).to_string());
        }
    }
    if observed.spec.indexed {
        tally.succeeded = observed.done.total();
    }
    tally
}

/// The numbers with those pods that were named before and have let go since.
fn moved(observed: &JobView<'_>) -> JobPodCounts {
    let held: BTreeSet<&str> =
        observed.pods.iter().filter(|pod| tracked(pod)).map(|pod| owner::uid(pod)).collect();
    let number = |name: &str| observed.job.int_at(&["status", name]).unwrap_or_default();
    let named = |kind: &str| -> Vec<String> {
        let uids = observed.job.list_at(&["status", "uncountedTerminatedPods", kind]).iter();
        uids.filter_map(Value::as_str).map(ToString::to_string).collect()
    };
    let split = |kind: &str| {
        let all = named(kind);
        let count = all.len();
        let left: Vec<String> = all.into_iter().filter(|uid| held.contains(uid.as_str())).collect();
        (number(kind) + (count - left.len()) as i64, left)
    };
    let (succeeded, uncounted_succeeded) = split("succeeded");
    let (failed, uncounted_failed) = split("failed");
    JobPodCounts { succeeded, failed, uncounted_succeeded, uncounted_failed, strip: Vec::new() }
}

/// Whether a pod may be let go of: it has ended, or the whole Job has.
fn may_go(
    observed: &JobView<'_>,
    finish: Option<&Finish>,
    waiting: &BTreeSet<&str>,
    pod: &Object,
) -> bool {
    finish.is_some()
        || owner::deleting(observed.job)
        || pod::phase(pod) == "Succeeded"
        || (observed.failed(pod) && !waiting.contains(owner::uid(pod)))
}

/// With a limit for each piece the last failed pod of a piece stays until its successor is there,
/// because the successor takes over its count of failures.
fn waiting<'a>(observed: &'a JobView<'_>) -> BTreeSet<&'a str> {
    predecessors(observed).into_iter().map(|(_, pod)| owner::uid(pod)).collect()
}

/// The last failed pod of each piece that is neither done nor given up nor worked on.
pub(super) fn predecessors<'a>(observed: &'a JobView<'_>) -> Vec<(i64, &'a VersionedObject)> {
    let Some(lost) = &observed.lost else { return Vec::new() };
    let busy: BTreeSet<i64> =
        observed.active.iter().filter_map(|pod| job_view::index(pod)).collect();
    let mut last: Vec<(i64, &VersionedObject)> = Vec::new();
    for pod in &observed.pods {
        let Some(index) = job_view::index(pod) else { continue };
        let open = !observed.done.has(index) && !lost.has(index) && !busy.contains(&index);
        if !open || !tracked(pod) || !observed.has_piece(pod) || !observed.failed(pod) {
            continue;
        }
        match last.last_mut() {
            Some((known, before)) if *known == index => {
                if rank(pod) >= rank(before) {
                    *before = pod;
                }
            }
            _ => last.push((index, pod)),
        }
    }
    last
}

fn rank(pod: &Object) -> (i64, jiff::Timestamp) {
    (absolute_failures(pod), backoff::ended(pod))
}

/// How often a piece failed before this pod, counted or not.
pub(super) fn absolute_failures(pod: &Object) -> i64 {
    job_view::failures(pod, job_view::FAILURES) + job_view::failures(pod, job_view::IGNORED)
}
