//! Containers: ordinary ones, those that run first, and those added for debugging.

use std::collections::BTreeSet;

use serde_json::Value;
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use crate::podspec::env::{validate_env, validate_env_from};
use crate::podspec::probe::{ProbeContext, validate_hooks};
use crate::podspec::resources::validate_resource_requirements;
use crate::podspec::security::validate_container_security;
use crate::podspec::text;
use crate::podspec::view::{any, flag, has, int, items, map, text as text_of};
use crate::podspec::volumes::VolumesByName;

/// What containers must know of their pod.
pub(crate) struct Pod<'a> {
    pub(crate) spec: &'a Object,
    pub(crate) volumes: VolumesByName<'a>,
    pub(crate) claims: Vec<&'a str>,
}

impl Pod<'_> {
    fn around(&self) -> ProbeContext<'_> {
        ProbeContext {
            grace: int(self.spec, "terminationGracePeriodSeconds"),
            os: map(self.spec, "os").map(|os| text_of(os, "name")),
        }
    }

    fn host_users(&self) -> bool {
        self.spec.get("hostUsers").and_then(Value::as_bool).unwrap_or(true)
    }
}

/// The list `containers`.
pub(crate) fn validate_containers(pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    if !any(pod.spec, "containers") {
        errors.required(path, "");
        return;
    }
    let mut names = BTreeSet::new();
    for (index, container) in items(pod.spec, "containers").enumerate() {
        let at = path.index(index);
        validate_common(container, pod, &at, errors);
        let name = text_of(container, "name");
        if !names.insert(name) {
            errors.duplicate(&at.field("name"), format_args!("{name:?}"));
        }
        validate_hooks(container, pod.around(), &at, errors);
        validate_restart(container, &at, errors);
    }
    let mut ports = BTreeSet::new();
    for (index, container) in items(pod.spec, "containers").enumerate() {
        validate_host_ports(container, &mut ports, &path.index(index), errors);
    }
}

/// The list `initContainers`.
pub(crate) fn validate_init_containers(pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mut names: BTreeSet<&str> =
        items(pod.spec, "containers").map(|container| text_of(container, "name")).collect();
    for (index, container) in items(pod.spec, "initContainers").enumerate() {
        let at = path.index(index);
        validate_common(container, pod, &at, errors);
        validate_restart(container, &at, errors);
        let name = text_of(container, "name");
        if names.contains(name) {
            errors.duplicate(&at.field("name"), format_args!("{name:?}"));
        } else if !name.is_empty() {
            names.insert(name);
        }
        // They run one after another, so ports clash only within one; the cause names the first.
        validate_host_ports(container, &mut BTreeSet::new(), &path.index(0), errors);
        let stays = text_of(container, "restartPolicy") == "Always";
        if stays {
            validate_hooks(container, pod.around(), &at, errors);
        } else {
            for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if has(container, name) {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    errors.forbidden(&at.field(name), why);
                }
            }
            let policies = at.field("resizePolicy");
            for (position, policy) in items(container, "resizePolicy").enumerate() {
                if text_of(policy, "restartPolicy") == "RestartContainer" {
                    let at = policies.index(position);
                    let why =
                        "must not be set to 'RestartContainer' for non-sidecar initContainers";
                    errors.invalid(&at.field("restartPolicy"), "\"RestartContainer\"", why);
                }
            }
        }
    }
}

/// The list `ephemeralContainers`.
pub(crate) fn validate_ephemeral_containers(pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    const ALLOWED: &[&str] = &[
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "envFrom",
        "env",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "targetContainerName",
    ];
    let others: BTreeSet<&str> = items(pod.spec, "containers")
        .chain(items(pod.spec, "initContainers"))
        .map(|container| text_of(container, "name"))
        .collect();
    let mut names = others.clone();
    for (index, container) in items(pod.spec, "ephemeralContainers").enumerate() {
        let at = path.index(index);
        validate_common(container, pod, &at, errors);
        validate_image_padding(container, &at, errors);
        let name = text_of(container, "name");
        if !names.insert(name) {
            errors.duplicate(&at.field("name"), format_args!("{name:?}"));
        }
        let target = text_of(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&at.field("targetContainerName"), format_args!("{target:?}"));
        }
        let why = "cannot be set for an Ephemeral Container";
        for (member, value) in container {
            // An empty value is how the API writes members that were not set.
            let unset = match value {
                Value::Null => true,
                Value::Array(list) => list.is_empty(),
                Value::Object(members) => members.is_empty(),
                _ => false,
            };
            if !unset && !ALLOWED.contains(&member.as_str()) {
                errors.forbidden(&at.field(member), why);
            }
        }
        let mounts = at.field("volumeMounts");
        for (position, mount) in items(container, "volumeMounts").enumerate() {
            for member in ["subPath", "subPathExpr"] {
                if !text_of(mount, member).is_empty() {
                    errors.forbidden(&mounts.index(position).field(member), why);
                }
            }
        }
    }
}

/// Images of pods, unlike those of templates, may not be padded.
pub(crate) fn validate_image_padding(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    let image = text_of(container, "image");
    if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        errors.invalid(&path.field("image"), format_args!("{image:?}"), why);
    }
}

/// What holds for every container.
fn validate_common(container: &Object, pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    match text_of(container, "name") {
        "" => errors.required(&path.field("name"), ""),
        name => text::dns_label(name, &path.field("name"), errors),
    }
    if text_of(container, "image").is_empty() {
        errors.required(&path.field("image"), "");
    }
    text::required_choice(
        text_of(container, "terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
        &path.field("terminationMessagePolicy"),
        errors,
    );
    validate_ports(container, &path.field("ports"), errors);
    validate_env(container, path, errors);
    validate_env_from(container, path, errors);
    validate_mounts(container, &pod.volumes, &path.field("volumeMounts"), errors);
    validate_devices(container, &pod.volumes, &path.field("volumeDevices"), errors);
    text::required_choice(
        text_of(container, "imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        &path.field("imagePullPolicy"),
        errors,
    );
    if let Some(resources) = map(container, "resources") {
        let at = path.field("resources");
        validate_resource_requirements(resources, &pod.claims, &at, errors);
    }
    validate_resize_policy(container, pod, &path.field("resizePolicy"), errors);
    validate_container_security(container, pod.host_users(), path, errors);
}

fn validate_ports(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (index, port) in items(container, "ports").enumerate() {
        let at = path.index(index);
        let name = text_of(port, "name");
        if !name.is_empty() {
            let before = errors.causes().len();
            text::port_name(name, &at.field("name"), errors);
            if errors.causes().len() == before && !names.insert(name) {
                errors.duplicate(&at.field("name"), format_args!("{name:?}"));
            }
        }
        match int(port, "containerPort").unwrap_or(0) {
            0 => errors.required(&at.field("containerPort"), ""),
            number => text::port_number(number, &at.field("containerPort"), errors),
        }
        match int(port, "hostPort").unwrap_or(0) {
            0 => {}
            number => text::port_number(number, &at.field("hostPort"), errors),
        }
        let protocol = text_of(port, "protocol");
        text::required_choice(protocol, &["SCTP", "TCP", "UDP"], &at.field("protocol"), errors);
    }
}

fn validate_host_ports(
    container: &Object,
    seen: &mut BTreeSet<String>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let list = path.field("ports");
    for (index, port) in items(container, "ports").enumerate() {
        let number = int(port, "hostPort").unwrap_or(0);
        if number == 0 {
            continue;
        }
        let key = format!("{}/{}/{number}", text_of(port, "protocol"), text_of(port, "hostIP"));
        if seen.contains(&key) {
            errors.duplicate(&list.index(index).field("hostPort"), format_args!("{key:?}"));
        } else {
            seen.insert(key);
        }
    }
}

fn validate_mounts(
    container: &Object,
    volumes: &VolumesByName<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let mut paths = BTreeSet::new();
    for (index, mount) in items(container, "volumeMounts").enumerate() {
        let at = path.index(index);
        let name = text_of(mount, "name");
        let target = text_of(mount, "mountPath");
        if name.is_empty() {
            errors.required(&at.field("name"), "");
        }
        if !volumes.contains_key(name) {
            errors.not_found(&at.field("name"), format_args!("{name:?}"));
        }
        if target.is_empty() {
            errors.required(&at.field("mountPath"), "");
        }
        if !paths.insert(target) {
            errors.invalid(&at.field("mountPath"), format_args!("{target:?}"), "must be unique");
        }
        if items(container, "volumeDevices").any(|device| text_of(device, "name") == name) {
            let why = "must not already exist in volumeDevices";
            errors.invalid(&at.field("name"), format_args!("{name:?}"), why);
        }
        if items(container, "volumeDevices").any(|device| text_of(device, "devicePath") == target) {
            let why = "must not already exist as a path in volumeDevices";
            errors.invalid(&at.field("mountPath"), format_args!("{target:?}"), why);
        }
        validate_mount_options(container, mount, path, &at, errors);
    }
}

/// What a mount says beyond name and path; most causes name the list, not the item.
fn validate_mount_options(
    container: &Object,
    mount: &Object,
    list: &Path<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let (sub, expression) = (text_of(mount, "subPath"), text_of(mount, "subPathExpr"));
    if !sub.is_empty() {
        text::descending_path(sub, &list.field("subPath"), errors);
    }
    if !expression.is_empty() {
        if !sub.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&path.field("subPathExpr"), format_args!("{expression:?}"), why);
        }
        text::descending_path(expression, &list.field("subPathExpr"), errors);
    }
    let propagation = text_of(mount, "mountPropagation");
    if has(mount, "mountPropagation") {
        let at = list.field("mountPropagation");
        text::choice(propagation, &["Bidirectional", "HostToContainer", "None"], &at, errors);
        let privileged = map(container, "securityContext").is_some_and(|c| flag(c, "privileged"));
        if propagation == "Bidirectional" && !privileged {
            errors.forbidden(&at, "is available only to privileged containers");
        }
    }
    let at = list.field("recursiveReadOnly");
    match text_of(mount, "recursiveReadOnly") {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !flag(mount, "readOnly") {
                errors.forbidden(&at, "may only be specified when readOnly is true");
            }
            if !matches!(propagation, "" | "None") {
                errors.forbidden(&at, "may only be specified when mountPropagation is None");
            }
        }
        other => errors.not_supported(&at, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn validate_devices(
    container: &Object,
    volumes: &VolumesByName<'_>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in items(container, "volumeDevices").enumerate() {
        let at = path.index(index);
        let (name_path, path_path) = (at.field("name"), at.field("devicePath"));
        let name = text_of(device, "name");
        let target = text_of(device, "devicePath");
        if name.is_empty() {
            errors.required(&name_path, "");
        }
        if names.contains(name) {
            errors.invalid(&name_path, format_args!("{name:?}"), "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(&name_path, format_args!("{name:?}")),
            Some(volume) if !has(volume, "persistentVolumeClaim") && !has(volume, "ephemeral") => {
                let why = "can only use a claim for block mode";
                errors.invalid(&name_path, format_args!("{name:?}"), why);
            }
            Some(_) => {}
        }
        if target.is_empty() {
            errors.required(&path_path, "");
        }
        if paths.contains(target) {
            errors.invalid(&path_path, format_args!("{target:?}"), "must be unique");
        }
        if target.split('/').any(|part| part == "..") {
            errors.invalid(
                &path_path,
                format_args!("{target:?}"),
                "can not contain backsteps ('..')",
            );
        } else {
            paths.insert(target);
        }
        if items(container, "volumeMounts").any(|mount| text_of(mount, "name") == name) {
            let why = "must not already exist in volumeMounts";
            errors.invalid(&name_path, format_args!("{name:?}"), why);
        }
        if items(container, "volumeMounts").any(|mount| text_of(mount, "mountPath") == target) {
            let why = "must not already exist as a path in volumeMounts";
            errors.invalid(&path_path, format_args!("{target:?}"), why);
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn validate_resize_policy(container: &Object, pod: &Pod<'_>, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, policy) in items(container, "resizePolicy").enumerate() {
        let name = text_of(policy, "resourceName");
        if !seen.insert(name) {
            errors.duplicate(&path.index(index), format_args!("{name:?}"));
        }
        text::required_choice(name, &["cpu", "memory"], path, errors);
        let restart = text_of(policy, "restartPolicy");
        text::required_choice(restart, &["NotRequired", "RestartContainer"], path, errors);
        if text_of(pod.spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(path, format_args!("{restart:?}"), why);
        }
    }
}

/// `restartPolicy` and `restartPolicyRules` of one container.
fn validate_restart(container: &Object, path: &Path<'_>, errors: &mut Errors) {
    let at = path.field("restartPolicy");
    if has(container, "restartPolicy") {
        text::choice(
            text_of(container, "restartPolicy"),
            &["Always", "Never", "OnFailure"],
            &at,
            errors,
        );
    } else if any(container, "restartPolicyRules") {
        errors.required(&at, "must specify restartPolicy when restart rules are used");
    }
    let list = path.field("restartPolicyRules");
    let count = items(container, "restartPolicyRules").count();
    if count > 20 {
        errors.too_many(&list, count, 20);
    }
    for (index, rule) in items(container, "restartPolicyRules").enumerate() {
        let at = list.index(index);
        let actions = ["Restart", "RestartAllContainers"];
        text::choice(text_of(rule, "action"), &actions, &at.field("action"), errors);
        let codes_path = at.field("exitCodes");
        let Some(codes) = map(rule, "exitCodes") else {
            errors.required(&codes_path, "must be specified");
            continue;
        };
        text::choice(
            text_of(codes, "operator"),
            &["In", "NotIn"],
            &codes_path.field("operator"),
            errors,
        );
        let count = codes.list_at(&["values"]).len();
        if count > 255 {
            errors.too_many(&codes_path.field("values"), count, 255);
        }
    }
}
