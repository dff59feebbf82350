//! R31: what a client is told about a pod or a template that is stored all the same.

use serde_json::{Value, json};
use tenure_machinery::{ObjectExt, Path};

use super::{container, object};
use crate::podspec::*;

/// The places that warnings about a pod and about a template with the same content name.
fn places(annotations: &Value, spec: &Value) -> Vec<String> {
    let pod = object(json!({"metadata": {"annotations": annotations}, "spec": spec}));
    let place = |text: &String| text.split(": ").next().unwrap_or_default().to_owned();
    let of_pod: Vec<String> = pod_warnings(&pod).iter().map(place).collect();
    let of_template = template_warnings(&pod, &Path::Root.field("template"));
    let inside = |place: &String| {
        if place.starts_with("volume ") { place.clone() } else { format!("template.{place}") }
    };
    let want: Vec<String> = of_pod.iter().map(inside).collect();
    assert_eq!(of_template.iter().map(place).collect::<Vec<_>>(), want, "{spec}");
    of_pod
}

fn check(spec: Value, want: &[&str]) {
    assert_eq!(places(&json!({}), &spec), want, "{spec}");
}

fn with(extra: Value) -> Value {
    json!({"containers": [container(extra)]})
}

#[test]
fn r31_an_ordinary_pod_is_not_warned_about() {
    check(
        json!({
            "containers": [container(json!({
                "ports": [
                    {"containerPort": 80, "protocol": "TCP", "name": "a"},
                    {"containerPort": 80, "protocol": "UDP"},
                    {"containerPort": 81, "protocol": "TCP", "hostPort": 1, "hostIP": "10.0.0.1"},
                    {"containerPort": 81, "protocol": "TCP", "hostPort": 1, "hostIP": "10.0.0.2"},
                    {"containerPort": 81, "protocol": "TCP", "hostPort": 2},
                ],
                "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}],
                "resources": {"limits": {"memory": "1Gi", "cpu": "100m"}},
            }))],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "topologySpreadConstraints": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}],
            "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
            "hostAliases": [{"ip": "10.0.0.1"}, {"ip": "2001:db8::1"}],
            "volumes": [
                {"name": "v", "emptyDir": {}},
                {"name": "w", "configMap": {"name": "c", "items": [
                    {"key": "a", "path": "a"}, {"key": "b", "path": "ab"}, {"key": "c", "path": "b/a"},
                ]}},
            ],
            "terminationGracePeriodSeconds": 0,
        }),
        &[],
    );
}

#[test]
fn r31_deprecated_labels_of_nodes() {
    let expression = |values: Value| json!({"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "In", "values": values}]});
    let affinity = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [expression(json!(["_"]))]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": expression(json!(["_"]))},
        ],
    }});
    let node = "spec.affinity.nodeAffinity";
    check(
        json!({
            "nodeSelector": {"beta.kubernetes.io/arch": "amd64"},
            "affinity": affinity,
            "topologySpreadConstraints": [{"topologyKey": "failure-domain.beta.kubernetes.io/zone"}],
        }),
        &[
            "spec.nodeSelector[beta.kubernetes.io/arch]",
            &format!(
                "{node}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key"
            ),
            &format!(
                "{node}.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].key"
            ),
            &format!(
                "{node}.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]"
            ),
            "spec.topologySpreadConstraints[0].topologyKey",
            "spec.topologySpreadConstraints[0].labelSelector",
        ],
    );
}

#[test]
fn r31_selectors_of_affinity_that_select_nothing() {
    let spec = json!({"affinity": {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}, {"labelSelector": {}}]},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {}}]},
    }});
    check(
        spec,
        &[
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector",
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.labelSelector",
        ],
    );
}

#[test]
fn r31_annotations_without_their_field() {
    let annotations = json!({
        "scheduler.alpha.kubernetes.io/critical-pod": "",
        "security.alpha.kubernetes.io/sysctls": "",
        "security.alpha.kubernetes.io/unsafe-sysctls": "",
        "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/c": "unconfined",
    });
    let at = |key: &str| format!("metadata.annotations[{key}]");
    let old = [
        "scheduler.alpha.kubernetes.io/critical-pod",
        "security.alpha.kubernetes.io/sysctls",
        "security.alpha.kubernetes.io/unsafe-sysctls",
    ];
    let mut want: Vec<String> = old.iter().map(|key| at(key)).collect();
    let profile = json!({"seccompProfile": {"type": "Unconfined"}});
    let mut spec = with(json!({"securityContext": profile}));
    spec["securityContext"] = profile;
    assert_eq!(places(&annotations, &spec), want);
    want.push(at("seccomp.security.alpha.kubernetes.io/pod"));
    want.push(at("container.seccomp.security.alpha.kubernetes.io/c"));
    assert_eq!(places(&annotations, &with(json!({}))), want);
}

#[test]
fn r31_app_armor_annotations_without_their_field() {
    let key = "container.apparmor.security.beta.kubernetes.io/c";
    let told = |value: &str, of_pod: Value, own: Value| {
        let mut template = object(json!({
            "metadata": {"annotations": {key: value}},
            "spec": {"securityContext": of_pod, "containers": [container(json!({"securityContext": own}))]},
        }));
        let of_template = template_warnings(&template, &Path::Root.field("template")).len();
        apply_app_armor_annotations(&mut template);
        (of_template, pod_warnings(&template).len())
    };
    let profile = |kind: &str| json!({"appArmorProfile": {"type": kind}});
    assert_eq!(told("unconfined", json!({}), json!({})), (1, 1));
    assert_eq!(told("unconfined", profile("Unconfined"), json!({})), (0, 0));
    assert_eq!(told("unconfined", profile("RuntimeDefault"), json!({})), (1, 1));
    assert_eq!(told("", json!({}), json!({})), (1, 1));
    assert_eq!(told("", profile("RuntimeDefault"), json!({})), (1, 1));
    assert_eq!(told("unconfined", json!({}), profile("Unconfined")).0, 0);
    // A field that the client wrote itself is not news to it.
    let mut pod = object(json!({
        "metadata": {"annotations": {key: "unconfined"}},
        "spec": {"containers": [container(json!({"securityContext": profile("Unconfined")}))]},
    }));
    let owned = json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
        "f:securityContext": {"f:appArmorProfile": {"f:type": {}}},
    }}}});
    pod.map_mut("metadata").insert("managedFields".to_owned(), json!([{"fieldsV1": owned}]));
    apply_app_armor_annotations(&mut pod);
    assert_eq!(pod_warnings(&pod), [""; 0]);
    pod["metadata"]["managedFields"] = json!([{"fieldsV1": {"f:spec": {}}}]);
    assert_eq!(
        pod_warnings(&pod),
        [format!(
            "metadata.annotations[{key}]: deprecated since v1.30; use the \"appArmorProfile\" field instead"
        )]
    );
}

#[test]
fn r31_volumes_that_are_gone() {
    let sources = [
        "photonPersistentDisk",
        "gitRepo",
        "scaleIO",
        "flocker",
        "quobyte",
        "glusterfs",
        "cephfs",
        "rbd",
    ];
    for source in sources {
        check(
            json!({"volumes": [{"name": "v", source: {}}]}),
            &[&format!("spec.volumes[0].{source}")],
        );
    }
    check(json!({"volumes": [{"name": "v", "storageos": {}}]}), &["spec.volumes[0].storageOS"]);
}

#[test]
fn r31_bytes_are_whole() {
    let parts = json!({"memory": "100m", "ephemeral-storage": "1500m", "cpu": "100m"});
    let mut spec = with(json!({"resources": {"limits": parts, "requests": parts}}));
    spec["overhead"] = parts;
    let claim = json!({"spec": {"resources": {"requests": {"storage": "0.5"}, "limits": {"storage": "1"}}}});
    spec["volumes"] = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}]);
    check(
        spec,
        &[
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]",
            "spec.overhead[memory]",
            "spec.overhead[ephemeral-storage]",
            "spec.containers[0].resources.limits[memory]",
            "spec.containers[0].resources.requests[memory]",
            "spec.containers[0].resources.limits[ephemeral-storage]",
            "spec.containers[0].resources.requests[ephemeral-storage]",
        ],
    );
}

#[test]
fn r31_repeated_entries() {
    check(
        json!({
            "hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}],
            "imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}],
        }),
        &[
            "spec.hostAliases[1].ip",
            "spec.imagePullSecrets[1].name",
            "spec.imagePullSecrets[2].name",
        ],
    );
    let env = json!([
        {"name": "A", "value": "1"},
        {"name": "A", "value": "2"},
        {"name": "A", "value": "$(A)"},
        {"name": "A", "value": "$(A)3"},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]);
    check(
        with(json!({"env": env})),
        &["spec.containers[0].env[1]", "spec.containers[0].env[2]", "spec.containers[0].env[4]"],
    );
}

#[test]
fn r31_ports_that_clash() {
    let told = |ports: Value| {
        let spec = json!({"containers": [container(json!({"ports": ports}))]});
        let pod = object(json!({"spec": spec}));
        let how = |text: String| text.split(": ").nth(1).unwrap_or_default().to_owned();
        pod_warnings(&pod).into_iter().map(how).collect::<Vec<String>>()
    };
    let port = |host: i64, address: &str| json!({"containerPort": 80, "protocol": "TCP", "hostPort": host, "hostIP": address});
    let with_first = |how: &str| format!("{how} port definition with spec.containers[0].ports[0]");
    assert_eq!(told(json!([port(0, ""), port(0, "")])), [with_first("duplicate")]);
    assert_eq!(told(json!([port(0, ""), port(5, "")])), [with_first("overlapping")]);
    assert_eq!(told(json!([port(5, "10.0.0.1"), port(0, "")])), [with_first("overlapping")]);
    assert_eq!(
        told(json!([port(5, ""), port(5, "1.1.1.1")])),
        [with_first("dangerously ambiguous")]
    );
    assert_eq!(
        told(json!([port(5, "1.1.1.1"), port(5, "")])),
        [with_first("dangerously ambiguous")]
    );
    assert_eq!(told(json!([port(5, ""), port(6, "")])), [""; 0]);
    assert_eq!(told(json!([port(0, "1.1.1.1")])), ["hostIP set without hostPort"]);
    let named = json!([
        {"containerPort": 1, "protocol": "TCP", "name": "a"},
        {"containerPort": 2, "protocol": "TCP", "name": "a"},
    ]);
    assert_eq!(told(named).len(), 1);
}

#[test]
fn r31_files_that_hide_one_another() {
    let items = |paths: &[&str]| {
        paths.iter().map(|path| json!({"key": "k", "path": path})).collect::<Vec<Value>>()
    };
    let told = |volume: Value| {
        let pod = object(json!({"spec": {"volumes": [volume]}}));
        pod_warnings(&pod)
    };
    let config =
        |paths: &[&str]| json!({"name": "v", "configMap": {"name": "c", "items": items(paths)}});
    assert_eq!(told(config(&["a", "b", "ab", "b.c", "a.b"])), [""; 0]);
    assert_eq!(
        told(config(&["a/b", "a", "a/"])),
        [
            "volume \"v\" (ConfigMap \"c\"): overlapping paths: \"a\" with \"a/b\"",
            "volume \"v\" (ConfigMap \"c\"): overlapping paths: \"a\" with \"a/b\"",
            "volume \"v\" (ConfigMap \"c\"): overlapping paths: \"a\" with \"a\"",
        ]
    );
    assert_eq!(told(json!({"name": "v", "secret": {"items": items(&["a", "a/b"])}})).len(), 1);
    assert_eq!(told(json!({"name": "v", "downwardAPI": {"items": items(&["a", "a/b"])}})).len(), 1);
    let projected = json!({"name": "v", "projected": {"sources": [
        {},
        {"configMap": {"name": "c", "items": items(&["a"])}},
        {"secret": {"name": "s", "items": items(&["a/b"])}},
        {"serviceAccountToken": {"path": "t"}},
        {"clusterTrustBundle": {"name": "n", "path": "t/u"}},
        {"podCertificate": {"keyPath": "t/u/v", "certificateChainPath": "other"}},
    ]}});
    assert_eq!(
        told(projected),
        [
            "volume \"v\" (Projected) has no sources provided",
            "volume \"v\" (Projected): overlapping paths: \"a/b\" (Secret \"s\") with \"a\" (ConfigMap \"c\")",
            "volume \"v\" (Projected): overlapping paths: \"t/u\" (ClusterTrustBundle \"n\") with \"t\" (ServiceAccountToken)",
            "volume \"v\" (Projected): overlapping paths: \"t/u/v\" (PodCertificate key) with \"t\" (ServiceAccountToken)",
            "volume \"v\" (Projected): overlapping paths: \"t/u/v\" (PodCertificate key) with \"t/u\" (ClusterTrustBundle \"n\")",
        ]
    );
}

#[test]
fn r31_numbers_and_addresses() {
    check(
        json!({
            "terminationGracePeriodSeconds": -1,
            "dnsConfig": {"nameservers": ["10.0.0.1", "::FFFF:10.0.0.1"]},
            "hostAliases": [{"ip": "2001:DB8::1"}],
        }),
        &[
            "spec.terminationGracePeriodSeconds",
            "spec.dnsConfig.nameservers[1]",
            "spec.hostAliases[0].ip",
        ],
    );
}

#[test]
fn r31_no_pod_earns_warnings_without_end() {
    let ports = vec![json!({"containerPort": 80, "protocol": "TCP"}); 20_000];
    let env = vec![json!({"name": "A"}); 20_000];
    let files = vec![json!({"key": "k", "path": "a/b"}); 20_000];
    let mut spec = with(json!({"ports": ports, "env": env}));
    spec["volumes"] = json!([{"name": "v", "secret": {"items": files}}]);
    assert_eq!(pod_warnings(&object(json!({"spec": spec}))).len(), 256);
}
