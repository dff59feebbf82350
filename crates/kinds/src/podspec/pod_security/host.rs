//! Checks of what a pod shares with its node: namespaces, ports, addresses, Windows processes.

use std::collections::BTreeSet;

use tenure_machinery::{Object, ObjectExt};

use super::{
    CheckedPod, Violation, containers, containers_violation, context, quoted, setters, violation,
};
use crate::podspec::view::{flag, int, items, map, text};

pub(super) fn namespaces(pod: CheckedPod<'_>) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|name| flag(pod.spec, name))
        .map(|name| format!("{name}=true"))
        .collect();
    let detail = shared.join(", ");
    (!shared.is_empty()).then_some(Violation { reason: "host namespaces", detail })
}

pub(super) fn ports(pod: CheckedPod<'_>) -> Option<Violation> {
    let used = |container: &Object| -> Vec<i64> {
        items(container, "ports")
            .filter_map(|port| int(port, "hostPort"))
            .filter(|p| *p != 0)
            .collect()
    };
    let names = pod.bad(|container| !used(container).is_empty());
    containers_violation("hostPort", &names, |who| {
        let ports: BTreeSet<i64> = pod.containers().flat_map(used).collect();
        let ports: Vec<String> = ports.iter().map(i64::to_string).collect();
        format!("hostPort {} of {who}", ports.join(", "))
    })
}

/// Probes and hooks reach any address of the node's network if they name one.
pub(super) fn probes_and_hooks(pod: CheckedPod<'_>) -> Option<Violation> {
    let names = pod.bad(|container| !hosts(container).is_empty());
    if names.is_empty() {
        return None;
    }
    let named: BTreeSet<&str> = pod.containers().flat_map(hosts).collect();
    let named: Vec<&str> = named.into_iter().collect();
    let detail = format!("host {} of {}", quoted(&named), containers(&names));
    Some(Violation { reason: "probe or lifecycle host", detail })
}

fn hosts(container: &Object) -> Vec<&str> {
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"];
    let probes = probes.into_iter().filter_map(|name| map(container, name));
    let hooks = ["postStart", "preStop"];
    let hooks = hooks.into_iter().filter_map(|name| container.map_at(&["lifecycle", name]));
    let handlers = probes.chain(hooks);
    let of = |handler: &'_ Object, kind: &str| -> bool { map(handler, kind).is_some() };
    let mut found = Vec::new();
    for handler in handlers {
        for kind in ["httpGet", "tcpSocket"].into_iter().filter(|kind| of(handler, kind)) {
            let host = map(handler, kind).map_or("", |action| text(action, "host"));
            if !host.is_empty() {
                found.push(host);
            }
        }
    }
    found
}

pub(super) fn windows_processes(pod: CheckedPod<'_>) -> Option<Violation> {
    let set = |context: Option<&Object>| {
        context.is_some_and(|of| of.bool_at(&["windowsOptions", "hostProcess"]) == Some(true))
    };
    let names = pod.bad(|container| set(context(container)));
    violation("hostProcess", setters(set(pod.context()), &names), |who| {
        format!("{who} must not set securityContext.windowsOptions.hostProcess=true")
    })
}
