//! The annotations that tie ReplicaSets to the history of their Deployment (DP6).

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::Value;
use tenure_machinery::{Object, ObjectExt};

use crate::owner::{annotate, annotation};

/// The number of a ReplicaSet in the history, and of a Deployment's current one.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers a ReplicaSet had before, separated by commas.
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The size of the Deployment when the ReplicaSet was last scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// That size and the surge.
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Asks the controller to go back to a revision; zero means the last one.
pub(super) const ROLLBACK: &str = "deprecated.deployment.rollback.to";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The longest list of earlier numbers.
const HISTORY_CHARS_MAX: usize = 2000;

/// Whether an annotation is not copied between a Deployment and its ReplicaSets.
pub(super) fn stays(key: &str) -> bool {
    [LAST_APPLIED, REVISION, HISTORY, DESIRED, MAX, ROLLBACK].contains(&key)
}

/// Copies the Deployment's annotations to a ReplicaSet and raises its number.
///
/// Nothing is raised when the present number cannot be read.
pub(super) fn follow(set: &mut Object, deployment: &Object, revision: i64) {
    for (key, value) in deployment.map_at(&["metadata", "annotations"]).into_iter().flatten() {
        if !stays(key)
            && let Some(value) = value.as_str()
        {
            annotate(set, key, value);
        }
    }
    let known: Option<String> = annotation(set, REVISION).map(ToString::to_string);
    let number = match known.as_deref() {
        None | Some("") => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return,
        },
    };
    if number >= revision {
        return;
    }
    annotate(set, REVISION, &revision.to_string());
    if let Some(known) = known {
        let history = annotation(set, HISTORY).unwrap_or_default();
        if let Some(history) = extended(history, &known) {
            annotate(set, HISTORY, &history);
        }
    }
}

/// The list with one more number, cut at its front to fit; `None` when even that does not help.
fn extended(history: &str, number: &str) -> Option<String> {
    if history.split(',').next().unwrap_or_default().is_empty() {
        return Some(number.to_string());
    }
    let mut numbers: Vec<&str> = history.split(',').collect();
    let mut length = history.len() + number.len() + 1;
    let mut cut = 0;
    while length > HISTORY_CHARS_MAX && cut < numbers.len() {
        length -= numbers.get(cut).map_or(0, |first| first.len() + 1);
        cut += 1;
    }
    if length > HISTORY_CHARS_MAX {
        return None;
    }
    numbers.drain(..cut);
    numbers.push(number);
    Some(numbers.join(","))
}

/// Whether following the Deployment would change a ReplicaSet.
pub(super) fn follows(set: &Object, deployment: &Object, revision: i64) -> bool {
    let copied = deployment.map_at(&["metadata", "annotations"]).into_iter().flatten().all(
        |(key, value)| {
            stays(key) || value.as_str().is_none() || annotation(set, key) == value.as_str()
        },
    );
    let number = match annotation(set, REVISION) {
        None | Some("") => Some(0),
        Some(text) => text.parse::<i64>().ok(),
    };
    copied && number.is_none_or(|number| number >= revision)
}

/// Replaces the Deployment's own annotations by those of the ReplicaSet it goes back to.
pub(super) fn restore(deployment: &mut Object, set: &Object) {
    let annotations = deployment.map_mut("metadata").map_mut("annotations");
    annotations.retain(|key, _| stays(key) && key != ROLLBACK);
    for (key, value) in set.map_at(&["metadata", "annotations"]).into_iter().flatten() {
        if !stays(key) {
            annotations.insert(key.clone(), Value::clone(value));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{extended, follow, follows};
    use alloc::string::String;
    use serde_json::{Value, json};
    use tenure_machinery::Object;

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn dp6_history_is_cut_at_its_front() {
        assert_eq!(extended("", "1").as_deref(), Some("1"));
        assert_eq!(extended("1,3", "5").as_deref(), Some("1,3,5"));
        let long: String = "1000,".repeat(399) + "1000";
        let cut = extended(&long, "2000").unwrap();
        assert!(cut.len() <= 2000 && cut.ends_with(",2000") && cut.starts_with("1000,"));
        assert_eq!(extended("1", &"9".repeat(2001)), None);
    }

    #[test]
    fn dp6_annotations_follow_but_for_some() {
        let deployment = object(json!({"metadata": {"annotations": {
            "a": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "deployment.kubernetes.io/revision": "7",
        }}}));
        let mut set = object(json!({"metadata": {"annotations": {
            "deployment.kubernetes.io/revision": "2", "b": "2",
        }}}));
        assert!(!follows(&set, &deployment, 4));
        follow(&mut set, &deployment, 4);
        assert!(follows(&set, &deployment, 4));
        assert_eq!(
            Value::Object(set),
            json!({"metadata": {"annotations": {
                "a": "1", "b": "2", "deployment.kubernetes.io/revision": "4",
                "deployment.kubernetes.io/revision-history": "2",
            }}})
        );
        let mut odd = object(json!({"metadata": {"annotations": {
            "deployment.kubernetes.io/revision": "two"}}}));
        follow(&mut odd, &deployment, 4);
        assert_eq!(odd["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "two");
        assert!(follows(&odd, &deployment, 9));
    }
}
