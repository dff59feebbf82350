//! How long to wait before a failed pod is followed by another (JB7).

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use core::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use super::job_view::JobView;
use crate::controller::ReconcileMemory;
use crate::view::VersionedObject;
use crate::{condition, owner, time};

const FIRST_SECONDS: i64 = 10;
const LONGEST_SECONDS: i64 = 10 * 60;

/// What a Job remembers of failures since the last success.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobBackoff {
    /// The Job it is about; another one under its name starts afresh.
    job: String,
    failures: i64,
    last: Option<Timestamp>,
    /// Ends that are part of this and not in the status yet.
    heard: BTreeSet<String>,
}

impl JobBackoff {
    /// What the last pass left, with the ends that are new since.
    pub(super) fn recall(memory: &ReconcileMemory, observed: &JobView<'_>) -> JobBackoff {
        let job = owner::uid(observed.job);
        let known = match memory {
            ReconcileMemory::Backoff(known) if known.job == job => known.clone(),
            _ => JobBackoff { job: job.to_string(), ..JobBackoff::default() },
        };
        let unheard = |pod: &&VersionedObject| !known.heard.contains(owner::uid(pod));
        let success = observed.newly_succeeded.iter().filter(unheard).map(|pod| ended(pod)).max();
        let failed = observed.newly_failed.iter().filter(unheard).map(|pod| ended(pod));
        let mut next = known.clone();
        if success.is_some() {
            (next.failures, next.last) = (0, None);
        }
        for time in failed.filter(|time| success.is_none_or(|success| *time > success)) {
            next.failures += 1;
            next.last = next.last.max(Some(time));
        }
        let ends = observed.newly_succeeded.iter().chain(&observed.newly_failed);
        next.heard = ends.map(|pod| owner::uid(pod).to_string()).collect();
        next
    }

    /// How long no pod may be made yet.
    pub(super) fn left(&self, now: Timestamp) -> Option<Duration> {
        left(self.failures, self.last?, now)
    }
}

/// How long to wait after so many failures in a row, the last of them at this time.
pub(super) fn left(failures: i64, last: Timestamp, now: Timestamp) -> Option<Duration> {
    let doublings = u32::try_from((failures - 1).clamp(0, 10)).ok()?;
    let wait = (FIRST_SECONDS << doublings).min(LONGEST_SECONDS);
    let end = time::after(last, wait);
    (failures > 0 && end > now).then(|| time::until(end, now))
}

/// When a pod ended, as well as can be told.
pub(super) fn ended(pod: &Object) -> Timestamp {
    by_containers(pod)
        .or_else(|| by_condition(pod))
        .or_else(|| by_deletion(pod))
        .or_else(|| time::created(pod))
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// When the last container ended, if all have: sidecars count, other init containers do not.
fn by_containers(pod: &Object) -> Option<Timestamp> {
    let end =
        |status: &Value| time::at(status.as_object()?, &["state", "terminated", "finishedAt"]);
    let sidecar = |status: &&Value| {
        pod.list_at(&["spec", "initContainers"]).iter().any(|container| {
            container.get("name") == status.get("name")
                && container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
        })
    };
    let regular = pod.list_at(&["status", "containerStatuses"]).iter();
    let sidecars = pod.list_at(&["status", "initContainerStatuses"]).iter().filter(sidecar);
    let ends: Option<alloc::vec::Vec<Timestamp>> = regular.chain(sidecars).map(end).collect();
    ends?.into_iter().max()
}

fn by_condition(pod: &Object) -> Option<Timestamp> {
    let ready = condition::find(pod.list_at(&["status", "conditions"]), "Ready")?;
    let unready = ready.str_at(&["status"]) == Some("False");
    unready.then(|| time::at(ready, &["lastTransitionTime"])).flatten()
}

/// When somebody asked for the deletion.
fn by_deletion(pod: &Object) -> Option<Timestamp> {
    let end = time::at(pod, &["metadata", "deletionTimestamp"])?;
    let grace = pod.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or_default();
    Some(time::after(end, -grace))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{ended, left};
    use alloc::string::ToString;
    use core::time::Duration;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn jb7_the_wait_doubles_up_to_ten_minutes() {
        let waits = [1, 2, 3, 6, 7, 50].map(|failures| left(failures, at(100), at(100)));
        let expected = [10, 20, 40, 320, 600, 600].map(|s| Some(Duration::from_secs(s)));
        assert_eq!(waits, expected);
        assert_eq!(left(1, at(100), at(104)), Some(Duration::from_secs(6)));
        assert_eq!(left(1, at(100), at(110)), None);
        assert_eq!(left(0, at(100), at(100)), None);
    }

    #[test]
    fn jb7_a_pod_ends_when_its_last_container_does() {
        let end = |pod: Value| ended(pod.as_object().unwrap()).to_string();
        let mut pod = json!({
            "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]},
            "status": {
                "containerStatuses": [
                    {"name": "c", "state": {"terminated": {"finishedAt": "2026-01-01T00:01:00Z"}}}],
                "initContainerStatuses": [
                    {"name": "s", "state": {"terminated": {"finishedAt": "2026-01-01T00:02:00Z"}}},
                    {"name": "i", "state": {"terminated": {"finishedAt": "2026-01-01T00:09:00Z"}}}],
                "conditions": [{"type": "Ready", "status": "False",
                                "lastTransitionTime": "2026-01-01T00:05:00Z"}],
            },
        });
        assert_eq!(end(pod.clone()), "2026-01-01T00:02:00Z");
        pod["status"]["containerStatuses"][0]["state"] = json!({"running": {}});
        assert_eq!(end(pod.clone()), "2026-01-01T00:05:00Z");
        pod["status"] = json!({});
        assert_eq!(end(pod.clone()), "2026-01-01T00:00:00Z");
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:08:30Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
        assert_eq!(end(pod), "2026-01-01T00:08:00Z");
    }
}
