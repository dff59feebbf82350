//! What is worth telling about a pod or a template that is written all the same. When it is told, each kind
//! says itself.

use std::collections::BTreeSet;
use std::net::IpAddr;

use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt, Path};

use crate::podspec::annotations::{
    SECCOMP_CONTAINER, SECCOMP_POD, annotations_of, app_armor_advice, app_armor_profile,
    app_armor_text, app_armor_warnings,
};
use crate::podspec::text;
use crate::podspec::view::{each_container, has, int, items, map, text as text_of, texts};

mod files;
mod ports;

use files::warn_overlaps;
use ports::warn_ports;

/// How much is told about one object: answers have room for less, and who earns more must not cost more.
pub const WARNINGS_MAX: usize = 256;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// Labels of nodes that were renamed or mean nothing any more.
const NODE_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

const ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Kinds of volumes that are gone or going.
const VOLUMES: &[(&str, &str)] = &[
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// What is told so far.
#[derive(Default)]
struct Warnings(Vec<String>);

impl Warnings {
    fn push(&mut self, text: impl FnOnce() -> String) {
        if !self.is_full() {
            self.0.push(text());
        }
    }

    fn at(&mut self, path: &Path<'_>, text: &str) {
        self.push(|| format!("{path}: {text}"));
    }

    fn is_full(&self) -> bool {
        self.0.len() >= WARNINGS_MAX
    }
}

/// What to tell about a new Pod.
#[must_use]
pub fn pod_warnings(pod: &Object) -> Vec<String> {
    let mut warnings = Warnings(app_armor_warnings(pod));
    warnings.0.truncate(WARNINGS_MAX);
    describe(pod, false, &Path::Root, &mut warnings);
    warnings.0
}

/// What to tell about a template at `path`.
#[must_use]
pub fn template_warnings(template: &Object, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Warnings::default();
    describe(template, true, path, &mut warnings);
    warnings.0
}

/// What replaces a label of nodes, if it is deprecated.
#[must_use]
pub fn node_label_advice(label: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(name, _)| *name == label).map(|(_, advice)| *advice)
}

/// What to tell about terms of a node selector in a list at `path`.
#[must_use]
pub fn node_selector_warnings(selector: &Object, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Warnings::default();
    for (index, term) in items(selector, "nodeSelectorTerms").enumerate() {
        warn_term(term, false, &path.index(index), &mut warnings);
    }
    warnings.0
}

/// What to tell about the specification of a claim at `path`: storage comes in whole bytes.
#[must_use]
pub fn claim_warnings(spec: &Object, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Warnings::default();
    warn_claim(spec, path, &mut warnings);
    warnings.0
}

/// What to tell about an address at `path` that is valid but not written as it should be.
#[must_use]
pub fn address_warning(value: &str, path: &Path<'_>) -> Option<String> {
    let Ok(IpAddr::V6(address)) = value.parse() else { return None };
    if let Some(mapped) = address.to_ipv4_mapped() {
        return Some(format!(
            "{path}: non-standard IP address {value:?} is invalid: use \"{mapped}\""
        ));
    }
    let canonical = address.to_string();
    (canonical != value).then(|| {
        format!(
            "{path}: IPv6 address {value:?} should be in RFC 5952 canonical format ({canonical:?})"
        )
    })
}

fn describe(object: &Object, is_template: bool, path: &Path<'_>, warnings: &mut Warnings) {
    let (empty, none) = (Object::new(), Object::new());
    let spec = map(object, "spec").unwrap_or(&empty);
    let annotations = annotations_of(object).unwrap_or(&none);
    let at = path.field("spec");
    warn_placement(spec, &at, warnings);
    let metadata = path.field("metadata");
    let keys = metadata.field("annotations");
    for (key, advice) in ANNOTATIONS.iter().filter(|(key, _)| has(annotations, key)) {
        warnings.at(&keys.key(key), advice);
    }
    warn_volumes(spec, &at.field("volumes"), warnings);
    warn_repeated(spec, "hostAliases", "ip", &at, warnings);
    warn_repeated(spec, "imagePullSecrets", "name", &at, warnings);
    let list = at.field("imagePullSecrets");
    for (index, secret) in items(spec, "imagePullSecrets").enumerate() {
        if text_of(secret, "name").is_empty() {
            warnings.at(&list.index(index).field("name"), "invalid empty name \"\"");
        }
    }
    if let Some(overhead) = map(spec, "overhead") {
        warn_fractions(overhead, BYTES, &at.field("overhead"), warnings);
    }
    warn_annotations(object, spec, annotations, is_template, path, warnings);
    each_container(spec, &at, &mut |container, at| warn_container(container, at, warnings));
    warn_ports(spec, &at, warnings);
    if int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let advice = "must be >= 0; negative values are invalid and will be treated as 1";
        warnings.at(&at.field("terminationGracePeriodSeconds"), advice);
    }
    warn_pod_affinity(spec, &at.field("affinity"), warnings);
    let config = at.field("dnsConfig");
    let list = config.field("nameservers");
    for (index, server) in
        map(spec, "dnsConfig").into_iter().flat_map(|c| texts(c, "nameservers")).enumerate()
    {
        warn_address(server, &list.index(index), warnings);
    }
    let list = at.field("hostAliases");
    for (index, alias) in items(spec, "hostAliases").enumerate() {
        warn_address(text_of(alias, "ip"), &list.index(index).field("ip"), warnings);
    }
}

fn warn_address(value: &str, path: &Path<'_>, warnings: &mut Warnings) {
    if let Some(warning) = address_warning(value, path) {
        warnings.push(|| warning);
    }
}

/// Deprecated labels of nodes, and selectors that select nothing.
fn warn_placement(spec: &Object, path: &Path<'_>, warnings: &mut Warnings) {
    let at = path.field("nodeSelector");
    for key in map(spec, "nodeSelector").into_iter().flat_map(Object::keys) {
        if let Some(advice) = node_label_advice(key) {
            warnings.at(&at.key(key), advice);
        }
    }
    if let Some(node) = spec.map_at(&["affinity", "nodeAffinity"]) {
        let at = path.field("affinity");
        let at = at.field("nodeAffinity");
        let required = at.field(REQUIRED);
        let list = required.field("nodeSelectorTerms");
        let terms = map(node, REQUIRED).into_iter().flat_map(|r| items(r, "nodeSelectorTerms"));
        for (index, term) in terms.enumerate() {
            warn_term(term, false, &list.index(index), warnings);
        }
        let list = at.field(PREFERRED);
        for (index, preferred) in items(node, PREFERRED).enumerate() {
            if let Some(term) = map(preferred, "preference") {
                warn_term(term, true, &list.index(index).field("preference"), warnings);
            }
        }
    }
    let list = path.field("topologySpreadConstraints");
    for (index, constraint) in items(spec, "topologySpreadConstraints").enumerate() {
        let at = list.index(index);
        let key = text_of(constraint, "topologyKey");
        if let Some(advice) = node_label_advice(key) {
            warnings.at(&at.field("topologyKey"), &format!("{key} is {advice}"));
        }
        if !has(constraint, "labelSelector") {
            warnings.at(&at.field("labelSelector"), NO_SELECTOR);
        }
    }
}

fn warn_term(term: &Object, check_values: bool, path: &Path<'_>, warnings: &mut Warnings) {
    let list = path.field("matchExpressions");
    for (index, expression) in items(term, "matchExpressions").enumerate() {
        let at = list.index(index);
        let key = text_of(expression, "key");
        if let Some(advice) = node_label_advice(key) {
            warnings.at(&at.field("key"), &format!("{key} is {advice}"));
        }
        let values = at.field("values");
        for (position, value) in texts(expression, "values").enumerate().filter(|_| check_values) {
            for fault in text::label_value_faults(value) {
                warnings.at(&values.index(position), &format!("{value} is invalid, {fault}"));
            }
        }
    }
}

fn warn_pod_affinity(spec: &Object, path: &Path<'_>, warnings: &mut Warnings) {
    for name in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.map_at(&["affinity", name]) else { continue };
        let at = path.field(name);
        let list = at.field(REQUIRED);
        for (index, term) in items(affinity, REQUIRED).enumerate() {
            if !has(term, "labelSelector") {
                warnings.at(&list.index(index).field("labelSelector"), NO_SELECTOR);
            }
        }
        let list = at.field(PREFERRED);
        for (index, term) in items(affinity, PREFERRED).enumerate() {
            if !map(term, "podAffinityTerm").is_some_and(|term| has(term, "labelSelector")) {
                let at = list.index(index);
                let at = at.field("podAffinityTerm");
                warnings.at(&at.field("labelSelector"), NO_SELECTOR);
            }
        }
    }
}

fn warn_volumes(spec: &Object, path: &Path<'_>, warnings: &mut Warnings) {
    for (index, volume) in items(spec, "volumes").enumerate() {
        let at = path.index(index);
        for (source, advice) in VOLUMES.iter().filter(|(source, _)| has(volume, source)) {
            // One path is spelled in another way upstream.
            let shown = if *source == "storageos" { "storageOS" } else { source };
            warnings.at(&at.field(shown), advice);
        }
        let claim = ["ephemeral", "volumeClaimTemplate", "spec"];
        if let Some(claim) = volume.map_at(&claim) {
            let at = at.field("ephemeral");
            let at = at.field("volumeClaimTemplate");
            warn_claim(claim, &at.field("spec"), warnings);
        }
    }
    items(spec, "volumes").for_each(|volume| warn_overlaps(volume, warnings));
}

/// The same `member` twice in a list.
fn warn_repeated(
    spec: &Object,
    list: &str,
    member: &str,
    path: &Path<'_>,
    warnings: &mut Warnings,
) {
    let at = path.field(list);
    let mut seen = BTreeSet::new();
    for (index, item) in items(spec, list).enumerate() {
        let value = text_of(item, member);
        if !seen.insert(value) {
            warnings.at(&at.index(index).field(member), &format!("duplicate {member} {value:?}"));
        }
    }
}

/// Amounts that come in whole bytes.
const BYTES: &[&str] = &["memory", "ephemeral-storage"];

fn warn_fractions(list: &Object, names: &[&str], path: &Path<'_>, warnings: &mut Warnings) {
    for name in names {
        let Some(amount) = list.get(*name).and_then(Quantity::from_value) else { continue };
        let amount = amount.rounded_to_milli();
        if !amount.is_whole() {
            let shown = amount.canonical();
            let text = format!("fractional byte value {shown:?} is invalid, must be an integer");
            warnings.at(&path.key(name), &text);
        }
    }
}

fn warn_claim(spec: &Object, path: &Path<'_>, warnings: &mut Warnings) {
    let at = path.field("resources");
    for list in ["requests", "limits"] {
        if let Some(amounts) = spec.map_at(&["resources", list]) {
            warn_fractions(amounts, &["storage"], &at.field(list), warnings);
        }
    }
}

/// Annotations for profiles where the field says nothing.
fn warn_annotations(
    object: &Object,
    spec: &Object,
    annotations: &Object,
    is_template: bool,
    path: &Path<'_>,
    warnings: &mut Warnings,
) {
    let advice = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    let metadata = path.field("metadata");
    let keys = metadata.field("annotations");
    let field = |object: &Object, name: &str| object.map_at(&["securityContext", name]).is_some();
    if has(annotations, SECCOMP_POD) && !field(spec, "seccompProfile") {
        warnings.at(&keys.key(SECCOMP_POD), advice);
    }
    let of_pod = object.map_at(&["spec", "securityContext", "appArmorProfile"]);
    each_container(spec, path, &mut |container, _| {
        let key = format!("{SECCOMP_CONTAINER}{}", text_of(container, "name"));
        if has(annotations, &key) && !field(container, "seccompProfile") {
            warnings.at(&keys.key(&key), advice);
        }
        // Pods are told before their annotations become fields.
        if is_template
            && !field(container, "appArmorProfile")
            && let Some((key, written)) = app_armor_text(annotations, container)
            && (of_pod.is_none() || of_pod != app_armor_profile(written).as_ref())
        {
            warnings.push(|| app_armor_advice(path, &key));
        }
    });
}

fn warn_container(container: &Object, path: &Path<'_>, warnings: &mut Warnings) {
    let at = path.field("resources");
    for name in BYTES {
        for list in ["limits", "requests"] {
            if let Some(amounts) = container.map_at(&["resources", list]) {
                warn_fractions(amounts, &[*name], &at.field(list), warnings);
            }
        }
    }
    let list = path.field("env");
    let mut seen = BTreeSet::new();
    for (index, variable) in items(container, "env").enumerate() {
        let name = text_of(variable, "name");
        if seen.insert(name) {
            continue;
        }
        // A value that builds on the one before it does not hide it.
        let (value, before) = (text_of(variable, "value"), format!("$({name})"));
        if has(variable, "valueFrom") || value == before || !value.contains(&before) {
            let text = format!(
                "hides previous definition of {name:?}, which may be dropped when using apply"
            );
            warnings.at(&list.index(index), &text);
        }
    }
}
