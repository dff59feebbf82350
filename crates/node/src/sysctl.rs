//! Which settings of the kernel a pod may ask for (R111a). All others could reach beyond the pod: the
//! kernel keeps them for the machine, or one pod could use up with them what all share.

use serde_json::Value;
use tenure_lifecycle::PodRejection;
use tenure_machinery::{Object, ObjectExt as _};

/// What upstream calls safe: kept for each pod apart, and no harm to others.
const SAFE: [&str; 14] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// Why a node does not take a pod that asks for a setting it may not have.
pub(crate) fn refused(pod: &Object) -> Option<PodRejection> {
    let flag = |name: &str| pod.bool_at(&["spec", name]).unwrap_or_default();
    let listed = pod.list_at(&["spec", "securityContext", "sysctls"]).iter();
    let mut names = listed.filter_map(Value::as_object).map(|one| {
        let name = one.str_at(&["name"]).unwrap_or_default();
        forbidden(name, flag("hostNetwork"), flag("hostIPC"))
    });
    let message = names.find_map(|why| why)?;
    Some(PodRejection { reason: "SysctlForbidden".to_owned(), message })
}

/// Without a namespace of its own, a pod would change the setting of the machine.
fn forbidden(name: &str, host_network: bool, host_ipc: bool) -> Option<String> {
    let plain = dotted(name);
    if !SAFE.contains(&plain.as_str()) {
        return Some(format!("forbidden sysctl: {name:?} not allowlisted"));
    }
    if host_network && plain.starts_with("net.") {
        return Some(format!("forbidden sysctl: {name:?} not allowed with host net enabled"));
    }
    if host_ipc && plain.starts_with("kernel.shm") {
        return Some(format!("forbidden sysctl: {name:?} not allowed with host ipc enabled"));
    }
    None
}

/// A name may be written with slashes; then a dot is a part of a name and not between two.
pub(crate) fn dotted(name: &str) -> String {
    let first = name.find(['.', '/']).and_then(|at| name.get(at..at + 1));
    if first != Some("/") {
        return name.to_owned();
    }
    let turn = |letter| match letter {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    name.chars().map(turn).collect()
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use serde_json::json;

    use super::*;

    fn why(name: &str, host: &str) -> Option<String> {
        let mut pod = json!({"spec": {"securityContext": {"sysctls": [
            {"name": "net.ipv4.tcp_syncookies", "value": "1"}, {"name": name, "value": "1"},
        ]}}});
        if host == "hostIPC" {
            pod["spec"]["securityContext"]["sysctls"][0]["name"] = name.into();
        }
        pod["spec"][host] = true.into();
        let refusal = refused(pod.as_object().unwrap())?;
        assert_eq!(refusal.reason, "SysctlForbidden");
        Some(refusal.message)
    }

    #[test]
    fn r111a_only_what_is_safe_is_taken() {
        for name in SAFE.into_iter().chain(["net/ipv4/tcp_rmem", "kernel/shm_rmid_forced"]) {
            assert_eq!(why(name, ""), None);
        }
        let others = [
            "kernel.core_pattern",
            "kernel/core_pattern",
            "kernel.msgmax",
            "kernel.shm",
            "net.core.somaxconn",
            "net.ipv4.tcp_rmem ",
            "net.ipv4/tcp_rmem",
            "net/ipv4.tcp_rmem",
            "net.*",
            "",
        ];
        for name in others {
            let message = format!("forbidden sysctl: {name:?} not allowlisted");
            assert_eq!(why(name, ""), Some(message));
        }
        assert_eq!(refused(json!({"spec": {}}).as_object().unwrap()), None);
    }

    #[test]
    fn r111a_a_pod_in_a_namespace_of_the_node_changes_no_setting_of_it() {
        for name in ["net.ipv4.tcp_rmem", "net/ipv4/tcp_rmem"] {
            assert!(
                why(name, "hostNetwork").unwrap().ends_with("not allowed with host net enabled")
            );
            assert_eq!(why(name, "hostIPC"), None);
        }
        let message = why("kernel.shm_rmid_forced", "hostIPC").unwrap();
        assert!(message.ends_with("not allowed with host ipc enabled"), "{message}");
    }
}
