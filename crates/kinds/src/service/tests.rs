//! Rules of spec/api-server.md.

use serde_json::json;

use super::*;
use crate::check::{
    created, faults, row, update_faults, updated, warned, warned_status, warned_update,
};

fn service(spec: Value) -> Value {
    json!({ "spec": spec })
}

#[test]
fn r136_service_defaults() {
    let kind = row("", "Service");
    let cases = [
        (
            json!({"selector": {"app": "a"}, "ports": [{"port": 80}]}),
            json!({"internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "selector": {"app": "a"}, "sessionAffinity": "None", "type": "ClusterIP"}),
        ),
        (
            json!({"clusterIP": "None", "selector": {"app": "a"}}),
            json!({"clusterIP": "None", "clusterIPs": ["None"], "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "selector": {"app": "a"},
                "sessionAffinity": "None", "type": "ClusterIP"}),
        ),
        (
            json!({"type": "ExternalName", "externalName": "example.com"}),
            json!({"externalName": "example.com", "sessionAffinity": "None",
                "type": "ExternalName"}),
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80}], "sessionAffinity": "ClientIP"}),
            json!({"externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                "type": "NodePort"}),
        ),
        (
            json!({"type": "LoadBalancer", "ports": [{"port": 80}]}),
            json!({"allocateLoadBalancerNodePorts": true, "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                "sessionAffinity": "None", "type": "LoadBalancer"}),
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(
            created(&kind, service(spec)),
            json!({"spec": expected, "status": {"loadBalancer": {}}})
        );
    }
}

#[test]
fn r136_service_faults() {
    let kind = row("", "Service");
    let cases = [
        (json!({}), vec!["spec.ports FieldValueRequired"]),
        (
            json!({"ports": [{"port": 80}, {"port": 443, "name": "tls", "targetPort": "https"}]}),
            vec!["spec.ports[0].name FieldValueRequired"],
        ),
        (
            json!({"ports": [{"port": 0}]}),
            vec![
                "spec.ports[0].port FieldValueInvalid",
                "spec.ports[0].targetPort FieldValueInvalid",
            ],
        ),
        (
            json!({"ports": [{"port": 80, "name": "x"}, {"port": 81, "name": "x"}]}),
            vec!["spec.ports[1].name FieldValueDuplicate"],
        ),
        (
            json!({"type": "Other", "ports": [{"port": 80}]}),
            vec!["spec.type FieldValueNotSupported"],
        ),
        (
            json!({"clusterIP": "1.2.3", "ports": [{"port": 80}]}),
            vec!["spec.clusterIPs[0] FieldValueInvalid"],
        ),
        (
            json!({"sessionAffinity": "Maybe", "ports": [{"port": 80}]}),
            vec!["spec.sessionAffinity FieldValueNotSupported"],
        ),
        (
            json!({"ports": [{"port": 80, "protocol": "XXX"}]}),
            vec!["spec.ports[0].protocol FieldValueNotSupported"],
        ),
        (json!({"type": "ExternalName"}), vec!["spec.externalName FieldValueRequired"]),
        (
            json!({"ports": [{"port": 80, "nodePort": 30000}]}),
            vec!["spec.ports[0].nodePort FieldValueForbidden"],
        ),
        (json!({"clusterIP": "None"}), vec![]),
    ];
    for (spec, expected) in cases {
        assert_eq!(faults(&kind, service(spec.clone())), expected, "{spec}");
    }
}

#[test]
fn r136_requests_outside_the_ranges() {
    let ranges =
        Ranges { addresses: ("10.0.0.0".parse().unwrap(), 24), node_ports: (30000, 32767) };
    let cases = [
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            vec!["spec.ports[0].nodePort FieldValueInvalid"],
        ),
        (
            json!({"type": "ClusterIP", "clusterIP": "192.168.77.7", "clusterIPs": ["192.168.77.7"]}),
            vec!["spec.clusterIPs FieldValueInvalid"],
        ),
        (json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}), vec![]),
    ];
    for (spec, expected) in cases {
        let mut errors = Errors::new();
        let object = service(spec).as_object().cloned().unwrap();
        validate_ranges(&object, &ranges, &mut errors);
        let got: Vec<String> =
            errors.causes().iter().map(|c| format!("{} {}", c.field, c.reason.as_str())).collect();
        assert_eq!(got, expected);
    }
}

#[test]
fn r136_addresses_are_kept_and_frozen() {
    let kind = row("", "Service");
    let old = service(json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]}));
    let silent = service(json!({"ports": [{"port": 81}]}));
    assert_eq!(updated(&kind, old.clone(), silent)["spec"]["clusterIPs"], json!(["10.0.0.9"]));
    let moved = service(json!({"clusterIP": "10.0.0.8", "clusterIPs": ["10.0.0.9"],
        "ports": [{"port": 80}]}));
    assert_eq!(update_faults(&kind, old.clone(), moved), ["spec.clusterIPs[0] FieldValueInvalid"]);
    let apart = service(json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.8"],
        "ports": [{"port": 80}]}));
    assert_eq!(update_faults(&kind, old.clone(), apart), ["spec.clusterIPs FieldValueInvalid"]);
    let external = json!({"type": "ExternalName", "externalName": "example.com",
        "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}]});
    let after = updated(&kind, old.clone(), service(external.clone()));
    assert!(after["spec"].get("clusterIP").is_none() && after["spec"].get("ipFamilies").is_none());
    assert!(update_faults(&kind, old, service(external)).is_empty());
}

#[test]
fn r136_node_ports_are_kept_by_name_and_dropped_with_the_type() {
    let kind = row("", "Service");
    let old = service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}));
    let silent = service(json!({"type": "NodePort", "ports": [{"port": 81}]}));
    assert_eq!(updated(&kind, old.clone(), silent)["spec"]["ports"][0]["nodePort"], json!(30080));
    let plain = service(json!({"type": "ClusterIP", "externalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "nodePort": 30080}]}));
    let after = updated(&kind, old, plain);
    assert!(after["spec"]["ports"][0].get("nodePort").is_none());
    assert!(after["spec"].get("externalTrafficPolicy").is_none());
}

#[test]
fn r136_what_the_server_hands_out() {
    let object = |spec: Value| service(spec).as_object().cloned().unwrap();
    assert!(needs_cluster_ip(&object(json!({"type": "ClusterIP"}))));
    assert!(!needs_cluster_ip(&object(json!({"type": "ClusterIP", "clusterIP": "None"}))));
    assert!(!needs_cluster_ip(&object(json!({"type": "ExternalName"}))));
    let mut both = object(json!({"type": "NodePort", "ports": [
        {"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 80,
        "protocol": "TCP"}]}));
    let mut next = 30000;
    set_node_ports(&mut both, |_| {
        next += 1;
        Some(next)
    });
    assert_eq!(
        node_ports(&both),
        [("UDP".to_owned(), 30001), ("TCP".to_owned(), 30001), ("TCP".to_owned(), 30002)]
    );
}

#[test]
fn r31_a_service_is_told_what_nobody_heeds() {
    let kind = row("", "Service");
    let told = |spec: Value| {
        let said = warned(&kind, service(spec.clone()));
        assert_eq!(warned_update(&kind, service(spec.clone()), service(spec)), said);
        said.iter().map(|text| text.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ports = json!([{"port": 80}]);
    assert_eq!(told(json!({"ports": ports})), [""; 0]);
    assert_eq!(told(json!({"ports": ports, "externalIPs": ["10.0.0.1"]})), ["spec.externalIPs"]);
    assert_eq!(
        told(json!({"ports": ports, "clusterIP": "None", "externalIPs": ["10.0.0.1"],
            "loadBalancerIP": "10.0.0.1", "sessionAffinity": "ClientIP"})),
        ["spec.loadBalancerIP", "spec.externalIPs", "spec.SessionAffinity"]
    );
    assert_eq!(
        told(json!({"type": "ExternalName", "externalName": "a.b", "externalIPs": ["10.0.0.1"]})),
        ["spec.externalIPs"]
    );
    assert_eq!(told(json!({"ports": ports, "externalName": "a.b"})), ["spec.externalName"]);
    assert_eq!(
        told(json!({"ports": ports, "trafficDistribution": "PreferClose"})),
        ["spec.trafficDistribution:"]
    );
    assert_eq!(
        told(json!({"ports": ports, "type": "LoadBalancer", "loadBalancerIP": "FD00::1",
            "loadBalancerSourceRanges": ["10.0.0.1/8"], "clusterIP": "FD00::2"})),
        ["spec.clusterIPs[0]:", "spec.loadBalancerIP:", "spec.loadBalancerSourceRanges[0]:"]
    );
    let mut hints = service(json!({"ports": ports}));
    hints["metadata"] =
        json!({"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}});
    assert_eq!(warned(&kind, hints).len(), 1);
}

#[test]
fn r31_a_status_of_a_service_tells_about_its_addresses_only() {
    let kind = row("", "Service");
    let body = service(json!({"ports": [{"port": 80}], "externalIPs": ["10.0.0.1"]}));
    let status = |ip: &str| json!({"loadBalancer": {"ingress": [{"ip": ip}]}});
    assert_eq!(warned_status(&kind, body.clone(), status("10.0.0.1")), [""; 0]);
    let told = warned_status(&kind, body, status("FD00::1"));
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("status.loadBalancer.ingress[0]: "), "{told:?}");
}

#[test]
fn r65_an_address_that_is_none_is_told_alone_and_a_changed_one_first() {
    let kind = row("", "Service");
    let with = |address: &str, ports: serde_json::Value| json!({"spec": {"type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "ports": ports}});
    let ports = json!([{"port": 80}]);
    let old = || with("10.96.0.9", ports.clone());
    let first = "spec.clusterIPs[0] FieldValueInvalid";
    assert_eq!(update_faults(&kind, old(), with("foo", ports.clone())), [first]);
    assert_eq!(
        update_faults(&kind, old(), with("10.96.0.10", json!([]))),
        [first, "spec.ports FieldValueRequired"]
    );
}
