//! What a volume or an environment is made from, so that only what depends on a change is made again
//! (R71). When that happens is the host's.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use core::fmt;

use serde_json::Value;
use tenure_core::field_path::{Field, FieldPath, KeyedMap};
use tenure_machinery::{Object, ObjectExt};

/// One thing that values are made from and that may change while a pod lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// Every annotation.
    Annotations,
    /// One annotation.
    Annotation(String),
    /// Every label.
    Labels,
    /// One label.
    Label(String),
    /// The owner references.
    OwnerReferences,
    /// The resources of the pod or one of its containers.
    Resources,
    /// What the node can give out.
    Allocatable,
    /// Addresses of the node.
    HostIps,
    /// Addresses of the pod.
    PodIps,
    /// A ConfigMap in the pod's namespace.
    ConfigMap(String),
    /// A Secret in the pod's namespace.
    Secret(String),
    /// A token, which ages.
    Token,
    /// Certificates of signers.
    TrustBundle,
    /// A certificate of the pod, which ages.
    PodCertificate,
}

/// As logs and tests write it: `annotation:foo`, `configmap:name`.
impl fmt::Display for Input {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Annotations => out.write_str("annotations"),
            Input::Annotation(key) => write!(out, "annotation:{key}"),
            Input::Labels => out.write_str("labels"),
            Input::Label(key) => write!(out, "label:{key}"),
            Input::OwnerReferences => out.write_str("ownerReferences"),
            Input::Resources => out.write_str("resources"),
            Input::Allocatable => out.write_str("allocatable"),
            Input::HostIps => out.write_str("hostIPs"),
            Input::PodIps => out.write_str("podIPs"),
            Input::ConfigMap(name) => write!(out, "configmap:{name}"),
            Input::Secret(name) => write!(out, "secret:{name}"),
            Input::Token => out.write_str("token"),
            Input::TrustBundle => out.write_str("trustbundle"),
            Input::PodCertificate => out.write_str("podcertificate"),
        }
    }
}

/// What the files of `volume`, an item of the pod's `volumes`, are made from.
#[must_use]
pub fn volume_inputs(volume: &Object) -> BTreeSet<Input> {
    let mut inputs = BTreeSet::new();
    if let Some(source) = volume.map_at(&["configMap"]) {
        inputs.extend(named(source, "name").map(Input::ConfigMap));
    }
    if let Some(source) = volume.map_at(&["secret"]) {
        inputs.extend(named(source, "secretName").map(Input::Secret));
    }
    if let Some(source) = volume.map_at(&["downwardAPI"]) {
        item_inputs(source, &mut inputs);
    }
    for source in volume.list_at(&["projected", "sources"]).iter().filter_map(Value::as_object) {
        if let Some(source) = source.map_at(&["configMap"]) {
            inputs.extend(named(source, "name").map(Input::ConfigMap));
        }
        if let Some(source) = source.map_at(&["secret"]) {
            inputs.extend(named(source, "name").map(Input::Secret));
        }
        if let Some(source) = source.map_at(&["downwardAPI"]) {
            item_inputs(source, &mut inputs);
        }
        for (member, input) in [
            ("serviceAccountToken", Input::Token),
            ("clusterTrustBundle", Input::TrustBundle),
            ("podCertificate", Input::PodCertificate),
        ] {
            inputs.extend(source.map_at(&[member]).map(|_| input));
        }
    }
    inputs
}

/// What the environment of `container` is made from, Services excepted. A running container's
/// environment stays; this says what to have before it starts.
#[must_use]
pub fn env_inputs(container: &Object) -> BTreeSet<Input> {
    let mut inputs = BTreeSet::new();
    for source in container.list_at(&["envFrom"]).iter().filter_map(Value::as_object) {
        let maps = source.map_at(&["configMapRef"]).and_then(|source| named(source, "name"));
        inputs.extend(maps.map(Input::ConfigMap));
        let secrets = source.map_at(&["secretRef"]).and_then(|source| named(source, "name"));
        inputs.extend(secrets.map(Input::Secret));
    }
    for variable in container.list_at(&["env"]).iter().filter_map(Value::as_object) {
        let Some(from) = variable.map_at(&["valueFrom"]) else { continue };
        reference_inputs(from, &mut inputs);
        let maps = from.map_at(&["configMapKeyRef"]).and_then(|source| named(source, "name"));
        inputs.extend(maps.map(Input::ConfigMap));
        let secrets = from.map_at(&["secretKeyRef"]).and_then(|source| named(source, "name"));
        inputs.extend(secrets.map(Input::Secret));
    }
    inputs
}

/// What a pod needs: its volumes, the environments of all its containers, and the Secrets its images
/// are pulled with.
#[must_use]
pub fn pod_inputs(pod: &Object) -> BTreeSet<Input> {
    let of = |list: &'static str| pod.list_at(&["spec", list]).iter().filter_map(Value::as_object);
    let mut inputs: BTreeSet<Input> = of("volumes").flat_map(volume_inputs).collect();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        inputs.extend(of(list).flat_map(env_inputs));
    }
    inputs.extend(
        of("imagePullSecrets").filter_map(|secret| named(secret, "name")).map(Input::Secret),
    );
    inputs
}

/// Whether what is made from `inputs` may differ between two states of a pod. Inputs outside the pod
/// object (ConfigMaps, Secrets, the node) never differ here.
#[must_use]
pub fn pod_changed(inputs: &BTreeSet<Input>, before: &Object, after: &Object) -> bool {
    let differs = |path: &[&str]| before.at(path) != after.at(path);
    inputs.iter().any(|input| match input {
        Input::Annotations => differs(&["metadata", "annotations"]),
        Input::Annotation(key) => differs(&["metadata", "annotations", key]),
        Input::Labels => differs(&["metadata", "labels"]),
        Input::Label(key) => differs(&["metadata", "labels", key]),
        Input::OwnerReferences => differs(&["metadata", "ownerReferences"]),
        Input::Resources => {
            differs(&["spec", "resources"])
                || ["containers", "initContainers"].into_iter().any(|list| {
                    let of = |pod: &Object| -> alloc::vec::Vec<Option<Value>> {
                        let list = pod.list_at(&["spec", list]).iter();
                        list.map(|container| container.get("resources").cloned()).collect()
                    };
                    of(before) != of(after)
                })
        }
        Input::Allocatable
        | Input::HostIps
        | Input::PodIps
        | Input::ConfigMap(_)
        | Input::Secret(_)
        | Input::Token
        | Input::TrustBundle
        | Input::PodCertificate => false,
    })
}

/// Every `fieldPath` of a pod specification, wherever one may stand.
pub fn field_paths(spec: &Object) -> impl Iterator<Item = &str> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let containers = lists.into_iter().flat_map(|list| spec.list_at(&[list]));
    let variables = containers.filter_map(Value::as_object).flat_map(|c| c.list_at(&["env"]));
    let variables = variables.filter_map(|variable| variable.get("valueFrom"));
    let volumes = || spec.list_at(&["volumes"]).iter().filter_map(Value::as_object);
    let items = volumes().flat_map(|volume| volume.list_at(&["downwardAPI", "items"]));
    let sources = volumes().flat_map(|volume| volume.list_at(&["projected", "sources"]));
    let projected = sources
        .filter_map(Value::as_object)
        .flat_map(|source| source.list_at(&["downwardAPI", "items"]));
    variables
        .chain(items)
        .chain(projected)
        .filter_map(Value::as_object)
        .filter_map(|item| item.str_at(&["fieldRef", "fieldPath"]))
}

fn item_inputs(source: &Object, inputs: &mut BTreeSet<Input>) {
    let items = source.list_at(&["items"]).iter().filter_map(Value::as_object);
    items.for_each(|item| reference_inputs(item, inputs));
}

fn reference_inputs(item: &Object, inputs: &mut BTreeSet<Input>) {
    if let Some(path) = item.str_at(&["fieldRef", "fieldPath"]) {
        inputs.extend(field_input(path));
    }
    if item.map_at(&["resourceFieldRef"]).is_some() {
        inputs.extend([Input::Resources, Input::Allocatable]);
    }
}

/// What a path reads, unless it never changes.
fn field_input(path: &str) -> Option<Input> {
    Some(match FieldPath::parse(path).ok()? {
        FieldPath::Key { map: KeyedMap::Annotations, key, .. } => {
            Input::Annotation(key.to_string())
        }
        FieldPath::Key { map: KeyedMap::Labels, key, .. } => Input::Label(key.to_string()),
        FieldPath::Whole(field) => match field {
            Field::Annotations => Input::Annotations,
            Field::Labels => Input::Labels,
            Field::OwnerReferences => Input::OwnerReferences,
            Field::HostIp | Field::HostIps => Input::HostIps,
            Field::PodIp | Field::PodIps => Input::PodIps,
            Field::Name
            | Field::Namespace
            | Field::Uid
            | Field::NodeName
            | Field::ServiceAccountName
            | Field::RestartPolicy
            | Field::SchedulerName
            | Field::Phase => return None,
        },
    })
}

fn named(source: &Object, member: &str) -> Option<String> {
    source.str_at(&[member]).filter(|name| !name.is_empty()).map(Into::into)
}
