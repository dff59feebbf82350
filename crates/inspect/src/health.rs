//! Whether an object fares well, read from the words that its kind shows to people (rules of spec/ownership.md).
//!
//! Only words that are known say something; of every other word nothing is concluded.

use serde::Serialize;

/// How well an object fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It does what it should, or has done it.
    Good,
    /// It is not ready, or not yet.
    Waiting,
    /// It fails.
    Failing,
}

const DONE: [&str; 4] = ["Complete", "Completed", "Succeeded", "SuccessCriteriaMet"];
const GOOD: [&str; 11] = [
    "Running",
    "Active",
    "Bound",
    "Available",
    "Ready",
    "Healthy",
    "Established",
    "True",
    "Issued",
    "Approved,Issued",
    "Synced",
];
const WAITING: [&str; 18] = [
    "Pending",
    "ContainerCreating",
    "PodInitializing",
    "SchedulingGated",
    "SchedulingDisabled",
    "Terminating",
    "Unknown",
    "Released",
    "Progressing",
    "Suspended",
    "Waiting",
    "Creating",
    "Provisioning",
    "Updating",
    "Deleting",
    "False",
    "NotReady",
    "Completing",
];
const FAILING: [&str; 14] = [
    "Failed",
    "Error",
    "OOMKilled",
    "Evicted",
    "Lost",
    "NodeLost",
    "Degraded",
    "Unhealthy",
    "DeadlineExceeded",
    "ContainerStatusUnknown",
    "ContainerCannotRun",
    "InvalidImageName",
    "NodeAffinity",
    "Preempting",
];

impl Health {
    /// What a status says, such as `Running 1/1`, `0/2 ready` or `CrashLoopBackOff 0/1`.
    #[must_use]
    pub fn of(status: &str) -> Option<Health> {
        let (mut said, mut counted) = (None, None);
        for part in status.split([' ', ',']) {
            if DONE.contains(&part) {
                // What has ended is no longer ready, and need not be.
                return Some(Health::Good);
            }
            match count(part) {
                Some((0, 0)) => {}
                Some((ready, wanted)) if ready >= wanted => counted = Some(Health::Good),
                Some(_) => counted = Some(Health::Waiting),
                None => said = said.max(word(part)),
            }
        }
        said.max(counted)
    }
}

/// `ready/wanted`.
fn count(part: &str) -> Option<(u64, u64)> {
    let (ready, wanted) = part.split_once('/')?;
    Some((ready.parse().ok()?, wanted.parse().ok()?))
}

fn word(part: &str) -> Option<Health> {
    let (initial, rest) = match part.strip_prefix("Init:") {
        Some(rest) => (true, rest),
        None => (false, part),
    };
    let fails = FAILING.contains(&rest)
        || rest.ends_with("BackOff")
        || rest.ends_with("Error")
        || ["Err", "ExitCode:", "Signal:", "OutOf"].iter().any(|start| rest.starts_with(start));
    if fails {
        Some(Health::Failing)
    } else if initial || WAITING.contains(&rest) {
        Some(Health::Waiting)
    } else {
        GOOD.contains(&rest).then_some(Health::Good)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r171c_only_what_fares_well_is_called_good() {
        for (status, health) in [
            ("Running 1/1", Some(Health::Good)),
            ("2/2 ready", Some(Health::Good)),
            ("Completed 0/1", Some(Health::Good)),
            ("Bound", Some(Health::Good)),
            ("ready: True", Some(Health::Good)),
            ("Ready", Some(Health::Good)),
            ("Running 0/1", Some(Health::Waiting)),
            ("0/1 ready", Some(Health::Waiting)),
            ("1/2 ready", Some(Health::Waiting)),
            ("Pending 0/1", Some(Health::Waiting)),
            ("Init:0/1 0/1", Some(Health::Waiting)),
            ("Ready,SchedulingDisabled", Some(Health::Waiting)),
            ("ready: False", Some(Health::Waiting)),
            ("CrashLoopBackOff 0/1", Some(Health::Failing)),
            ("Init:CrashLoopBackOff 0/1", Some(Health::Failing)),
            ("ErrImagePull 0/1", Some(Health::Failing)),
            ("CreateContainerConfigError 0/1", Some(Health::Failing)),
            ("Error 0/1", Some(Health::Failing)),
            ("OOMKilled 0/1", Some(Health::Failing)),
            ("ExitCode:3 0/1", Some(Health::Failing)),
            ("Failed", Some(Health::Failing)),
            ("0/0 ready", None),
            ("Sailing", None),
            ("", None),
        ] {
            assert_eq!(Health::of(status), health, "{status}");
        }
    }
}
