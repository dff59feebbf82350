//! What a volume or an environment is made from, so that only what depends on a change is made again
//! (R71). When that happens is the host's.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use core::fmt;

use serde_json::Value;
use tenure_core::field_path::{FieldPath, KeyedMap, PodField};
use tenure_machinery::{Object, ObjectExt};

/// One thing that values are made from and that may change while a pod lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueInput {
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
impl fmt::Display for ValueInput {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueInput::Annotations => out.write_str("annotations"),
            ValueInput::Annotation(key) => write!(out, "annotation:{key}"),
            ValueInput::Labels => out.write_str("labels"),
            ValueInput::Label(key) => write!(out, "label:{key}"),
            ValueInput::OwnerReferences => out.write_str("ownerReferences"),
            ValueInput::Resources => out.write_str("resources"),
            ValueInput::Allocatable => out.write_str("allocatable"),
            ValueInput::HostIps => out.write_str("hostIPs"),
            ValueInput::PodIps => out.write_str("podIPs"),
            ValueInput::ConfigMap(name) => write!(out, "configmap:{name}"),
            ValueInput::Secret(name) => write!(out, "secret:{name}"),
            ValueInput::Token => out.write_str("token"),
            ValueInput::TrustBundle => out.write_str("trustbundle"),
            ValueInput::PodCertificate => out.write_str("podcertificate"),
        }
    }
}

/// What the files of `volume`, an item of the pod's `volumes`, are made from.
#[must_use]
pub fn volume_inputs(volume: &Object) -> BTreeSet<ValueInput> {
    let mut inputs = BTreeSet::new();
    if let Some(source) = volume.map_at(&["configMap"]) {
        inputs.extend(named(source, "name").map(ValueInput::ConfigMap));
    }
    if let Some(source) = volume.map_at(&["secret"]) {
        inputs.extend(named(source, "secretName").map(ValueInput::Secret));
    }
    if let Some(source) = volume.map_at(&["downwardAPI"]) {
        item_inputs(source, &mut inputs);
    }
    for source in volume.list_at(&["projected", "sources"]).iter().filter_map(Value::as_object) {
        if let Some(source) = source.map_at(&["configMap"]) {
            inputs.extend(named(source, "name").map(ValueInput::ConfigMap));
        }
        if let Some(source) = source.map_at(&["secret"]) {
            inputs.extend(named(source, "name").map(ValueInput::Secret));
        }
        if let Some(source) = source.map_at(&["downwardAPI"]) {
            item_inputs(source, &mut inputs);
        }
        for (member, input) in [
            ("serviceAccountToken", ValueInput::Token),
            ("clusterTrustBundle", ValueInput::TrustBundle),
            ("podCertificate", ValueInput::PodCertificate),
        ] {
            inputs.extend(source.map_at(&[member]).map(|_| input));
        }
    }
    inputs
}

/// What the environment of `container` is made from, Services excepted. A running container's
/// environment stays; this says what to have before it starts.
#[must_use]
pub fn env_inputs(container: &Object) -> BTreeSet<ValueInput> {
    let mut inputs = BTreeSet::new();
    for source in container.list_at(&["envFrom"]).iter().filter_map(Value::as_object) {
        let maps = source.map_at(&["configMapRef"]).and_then(|source| named(source, "name"));
        inputs.extend(maps.map(ValueInput::ConfigMap));
        let secrets = source.map_at(&["secretRef"]).and_then(|source| named(source, "name"));
        inputs.extend(secrets.map(ValueInput::Secret));
    }
    for variable in container.list_at(&["env"]).iter().filter_map(Value::as_object) {
        let Some(from) = variable.map_at(&["valueFrom"]) else { continue };
        reference_inputs(from, &mut inputs);
        let maps = from.map_at(&["configMapKeyRef"]).and_then(|source| named(source, "name"));
        inputs.extend(maps.map(ValueInput::ConfigMap));
        let secrets = from.map_at(&["secretKeyRef"]).and_then(|source| named(source, "name"));
        inputs.extend(secrets.map(ValueInput::Secret));
    }
    inputs
}

/// What a pod needs: its volumes, the environments of all its containers, and the Secrets its images
/// are pulled with.
#[must_use]
pub fn pod_inputs(pod: &Object) -> BTreeSet<ValueInput> {
    let of = |list: &'static str| pod.list_at(&["spec", list]).iter().filter_map(Value::as_object);
    let mut inputs: BTreeSet<ValueInput> = of("volumes").flat_map(volume_inputs).collect();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        inputs.extend(of(list).flat_map(env_inputs));
    }
    inputs.extend(
        of("imagePullSecrets").filter_map(|secret| named(secret, "name")).map(ValueInput::Secret),
    );
    inputs
}

/// Whether what is made from `inputs` may differ between two states of a pod. Inputs outside the pod
/// object (ConfigMaps, Secrets, the node) never differ here.
#[must_use]
pub fn pod_changed(inputs: &BTreeSet<ValueInput>, before: &Object, after: &Object) -> bool {
    let differs = |path: &[&str]| before.at(path) != after.at(path);
    inputs.iter().any(|input| match input {
        ValueInput::Annotations => differs(&["metadata", "annotations"]),
        ValueInput::Annotation(key) => differs(&["metadata", "annotations", key]),
        ValueInput::Labels => differs(&["metadata", "labels"]),
        ValueInput::Label(key) => differs(&["metadata", "labels", key]),
        ValueInput::OwnerReferences => differs(&["metadata", "ownerReferences"]),
        ValueInput::Resources => {
            differs(&["spec", "resources"])
                || ["containers", "initContainers"].into_iter().any(|list| {
                    let of = |pod: &Object| -> alloc::vec::Vec<Option<Value>> {
                        let list = pod.list_at(&["spec", list]).iter();
                        list.map(|container| container.get("resources").cloned()).collect()
                    };
                    of(before) != of(after)
                })
        }
        ValueInput::Allocatable
        | ValueInput::HostIps
        | ValueInput::PodIps
        | ValueInput::ConfigMap(_)
        | ValueInput::Secret(_)
        | ValueInput::Token
        | ValueInput::TrustBundle
        | ValueInput::PodCertificate => false,
    })
}

/// Every `fieldPath` of a pod specification, wherever one may stand.
pub(crate) fn field_paths(spec: &Object) -> impl Iterator<Item = &str> {
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

fn item_inputs(source: &Object, inputs: &mut BTreeSet<ValueInput>) {
    let items = source.list_at(&["items"]).iter().filter_map(Value::as_object);
    items.for_each(|item| reference_inputs(item, inputs));
}

fn reference_inputs(item: &Object, inputs: &mut BTreeSet<ValueInput>) {
    if let Some(path) = item.str_at(&["fieldRef", "fieldPath"]) {
        inputs.extend(field_input(path));
    }
    if item.map_at(&["resourceFieldRef"]).is_some() {
        inputs.extend([ValueInput::Resources, ValueInput::Allocatable]);
    }
}

/// What a path reads, unless it never changes.
fn field_input(path: &str) -> Option<ValueInput> {
    Some(match FieldPath::parse(path).ok()? {
        FieldPath::Key { map: KeyedMap::Annotations, key, .. } => {
            ValueInput::Annotation(key.to_string())
        }
        FieldPath::Key { map: KeyedMap::Labels, key, .. } => ValueInput::Label(key.to_string()),
        FieldPath::Whole(field) => match field {
            PodField::Annotations => ValueInput::Annotations,
            PodField::Labels => ValueInput::Labels,
            PodField::OwnerReferences => ValueInput::OwnerReferences,
            PodField::HostIp | PodField::HostIps => ValueInput::HostIps,
            PodField::PodIp | PodField::PodIps => ValueInput::PodIps,
            PodField::Name
            | PodField::Namespace
            | PodField::Uid
            | PodField::NodeName
            | PodField::ServiceAccountName
            | PodField::RestartPolicy
            | PodField::SchedulerName
            | PodField::Phase => return None,
        },
    })
}

fn named(source: &Object, member: &str) -> Option<String> {
    source.str_at(&[member]).filter(|name| !name.is_empty()).map(Into::into)
}
