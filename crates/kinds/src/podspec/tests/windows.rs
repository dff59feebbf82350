//! R139: what Windows pods may say, and what only they may.

use serde_json::{Value, json};
use tenure_machinery::Errors;

use super::{causes, container, pod};
use crate::podspec::*;

/// The causes of a pod, as `field reason`.
fn faults(spec: Value) -> Vec<String> {
    let mut errors = Errors::new();
    validate_pod(&pod(spec), &mut errors);
    causes(&errors).into_iter().map(|(field, reason)| format!("{field} {reason}")).collect()
}

fn with_options(options: Value) -> Value {
    container(json!({"securityContext": {"windowsOptions": options}}))
}

#[test]
fn r139_containers_that_are_host_processes_come_all_or_none() {
    let host = || with_options(json!({"hostProcess": true}));
    let mut other = with_options(json!({"hostProcess": false}));
    other["name"] = json!("d");
    let at = |index: usize| {
        format!("spec.containers[{index}].securityContext.windowsOptions.hostProcess Invalid")
    };
    let of_pod = json!({"windowsOptions": {"hostProcess": true}});
    for (spec, want) in [
        (json!({"hostNetwork": true, "containers": [host()]}), vec![]),
        (json!({"containers": [host()]}), vec!["spec.hostNetwork Invalid".to_owned()]),
        (
            json!({"hostNetwork": true, "containers": [host(), other]}),
            vec!["spec Invalid".to_owned()],
        ),
        (
            json!({"hostNetwork": true, "securityContext": of_pod, "containers": [container(json!({})), other]}),
            vec![at(1), "spec Invalid".to_owned()],
        ),
        (json!({"securityContext": of_pod, "containers": [other]}), vec![at(0)]),
        (json!({"containers": [other]}), vec![]),
    ] {
        assert_eq!(faults(spec.clone()), want, "{spec}");
    }
}

#[test]
fn r139_a_windows_pod_has_no_settings_of_linux() {
    let context = json!({
        "appArmorProfile": {"type": "Unconfined"}, "seLinuxOptions": {}, "fsGroup": 1,
        "seccompProfile": {"type": "Unconfined"}, "fsGroupChangePolicy": "Always",
        "sysctls": [{"name": "a.b", "value": "1"}], "runAsUser": 1, "runAsGroup": 1,
        "supplementalGroups": [1], "supplementalGroupsPolicy": "Merge",
        "seLinuxChangePolicy": "Recursive",
    });
    let own = json!({
        "appArmorProfile": {"type": "Unconfined"}, "seLinuxOptions": {}, "capabilities": {},
        "seccompProfile": {"type": "Unconfined"}, "readOnlyRootFilesystem": false,
        "privileged": false, "allowPrivilegeEscalation": true, "procMount": "Default",
        "runAsUser": 1, "runAsGroup": 1,
    });
    let spec = |os: &str| {
        json!({
            "os": {"name": os}, "securityContext": context, "hostUsers": true, "hostPID": true,
            "hostIPC": true, "shareProcessNamespace": false,
            "containers": [container(json!({"securityContext": own}))],
        })
    };
    assert_eq!(faults(spec("linux")), [""; 0]);
    let found = faults(spec("windows"));
    assert!(found.iter().all(|fault| fault.ends_with(" Forbidden")), "{found:?}");
    for name in context.as_object().unwrap().keys() {
        assert!(found.contains(&format!("spec.securityContext.{name} Forbidden")), "{name}");
    }
    for name in own.as_object().unwrap().keys() {
        let fault = format!("spec.containers[0].securityContext.{name} Forbidden");
        assert!(found.contains(&fault), "{name}");
    }
    for name in ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"] {
        assert!(found.contains(&format!("spec.{name} Forbidden")), "{name}");
    }
    assert_eq!(found.len(), 25);
    let plain = json!({
        "os": {"name": "windows"}, "hostPID": false, "securityContext": {"runAsNonRoot": true},
        "containers": [with_options(json!({"runAsUserName": "ContainerUser"}))],
    });
    assert_eq!(faults(plain), [""; 0]);
}

#[test]
fn r139_options_of_windows_are_looked_at() {
    let long = |length: usize| "a".repeat(length);
    for (options, want) in [
        (json!({"gmsaCredentialSpecName": "a.b"}), 0),
        (json!({"gmsaCredentialSpecName": "A_b"}), 1),
        (json!({"gmsaCredentialSpec": ""}), 1),
        (json!({"gmsaCredentialSpec": long(65536)}), 0),
        (json!({"gmsaCredentialSpec": long(65537)}), 1),
        (json!({"runAsUserName": "user"}), 0),
        (json!({"runAsUserName": "NT AUTHORITY\\SYSTEM"}), 0),
        (json!({"runAsUserName": "example.com\\user"}), 0),
        (json!({"runAsUserName": ""}), 1),
        (json!({"runAsUserName": "a\tb"}), 1),
        (json!({"runAsUserName": "a\\b\\c"}), 1),
        (json!({"runAsUserName": "\\user"}), 1),
        (json!({"runAsUserName": ".domain\\user"}), 1),
        (json!({"runAsUserName": format!("{}\\user", long(256))}), 2),
        (json!({"runAsUserName": "domain\\"}), 1),
        (json!({"runAsUserName": ". ."}), 1),
        (json!({"runAsUserName": long(104)}), 0),
        (json!({"runAsUserName": long(105)}), 1),
        (json!({"runAsUserName": "a@b"}), 1),
    ] {
        let member = options.as_object().unwrap().keys().next().unwrap().clone();
        let of_pod = json!({"containers": [container(json!({}))],
            "securityContext": {"windowsOptions": options}});
        let fault = format!("spec.securityContext.windowsOptions.{member} Invalid");
        assert_eq!(faults(of_pod), vec![fault; want], "{options}");
        let fault = format!("spec.containers[0].securityContext.windowsOptions.{member} Invalid");
        let own = json!({"containers": [with_options(options.clone())]});
        assert_eq!(faults(own), vec![fault; want], "{options}");
    }
}
