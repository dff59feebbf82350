//! Rules of spec/downward-api.md, sections 3 and 4: values of fields and resources.

use alloc::string::{String, ToString};
use core::net::IpAddr;

use serde_json::{Value, json};
use tenure_core::field_path::Extra;
use tenure_machinery::Object;

use super::object;
use crate::field::{ResolveError, resolve_field_ref};
use crate::resource::resolve_resource;
use crate::view::{DownwardApiOptions, RuntimeView, ValueDestination};

fn pod() -> Object {
    object(json!({
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "0e1cd9ae-93d2-4c3c-9f09-1d5e0d3a2a10",
            "labels": { "app": "web" }, "annotations": { "note": "a\n\"b\"" },
        },
        "spec": {
            "nodeName": "n1", "serviceAccountName": "default",
            "containers": [
                { "name": "c", "resources": {
                    "requests": { "cpu": "250m", "memory": "32Mi" },
                    "limits": { "cpu": "1250m", "memory": "64Mi", "hugepages-2Mi": "4Mi" },
                } },
                { "name": "bare" },
            ],
            "initContainers": [{ "name": "init" }],
            "ephemeralContainers": [{ "name": "debug" }],
        },
        "status": { "hostIP": "192.0.2.99", "podIP": "192.0.2.98", "phase": "Running" },
    }))
}

fn node() -> Object {
    object(json!({ "status": {
        "addresses": [
            { "type": "Hostname", "address": "n1" },
            { "type": "ExternalIP", "address": "203.0.113.1" },
            { "type": "InternalIP", "address": "10.0.0.1" },
            { "type": "InternalIP", "address": "10.0.0.2" },
            { "type": "InternalIP", "address": "fd00:0:0::1" },
        ],
        "allocatable": { "cpu": "3900m", "memory": "1Gi", "ephemeral-storage": "10G", "hugepages-2Mi": "8Mi" },
    } }))
}

const POD_IPS: &[IpAddr] = &[
    IpAddr::V6(core::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7)),
    IpAddr::V4(core::net::Ipv4Addr::new(10, 1, 0, 7)),
    IpAddr::V4(core::net::Ipv4Addr::new(10, 1, 0, 8)),
];

fn told(path: &str, pod: &Object, form: ValueDestination) -> Result<String, ResolveError> {
    let node = node();
    let runtime = RuntimeView {
        node: Some(&node),
        pod_ips: POD_IPS,
        settings: DownwardApiOptions::default(),
    };
    resolve_field_ref(&object(json!({ "fieldPath": path })), pod, &runtime, form)
}

fn value(path: &str) -> String {
    told(path, &pod(), ValueDestination::Env).unwrap()
}

#[test]
fn r11_only_version_one_is_read() {
    let reference = object(json!({ "apiVersion": "v2", "fieldPath": "metadata.name" }));
    let error =
        resolve_field_ref(&reference, &pod(), &RuntimeView::default(), ValueDestination::Env);
    assert_eq!(error.unwrap_err().to_string(), "unsupported pod version: v2");
}

#[test]
fn r12_the_old_name_of_the_node() {
    assert_eq!(value("spec.host"), "n1");
}

#[test]
fn r2_what_has_no_keys_says_so() {
    let error = told("metadata.name['x']", &pod(), ValueDestination::File).unwrap_err();
    assert_eq!(error.to_string(), "fieldPath \"metadata.name['x']\" does not support subscript");
    let error = told("status.phase", &pod(), ValueDestination::Env).unwrap_err();
    assert_eq!(error.to_string(), "unsupported fieldPath: status.phase");
    let error = told("spec.containers", &pod(), ValueDestination::Env).unwrap_err();
    assert_eq!(error.to_string(), "field label not supported: spec.containers");
}

#[test]
fn r20_r24_names_are_told_as_they_are() {
    assert_eq!(value("metadata.name"), "p");
    assert_eq!(value("metadata.namespace"), "ns");
    assert_eq!(value("metadata.uid"), "0e1cd9ae-93d2-4c3c-9f09-1d5e0d3a2a10");
    assert_eq!(value("spec.nodeName"), "n1");
    assert_eq!(value("spec.serviceAccountName"), "default");
}

#[test]
fn r21_missing_annotation_is_empty() {
    assert_eq!(value("metadata.annotations['note']"), "a\n\"b\"");
    assert_eq!(value("metadata.labels['app']"), "web");
    assert_eq!(value("metadata.annotations['other']"), "");
    assert_eq!(value("metadata.labels['other']"), "");
    assert_eq!(
        told("metadata.labels['x']", &object(json!({})), ValueDestination::File).unwrap(),
        ""
    );
}

#[test]
fn r8_a_key_that_cannot_be_set_is_empty() {
    assert_eq!(value(r"metadata.annotations['a\[0\]']"), "");
}

#[test]
fn r22_whole_maps_are_for_files() {
    let file = told("metadata.annotations", &pod(), ValueDestination::File).unwrap();
    assert_eq!(file, "note=\"a\\n\\\"b\\\"\"");
    assert_eq!(told("metadata.labels", &object(json!({})), ValueDestination::File).unwrap(), "");
    assert!(told("metadata.labels", &pod(), ValueDestination::Env).is_err());
}

#[test]
fn r25_r26_addresses_come_from_the_node() {
    assert_eq!(value("status.hostIP"), "10.0.0.1");
    assert_eq!(value("status.hostIPs"), "10.0.0.1,fd00::1");
    let external = object(json!({ "status": { "addresses": [
        { "type": "ExternalIP", "address": "203.0.113.1" },
    ] } }));
    let runtime = RuntimeView { node: Some(&external), ..RuntimeView::default() };
    let reference = object(json!({ "fieldPath": "status.hostIP" }));
    let host = resolve_field_ref(&reference, &pod(), &runtime, ValueDestination::Env);
    assert_eq!(host.unwrap(), "203.0.113.1");
    let nowhere = RuntimeView::default();
    assert!(resolve_field_ref(&reference, &pod(), &nowhere, ValueDestination::Env).is_err());
}

#[test]
fn r27_one_address_of_each_family_the_nodes_first() {
    assert_eq!(value("status.podIP"), "10.1.0.7");
    assert_eq!(value("status.podIPs"), "10.1.0.7,fd00::7");
    let mut pod = pod();
    pod["spec"]["hostNetwork"] = true.into();
    assert_eq!(told("status.podIP", &pod, ValueDestination::Env).unwrap(), "10.0.0.1");
    assert_eq!(told("status.podIPs", &pod, ValueDestination::Env).unwrap(), "10.0.0.1,fd00::1");
}

#[test]
fn r15_files_have_no_addresses_unless_asked() {
    assert!(told("status.podIP", &pod(), ValueDestination::File).is_err());
    assert!(told("spec.nodeName", &pod(), ValueDestination::File).is_err());
    let extra = Extra { owner_references: true, volume_parity: true };
    let settings = DownwardApiOptions { extra, compact_files: false };
    let mut runtime = RuntimeView { settings, ..RuntimeView::default() };
    let reference = object(json!({ "fieldPath": "status.podIP" }));
    let file = |runtime: &RuntimeView<'_>| {
        resolve_field_ref(&reference, &pod(), runtime, ValueDestination::File).unwrap()
    };
    assert_eq!(file(&runtime), "");
    runtime.pod_ips = POD_IPS;
    assert_eq!(file(&runtime), "fd00::7");
}

fn resource_of(pod: &Object, own: Option<&Object>, reference: Value) -> Result<String, String> {
    let node = node();
    let runtime = RuntimeView { node: Some(&node), ..RuntimeView::default() };
    let value = resolve_resource(&object(reference), pod, own, &runtime);
    value.map_err(|error| error.to_string())
}

fn resource(container: &str, resource: &str, divisor: &str) -> String {
    let reference = json!({ "containerName": container, "resource": resource, "divisor": divisor });
    resource_of(&pod(), None, reference).unwrap()
}

#[test]
fn r17_containers_are_looked_for_by_name() {
    let limit = |name: &str| {
        resource_of(&pod(), None, json!({ "containerName": name, "resource": "limits.cpu" }))
    };
    assert_eq!(limit("c").unwrap(), "2");
    assert_eq!(limit("init").unwrap(), "4");
    assert_eq!(limit("debug").unwrap_err(), "container debug not found");
    assert_eq!(limit("other").unwrap_err(), "container other not found");
    let own = object(json!({ "resources": { "limits": { "cpu": "7" } } }));
    let reference = json!({ "resource": "limits.cpu" });
    assert_eq!(resource_of(&pod(), Some(&own), reference).unwrap(), "7");
}

#[test]
fn r16_other_resources_are_not_told() {
    for name in ["limits.gpu", "cpu", "requests", "usage.cpu"] {
        let reference = json!({ "containerName": "c", "resource": name });
        let error = resource_of(&pod(), None, reference).unwrap_err();
        assert_eq!(error, alloc::format!("unsupported container resource : {name}"));
    }
}

#[test]
fn r28_processors_are_rounded_up() {
    assert_eq!(resource("c", "limits.cpu", "0"), "2");
    assert_eq!(resource("c", "limits.cpu", "1"), "2");
    assert_eq!(resource("c", "requests.cpu", "1"), "1");
    assert_eq!(resource("c", "limits.cpu", "1m"), "1250");
    let mut pod = pod();
    pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "100u".into();
    let reference = json!({ "containerName": "c", "resource": "limits.cpu", "divisor": "1m" });
    assert_eq!(resource_of(&pod, None, reference).unwrap(), "1");
}

#[test]
fn r29_bytes_are_rounded_up() {
    assert_eq!(resource("c", "limits.memory", "1"), "67108864");
    assert_eq!(resource("c", "limits.memory", "1Mi"), "64");
    assert_eq!(resource("c", "limits.memory", "1Gi"), "1");
    assert_eq!(resource("c", "limits.hugepages-2Mi", "1Mi"), "4");
    let mut pod = pod();
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "9007199254740993".into();
    let reference = json!({ "containerName": "c", "resource": "limits.memory" });
    assert_eq!(resource_of(&pod, None, reference).unwrap(), "9007199254740993");
    pod["spec"]["containers"][0]["resources"]["limits"]["memory"] = "65Mi".into();
    let reference = json!({ "containerName": "c", "resource": "limits.memory", "divisor": "1Gi" });
    assert_eq!(resource_of(&pod, None, reference).unwrap(), "1");
}

#[test]
fn r30_requests_that_are_not_set_are_nothing() {
    for name in ["requests.cpu", "requests.memory", "requests.ephemeral-storage"] {
        assert_eq!(resource("bare", name, "1"), "0");
    }
    assert_eq!(resource("bare", "requests.hugepages-2Mi", "1"), "0");
}

#[test]
fn r31_limits_that_are_not_set_are_the_nodes() {
    assert_eq!(resource("bare", "limits.cpu", "1"), "4");
    assert_eq!(resource("bare", "limits.cpu", "1m"), "3900");
    assert_eq!(resource("bare", "limits.memory", "1Mi"), "1024");
    assert_eq!(resource("bare", "limits.ephemeral-storage", "1"), "10000000000");
    assert_eq!(resource("bare", "limits.hugepages-2Mi", "1"), "0");
    let reference = object(json!({ "containerName": "bare", "resource": "limits.cpu" }));
    let value = resolve_resource(&reference, &pod(), None, &RuntimeView::default());
    assert_eq!(value.unwrap(), "0");
    let mut pod = pod();
    pod["spec"]["containers"][1]["resources"] = json!({ "limits": { "cpu": "0" } });
    let reference = json!({ "containerName": "bare", "resource": "limits.cpu" });
    assert_eq!(resource_of(&pod, None, reference).unwrap(), "4");
}

#[test]
fn r32_r33_the_limit_of_the_pod_comes_before_the_nodes() {
    let mut pod = pod();
    pod["spec"]["resources"] =
        json!({ "limits": { "cpu": "1250m", "ephemeral-storage": "1", "hugepages-2Mi": "2Mi" } });
    let own = object(json!({ "name": "bare" }));
    for own in [None, Some(&own)] {
        let limit = |name: &str| {
            let reference = json!({ "containerName": "bare", "resource": name });
            resource_of(&pod, own, reference).unwrap()
        };
        assert_eq!(limit("limits.cpu"), "2");
        assert_eq!(limit("limits.memory"), "1073741824");
        assert_eq!(limit("limits.ephemeral-storage"), "10000000000");
        assert_eq!(limit("limits.hugepages-2Mi"), "0");
    }
}

#[test]
fn r34_init_containers_have_the_same_default() {
    assert_eq!(resource("init", "limits.memory", "1Mi"), "1024");
}

#[test]
fn r35_a_resized_limit_is_told() {
    let mut pod = pod();
    pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "3".into();
    let reference = json!({ "containerName": "c", "resource": "limits.cpu" });
    assert_eq!(resource_of(&pod, None, reference).unwrap(), "3");
}

#[test]
fn r36_a_variable_never_holds_a_whole_map() {
    for path in ["metadata.labels", "metadata.annotations"] {
        assert!(told(path, &pod(), ValueDestination::Env).is_err(), "{path}");
        assert!(told(path, &pod(), ValueDestination::File).is_ok(), "{path}");
    }
}
