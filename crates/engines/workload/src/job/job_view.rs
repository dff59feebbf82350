//! A Job and its pods as one pass sees them, with what follows from them by counting alone.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::indexes::Indexes;
use super::{policy, tracked};
use crate::view::VersionedObject;
use crate::{owner, pod, time};

/// Which piece of an indexed Job a pod works on.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// How often the piece failed before this pod.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// How often the piece failed before this pod without that being counted.
pub(super) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// What a Job asks for.
pub(super) struct JobSpec {
    pub(super) indexed: bool,
    pub(super) completions: Option<i64>,
    pub(super) parallelism: i64,
    pub(super) backoff_limit: i64,
    pub(super) per_index: Option<i64>,
    pub(super) failed_indexes_max: Option<i64>,
    pub(super) suspended: bool,
    /// A pod that is being deleted is replaced only when it has ended.
    pub(super) replaces_failed_only: bool,
    deadline_seconds: Option<i64>,
}

impl JobSpec {
    fn of(job: &Object) -> JobSpec {
        let number = |name: &str| job.int_at(&["spec", name]);
        let per_index = number("backoffLimitPerIndex");
        let limit = if per_index.is_some() { i64::from(i32::MAX) } else { 6 };
        JobSpec {
            indexed: job.str_at(&["spec", "completionMode"]) == Some("Indexed"),
            completions: number("completions"),
            parallelism: number("parallelism").unwrap_or(1).max(0),
            backoff_limit: number("backoffLimit").unwrap_or(limit),
            per_index,
            failed_indexes_max: number("maxFailedIndexes"),
            suspended: job.bool_at(&["spec", "suspend"]) == Some(true),
            replaces_failed_only: job.str_at(&["spec", "podReplacementPolicy"]) == Some("Failed"),
            deadline_seconds: number("activeDeadlineSeconds"),
        }
    }

    /// How many pieces an indexed Job has.
    pub(super) fn pieces(&self) -> i64 {
        self.completions.unwrap_or_default()
    }
}

/// A Job, its pods, and what was counted of them.
pub(super) struct JobView<'a> {
    pub(super) job: &'a VersionedObject,
    pub(super) now: Timestamp,
    pub(super) spec: JobSpec,
    /// All pods; of an indexed Job in the order of their pieces.
    pub(super) pods: Vec<VersionedObject>,
    pub(super) active: Vec<VersionedObject>,
    pub(super) terminating: usize,
    /// Pods that the status names but does not count yet.
    pub(super) uncounted_succeeded: BTreeSet<String>,
    pub(super) uncounted_failed: BTreeSet<String>,
    /// Ends that the status knows nothing of.
    pub(super) newly_succeeded: Vec<VersionedObject>,
    pub(super) newly_failed: Vec<VersionedObject>,
    /// Pieces that are done, as the status and the pods say.
    pub(super) done: Indexes,
    /// Pieces that are given up; only with a limit for each piece.
    pub(super) lost: Option<Indexes>,
}

impl<'a> JobView<'a> {
    pub(super) fn of(
        job: &'a VersionedObject,
        mut pods: Vec<VersionedObject>,
        now: Timestamp,
    ) -> JobView<'a> {
        let spec = JobSpec::of(job);
        if spec.indexed {
            pods.sort_by_key(|pod| index(pod));
        }
        let named = |kind: &str| -> BTreeSet<String> {
            let uids = job.list_at(&["status", "uncountedTerminatedPods", kind]).iter();
            uids.filter_map(Value::as_str).map(ToString::to_string).collect()
        };
        let mut observed = JobView {
            job,
            now,
            active: pods.iter().filter(|pod| pod::active(pod)).cloned().collect(),
            terminating: pods.iter().filter(|pod| pod::terminating(pod)).count(),
            uncounted_succeeded: named("succeeded"),
            uncounted_failed: named("failed"),
            newly_succeeded: Vec::new(),
            newly_failed: Vec::new(),
            done: Indexes::default(),
            lost: None,
            spec,
            pods,
        };
        observed.newly_succeeded = observed.new_ends(|pod| pod::phase(pod) == "Succeeded");
        observed.newly_failed = observed.new_ends(|pod| observed.failed(pod));
        if observed.spec.indexed {
            observed.read_indexes();
        }
        observed
    }

    fn new_ends(&self, ended: impl Fn(&Object) -> bool) -> Vec<VersionedObject> {
        let new = |pod: &&VersionedObject| {
            tracked(pod) && !self.named(pod) && self.has_piece(pod) && ended(pod)
        };
        self.pods.iter().filter(new).cloned().collect()
    }

    /// Whether the status names a pod as ended, one way or the other; what it said first holds.
    pub(super) fn named(&self, pod: &Object) -> bool {
        let uid = owner::uid(pod);
        self.uncounted_succeeded.contains(uid) || self.uncounted_failed.contains(uid)
    }

    fn read_indexes(&mut self) {
        let written = |name: &str| {
            let text = self.job.str_at(&["status", name]).unwrap_or_default();
            Indexes::parse(text, self.spec.pieces())
        };
        let mut done = written("completedIndexes");
        done.extend(self.newly_succeeded.iter().filter_map(|pod| index(pod)));
        if self.spec.per_index.is_some() {
            let mut lost = written("failedIndexes");
            let uncounted = self.pods.iter().filter(|pod| tracked(pod) && self.has_piece(pod));
            lost.extend(uncounted.filter(|pod| self.loses_piece(pod)).filter_map(|p| index(p)));
            self.lost = Some(lost);
        }
        self.done = done;
    }

    /// Whether with this failure the pod's piece is given up.
    fn loses_piece(&self, pod: &Object) -> bool {
        if !self.failed(pod) {
            return false;
        }
        match policy::judge(self.job, pod) {
            policy::Judgement::FailIndex => true,
            judgement => {
                judgement.counts()
                    && failures(pod, FAILURES) >= self.spec.per_index.unwrap_or(i64::MAX)
            }
        }
    }

    /// Whether a pod has failed (JB6).
    pub(super) fn failed(&self, pod: &Object) -> bool {
        match pod::phase(pod) {
            "Failed" => true,
            "Succeeded" => false,
            _ => !self.spec.replaces_failed_only && owner::deleting(pod),
        }
    }

    /// Whether a pod works on something: always, unless the Job is indexed.
    pub(super) fn has_piece(&self, pod: &Object) -> bool {
        !self.spec.indexed || index(pod).is_some_and(|index| index < self.spec.pieces())
    }

    /// How many successes there are, counted, named and new.
    pub(super) fn succeeded(&self) -> i64 {
        if self.spec.indexed {
            return self.done.total();
        }
        let counted = self.job.int_at(&["status", "succeeded"]).unwrap_or_default();
        counted + (self.uncounted_succeeded.len() + self.newly_succeeded.len()) as i64
    }

    /// How many failures count against the limit.
    pub(super) fn failures(&self) -> i64 {
        let counted = self.job.int_at(&["status", "failed"]).unwrap_or_default();
        let new = self.newly_failed.iter();
        let new = new.filter(|pod| policy::judge(self.job, pod).counts()).count();
        counted + (self.uncounted_failed.len() + new) as i64
    }

    /// When it began to run; now, if it has not yet.
    pub(super) fn started(&self) -> Option<Timestamp> {
        let known = time::at(self.job, &["status", "startTime"]);
        if self.spec.suspended { known } else { known.or(Some(self.now)) }
    }

    /// When it has run long enough.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let seconds = self.spec.deadline_seconds.filter(|_| !self.spec.suspended)?;
        Some(time::after(self.started()?, seconds))
    }
}

/// The piece that a pod says it works on.
pub(super) fn index(pod: &Object) -> Option<i64> {
    owner::annotation(pod, INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// A count of failures in an annotation; zero where there is none that makes sense.
pub(super) fn failures(pod: &Object, annotation: &str) -> i64 {
    let count: Option<i32> = owner::annotation(pod, annotation).and_then(|text| text.parse().ok());
    i64::from(count.unwrap_or_default().max(0))
}
