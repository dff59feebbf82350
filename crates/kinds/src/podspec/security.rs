//! Security contexts of pods and containers: identities, profiles, capabilities.

use serde_json::Value;
use tenure_machinery::{Errors, Object, ObjectExt, Path};

use crate::podspec::text;
use crate::podspec::view::{each_container, flag, has, items, map, text as text_of, texts};
use crate::podspec::windows::{validate_windows_options, validate_windows_pod};

/// The `securityContext` of a pod.
pub(crate) fn validate_pod_security(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(context) = map(spec, "securityContext") else { return };
    let at = path.field("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        identity(context.get(name), &at.field(name), errors);
    }
    let groups = at.field("supplementalGroups");
    for (index, group) in context.list_at(&["supplementalGroups"]).iter().enumerate() {
        identity(Some(group), &groups.index(index), errors);
    }
    validate_sysctls(spec, context, &at.field("sysctls"), errors);
    let policies: [(&str, &[&str]); 1] = [("fsGroupChangePolicy", &["Always", "OnRootMismatch"])];
    choices(context, &policies, &at, errors);
    validate_seccomp(context, &at, errors);
    validate_windows_options(context, &at, errors);
    validate_app_armor(context, &at, errors);
    let policies: [(&str, &[&str]); 2] = [
        ("supplementalGroupsPolicy", &["Merge", "Strict"]),
        ("seLinuxChangePolicy", &["MountOption", "Recursive"]),
    ];
    choices(context, &policies, &at, errors);
}

fn choices(context: &Object, table: &[(&str, &[&str])], path: &Path<'_>, errors: &mut Errors) {
    for (name, allowed) in table {
        if has(context, name) {
            text::choice(text_of(context, name), allowed, &path.field(name), errors);
        }
    }
}

/// The `securityContext` of a container.
pub(crate) fn validate_container_security(
    container: &Object,
    host_users: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let Some(context) = map(container, "securityContext") else { return };
    let at = path.field("securityContext");
    for name in ["runAsUser", "runAsGroup"] {
        identity(context.get(name), &at.field(name), errors);
    }
    if has(context, "procMount") {
        let mount = text_of(context, "procMount");
        text::choice(mount, &["Default", "Unmasked"], &at.field("procMount"), errors);
        if host_users && mount == "Unmasked" {
            let why = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(&at.field("procMount"), format_args!("{mount:?}"), why);
        }
    }
    validate_seccomp(context, &at, errors);
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        if flag(context, "privileged") {
            let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(&at, "", why);
        }
        let added = map(context, "capabilities")
            .map(|c| texts(c, "add").filter(|c| *c == "CAP_SYS_ADMIN").count());
        for _ in 0..added.unwrap_or(0) {
            let why = "cannot set `allowPrivilegeEscalation` to false and add CAP_SYS_ADMIN";
            errors.invalid(&at, "", why);
        }
    }
    validate_windows_options(context, &at, errors);
    validate_app_armor(context, &at, errors);
}

/// A user or group number.
fn identity(value: Option<&Value>, path: &Path<'_>, errors: &mut Errors) {
    let Some(id) = value.and_then(Value::as_i64) else { return };
    if !(0..=i64::from(i32::MAX)).contains(&id) {
        errors.invalid(path, id, "must be between 0 and 2147483647, inclusive");
    }
}

fn validate_seccomp(context: &Object, path: &Path<'_>, errors: &mut Errors) {
    const TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
    let Some(profile) = map(context, "seccompProfile") else { return };
    let at = path.field("seccompProfile");
    text::required_choice(text_of(profile, "type"), TYPES, &at.field("type"), errors);
    let file = at.field("localhostProfile");
    match (text_of(profile, "type") == "Localhost", has(profile, "localhostProfile")) {
        (true, false) => errors.required(&file, "must be set when seccomp type is Localhost"),
        (true, true) => text::descending_path(text_of(profile, "localhostProfile"), &file, errors),
        (false, true) => {
            errors.invalid(&file, "", "can only be set when seccomp type is Localhost")
        }
        (false, false) => {}
    }
}

pub(crate) fn validate_app_armor(context: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(profile) = map(context, "appArmorProfile") else { return };
    let at = path.field("appArmorProfile");
    let file = at.field("localhostProfile");
    let name = text_of(profile, "localhostProfile");
    match text_of(profile, "type") {
        "Localhost" => {
            if !has(profile, "localhostProfile") || name.is_empty() {
                errors.required(&file, "must be set when AppArmor type is Localhost");
            } else if name.trim() != name {
                errors.invalid(
                    &file,
                    format_args!("{name:?}"),
                    "must not be padded with whitespace",
                );
            }
            if name.len() > 4095 {
                errors.too_long(&file, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if has(profile, "localhostProfile") {
                errors.invalid(&file, "", "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(&at.field("type"), "type is required when appArmorProfile is set"),
        other => {
            let types = ["Localhost", "RuntimeDefault", "Unconfined"];
            errors.not_supported(&at.field("type"), other, &types);
        }
    }
}

fn validate_sysctls(spec: &Object, context: &Object, path: &Path<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, sysctl) in items(context, "sysctls").enumerate() {
        let name = text_of(sysctl, "name");
        let at = path.index(index);
        let at = at.field("name");
        if name.is_empty() {
            errors.required(&at, "");
        } else if !is_sysctl(name) {
            errors.invalid(&at, format_args!("{name:?}"), "must be a name of a kernel setting");
        } else if seen.contains(&name) {
            errors.duplicate(&at, format_args!("{name:?}"));
        }
        let dotted = name.replace('/', ".");
        let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|p| dotted.starts_with(p))
            || dotted == "kernel.sem";
        if flag(spec, "hostNetwork") && dotted.starts_with("net.") {
            let why = "may not be specified when 'hostNetwork' is true";
            errors.invalid(&at, format_args!("{name:?}"), why);
        } else if flag(spec, "hostIPC") && ipc {
            let why = "may not be specified when 'hostIPC' is true";
            errors.invalid(&at, format_args!("{name:?}"), why);
        }
        seen.push(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.iter().all(|b| edge(*b) || matches!(b, b'-' | b'_'))
            && bytes.first().is_some_and(|b| edge(*b))
            && bytes.last().is_some_and(|b| edge(*b))
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}

/// What a pod may not say about the system that it does not run on.
pub(crate) fn validate_os(spec: &Object, path: &Path<'_>, errors: &mut Errors) {
    let Some(os) = map(spec, "os") else { return };
    let at = path.field("os");
    match text_of(os, "name") {
        "" => errors.required(&at.field("name"), ""),
        "linux" => {
            let set = |object: &Object| {
                map(object, "securityContext").is_some_and(|c| has(c, "windowsOptions"))
            };
            let why = "windows options cannot be set for a linux pod";
            if set(spec) {
                let at = path.field("securityContext");
                errors.forbidden(&at.field("windowsOptions"), why);
            }
            each_container(spec, path, &mut |container, at| {
                if set(container) {
                    let at = at.field("securityContext");
                    errors.forbidden(&at.field("windowsOptions"), why);
                }
            });
        }
        "windows" => validate_windows_pod(spec, path, errors),
        other => errors.not_supported(&at, other, &["linux", "windows"]),
    }
}
