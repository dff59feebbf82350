//! Rules of spec/api-server.md: R167.

use serde_json::{Value, json};
use tenure_machinery::{Errors, Object};

use super::{
    CHECKS, LevelVersion, PodSecurityLevel, PodSecurityLevels, PodSecurityVersion, details,
    evaluate, is_significant_update, reasons,
};

fn object(value: Value) -> Object {
    value.as_object().cloned().unwrap()
}

fn at(level: PodSecurityLevel, minor: u32) -> LevelVersion {
    LevelVersion { level, version: PodSecurityVersion::Minor(minor) }
}

fn latest(level: PodSecurityLevel) -> LevelVersion {
    LevelVersion { level, version: PodSecurityVersion::Latest }
}

/// A pod that the newest restricted level lets through.
fn hardened() -> Value {
    json!({
        "metadata": {"name": "p"},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "c", "image": "i", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            }}],
        },
    })
}

/// The hardened pod with some members set, by JSON pointer.
fn with(changes: &[(&str, Value)]) -> Object {
    let mut pod = hardened();
    for (pointer, value) in changes {
        let (parents, last) = pointer.rsplit_once('/').unwrap();
        let mut place = &mut pod;
        for name in parents.split('/').skip(1) {
            place = match name.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[name],
            };
            if place.is_null() {
                *place = json!({});
            }
        }
        if value.is_null() {
            place.as_object_mut().unwrap().remove(last);
        } else {
            place[last] = value.clone();
        }
    }
    object(pod)
}

fn found(wanted: LevelVersion, pod: &Object) -> String {
    reasons(&evaluate(wanted, pod))
}

const CONTAINER: &str = "/spec/containers/0/securityContext";

#[test]
fn r167_each_check_refuses_from_its_version_on() {
    let within = |name: &str| format!("{CONTAINER}/{name}");
    let spec = |name: &str| format!("/spec/{name}");
    let sysctl = |name: &str| json!([{"name": name, "value": "1"}]);
    let probe = json!({"httpGet": {"port": 1, "host": "10.0.0.1"}});
    // What is set; at baseline the first version that refuses it and the one that no longer does; the same at
    // restricted.
    type Row<'a> = (&'a str, String, Value, [Option<u32>; 4]);
    let (always, never) = ([Some(0), None, Some(0), None], [None, None, None, None]);
    let rows: Vec<Row<'_>> = vec![
        ("host namespaces", spec("hostNetwork"), json!(true), always),
        ("host namespaces", spec("hostPID"), json!(true), always),
        ("host namespaces", spec("hostIPC"), json!(true), always),
        ("", spec("hostIPC"), json!(false), never),
        ("privileged", within("privileged"), json!(true), always),
        ("", within("privileged"), json!(false), never),
        ("hostPort", spec("containers/0/ports"), json!([{"hostPort": 80}]), always),
        ("", spec("containers/0/ports"), json!([{"hostPort": 0}, {"containerPort": 1}]), never),
        (
            "probe or lifecycle host",
            spec("containers/0/livenessProbe"),
            probe.clone(),
            [Some(34), None, Some(34), None],
        ),
        (
            "probe or lifecycle host",
            spec("containers/0/lifecycle"),
            json!({"preStop": {"tcpSocket": {"host": "h"}}}),
            [Some(34), None, Some(34), None],
        ),
        ("", spec("containers/0/readinessProbe"), json!({"tcpSocket": {"port": 1}}), never),
        ("procMount", within("procMount"), json!("Unmasked"), always),
        ("", within("procMount"), json!("Default"), never),
        ("hostProcess", within("windowsOptions"), json!({"hostProcess": true}), always),
        (
            "hostProcess",
            spec("securityContext/windowsOptions"),
            json!({"hostProcess": true}),
            always,
        ),
        ("seLinuxOptions", within("seLinuxOptions"), json!({"type": "spc_t"}), always),
        (
            "seLinuxOptions",
            within("seLinuxOptions"),
            json!({"type": "container_engine_t"}),
            [Some(0), Some(31), Some(0), Some(31)],
        ),
        ("seLinuxOptions", spec("securityContext/seLinuxOptions"), json!({"user": "u"}), always),
        ("seLinuxOptions", spec("securityContext/seLinuxOptions"), json!({"role": "r"}), always),
        ("", within("seLinuxOptions"), json!({"type": "container_t", "level": "s0"}), never),
        (
            "forbidden AppArmor profile",
            within("appArmorProfile"),
            json!({"type": "Unconfined"}),
            always,
        ),
        ("", within("appArmorProfile"), json!({"type": "Localhost"}), never),
        (
            "forbidden AppArmor profile",
            "/metadata/annotations".to_owned(),
            json!({"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}),
            always,
        ),
        (
            "seccompProfile",
            within("seccompProfile"),
            json!({"type": "Unconfined"}),
            [Some(19), None, Some(19), None],
        ),
        (
            "seccompProfile",
            "/metadata/annotations".to_owned(),
            json!({"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
            [Some(0), Some(19), Some(0), Some(19)],
        ),
        (
            "seccompProfile",
            "/metadata/annotations".to_owned(),
            json!({"container.seccomp.security.alpha.kubernetes.io/c": "unconfined"}),
            [Some(0), Some(19), Some(0), Some(19)],
        ),
        (
            "",
            "/metadata/annotations".to_owned(),
            json!({"container.seccomp.security.alpha.kubernetes.io/other": "unconfined"}),
            never,
        ),
        ("forbidden sysctls", spec("securityContext/sysctls"), sysctl("kernel.msgmax"), always),
        ("", spec("securityContext/sysctls"), sysctl("net.ipv4.ping_group_range"), never),
        (
            "forbidden sysctls",
            spec("securityContext/sysctls"),
            sysctl("net.ipv4.ip_local_reserved_ports"),
            [Some(0), Some(27), Some(0), Some(27)],
        ),
        (
            "forbidden sysctls",
            spec("securityContext/sysctls"),
            sysctl("net.ipv4.tcp_keepalive_time"),
            [Some(0), Some(29), Some(0), Some(29)],
        ),
        (
            "forbidden sysctls",
            spec("securityContext/sysctls"),
            sysctl("net.ipv4.tcp_wmem"),
            [Some(0), Some(32), Some(0), Some(32)],
        ),
        (
            "forbidden sysctls",
            spec("securityContext/sysctls"),
            sysctl("net.ipv4.tcp_notsent_lowat"),
            [Some(0), Some(37), Some(0), Some(37)],
        ),
        (
            "non-default capabilities",
            within("capabilities"),
            json!({"drop": ["ALL"], "add": ["NET_RAW"]}),
            [Some(0), None, Some(0), Some(22)],
        ),
        (
            "unrestricted capabilities",
            within("capabilities"),
            json!({"drop": ["ALL"], "add": ["CHOWN"]}),
            [None, None, Some(22), None],
        ),
        (
            "unrestricted capabilities",
            within("capabilities"),
            json!({"drop": ["NET_RAW"]}),
            [None, None, Some(22), None],
        ),
        ("", within("capabilities"), json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}), never),
        (
            "allowPrivilegeEscalation != false",
            within("allowPrivilegeEscalation"),
            json!(true),
            [None, None, Some(8), None],
        ),
        (
            "allowPrivilegeEscalation != false",
            within("allowPrivilegeEscalation"),
            Value::Null,
            [None, None, Some(8), None],
        ),
        ("runAsNonRoot != true", within("runAsNonRoot"), json!(false), [None, None, Some(0), None]),
        (
            "runAsNonRoot != true",
            spec("securityContext/runAsNonRoot"),
            Value::Null,
            [None, None, Some(0), None],
        ),
        ("runAsUser=0", within("runAsUser"), json!(0), [None, None, Some(23), None]),
        ("", within("runAsUser"), json!(1), never),
        (
            "seccompProfile",
            spec("securityContext/seccompProfile"),
            Value::Null,
            [None, None, Some(19), None],
        ),
        (
            "hostPath volumes",
            spec("volumes"),
            json!([{"name": "v", "hostPath": {"path": "/"}}]),
            [Some(0), None, None, None],
        ),
        (
            "restricted volume types",
            spec("volumes"),
            json!([{"name": "v", "hostPath": {"path": "/"}}]),
            [None, None, Some(0), None],
        ),
        (
            "restricted volume types",
            spec("volumes"),
            json!([{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
            [None, None, Some(0), None],
        ),
        ("", spec("volumes"), json!([{"name": "v", "emptyDir": {}}]), never),
    ];
    for (reason, pointer, value, [from, until, strict_from, strict_until]) in rows {
        let pod = with(&[(pointer.as_str(), value.clone())]);
        for (level, from, until) in [
            (PodSecurityLevel::Baseline, from, until),
            (PodSecurityLevel::Restricted, strict_from, strict_until),
        ] {
            for minor in 0..=40 {
                let refuses = from.is_some_and(|from| minor >= from)
                    && until.is_none_or(|until| minor < until);
                let expected = if refuses { reason } else { "" };
                let got = found(at(level, minor), &pod);
                // Where another check takes over, it is a row of its own.
                if got != expected && !(expected.is_empty() && reason_of_other_row(reason, &got)) {
                    panic!("{pointer}={value} at {level:?} v1.{minor}: {got:?}, not {expected:?}");
                }
            }
        }
        assert_eq!(found(latest(PodSecurityLevel::Privileged), &pod), "");
    }
}

fn reason_of_other_row(reason: &str, got: &str) -> bool {
    [
        ("non-default capabilities", "unrestricted capabilities"),
        ("unrestricted capabilities", "non-default capabilities"),
        ("hostPath volumes", "restricted volume types"),
        ("restricted volume types", "hostPath volumes"),
    ]
    .contains(&(reason, got))
}

#[test]
fn r167_what_is_missing_is_refused_when_restricted() {
    let plain = object(json!({"spec": {"containers": [{"name": "c", "image": "i"}]}}));
    assert_eq!(found(latest(PodSecurityLevel::Baseline), &plain), "");
    assert_eq!(
        found(latest(PodSecurityLevel::Restricted), &plain),
        "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"
    );
    assert_eq!(found(at(PodSecurityLevel::Restricted, 0), &plain), "runAsNonRoot != true");
    assert_eq!(found(latest(PodSecurityLevel::Restricted), &with(&[])), "");
}

#[test]
fn r167_every_list_of_containers_is_judged() {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        let mut pod = with(&[]);
        let bad = json!([{"name": "x", "securityContext": {"privileged": true}}]);
        pod.get_mut("spec").unwrap()[list] = bad;
        let found = evaluate(latest(PodSecurityLevel::Baseline), &pod);
        assert_eq!(
            details(&found),
            "privileged (container \"x\" must not set securityContext.privileged=true)",
            "{list}"
        );
    }
}

#[test]
fn r167_own_users_and_windows_need_less() {
    let root = [
        ("/spec/hostUsers", json!(false)),
        ("/spec/securityContext/runAsNonRoot", json!(false)),
        ("/spec/containers/0/securityContext/runAsUser", json!(0)),
    ];
    assert_eq!(found(latest(PodSecurityLevel::Restricted), &with(&root)), "");
    assert_eq!(found(at(PodSecurityLevel::Restricted, 35), &with(&root)), "");
    assert_eq!(
        found(at(PodSecurityLevel::Restricted, 34), &with(&root)),
        "runAsNonRoot != true, runAsUser=0"
    );
    let unmasked = [
        ("/spec/hostUsers", json!(false)),
        ("/spec/containers/0/securityContext/procMount", json!("Unmasked")),
    ];
    assert_eq!(found(latest(PodSecurityLevel::Baseline), &with(&unmasked)), "");
    assert_eq!(found(at(PodSecurityLevel::Baseline, 34), &with(&unmasked)), "procMount");
    assert_eq!(found(latest(PodSecurityLevel::Restricted), &with(&unmasked)), "procMount");
    let windows = object(json!({"spec": {
        "os": {"name": "windows"}, "securityContext": {"runAsNonRoot": true},
        "containers": [{"name": "c"}],
    }}));
    assert_eq!(found(latest(PodSecurityLevel::Restricted), &windows), "");
    assert_eq!(
        found(at(PodSecurityLevel::Restricted, 24), &windows),
        "allowPrivilegeEscalation != false, unrestricted capabilities, seccompProfile"
    );
}

#[test]
fn r167_labels() {
    let read = |labels: &[(&str, &str)]| {
        let full: Vec<(String, &str)> = labels
            .iter()
            .map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), *value))
            .collect();
        let mut errors = Errors::new();
        let labels = full.iter().map(|(name, value)| (name.as_str(), *value));
        let policy = PodSecurityLevels::from_labels(labels, &mut errors);
        let text = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        (text, errors.into_causes().len())
    };
    let good = |labels: &[(&str, &str)]| {
        let (text, faults) = read(labels);
        assert_eq!(faults, 0, "{labels:?}");
        text
    };
    assert_eq!(good(&[]), "privileged:latest privileged:latest privileged:latest");
    assert_eq!(
        good(&[("enforce", "baseline"), ("enforce-version", "v1.24")]),
        "baseline:v1.24 privileged:latest baseline:v1.24"
    );
    assert_eq!(
        good(&[("enforce", "baseline"), ("enforce-version", "v1.24"), ("warn-version", "v1.0")]),
        "baseline:v1.24 privileged:latest baseline:v1.0"
    );
    assert_eq!(
        good(&[("enforce", "restricted"), ("warn", "privileged"), ("audit", "baseline")]),
        "restricted:latest baseline:latest privileged:latest"
    );
    assert_eq!(
        read(&[("enforce", "basline"), ("warn", "Baseline"), ("audit", "")]),
        ("restricted:latest privileged:latest privileged:latest".to_owned(), 3)
    );
    for version in ["v1.x", "1.24", "v2.0", "v1.024", "v1.", "v1", ""] {
        assert_eq!(
            read(&[("enforce", "baseline"), ("enforce-version", version)]),
            ("baseline:latest privileged:latest baseline:latest".to_owned(), 1),
            "{version}"
        );
    }
}

#[test]
fn r167_updates_that_matter() {
    let pod = |image: &str, debug: &[&str]| {
        let debug: Vec<Value> =
            debug.iter().map(|name| json!({"name": name, "image": "d"})).collect();
        object(json!({"spec": {
            "containers": [{"name": "c", "image": image}], "ephemeralContainers": debug,
        }}))
    };
    assert!(!is_significant_update(&pod("a", &[]), &pod("a", &[])));
    assert!(is_significant_update(&pod("b", &[]), &pod("a", &[])));
    assert!(is_significant_update(&pod("a", &["x"]), &pod("a", &[])));
    assert!(!is_significant_update(&pod("a", &["x"]), &pod("a", &["x"])));
}

#[test]
fn checks_stand_in_order_and_replace_what_is_there() {
    assert!(CHECKS.is_sorted_by_key(|check| (check.level, check.name)));
    for check in &CHECKS {
        assert!(check.forms.is_sorted_by(|a, b| a.0 < b.0), "{}", check.name);
        if let Some(replaced) = check.instead_of {
            let of = CHECKS.iter().find(|other| other.name == replaced).unwrap();
            assert_eq!(
                (check.level, of.level),
                (PodSecurityLevel::Restricted, PodSecurityLevel::Baseline)
            );
        }
    }
}
