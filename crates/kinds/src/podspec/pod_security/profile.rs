//! Checks of what confines processes: AppArmor, SELinux and seccomp profiles, settings of the kernel.

use std::collections::BTreeSet;

use tenure_machinery::Object;

use super::{CheckedPod, Violation, containers_violation, context, quoted, setters, violation};
use crate::podspec::view::{items, map, text};

const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";

/// The type of a profile in a security context, if one is set.
fn profile<'a>(context: Option<&'a Object>, name: &str) -> Option<&'a str> {
    context.and_then(|of| map(of, name)).map(|profile| text(profile, "type"))
}

/// Whether it keeps processes confined; the same for AppArmor and seccomp.
fn confines(kind: &str) -> bool {
    matches!(kind, "RuntimeDefault" | "Localhost")
}

/// Who sets a profile that does not confine, and which ones.
fn unconfined<'a>(pod: CheckedPod<'a>, name: &str) -> (Option<String>, BTreeSet<&'a str>) {
    let bad = |context: Option<&'a Object>| profile(context, name).filter(|kind| !confines(kind));
    let names =
        pod.bad(|container| profile(context(container), name).is_some_and(|k| !confines(k)));
    let mut kinds: BTreeSet<&str> = pod.containers().filter_map(|one| bad(context(one))).collect();
    let of_pod = bad(pod.context());
    kinds.extend(of_pod);
    (setters(of_pod.is_some(), &names), kinds)
}

/// The annotations with this prefix, or of this name.
fn annotations<'a>(pod: CheckedPod<'a>, prefix: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let all = pod.annotations.into_iter().flatten();
    let texts = all.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    texts.filter(move |(name, _)| name.starts_with(prefix))
}

pub(super) fn app_armor(pod: CheckedPod<'_>) -> Option<Violation> {
    let (mut who, kinds) = unconfined(pod, "appArmorProfile");
    let allowed = |value: &str| {
        value.is_empty() || value == "runtime/default" || value.starts_with("localhost/")
    };
    let old: Vec<String> = annotations(pod, APP_ARMOR_PREFIX)
        .filter(|(_, value)| !allowed(value))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut values: Vec<&str> = kinds.into_iter().collect();
    if !old.is_empty() {
        values.extend(old.iter().map(String::as_str));
        let annotated = if old.len() == 1 { "annotation" } else { "annotations" };
        who =
            Some(who.map_or_else(|| annotated.to_owned(), |who| format!("{who} and {annotated}")));
    }
    let reason = match values.len() {
        1 => "forbidden AppArmor profile",
        _ => "forbidden AppArmor profiles",
    };
    violation(reason, who, |who| {
        format!("{who} must not set AppArmor profile type to {}", quoted(&values))
    })
}

pub(super) fn selinux(pod: CheckedPod<'_>) -> Option<Violation> {
    selinux_of(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

pub(super) fn selinux_1_31(pod: CheckedPod<'_>) -> Option<Violation> {
    const TYPES: [&str; 5] =
        ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
    selinux_of(pod, &TYPES)
}

fn selinux_of(pod: CheckedPod<'_>, types: &[&str]) -> Option<Violation> {
    let faults = |context: Option<&Object>| -> Vec<String> {
        let Some(options) = context.and_then(|of| map(of, "seLinuxOptions")) else {
            return Vec::new();
        };
        let kind = text(options, "type");
        let bad = (!types.contains(&kind)).then(|| format!("type {kind:?}"));
        let set = ["user", "role"].into_iter().filter(|name| !text(options, name).is_empty());
        bad.into_iter().chain(set.map(|name| format!("{name} may not be set"))).collect()
    };
    let names = pod.bad(|container| !faults(context(container)).is_empty());
    let of_pod = faults(pod.context());
    violation("seLinuxOptions", setters(!of_pod.is_empty(), &names), |who| {
        let mut all: Vec<String> = of_pod.clone();
        all.extend(pod.containers().flat_map(|container| faults(context(container))));
        let all: BTreeSet<String> = all.into_iter().collect();
        let all: Vec<String> = all.into_iter().collect();
        format!("{who} set forbidden securityContext.seLinuxOptions: {}", all.join("; "))
    })
}

/// Before there was a field, annotations chose the profile.
pub(super) fn seccomp_annotations(pod: CheckedPod<'_>) -> Option<Violation> {
    let allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let is_container = |name: &str| {
        name.strip_prefix(SECCOMP_PREFIX)
            .is_some_and(|of| pod.containers().any(|container| text(container, "name") == of))
    };
    let of_pod = annotations(pod, SECCOMP_POD).filter(|(name, _)| *name == SECCOMP_POD);
    let of_containers = annotations(pod, SECCOMP_PREFIX).filter(|(name, _)| is_container(name));
    let bad: Vec<String> = of_pod
        .chain(of_containers)
        .filter(|(_, value)| !allowed(value))
        .map(|(name, value)| format!("{name}={value:?}"))
        .collect();
    let plural = if bad.len() == 1 { "" } else { "s" };
    let detail = format!("forbidden annotation{plural} {}", bad.join(", "));
    (!bad.is_empty()).then_some(Violation { reason: "seccompProfile", detail })
}

pub(super) fn seccomp(pod: CheckedPod<'_>) -> Option<Violation> {
    let (who, kinds) = unconfined(pod, "seccompProfile");
    let kinds: Vec<&str> = kinds.into_iter().collect();
    violation("seccompProfile", who, |who| {
        format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&kinds))
    })
}

/// What nobody says is as bad as what is said wrong.
pub(super) fn required_seccomp(pod: CheckedPod<'_>) -> Option<Violation> {
    let wrong = seccomp(pod);
    if wrong.is_some() || profile(pod.context(), "seccompProfile").is_some_and(confines) {
        return wrong;
    }
    let silent = pod.bad(|container| profile(context(container), "seccompProfile").is_none());
    containers_violation("seccompProfile", &silent, |who| {
        format!(
            "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        )
    })
}

pub(super) fn required_seccomp_unless_windows(pod: CheckedPod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { required_seccomp(pod) }
}

/// Settings that touch nothing outside of the pod, each with the version that allows it.
const SYSCTLS: [(u32, &str); 14] = [
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
    (37, "net.ipv4.tcp_notsent_lowat"),
    (37, "net.ipv4.tcp_slow_start_after_idle"),
];

fn sysctls_of(pod: CheckedPod<'_>, minor: u32) -> Option<Violation> {
    let allowed =
        |name: &str| SYSCTLS.iter().any(|(since, known)| *since <= minor && *known == name);
    let set = pod.context().into_iter().flat_map(|of| items(of, "sysctls"));
    let bad: Vec<&str> =
        set.map(|sysctl| text(sysctl, "name")).filter(|name| !allowed(name)).collect();
    let detail = bad.join(", ");
    (!bad.is_empty()).then_some(Violation { reason: "forbidden sysctls", detail })
}

pub(super) fn sysctls(pod: CheckedPod<'_>) -> Option<Violation> {
    sysctls_of(pod, 0)
}

pub(super) fn sysctls_1_27(pod: CheckedPod<'_>) -> Option<Violation> {
    sysctls_of(pod, 27)
}

pub(super) fn sysctls_1_29(pod: CheckedPod<'_>) -> Option<Violation> {
    sysctls_of(pod, 29)
}

pub(super) fn sysctls_1_32(pod: CheckedPod<'_>) -> Option<Violation> {
    sysctls_of(pod, 32)
}

pub(super) fn sysctls_1_37(pod: CheckedPod<'_>) -> Option<Violation> {
    sysctls_of(pod, 37)
}
