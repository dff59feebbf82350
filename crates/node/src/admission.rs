//! Which pods a node does not take, and the word for it (R111, R111a). What a node has room for is
//! reckoned elsewhere.

use tenure_lifecycle::{Phase, PodRejection};
use tenure_machinery::{Object, ObjectExt as _};

use crate::sysctl;

/// Why a pod is not taken. Room was found for a pod that has begun; what no pod may have, it may not have
/// either, and whoever writes its status could say that it has begun.
pub(crate) fn judge(
    pod: &Object,
    has_no_room: impl FnOnce() -> Option<PodRejection>,
) -> Option<PodRejection> {
    if final_phase(pod) || pod.at(&["metadata", "deletionTimestamp"]).is_some() {
        return None;
    }
    let begun = pod.str_at(&["status", "startTime"]).is_some();
    sysctl::refused(pod).or_else(|| if begun { None } else { has_no_room() })
}

/// Whether a pod is over, as its status says.
pub(crate) fn final_phase(pod: &Object) -> bool {
    pod.str_at(&["status", "phase"]).and_then(Phase::read).is_some_and(Phase::is_final)
}

/// The reason of an event, which must be one of the known words.
pub(crate) fn reason(word: &str) -> &'static str {
    match word {
        "OutOfcpu" => "OutOfcpu",
        "OutOfmemory" => "OutOfmemory",
        "OutOfpods" => "OutOfpods",
        "OutOfephemeral-storage" => "OutOfephemeral-storage",
        "NodeAffinity" => "NodeAffinity",
        "NodePorts" => "NodePorts",
        "PodOSNotSupported" => "PodOSNotSupported",
        "SysctlForbidden" => "SysctlForbidden",
        _ => "UnexpectedAdmissionError",
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use serde_json::json;

    use super::*;

    #[test]
    fn r111a_a_pod_is_not_taken_for_a_setting_of_the_kernel_also_when_it_says_that_it_has_begun() {
        let pod = |status: &str, name: &str| {
            let sysctls = json!([{"name": name, "value": "1"}]);
            let spec = json!({"securityContext": {"sysctls": sysctls}});
            json!({"metadata": {}, "spec": spec, "status": {status: "Failed"}})
        };
        let full =
            || Some(PodRejection { reason: "OutOfpods".to_owned(), ..PodRejection::default() });
        let why = |status, name| {
            let refusal = judge(pod(status, name).as_object().unwrap(), full)?;
            Some(reason(&refusal.reason))
        };
        assert_eq!(why("x", "kernel.msgmax"), Some("SysctlForbidden"));
        assert_eq!(why("startTime", "kernel.msgmax"), Some("SysctlForbidden"));
        assert_eq!(why("x", "net.ipv4.tcp_rmem"), Some("OutOfpods"));
        assert_eq!(why("startTime", "net.ipv4.tcp_rmem"), None);
        assert_eq!(why("phase", "kernel.msgmax"), None, "it is over");
    }
}
