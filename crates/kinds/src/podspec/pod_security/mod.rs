//! The Pod Security Standards: which pods the levels baseline and restricted let through, by version.
//!
//! ```text
//!   labels of a namespace ──► Policy ──┐
//!                                      ├──► evaluate ──► violations: none, or a reason and a detail each
//!   annotations and spec of a pod ─────┘
//! ```
//!
//! A check may come with a version and change in a later one; a restricted check may stand in for a baseline
//! one. Who is refused, warned or audited never lives here.

mod host;
mod policy;
mod privilege;
mod profile;
mod update;
mod volume;

#[cfg(test)]
mod tests;

use tenure_machinery::{Object, ObjectExt};

pub use policy::{LevelVersion, PodSecurityLevel, PodSecurityLevels, PodSecurityVersion};
pub use update::is_significant_update;

use crate::podspec::view::{items, map, text};

/// What a level refuses in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// In a word or two, the same for all pods with this fault.
    pub reason: &'static str,
    /// Which fields of which containers.
    pub detail: String,
}

/// What a check looks at: a pod, or the template of pods.
#[derive(Clone, Copy)]
struct CheckedPod<'a> {
    annotations: Option<&'a Object>,
    spec: &'a Object,
}

type Run = fn(CheckedPod<'_>) -> Option<Violation>;

/// One check: from which minor version it runs in which form, and which baseline check it stands in for.
struct Check {
    name: &'static str,
    level: PodSecurityLevel,
    forms: &'static [(u32, Run)],
    instead_of: Option<&'static str>,
}

const fn baseline(name: &'static str, forms: &'static [(u32, Run)]) -> Check {
    Check { name, level: PodSecurityLevel::Baseline, forms, instead_of: None }
}

const fn restricted(
    name: &'static str,
    forms: &'static [(u32, Run)],
    instead_of: Option<&'static str>,
) -> Check {
    Check { name, level: PodSecurityLevel::Restricted, forms, instead_of }
}

/// All checks in the order in which violations are listed: baseline first, by name.
const CHECKS: [Check; 19] = [
    baseline("appArmorProfile", &[(0, profile::app_armor)]),
    baseline("capabilities_baseline", &[(0, privilege::added_capabilities)]),
    baseline("hostNamespaces", &[(0, host::namespaces)]),
    baseline("hostPathVolumes", &[(0, volume::host_paths)]),
    baseline("hostPorts", &[(0, host::ports)]),
    baseline("hostProbesAndHostLifecycle", &[(34, host::probes_and_hooks)]),
    baseline("privileged", &[(0, privilege::privileged)]),
    baseline("procMount", &[(0, privilege::proc_mount), (35, privilege::proc_mount_unless_mapped)]),
    baseline("seLinuxOptions", &[(0, profile::selinux), (31, profile::selinux_1_31)]),
    baseline(
        "seccompProfile_baseline",
        &[(0, profile::seccomp_annotations), (19, profile::seccomp)],
    ),
    baseline(
        "sysctls",
        &[
            (0, profile::sysctls),
            (27, profile::sysctls_1_27),
            (29, profile::sysctls_1_29),
            (32, profile::sysctls_1_32),
            (37, profile::sysctls_1_37),
        ],
    ),
    baseline("windowsHostProcess", &[(0, host::windows_processes)]),
    restricted(
        "allowPrivilegeEscalation",
        &[(8, privilege::escalation), (25, privilege::escalation_unless_windows)],
        None,
    ),
    restricted(
        "capabilities_restricted",
        &[
            (22, privilege::dropped_capabilities),
            (25, privilege::dropped_capabilities_unless_windows),
        ],
        Some("capabilities_baseline"),
    ),
    restricted("procMount_restricted", &[(35, privilege::proc_mount)], Some("procMount")),
    restricted("restrictedVolumes", &[(0, volume::kinds)], Some("hostPathVolumes")),
    restricted(
        "runAsNonRoot",
        &[(0, privilege::non_root), (35, privilege::non_root_unless_mapped)],
        None,
    ),
    restricted(
        "runAsUser",
        &[(23, privilege::root_user), (35, privilege::root_user_unless_mapped)],
        None,
    ),
    restricted(
        "seccompProfile_restricted",
        &[(19, profile::required_seccomp), (25, profile::required_seccomp_unless_windows)],
        Some("seccompProfile_baseline"),
    ),
];

impl Check {
    /// The form it has in a version, if it has come by then.
    fn form(&self, version: PodSecurityVersion) -> Option<Run> {
        self.forms.iter().rev().find(|(since, _)| version.reaches(*since)).map(|(_, run)| *run)
    }
}

/// What a level of a version refuses in a pod, or in a template of pods with `metadata` and `spec`.
#[must_use]
pub fn evaluate(wanted: LevelVersion, pod: &Object) -> Vec<Violation> {
    let empty = Object::new();
    let pod = CheckedPod {
        annotations: pod.map_at(&["metadata", "annotations"]),
        spec: map(pod, "spec").unwrap_or(&empty),
    };
    let runs = |check: &&Check| check.level <= wanted.level;
    let replaced = |name: &str| {
        let by =
            |check: &Check| check.instead_of == Some(name) && check.form(wanted.version).is_some();
        wanted.level == PodSecurityLevel::Restricted && CHECKS.iter().any(by)
    };
    let checks = CHECKS.iter().filter(runs).filter(|check| !replaced(check.name));
    checks.filter_map(|check| check.form(wanted.version)).filter_map(|run| run(pod)).collect()
}

/// The short form for many pods: reasons only.
#[must_use]
pub fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
}

/// The long form for one pod: each reason with its detail.
#[must_use]
pub fn details(violations: &[Violation]) -> String {
    let one = |violation: &Violation| match violation.detail.as_str() {
        "" => violation.reason.to_owned(),
        detail => format!("{} ({detail})", violation.reason),
    };
    violations.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl<'a> CheckedPod<'a> {
    /// Every container there is: those that come first, the main ones, those added later.
    fn containers(self) -> impl Iterator<Item = &'a Object> {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |list| items(self.spec, list))
    }

    /// Names of the containers that a test finds bad.
    fn bad(self, is_bad: impl Fn(&Object) -> bool) -> Vec<&'a str> {
        self.containers().filter(|one| is_bad(one)).map(|one| text(one, "name")).collect()
    }

    /// The security context of the pod.
    fn context(self) -> Option<&'a Object> {
        map(self.spec, "securityContext")
    }

    /// Whether it says that it runs on Windows.
    fn is_windows(self) -> bool {
        self.spec.str_at(&["os", "name"]) == Some("windows")
    }

    /// Whether root inside is nobody outside.
    fn has_own_users(self) -> bool {
        self.spec.bool_at(&["hostUsers"]) == Some(false)
    }
}

/// The security context of a container.
fn context(container: &Object) -> Option<&Object> {
    map(container, "securityContext")
}

/// `container "a"` or `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    counted("container", names)
}

/// A noun in the right number and the names in quotes.
fn counted(noun: &str, names: &[&str]) -> String {
    let plural = if names.len() == 1 { "" } else { "s" };
    format!("{noun}{plural} {}", quoted(names))
}

/// `"a", "b"`.
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

/// Whoever sets something bad: the pod, some containers, or both; `None` when nobody does.
fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(containers(names)),
        (true, false) => Some(format!("pod and {}", containers(names))),
    }
}

/// A violation if somebody is to blame.
fn violation(
    reason: &'static str,
    blamed: Option<String>,
    sentence: impl FnOnce(&str) -> String,
) -> Option<Violation> {
    blamed.map(|who| Violation { reason, detail: sentence(&who) })
}

/// The same for containers alone.
fn containers_violation(
    reason: &'static str,
    names: &[&str],
    sentence: impl FnOnce(&str) -> String,
) -> Option<Violation> {
    violation(reason, setters(false, names), sentence)
}
