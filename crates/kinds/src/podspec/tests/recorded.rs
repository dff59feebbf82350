//! Refusals and acceptances of pods as a control plane was seen to answer them.

use super::{Row, check};

/// R139: causes about containers.
const CONTAINERS: &[Row] = &[
    Row { spec: r##"{"containers":[]}"##, causes: &[("spec.containers", "Required")] },
    Row {
        spec: r##"{"containers":[{"name":"A","image":"example.com/app:v1"}]}"##,
        causes: &[("spec.containers[0].name", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"a","image":"example.com/app:v1"},{"name":"a","image":"example.com/app:v1"}]}"##,
        causes: &[("spec.containers[1].name", "Duplicate")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c"}]}"##,
        causes: &[("spec.containers[0].image", "Required")],
    },
    Row {
        spec: r##"{"containers":[{"name":"a","image":"example.com/app:v1","imagePullPolicy":"Often"}]}"##,
        causes: &[("spec.containers[0].imagePullPolicy", "NotSupported")],
    },
    Row {
        spec: r##"{"containers":[{"name":"a","image":"example.com/app:v1"}],"initContainers":[{"name":"a","image":"example.com/app:v1"}]}"##,
        causes: &[("spec.initContainers[0].name", "Duplicate")],
    },
    Row {
        spec: r##"{"containers":[{"name":"a","image":"example.com/app:v1","ports":[{"containerPort":0},{"containerPort":80,"name":"UPPER"}]}]}"##,
        causes: &[
            ("spec.containers[0].ports[0].containerPort", "Required"),
            ("spec.containers[0].ports[1].name", "Invalid"),
            ("spec.containers[0].ports[1].name", "Invalid"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"a","image":" x"}]}"##,
        causes: &[("spec.containers[0].image", "Invalid")],
    },
];

/// R139: causes about the pod as a whole.
const POD_LEVEL: &[Row] = &[
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"restartPolicy":"Sometimes"}"##,
        causes: &[("spec.restartPolicy", "NotSupported")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"activeDeadlineSeconds":0}"##,
        causes: &[("spec.activeDeadlineSeconds", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"dnsPolicy":"X"}"##,
        causes: &[("spec.dnsPolicy", "NotSupported")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"nodeName":"Bad_Node"}"##,
        causes: &[("spec.nodeName", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"terminationGracePeriodSeconds":-5}"##,
        causes: &[],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"hostname":"a.b"}"##,
        causes: &[("spec.hostname", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"tolerations":[{"operator":"Exists","value":"x","key":"k"}]}"##,
        causes: &[("spec.tolerations[0].operator", "Invalid")],
    },
];

/// R139: causes about volumes and mounts.
const VOLUMES: &[Row] = &[
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"x","mountPath":"/x"}]}]}"##,
        causes: &[("spec.containers[0].volumeMounts[0].name", "NotFound")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"volumes":[{"name":"v"},{"name":"v"}]}"##,
        causes: &[("spec.volumes[1].name", "Duplicate")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"volumes":[{"name":"v","emptyDir":{},"hostPath":{"path":"/x"}}]}"##,
        causes: &[("spec.volumes[0].hostPath", "Forbidden")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/x"},{"name":"v","mountPath":"/x"}]}],"volumes":[{"name":"v"}]}"##,
        causes: &[("spec.containers[0].volumeMounts[1].mountPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"volumes":[{"name":"v","configMap":{}}]}"##,
        causes: &[("spec.volumes[0].configMap.name", "Required")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"volumes":[{"name":"v","configMap":{"name":"c","items":[{"key":"k","path":"../x"}]}}]}"##,
        causes: &[("spec.volumes[0].configMap.items[0].path", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1"}],"volumes":[{"name":"v","secret":{"secretName":"c","defaultMode":1000}}]}"##,
        causes: &[("spec.volumes[0].secret.defaultMode", "Invalid")],
    },
];

/// R140: field paths in environment variables.
const ENV_PATHS: &[Row] = &[
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},{"name":"E1","valueFrom":{"fieldRef":{"fieldPath":"metadata.namespace"}}},{"name":"E2","valueFrom":{"fieldRef":{"fieldPath":"metadata.uid"}}},{"name":"E3","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}},{"name":"E4","valueFrom":{"fieldRef":{"fieldPath":"spec.serviceAccountName"}}},{"name":"E5","valueFrom":{"fieldRef":{"fieldPath":"status.hostIP"}}},{"name":"E6","valueFrom":{"fieldRef":{"fieldPath":"status.hostIPs"}}},{"name":"E7","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}},{"name":"E8","valueFrom":{"fieldRef":{"fieldPath":"status.podIPs"}}}]}]}"##,
        causes: &[],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "NotSupported")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "NotSupported")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"status.phase"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "NotSupported")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"spec.restartPolicy"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "NotSupported")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"spec.schedulerName"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "NotSupported")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"status.nominatedNodeName"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.resourceVersion"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.generateName"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":""}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Required")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.nothing"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"spec.containers"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"Metadata.name"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.name "}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E","valueFrom":{"fieldRef":{"fieldPath":"metadata.name","apiVersion":"v2"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E","valueFrom":{"fieldRef":{"fieldPath":"metadata.name","apiVersion":"v1"}}}]}]}"##,
        causes: &[],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['key']"}}},{"name":"E1","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['key']"}}},{"name":"E2","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['example.com/key']"}}},{"name":"E3","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['example.com/A_b.c-9']"}}},{"name":"E4","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['UPPER']"}}}]}]}"##,
        causes: &[],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['']"}}}]}]}"##,
        causes: &[
            ("spec.containers[0].env[0].valueFrom.fieldRef", "Invalid"),
            ("spec.containers[0].env[0].valueFrom.fieldRef", "Invalid"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['bad key']"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['a/b/c']"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations[key]"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations[\"key\"]"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.name['key']"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.annotations['key"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef.fieldPath", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"fieldRef":{"fieldPath":"metadata.labels['xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx']"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.fieldRef", "Invalid")],
    },
];

/// R140: field paths in volumes.
const VOLUME_PATHS: &[Row] = &[
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"f0","fieldRef":{"fieldPath":"metadata.name"}},{"path":"f1","fieldRef":{"fieldPath":"metadata.namespace"}},{"path":"f2","fieldRef":{"fieldPath":"metadata.uid"}},{"path":"f3","fieldRef":{"fieldPath":"metadata.labels"}},{"path":"f4","fieldRef":{"fieldPath":"metadata.annotations"}},{"path":"f5","fieldRef":{"fieldPath":"metadata.labels['a']"}},{"path":"f6","fieldRef":{"fieldPath":"metadata.annotations['example.com/b']"}}]}}]}"##,
        causes: &[],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"f","fieldRef":{"fieldPath":"spec.nodeName"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.fieldRef.fieldPath", "NotSupported"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"f","fieldRef":{"fieldPath":"spec.serviceAccountName"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.fieldRef.fieldPath", "NotSupported"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"f","fieldRef":{"fieldPath":"status.podIP"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.fieldRef.fieldPath", "NotSupported"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"f","fieldRef":{"fieldPath":"status.hostIP"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.fieldRef.fieldPath", "NotSupported"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"f","fieldRef":{"fieldPath":"status.podIPs"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.fieldRef.fieldPath", "NotSupported"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"f","fieldRef":{"fieldPath":"metadata.nothing"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.fieldRef.fieldPath", "Invalid"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"f","fieldRef":{"fieldPath":"metadata.labels['a b']"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.fieldRef", "Invalid"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"f","fieldRef":{"fieldPath":"status.phase"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.fieldRef.fieldPath", "NotSupported"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
];

/// R140: resource fields.
const RESOURCE_FIELDS: &[Row] = &[
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E0","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}},{"name":"E1","valueFrom":{"resourceFieldRef":{"resource":"limits.memory"}}},{"name":"E2","valueFrom":{"resourceFieldRef":{"resource":"requests.cpu"}}},{"name":"E3","valueFrom":{"resourceFieldRef":{"resource":"requests.memory"}}},{"name":"E4","valueFrom":{"resourceFieldRef":{"resource":"limits.ephemeral-storage"}}},{"name":"E5","valueFrom":{"resourceFieldRef":{"resource":"requests.ephemeral-storage"}}},{"name":"D","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1m","containerName":"c"}}}]}]}"##,
        causes: &[],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"a","resourceFieldRef":{"containerName":"c","resource":"limits.memory","divisor":"1Mi"}}]}}]}"##,
        causes: &[],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E","valueFrom":{"resourceFieldRef":{"resource":"cpu"}}}]}]}"##,
        causes: &[(
            "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource",
            "NotSupported",
        )],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E","valueFrom":{"resourceFieldRef":{"resource":"limits.gpu"}}}]}]}"##,
        causes: &[(
            "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource",
            "NotSupported",
        )],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E","valueFrom":{"resourceFieldRef":{"resource":""}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.resourceFieldRef.resource", "Required")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"2"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E","valueFrom":{"resourceFieldRef":{"resource":"limits.memory","divisor":"1m"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","env":[{"name":"E","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"-1"}}}]}]}"##,
        causes: &[("spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor", "Invalid")],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"a","resourceFieldRef":{"resource":"limits.cpu"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.resourceFieldRef.containerName", "Required"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
    Row {
        spec: r##"{"containers":[{"name":"c","image":"example.com/app:v1","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","downwardAPI":{"items":[{"path":"a","resourceFieldRef":{"resource":"limits.storage","containerName":"c"}}]}}]}"##,
        causes: &[
            ("spec.volumes[0].downwardAPI.resourceFieldRef.resource", "NotSupported"),
            ("spec.containers[0].volumeMounts[0].name", "NotFound"),
        ],
    },
];

#[test]
fn r139_container_causes() {
    check(CONTAINERS);
}

#[test]
fn r139_pod_causes() {
    check(POD_LEVEL);
}

#[test]
fn r139_volume_causes() {
    check(VOLUMES);
}

#[test]
fn r140_env_paths() {
    check(ENV_PATHS);
}

#[test]
fn r140_volume_paths() {
    check(VOLUME_PATHS);
}

#[test]
fn r140_resource_fields() {
    check(RESOURCE_FIELDS);
}
