//! Checks of what processes may do: privileges, capabilities, users, what they see of `/proc`.

use std::collections::BTreeSet;

use tenure_machinery::{Object, ObjectExt};

use super::{
    CheckedPod, Violation, containers, containers_violation, context, quoted, setters, violation,
};
use crate::podspec::view::{flag, map, texts};

/// What runtimes give to every container anyway.
const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// The flag of a security context, if it is said.
fn said(context: Option<&Object>, name: &str) -> Option<bool> {
    context.and_then(|of| of.bool_at(&[name]))
}

pub(super) fn privileged(pod: CheckedPod<'_>) -> Option<Violation> {
    let names = pod.bad(|container| context(container).is_some_and(|of| flag(of, "privileged")));
    containers_violation("privileged", &names, |who| {
        format!("{who} must not set securityContext.privileged=true")
    })
}

pub(super) fn escalation(pod: CheckedPod<'_>) -> Option<Violation> {
    let names =
        pod.bad(|container| said(context(container), "allowPrivilegeEscalation") != Some(false));
    containers_violation("allowPrivilegeEscalation != false", &names, |who| {
        format!("{who} must set securityContext.allowPrivilegeEscalation=false")
    })
}

pub(super) fn escalation_unless_windows(pod: CheckedPod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { escalation(pod) }
}

fn capabilities<'a>(container: &'a Object, list: &'static str) -> impl Iterator<Item = &'a str> {
    let of = context(container).and_then(|of| map(of, "capabilities"));
    of.into_iter().flat_map(move |of| texts(of, list))
}

/// Which containers add capabilities that are not allowed, and which those are.
fn added<'a>(
    pod: CheckedPod<'a>,
    is_allowed: impl Fn(&str) -> bool,
) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let names = pod.bad(|container| capabilities(container, "add").any(|one| !is_allowed(one)));
    let bad = pod.containers().flat_map(|container| capabilities(container, "add"));
    let bad = bad.filter(|one| !is_allowed(one)).collect();
    (names, bad)
}

fn must_not_add(names: &[&str], bad: BTreeSet<&str>) -> String {
    let bad: Vec<&str> = bad.into_iter().collect();
    let who = containers(names);
    format!("{who} must not have {} in securityContext.capabilities.add", quoted(&bad))
}

pub(super) fn added_capabilities(pod: CheckedPod<'_>) -> Option<Violation> {
    let (names, bad) = added(pod, |one| DEFAULT_CAPABILITIES.contains(&one));
    containers_violation("non-default capabilities", &names, |_| must_not_add(&names, bad))
}

pub(super) fn dropped_capabilities(pod: CheckedPod<'_>) -> Option<Violation> {
    let keeping = pod.bad(|container| capabilities(container, "drop").all(|one| one != "ALL"));
    let (adding, bad) = added(pod, |one| one == "NET_BIND_SERVICE");
    let mut faults = Vec::new();
    if !keeping.is_empty() {
        let who = containers(&keeping);
        faults.push(format!("{who} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    if !adding.is_empty() {
        faults.push(must_not_add(&adding, bad));
    }
    let detail = faults.join("; ");
    (!faults.is_empty()).then_some(Violation { reason: "unrestricted capabilities", detail })
}

pub(super) fn dropped_capabilities_unless_windows(pod: CheckedPod<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { dropped_capabilities(pod) }
}

fn mount_of(container: &Object) -> Option<&str> {
    context(container).and_then(|of| of.str_at(&["procMount"])).filter(|mount| *mount != "Default")
}

pub(super) fn proc_mount(pod: CheckedPod<'_>) -> Option<Violation> {
    let names = pod.bad(|container| mount_of(container).is_some());
    containers_violation("procMount", &names, |who| {
        let mounts: BTreeSet<&str> = pod.containers().filter_map(mount_of).collect();
        let mounts: Vec<&str> = mounts.into_iter().collect();
        format!("{who} must not set securityContext.procMount to {}", quoted(&mounts))
    })
}

pub(super) fn proc_mount_unless_mapped(pod: CheckedPod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { proc_mount(pod) }
}

/// What nobody says is as bad as what is said wrong.
pub(super) fn non_root(pod: CheckedPod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    let of_pod = said(pod.context(), "runAsNonRoot");
    let of = |container: &Object| said(context(container), "runAsNonRoot");
    let wrong = pod.bad(|container| of(container) == Some(false));
    if let Some(who) = setters(of_pod == Some(false), &wrong) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some(Violation { reason: REASON, detail });
    }
    let silent = pod.bad(|container| of(container).is_none() && of_pod != Some(true));
    containers_violation(REASON, &silent, |who| {
        format!("pod or {who} must set securityContext.runAsNonRoot=true")
    })
}

pub(super) fn non_root_unless_mapped(pod: CheckedPod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { non_root(pod) }
}

pub(super) fn root_user(pod: CheckedPod<'_>) -> Option<Violation> {
    let is_root =
        |context: Option<&Object>| context.and_then(|of| of.int_at(&["runAsUser"])) == Some(0);
    let names = pod.bad(|container| is_root(context(container)));
    violation("runAsUser=0", setters(is_root(pod.context()), &names), |who| {
        format!("{who} must not set runAsUser=0")
    })
}

pub(super) fn root_user_unless_mapped(pod: CheckedPod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { root_user(pod) }
}
