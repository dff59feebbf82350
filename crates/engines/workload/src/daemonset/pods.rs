//! The pods of a DaemonSet: aimed at a node, tolerant of its troubles, labelled (DS2, DS3, DS4).

use alloc::string::ToString;
use alloc::vec::Vec;
use core::cmp::Ordering;

use serde_json::{Value, json};
use tenure_machinery::{Object, ObjectExt};

use super::DaemonSetContext;
use crate::history::REVISION_LABEL;
use crate::resource::BuiltinResource;
use crate::{owner, pod, time};

const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// The taints that pods of a DaemonSet put up with; the last one only on the node's network (DS2).
const TOLERATED: [(&str, &str); 7] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
    ("node.kubernetes.io/network-unavailable", "NoSchedule"),
];

/// The tolerations of the template and those that every pod of a DaemonSet gets (DS2).
pub(super) fn tolerations(set: &Object) -> Vec<Value> {
    let spec = ["spec", "template", "spec"];
    let at = |name: &'static str| [&spec[..], &[name]].concat();
    let mut all: Vec<Value> = set.list_at(&at("tolerations")).to_vec();
    let host = set.bool_at(&at("hostNetwork")) == Some(true);
    for (key, effect) in TOLERATED {
        if key.ends_with("network-unavailable") && !host {
            continue;
        }
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        match all.iter_mut().find(|known| same_taint(known, &added)) {
            // What is there already may have an end; these have none.
            Some(known) => *known = added,
            None => all.push(added),
        }
    }
    all
}

fn same_taint(one: &Value, other: &Value) -> bool {
    let text = |value: &Value, name: &str| {
        value.get(name).and_then(Value::as_str).unwrap_or_default().to_string()
    };
    ["key", "operator", "effect", "value"].iter().all(|name| text(one, name) == text(other, name))
}

/// The generation of the template, as an old annotation counts it.
fn generation(set: &Object) -> Option<i64> {
    owner::annotation(set, GENERATION_ANNOTATION)?.parse().ok()
}

/// Whether a pod is made from the template of today: by hash, or by the old count (DS4).
pub(super) fn updated(set: &Object, pod: &Object, hash: &str) -> bool {
    let by_hash = !hash.is_empty() && owner::label(pod, REVISION_LABEL) == Some(hash);
    let by_count = generation(set).is_some_and(|generation| {
        owner::label(pod, GENERATION_LABEL) == Some(generation.to_string().as_str())
    });
    by_hash || by_count
}

/// A pod for any node; `None` when the template has no labels.
pub(super) fn new(set: &DaemonSetContext<'_>, hash: &str) -> Option<Object> {
    let template = set.object.map_at(&["spec", "template"])?;
    let mut pod = pod::from_template(template, BuiltinResource::DaemonSets, set.object)?;
    let labels = pod.map_mut("metadata").map_mut("labels");
    if let Some(generation) = generation(set.object) {
        labels.insert(GENERATION_LABEL.to_string(), generation.to_string().into());
    }
    labels.insert(REVISION_LABEL.to_string(), hash.into());
    let tolerations = Value::Array(set.tolerations.clone());
    pod.map_mut("spec").insert("tolerations".to_string(), tolerations);
    Some(pod)
}

/// Aims a pod at one node, whatever its template asks of nodes (DS3).
pub(super) fn aim(mut pod: Object, node: &str) -> Object {
    let term = json!({
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}],
    });
    pod.map_mut("spec")
        .map_mut("affinity")
        .map_mut("nodeAffinity")
        .map_mut("requiredDuringSchedulingIgnoredDuringExecution")
        .insert("nodeSelectorTerms".to_string(), Value::Array([term].to_vec()));
    pod
}

/// The node a pod is on, or aimed at (DS3).
pub(super) fn target(pod: &Object) -> Option<&str> {
    let bound = pod::node(pod);
    if !bound.is_empty() {
        return Some(bound);
    }
    let terms = pod.list_at(&[
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ]);
    let fields = terms.iter().filter_map(Value::as_object);
    let mut named = fields.flat_map(|term| term.list_at(&["matchFields"])).filter(|field| {
        field.get("key").and_then(Value::as_str) == Some("metadata.name")
            && field.get("operator").and_then(Value::as_str) == Some("In")
    });
    match named.next()?.get("values")?.as_array()?.as_slice() {
        [only] => only.as_str(),
        _ => None,
    }
}

/// Bound before unbound, then by age, then by name (DS5).
pub(super) fn order(one: &Object, other: &Object) -> Ordering {
    let unbound = |pod: &Object| pod::node(pod).is_empty();
    unbound(one)
        .cmp(&unbound(other))
        .then_with(|| time::created(one).cmp(&time::created(other)))
        .then_with(|| one.name().cmp(other.name()))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/workload-controllers.md.
    use super::{aim, target, tolerations, updated};
    use serde_json::{Value, json};
    use tenure_machinery::{Object, ObjectExt};

    fn object(value: Value) -> Object {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn ds2_tolerations_are_added_or_made_endless() {
        let keys = |spec: Value| {
            let all = tolerations(&object(json!({"spec": {"template": {"spec": spec}}})));
            all.iter()
                .map(|t| t["key"].as_str().unwrap().rsplit('/').next().unwrap().into())
                .collect()
        };
        let plain: alloc::vec::Vec<alloc::string::String> = keys(json!({}));
        assert_eq!(
            plain.join(" "),
            "not-ready unreachable disk-pressure memory-pressure \
             pid-pressure unschedulable"
        );
        let host: alloc::vec::Vec<alloc::string::String> = keys(json!({"hostNetwork": true}));
        assert_eq!(host.last().unwrap(), "network-unavailable");
        let own = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 5}, {"key": "own", "operator": "Exists"}]);
        let all =
            tolerations(&object(json!({"spec": {"template": {"spec": {"tolerations": own}}}})));
        assert_eq!(all.len(), 7);
        assert_eq!(all[0].get("tolerationSeconds"), None);
        assert_eq!(all[1]["key"], "own");
    }

    #[test]
    fn ds3_a_pod_is_aimed_and_its_aim_read_back() {
        let wish = json!({"preferredDuringSchedulingIgnoredDuringExecution": [1],
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"x": 1}]}});
        let pod = object(json!({"spec": {"affinity": {"podAffinity": {}, "nodeAffinity": wish}}}));
        assert_eq!(target(&pod), None);
        let aimed = aim(pod, "n1");
        assert_eq!(target(&aimed), Some("n1"));
        let affinity = aimed.map_at(&["spec", "affinity"]).unwrap();
        assert!(affinity.contains_key("podAffinity"));
        let kept = ["nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(affinity.list_at(&kept).len(), 1);
        assert_eq!(target(&aim(Object::new(), "n2")), Some("n2"));
        let bound = object(json!({"spec": {"nodeName": "n3"}}));
        assert_eq!(target(&aim(bound, "n2")), Some("n3"));
    }

    #[test]
    fn ds4_updated_by_hash_or_by_count() {
        let set = object(json!({"metadata": {"annotations": {
            "deprecated.daemonset.template.generation": "2"}}}));
        let pod = |hash: &str, count: &str| {
            object(json!({"metadata": {"labels": {
                "controller-revision-hash": hash, "pod-template-generation": count}}}))
        };
        assert!(updated(&set, &pod("a", "1"), "a"));
        assert!(updated(&set, &pod("b", "2"), "a"));
        assert!(!updated(&set, &pod("b", "1"), "a"));
        assert!(!updated(&Object::new(), &pod("b", "2"), "a"));
    }
}
