//! Plugins that are off unless they are switched on, as upstream's of these names (R161): AlwaysPullImages,
//! ExtendedResourceToleration, LimitPodHardAntiAffinityTopology, DenyServiceExternalIPs.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_machinery::{Failure, Object, ObjectExt};

use crate::request::ResourceRequest;

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Has the images of a pod pulled at every start. An update without a new image is left as it is.
pub(super) fn pull_always(old: Option<&Object>, pod: &mut Object) {
    let images = |pod: &Object| -> BTreeSet<String> {
        let spec = pod.map_at(&["spec"]);
        let lists = CONTAINERS.iter().flat_map(|list| spec.map_or(&[][..], |s| s.list_at(&[list])));
        lists.filter_map(|one| one.get("image")?.as_str().map(str::to_owned)).collect()
    };
    if old.is_some_and(|old| images(pod).is_subset(&images(old))) {
        return;
    }
    let spec = pod.map_mut("spec");
    for list in CONTAINERS {
        let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            container.insert("imagePullPolicy".into(), "Always".into());
        }
    }
    let Some(Value::Array(volumes)) = spec.get_mut("volumes") else { return };
    for volume in volumes {
        if let Some(Value::Object(image)) = volume.get_mut("image") {
            image.insert("pullPolicy".into(), "Always".into());
        }
    }
}

/// Whoever asks a pod to be pulled otherwise after all others had their say is refused.
pub(super) fn must_pull_always(old: Option<&Object>, pod: &Object) -> Result<(), Failure> {
    let mut wanted = pod.clone();
    pull_always(old, &mut wanted);
    if wanted.get("spec") == pod.get("spec") {
        return Ok(());
    }
    let why = "spec.containers[*].imagePullPolicy: Unsupported value: supported values: \"Always\"";
    Err(Failure::forbidden("", "pods", pod.name(), why))
}

/// Lets a pod that asks for devices run on nodes that are kept for such pods.
pub(super) fn tolerate_extended_resources(pod: &mut Object) {
    let spec = pod.map_mut("spec");
    let mut named = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        for container in spec.list_at(&[list]).iter().filter_map(Value::as_object) {
            let requests = container.map_at(&["resources", "requests"]);
            named.extend(
                requests.into_iter().flat_map(Object::keys).filter(|n| is_extended(n)).cloned(),
            );
        }
    }
    if named.is_empty() {
        return;
    }
    let list = spec.entry("tolerations").or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(list) = list else { return };
    for name in named {
        let wanted = json!({ "key": name, "operator": "Exists", "effect": "NoSchedule" });
        if !list.contains(&wanted) {
            list.push(wanted);
        }
    }
}

/// Resources that are neither Kubernetes' own nor a quota's word for one.
fn is_extended(name: &str) -> bool {
    let Some((domain, _)) = name.split_once('/') else { return false };
    domain != "kubernetes.io"
        && !domain.ends_with(".kubernetes.io")
        && !name.starts_with("requests.")
}

/// Refuses a pod that keeps others away from more than its node.
pub(super) fn only_by_hostname(pod: &Object) -> Result<(), Failure> {
    let terms = pod.list_at(&[
        "spec",
        "affinity",
        "podAntiAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
    ]);
    let key = |term: &Value| term.get("topologyKey").and_then(Value::as_str).map(str::to_owned);
    match terms.iter().filter_map(key).find(|key| key != HOSTNAME) {
        None => Ok(()),
        Some(key) => {
            let why = format!(
                "affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key \
                 {HOSTNAME} is allowed"
            );
            Err(Failure::forbidden("", "pods", pod.name(), &why))
        }
    }
}

/// Refuses a Service that begins to use addresses from outside.
pub(super) fn no_external_addresses(
    request: &ResourceRequest,
    old: Option<&Object>,
    service: &Object,
) -> Result<(), Failure> {
    let kind = &request.served.kind;
    let is_service = kind.group.is_empty() && kind.kind == "Service";
    if !is_service || !request.subresource.is_empty() {
        return Ok(());
    }
    let before = old.map_or(&[][..], |old| old.list_at(&["spec", "externalIPs"]));
    let now = service.list_at(&["spec", "externalIPs"]);
    if now.iter().all(|address| before.contains(address)) {
        return Ok(());
    }
    let why = "Use of external IPs is denied by admission control";
    Err(Failure::forbidden("", "services", service.name(), why))
}

#[cfg(test)]
mod tests {
    use super::is_extended;

    #[test]
    fn r161_resources_of_others_are_extended() {
        for (name, extended) in [
            ("cpu", false),
            ("kubernetes.io/batch", false),
            ("node.kubernetes.io/x", false),
            ("requests.acme.com/gpu", false),
            ("acme.com/gpu", true),
        ] {
            assert_eq!(is_extended(name), extended, "{name}");
        }
    }
}
