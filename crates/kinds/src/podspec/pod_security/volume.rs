//! Checks of volumes: nothing of the node at baseline, only what the cluster provides at restricted.

use std::collections::BTreeSet;

use tenure_machinery::Object;

use super::{CheckedPod, Violation, counted, quoted};
use crate::podspec::view::{has, items, text};

/// The sources that even restricted pods may have.
const SAFE: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

pub(super) fn host_paths(pod: CheckedPod<'_>) -> Option<Violation> {
    let names: Vec<&str> = items(pod.spec, "volumes")
        .filter(|volume| has(volume, "hostPath"))
        .map(|volume| text(volume, "name"))
        .collect();
    let detail = counted("volume", &names);
    (!names.is_empty()).then_some(Violation { reason: "hostPath volumes", detail })
}

pub(super) fn kinds(pod: CheckedPod<'_>) -> Option<Violation> {
    let is_safe = |volume: &&Object| SAFE.iter().any(|source| has(volume, source));
    let bad: Vec<&Object> = items(pod.spec, "volumes").filter(|volume| !is_safe(volume)).collect();
    if bad.is_empty() {
        return None;
    }
    let names: Vec<&str> = bad.iter().map(|volume| text(volume, "name")).collect();
    let sources = |volume: &&'_ Object| -> Vec<String> {
        let members = volume.keys().filter(|member| *member != "name");
        members.map(String::clone).collect()
    };
    let sources: BTreeSet<String> = bad.iter().flat_map(sources).collect();
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let detail = format!("{} of type {}", counted("volume", &names), quoted(&sources));
    Some(Violation { reason: "restricted volume types", detail })
}
