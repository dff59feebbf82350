//! R139: whatever a client sends, it is answered; nothing here may panic or change on a second look.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tenure_machinery::Errors;

use super::object;
use crate::podspec::*;

/// Members that rules look at, so that random objects reach them.
const NAMES: &[&str] = &[
    "affinity",
    "annotations",
    "containers",
    "containerPort",
    "cpu",
    "dnsConfig",
    "downwardAPI",
    "emptyDir",
    "env",
    "ephemeralContainers",
    "fieldPath",
    "fieldRef",
    "hostNetwork",
    "hostPort",
    "httpGet",
    "image",
    "initContainers",
    "items",
    "key",
    "labels",
    "lifecycle",
    "limits",
    "livenessProbe",
    "metadata",
    "mountPath",
    "name",
    "nodeAffinity",
    "nodeSelectorTerms",
    "operator",
    "path",
    "podAffinity",
    "port",
    "ports",
    "preStop",
    "projected",
    "requests",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "resources",
    "restartPolicy",
    "schedulingGates",
    "securityContext",
    "sources",
    "spec",
    "template",
    "tolerations",
    "topologySpreadConstraints",
    "value",
    "valueFrom",
    "values",
    "volumeMounts",
    "volumes",
];

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("Always")),
        Just(json!("1Gi")),
        Just(json!("metadata.labels['a']")),
    ];
    leaf.prop_recursive(6, 80, 6, |inner| {
        let name = prop::sample::select(NAMES);
        let members = prop::collection::vec((name, inner.clone()), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            members.prop_map(|members| {
                let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
                Value::Object(Map::from_iter(members))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn r139_any_specification_is_answered(spec in tree(), other in tree()) {
        let mut pod = object(json!({"metadata": {"name": "p"}, "spec": spec}));
        let old = object(json!({"metadata": {"name": "p"}, "spec": other}));
        if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
            default_pod_spec(spec);
            let once = spec.clone();
            default_pod_spec(spec);
            prop_assert_eq!(&once, &*spec, "defaults are filled once");
        }
        let mut errors = Errors::new();
        validate_pod(&pod, &mut errors);
        validate_pod_create(&pod, &mut errors);
        validate_pod_update(&pod, &old, &mut errors);
        validate_ephemeral_update(&pod, &old, &mut errors);
        validate_resize(&pod, &old, &mut errors);
        let _ = pod_warnings(&pod);
        apply_app_armor_annotations(&mut pod);
        let mut new = pod.clone();
        prepare_ephemeral_update(&mut new, &old);
        prepare_resize(&mut pod, &old);
        let _ = pod.get("spec").and_then(Value::as_object).map(qos_class);
    }
}
