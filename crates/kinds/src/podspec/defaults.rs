//! What the API fills in where a pod specification is silent.

use serde_json::{Value, json};
use tenure_machinery::quantity;
use tenure_machinery::{Object, ObjectExt};

use crate::podspec::view::{flag, int, items_mut, map, text};

/// Permissions of files in volumes unless said otherwise: 0644.
const FILE_MODE: i64 = 420;

/// Fills the specification of a Pod.
pub fn default_pod_spec(spec: &mut Object) {
    default_spec(spec);
    if int(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
    }
    let host_network = flag(spec, "hostNetwork");
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
                requests_from_limits(resources);
            }
            if host_network {
                items_mut(container, "ports").for_each(host_port_from_container_port);
            }
        }
    }
    spec.set_default("enableServiceLinks", true);
}

/// Fills a template of pods: its specification, without what only Pods get.
pub fn default_pod_template(template: &mut Object) {
    template.map_mut("metadata");
    default_spec(template.map_mut("spec"));
}

/// Fills the specification of a claim, as in volumes and claim templates.
pub fn default_claim_spec(spec: &mut Object) {
    spec.set_default("volumeMode", "Filesystem");
    if let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut) {
        round_lists(resources);
    }
}

fn default_spec(spec: &mut Object) {
    mirror_service_account(spec);
    set_text(spec, "dnsPolicy", "ClusterFirst");
    set_text(spec, "restartPolicy", "Always");
    set_text(spec, "schedulerName", "default-scheduler");
    spec.set_default("securityContext", json!({}));
    spec.set_default("terminationGracePeriodSeconds", 30);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        items_mut(spec, list).for_each(default_container);
    }
    items_mut(spec, "volumes").for_each(default_volume);
    if let Some(overhead) = spec.get_mut("overhead").and_then(Value::as_object_mut) {
        round_list(overhead);
    }
    if let Some(resources) = spec.get_mut("resources").and_then(Value::as_object_mut) {
        round_lists(resources);
    }
}

/// The old name of the account follows the new one; alone it gives its value to both.
fn mirror_service_account(spec: &mut Object) {
    let name = match text(spec, "serviceAccountName") {
        "" => text(spec, "serviceAccount"),
        name => name,
    };
    let name = name.to_owned();
    if name.is_empty() {
        spec.remove("serviceAccount");
    } else {
        spec.insert("serviceAccountName".to_owned(), json!(name));
        spec.insert("serviceAccount".to_owned(), json!(name));
    }
}

fn default_container(container: &mut Object) {
    let policy = pull_policy(text(container, "image"));
    set_text(container, "imagePullPolicy", policy);
    set_text(container, "terminationMessagePath", "/dev/termination-log");
    set_text(container, "terminationMessagePolicy", "File");
    round_lists(container.map_mut("resources"));
    for port in items_mut(container, "ports") {
        set_text(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom").and_then(Value::as_object_mut) {
            default_value_source(source);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
            default_probe(probe);
        }
    }
    if let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) {
        for hook in ["postStart", "preStop"] {
            if let Some(hook) = lifecycle.get_mut(hook).and_then(Value::as_object_mut) {
                default_http_get(hook);
            }
        }
    }
}

fn default_probe(probe: &mut Object) {
    default_http_get(probe);
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        grpc.set_default("service", "");
    }
    let numbers = [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ];
    for (name, value) in numbers {
        if int(probe, name).unwrap_or(0) == 0 {
            probe.insert(name.to_owned(), json!(value));
        }
    }
}

fn default_http_get(handler: &mut Object) {
    if let Some(get) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        set_text(get, "path", "/");
        set_text(get, "scheme", "HTTP");
    }
}

/// Fills a field or resource reference of an environment variable or of a file in a volume.
fn default_value_source(source: &mut Object) {
    if let Some(reference) = source.get_mut("fieldRef").and_then(Value::as_object_mut) {
        set_text(reference, "apiVersion", "v1");
    }
    if let Some(reference) = source.get_mut("resourceFieldRef").and_then(Value::as_object_mut) {
        reference.set_default("divisor", "0");
        write_canonical(reference, "divisor", quantity::canonical);
    }
    if let Some(reference) = source.get_mut("fileKeyRef").and_then(Value::as_object_mut) {
        reference.set_default("optional", false);
    }
}

fn default_volume(volume: &mut Object) {
    if !volume.iter().any(|(name, value)| name != "name" && value.is_object()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            source.set_default("defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        source.set_default("type", "");
    }
    if let Some(source) = volume.get_mut("emptyDir").and_then(Value::as_object_mut) {
        write_canonical(source, "sizeLimit", quantity::canonical);
    }
    if let Some(source) = volume.get_mut("downwardAPI").and_then(Value::as_object_mut) {
        items_mut(source, "items").for_each(default_value_source);
    }
    if let Some(source) = volume.get_mut("projected").and_then(Value::as_object_mut) {
        items_mut(source, "sources").for_each(default_projection);
    }
    if let Some(source) = volume.get_mut("image").and_then(Value::as_object_mut) {
        let policy = pull_policy(text(source, "reference"));
        set_text(source, "pullPolicy", policy);
    }
    let claim = volume.get_mut("ephemeral").and_then(Value::as_object_mut);
    let claim = claim.and_then(|source| source.get_mut("volumeClaimTemplate"));
    if let Some(template) = claim.and_then(Value::as_object_mut) {
        default_claim_spec(template.map_mut("spec"));
    }
    default_legacy_volume(volume);
}

/// Volume kinds of old providers whose members have defaults.
fn default_legacy_volume(volume: &mut Object) {
    let table: [(&str, &[(&str, Value)]); 4] = [
        ("iscsi", &[("iscsiInterface", json!("default"))]),
        (
            "rbd",
            &[
                ("pool", json!("rbd")),
                ("user", json!("admin")),
                ("keyring", json!("/etc/ceph/keyring")),
            ],
        ),
        ("scaleIO", &[("storageMode", json!("ThinProvisioned")), ("fsType", json!("xfs"))]),
        (
            "azureDisk",
            &[
                ("cachingMode", json!("ReadWrite")),
                ("kind", json!("Shared")),
                ("fsType", json!("ext4")),
                ("readOnly", json!(false)),
            ],
        ),
    ];
    for (source, members) in table {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            for (name, value) in members {
                source.set_default(name, value.clone());
            }
        }
    }
}

fn default_projection(source: &mut Object) {
    if let Some(token) = source.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
        token.set_default("expirationSeconds", 3600);
    }
    if let Some(files) = source.get_mut("downwardAPI").and_then(Value::as_object_mut) {
        items_mut(files, "items").for_each(default_value_source);
    }
}

fn requests_from_limits(resources: &mut Object) {
    let Some(limits) = map(resources, "limits").cloned() else { return };
    let requests = resources.map_mut("requests");
    for (name, amount) in limits {
        requests.entry(name).or_insert(amount);
    }
    if requests.is_empty() {
        resources.remove("requests");
    }
}

fn host_port_from_container_port(port: &mut Object) {
    if int(port, "hostPort").unwrap_or(0) == 0
        && let Some(number) = int(port, "containerPort").filter(|number| *number != 0)
    {
        port.insert("hostPort".to_owned(), json!(number));
    }
}

fn round_lists(resources: &mut Object) {
    for list in ["limits", "requests"] {
        if let Some(list) = resources.get_mut(list).and_then(Value::as_object_mut) {
            round_list(list);
        }
    }
}

fn round_list(list: &mut Object) {
    let names: Vec<String> = list.keys().cloned().collect();
    for name in names {
        write_canonical(list, &name, quantity::canonical_milli);
    }
}

/// Rewrites a quantity in place; what is no quantity is left for the schema to refuse.
fn write_canonical(object: &mut Object, name: &str, form: fn(&str) -> Option<String>) {
    let written = match object.get(name) {
        Some(Value::String(text)) => form(text.trim()),
        Some(Value::Number(number)) => form(&number.to_string()),
        _ => None,
    };
    if let Some(written) = written {
        object.insert(name.to_owned(), Value::String(written));
    }
}

/// Sets a text that is missing or empty.
fn set_text(object: &mut Object, name: &str, value: &str) {
    if text(object, name).is_empty() {
        object.insert(name.to_owned(), json!(value));
    }
}

/// `Always` for the moving tag `latest`, which a reference without tag or digest also means.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = match image.split_once('@') {
        Some((name, _)) => (name, true),
        None => (image, false),
    };
    // A colon before the last slash belongs to the registry's port.
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    let latest = match tag {
        Some(tag) => tag == "latest",
        None => !digest && !image.is_empty(),
    };
    // An empty reference cannot be read, so upstream finds no tag in it.
    if latest { "Always" } else { "IfNotPresent" }
}
