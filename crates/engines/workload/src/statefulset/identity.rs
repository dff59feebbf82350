//! Names, numbers and labels of the pods of a set (SS1, SS2, SS3), and the pods made with them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use super::{StatefulSetContext, claims};
use crate::history::REVISION_LABEL;
use crate::resource::BuiltinResource;
use crate::{owner, pod};

const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// What stands before the last dash of a name, and the digits after it.
pub(super) fn split(name: &str) -> Option<(&str, &str)> {
    let (before, digits) = name.rsplit_once('-')?;
    let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    number.then_some((before, digits))
}

/// The number at the end of a pod's name; `None` when no set would write it that way.
pub(super) fn ordinal(name: &str) -> Option<i64> {
    let (_, digits) = split(name)?;
    let ordinal: i32 = digits.parse().ok()?;
    (ordinal.to_string() == digits).then_some(i64::from(ordinal))
}

/// The name of the pod with this number.
pub(super) fn name(set: &StatefulSetContext<'_>, ordinal: i64) -> String {
    format!("{}-{ordinal}", set.object.name())
}

/// The revision that a pod says it is made from, or empty.
pub(super) fn revision(pod: &Object) -> &str {
    owner::label(pod, REVISION_LABEL).unwrap_or_default()
}

/// A new pod with this number, made from a revision (SS2, SS12).
pub(super) fn pod(
    set: &StatefulSetContext<'_>,
    ordinal: i64,
    template: &Object,
    revision: &str,
) -> Option<Object> {
    let mut pod = pod::from_template(template, BuiltinResource::StatefulSets, set.object)?;
    let own_name = name(set, ordinal);
    let metadata = pod.map_mut("metadata");
    metadata.insert("name".to_string(), own_name.clone().into());
    let labels = metadata.map_mut("labels");
    labels.insert(REVISION_LABEL.to_string(), revision.into());
    identify(&mut pod, ordinal);
    let spec = pod.map_mut("spec");
    spec.insert("hostname".to_string(), own_name.into());
    if let Some(service) = set.object.str_at(&["spec", "serviceName"]).filter(|s| !s.is_empty()) {
        spec.insert("subdomain".to_string(), service.into());
    }
    mount(set, &mut pod, ordinal);
    Some(pod)
}

/// The labels that say who a pod is.
fn identify(pod: &mut Object, ordinal: i64) {
    let name = pod.name().to_string();
    let labels = pod.map_mut("metadata").map_mut("labels");
    labels.insert(NAME_LABEL.to_string(), name.into());
    labels.insert(INDEX_LABEL.to_string(), ordinal.to_string().into());
}

/// Puts the claims of a pod before its other volumes, in place of any with their names (SS12).
fn mount(set: &StatefulSetContext<'_>, pod: &mut Object, ordinal: i64) {
    let mut volumes: Vec<Value> = claims::templates(set.object)
        .map(|template| {
            let claim = claims::name(set, template, ordinal);
            json!({"name": template.name(), "persistentVolumeClaim": {"claimName": claim}})
        })
        .collect();
    let shadowed = |volume: &Value| {
        let name = volume.get("name").and_then(Value::as_str).unwrap_or_default();
        claims::templates(set.object).any(|template| template.name() == name)
    };
    let others = pod.list_at(&["spec", "volumes"]).iter().filter(|v| !shadowed(v)).cloned();
    volumes.extend(others.collect::<Vec<Value>>());
    if !volumes.is_empty() {
        pod.map_mut("spec").insert("volumes".to_string(), Value::Array(volumes));
    }
}

/// Whether a pod carries the label with its name.
pub(super) fn identified(pod: &Object) -> bool {
    owner::label(pod, NAME_LABEL) == Some(pod.name())
}

/// Whether a pod mounts all its claims.
pub(super) fn mounted(set: &StatefulSetContext<'_>, pod: &Object, ordinal: i64) -> bool {
    claims::templates(set.object).all(|template| {
        let claim = claims::name(set, template, ordinal);
        pod.list_at(&["spec", "volumes"]).iter().filter_map(Value::as_object).any(|volume| {
            volume.str_at(&["name"]) == Some(template.name())
                && volume.str_at(&["persistentVolumeClaim", "claimName"]) == Some(claim.as_str())
        })
    })
}

/// The pod with its labels and claims put right; hostname and subdomain stay as they were made (SS2).
pub(super) fn corrected(set: &StatefulSetContext<'_>, pod: &Object, ordinal: i64) -> Object {
    let mut pod = pod.clone();
    if !identified(&pod) {
        identify(&mut pod, ordinal);
    }
    if !mounted(set, &pod, ordinal) {
        mount(set, &mut pod, ordinal);
    }
    pod
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{ordinal, split};

    #[test]
    fn ss1_a_pod_name_ends_with_a_plain_number() {
        assert_eq!(split("web-0"), Some(("web", "0")));
        assert_eq!(split("my-web-12"), Some(("my-web", "12")));
        for odd in ["web", "web-", "web-x", "web-1x", "-"] {
            assert_eq!(split(odd), None, "{odd}");
        }
        assert_eq!(ordinal("web-12"), Some(12));
        // Too large, or not as a set would write it.
        assert_eq!((ordinal("web-99999999999"), ordinal("web-01")), (None, None));
    }
}
