//! The scalar defaults that the table declares.

use serde_json::{Value, json};
use tenure_schema::apply_defaults;

use crate::{id, object};

#[test]
fn r13_declared_defaults_reach_present_parents_only() {
    let rows = [
        ("api.core.v1.ConfigMap", json!({}), json!({})),
        (
            "api.core.v1.Service",
            json!({"spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}}),
            json!({"spec": {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
        ),
        (
            "api.core.v1.Pod",
            json!({"spec": {"containers": [{"ports": [{"containerPort": 1}], "livenessProbe": {"grpc": {"port": 1}}}],
                            "imagePullSecrets": [{}], "volumes": [{"azureDisk": {}}]}}),
            json!({"spec": {"containers": [{"ports": [{"containerPort": 1, "protocol": "TCP"}],
                                            "livenessProbe": {"grpc": {"port": 1, "service": ""}}}],
                            "imagePullSecrets": [{}],
                            "volumes": [{"azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": false}}]}}),
        ),
        (
            "api.core.v1.ReplicationController",
            json!({"spec": {}}),
            json!({"spec": {"replicas": 1}}),
        ),
    ];
    for (of, sent, written) in rows {
        let mut body = object(sent);
        apply_defaults(id(of), &mut body);
        assert_eq!(Value::Object(body), written, "{of}");
    }
}
