//! The kinds, with the smallest objects that may be written to.

use rcgen::KeyPair;
use serde_json::{Value, json};

use super::{Row, row};
use crate::certificates;

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const APPS: &str = "apps/v1";
const CERTIFICATES: &str = "certificates.k8s.io/v1";
const FLOW: &str = "flowcontrol.apiserver.k8s.io/v1";
const NETWORKING: &str = "networking.k8s.io/v1";
const RESOURCE: &str = "resource.k8s.io/v1";
const STORAGE: &str = "storage.k8s.io/v1";

pub(super) fn rows() -> Vec<Row> {
    [
        core(),
        pods(),
        workloads(),
        admission(),
        certificates(),
        network(),
        devices(),
        storage(),
        others(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A condition with everything that any kind asks for.
fn condition() -> Value {
    json!([{
        "type": "Tried", "status": "True", "reason": "Test", "message": "tried",
        "lastTransitionTime": "2024-01-02T03:04:05Z",
    }])
}

fn conditions() -> Value {
    json!({ "conditions": condition() })
}

/// The status of a kind whose annotations a status does not touch.
fn frozen(row: Row, status: Value) -> Row {
    Row { status, status_annotates: false, ..row }
}

fn pod_spec() -> Value {
    json!({
        "containers": [{ "name": "c", "image": "example.com/app:v1" }],
        "automountServiceAccountToken": false,
    })
}

fn template() -> Value {
    json!({ "metadata": { "labels": { "app": "a" } }, "spec": pod_spec() })
}

/// Another image for the container of a pod.
fn image() -> Value {
    json!({ "containers": [{ "name": "c", "image": "example.com/app:v2" }] })
}

fn core() -> Vec<Row> {
    let endpoints = json!({ "subsets": [{
        "addresses": [{ "ip": "10.1.2.3" }], "ports": [{ "name": "http", "port": 80 }],
    }]});
    let event = json!({
        "metadata": { "name": "life-$" }, "reason": "Started", "message": "a", "type": "Normal",
        "involvedObject": { "kind": "Pod", "name": "web", "namespace": "@" },
    });
    let limits = json!({ "spec": { "limits": [
        { "type": "Container", "default": { "cpu": "500m" }, "min": { "cpu": "50m" } },
    ]}});
    let fewer = json!({ "spec": { "limits": [
        { "type": "Container", "default": { "cpu": "500m" }, "min": { "cpu": "40m" } },
    ]}});
    let service =
        json!({ "spec": { "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }] } });
    let more = json!({ "spec": { "selector": { "app": "a" } } });
    let mut balanced = conditions();
    balanced["loadBalancer"] = json!({ "ingress": [{ "ip": "203.0.113.1" }] });
    vec![
        row("v1", "endpoints", endpoints).changes(json!({ "subsets": [{
            "addresses": [{ "ip": "10.1.2.4" }], "ports": [{ "name": "http", "port": 8080 }],
        }]})),
        row("v1", "events", event).changes(json!({ "message": "b" })),
        row("v1", "limitranges", limits).changes(fewer),
        Row { status_only: true, ..row("v1", "namespaces", json!({})).wide().status(conditions()) },
        row("v1", "nodes", json!({ "spec": { "unschedulable": true } }))
            .wide()
            .changes(json!({ "spec": { "unschedulable": true, "taints": [
                { "key": "example.com/t", "value": "v", "effect": "NoSchedule" },
            ]}}))
            .status(conditions()),
        row("v1", "podtemplates", json!({ "template": template() }))
            .changes(json!({ "template": { "spec": image() } })),
        row(
            "v1",
            "replicationcontrollers",
            json!({ "spec": {
                "replicas": 1, "selector": { "app": "a" }, "template": template(),
            }}),
        )
        .changes(json!({ "spec": { "replicas": 2, "template": { "spec": image() } } }))
        .status(json!({ "replicas": 1, "readyReplicas": 1, "conditions": condition() })),
        row("v1", "resourcequotas", json!({ "spec": { "hard": { "services": "10" } } }))
            .changes(json!({ "spec": { "hard": { "services": "20", "pods": "5" } } }))
            .status(json!({ "hard": { "services": "7" }, "used": { "services": "0" } })),
        row("v1", "serviceaccounts", json!({ "automountServiceAccountToken": false }))
            .changes(json!({ "automountServiceAccountToken": true })),
        row("v1", "services", service).changes(more).status(balanced),
    ]
}

fn pods() -> Vec<Row> {
    let with_csi = json!({ "metadata": { "name": "csi-$" }, "spec": {
        "containers": [{ "name": "c", "image": "example.com/app:v1",
            "volumeMounts": [{ "name": "v", "mountPath": "/v" }] }],
        "volumes": [{ "name": "v", "csi": {
            "driver": "disks.example.com", "volumeAttributes": { "a": "b" },
        }}],
    }});
    vec![
        row("v1", "pods", json!({ "spec": pod_spec() }))
            .changes(json!({ "spec": image() }))
            .refuses(json!({ "spec": { "hostname": "other" } }))
            .status(json!({ "phase": "Pending", "message": "tried", "conditions": condition() })),
        row("v1", "pods with csi", with_csi),
    ]
}

fn workloads() -> Vec<Row> {
    let selected = json!({ "matchLabels": { "app": "a" } });
    let replicas =
        json!({ "spec": { "replicas": 1, "selector": selected, "template": template() } });
    let more = json!({ "spec": { "replicas": 2, "template": { "spec": image() } } });
    let newer = json!({ "spec": { "template": { "spec": image() } } });
    let daemons = json!({ "spec": { "selector": selected, "template": template() } });
    let mut sets = replicas.clone();
    sets["spec"]["serviceName"] = "life".into();
    let mut once = template();
    once["spec"]["restartPolicy"] = "Never".into();
    let job = json!({ "suspend": true, "completions": 4, "template": once });
    let timed = json!({ "schedule": "0 0 1 1 *", "jobTemplate": { "spec": job } });
    let budget = json!({ "minAvailable": 1, "selector": selected });
    let running = json!({ "startTime": "2024-01-02T03:04:05Z", "conditions": condition() });
    let allowed = json!({ "conditions": condition(), "disruptedPods": { "p": "2024-01-02T03:04:05Z" },
        "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2 });
    let counted = json!({ "replicas": 1, "conditions": condition() });
    let scheduled = json!({ "currentNumberScheduled": 0, "numberMisscheduled": 0,
        "desiredNumberScheduled": 0, "numberReady": 0, "conditions": condition() });
    vec![
        row(APPS, "controllerrevisions", json!({ "data": { "a": 1 }, "revision": 1 }))
            .changes(json!({ "revision": 2 })),
        row(APPS, "daemonsets", daemons).changes(newer).status(scheduled),
        row(APPS, "deployments", replicas.clone()).changes(more.clone()).status(counted.clone()),
        row(APPS, "replicasets", replicas).changes(more.clone()).status(counted.clone()),
        row(APPS, "statefulsets", sets).changes(more).status(counted),
        row("batch/v1", "jobs", json!({ "spec": job }))
            .changes(json!({ "spec": { "suspend": false } }))
            .status(running),
        row("batch/v1", "cronjobs", json!({ "spec": timed }))
            .changes(json!({ "spec": { "schedule": "0 0 2 1 *" } }))
            .status(json!({ "lastScheduleTime": "2024-01-02T03:04:05Z" })),
        row("policy/v1", "poddisruptionbudgets", json!({ "spec": budget }))
            .changes(json!({ "spec": { "minAvailable": "60%" } }))
            .status(allowed),
        row("scheduling.k8s.io/v1", "priorityclasses", json!({ "value": 5, "description": "a" }))
            .wide()
            .changes(json!({ "description": "b" }))
            .refuses(json!({ "value": 50 })),
    ]
}

fn admission() -> Vec<Row> {
    let rules = json!({ "resourceRules": [{
        "apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["boats"],
    }]});
    let validating =
        json!({ "matchConstraints": rules, "validations": [{ "expression": "true" }] });
    let mutating = json!({ "matchConstraints": rules, "reinvocationPolicy": "Never",
        "mutations": [{ "patchType": "ApplyConfiguration",
            "applyConfiguration": { "expression": "Object{}" } }] });
    let lenient = json!({ "spec": { "failurePolicy": "Ignore" } });
    let bound = |more: Value| {
        let mut spec = more;
        spec["policyName"] = "absent".into();
        json!({ "spec": spec })
    };
    let limited = json!({ "spec": { "matchResources": {
        "namespaceSelector": { "matchLabels": { "a": "b" } },
    }}});
    vec![
        frozen(
            row(ADMISSION, "validatingadmissionpolicies", json!({ "spec": validating })).wide(),
            conditions(),
        )
        .changes(lenient.clone()),
        row(
            ADMISSION,
            "validatingadmissionpolicybindings",
            bound(json!({ "validationActions": ["Deny"] })),
        )
        .wide()
        .changes(limited.clone()),
        row(ADMISSION, "mutatingadmissionpolicies", json!({ "spec": mutating }))
            .wide()
            .changes(lenient),
        row(ADMISSION, "mutatingadmissionpolicybindings", bound(json!({}))).wide().changes(limited),
        row(
            "apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            json!({
                "metadata": { "name": "boats$.life.example.com" },
                "spec": {
                    "group": "life.example.com", "scope": "Namespaced",
                    "names": { "plural": "boats$", "kind": "Boat$" },
                    "versions": [{ "name": "v1", "served": true, "storage": true,
                        "schema": { "openAPIV3Schema": { "type": "object" } } }],
                },
            }),
        )
        .wide()
        .changes(json!({ "spec": { "names": { "categories": ["afloat"] } } }))
        .status(conditions()),
    ]
}

fn certificates() -> Vec<Row> {
    let key = KeyPair::generate().unwrap();
    let bundle = json!({ "spec": { "trustBundle": certificates::certificate(true) } });
    let another = json!({ "spec": { "trustBundle": certificates::certificate(true) } });
    let mut request = certificates::pod_request("life-$", &key);
    request.as_object_mut().unwrap().remove("status");
    let request = frozen(
        row(CERTIFICATES, "podcertificaterequests", request),
        certificates::issued(&key, 60),
    );
    vec![row(CERTIFICATES, "clustertrustbundles", bundle).wide().changes(another), request]
}

fn network() -> Vec<Row> {
    let backend = |port: u16| json!({ "defaultBackend": { "service": { "name": "web", "port": { "number": port } } } });
    let slice = json!({ "addressType": "IPv4", "endpoints": [{ "addresses": ["10.1.2.3"] }],
        "ports": [{ "name": "http", "protocol": "TCP", "port": 80 }] });
    let parent = json!({ "resource": "services", "namespace": "default", "name": "absent" });
    let balanced = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.1" }] } });
    vec![
        row("discovery.k8s.io/v1", "endpointslices", slice)
            .changes(json!({ "endpoints": [{ "addresses": ["10.1.2.4"] }] })),
        row(NETWORKING, "ingresses", json!({ "spec": backend(80) }))
            .changes(json!({ "spec": backend(8080) }))
            .status(balanced),
        row(NETWORKING, "ingressclasses", json!({ "spec": { "controller": "example.com/a" } }))
            .wide()
            .refuses(json!({ "spec": { "controller": "example.com/b" } })),
        row(
            NETWORKING,
            "ipaddresses",
            json!({
                "metadata": { "name": "192.0.2.$" }, "spec": { "parentRef": parent },
            }),
        )
        .wide()
        .refuses(json!({ "spec": { "parentRef": { "name": "other" } } })),
        frozen(
            row(NETWORKING, "servicecidrs", json!({ "spec": { "cidrs": ["192.0.$.0/24"] } }))
                .wide(),
            conditions(),
        )
        .refuses(json!({ "spec": { "cidrs": ["198.51.100.0/24"] } })),
    ]
}

fn devices() -> Vec<Row> {
    let selects =
        |text: &str| json!({ "spec": { "selectors": [{ "cel": { "expression": text } }] } });
    let taints =
        |effect: &str| json!({ "spec": { "taint": { "key": "tried", "effect": effect } } });
    let claim = |class: &str| {
        json!({ "devices": { "requests": [
            { "name": "r", "exactly": { "deviceClassName": class } },
        ]}})
    };
    vec![
        row(RESOURCE, "deviceclasses", selects("false")).wide().changes(selects("1 == 0")),
        frozen(row(RESOURCE, "devicetaintrules", taints("None")).wide(), conditions())
            .changes(taints("NoExecute")),
        frozen(
            row(RESOURCE, "resourceclaims", json!({ "spec": claim("a") })),
            json!({ "allocation": {} }),
        )
        .refuses(json!({ "spec": claim("b") })),
        row(RESOURCE, "resourceclaimtemplates", json!({ "spec": { "spec": claim("a") } }))
            .refuses(json!({ "spec": { "spec": claim("b") } })),
        row(
            RESOURCE,
            "resourceslices",
            json!({ "spec": {
                "driver": "dra.example.com", "nodeName": "none",
                "pool": { "name": "pool-$", "generation": 1, "resourceSliceCount": 1 },
            }}),
        )
        .wide()
        .changes(json!({ "spec": { "devices": [{ "name": "device-0" }] } })),
    ]
}

fn storage() -> Vec<Row> {
    let volume = json!({ "spec": {
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"],
        "hostPath": { "path": "/tmp/life" }, "storageClassName": "life",
    }});
    let claim = json!({ "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "life",
        "resources": { "requests": { "storage": "1Gi" } },
    }});
    let attached = json!({ "attached": true, "attachmentMetadata": { "a": "b" } });
    let attachment = json!({ "spec": {
        "attacher": "disks.example.com", "source": { "persistentVolumeName": "v" }, "nodeName": "n",
    }});
    vec![
        row("v1", "persistentvolumes", volume)
            .wide()
            .changes(json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } }))
            .status(json!({ "phase": "Pending", "message": "tried", "reason": "Test" })),
        row("v1", "persistentvolumeclaims", claim).status(conditions()),
        row(STORAGE, "csidrivers", json!({ "spec": { "attachRequired": false } }))
            .wide()
            .changes(json!({ "spec": { "requiresRepublish": true } })),
        row(STORAGE, "csinodes", json!({ "spec": { "drivers": [] } })).wide().changes(
            json!({ "spec": { "drivers": [
                { "name": "disks.example.com", "nodeID": "n", "topologyKeys": ["zone"] },
            ]}}),
        ),
        row(
            STORAGE,
            "csistoragecapacities",
            json!({ "storageClassName": "life", "capacity": "1Gi" }),
        )
        .changes(json!({ "capacity": "2Gi" })),
        row(STORAGE, "storageclasses", json!({ "provisioner": "example.com/disks" }))
            .wide()
            .changes(json!({ "allowVolumeExpansion": true }))
            .refuses(json!({ "provisioner": "example.com/others" })),
        frozen(row(STORAGE, "volumeattachments", attachment).wide(), attached)
            .refuses(json!({ "spec": { "nodeName": "m" } })),
        row(
            STORAGE,
            "volumeattributesclasses",
            json!({ "driverName": "disks.example.com",
            "parameters": { "speed": "high" } }),
        )
        .wide()
        .refuses(json!({ "driverName": "other.example.com" })),
    ]
}

fn others() -> Vec<Row> {
    let flow = json!({ "spec": {
        "priorityLevelConfiguration": { "name": "global-default" }, "matchingPrecedence": 10000,
    }});
    let level = |shares: u32| {
        json!({ "spec": { "type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "limitResponse": { "type": "Reject" },
        }}})
    };
    let event = json!({
        "eventTime": "2024-01-02T03:04:05.000006Z", "reportingController": "example.com/c",
        "reportingInstance": "c-1", "action": "Do", "reason": "Test", "note": "a", "type": "Normal",
        "metadata": { "name": "new-$" }, "regarding": { "kind": "Pod", "name": "web", "namespace": "@" },
    });
    let series =
        json!({ "series": { "count": 2, "lastObservedTime": "2024-01-02T03:05:05.000006Z" } });
    let registered = json!({ "metadata": { "name": "v1.group$.example" }, "spec": {
        "group": "group$.example", "version": "v1", "groupPriorityMinimum": 2000,
        "versionPriority": 200, "insecureSkipTLSVerify": true,
        "service": { "name": "absent", "namespace": "default" },
    }});
    let migration =
        json!({ "spec": { "resource": { "group": "apps", "resource": "deployments" } } });
    vec![
        frozen(row("apiregistration.k8s.io/v1", "apiservices", registered).wide(), conditions())
            .changes(json!({ "spec": { "versionPriority": 400 } })),
        frozen(row(FLOW, "flowschemas", flow).wide(), conditions())
            .changes(json!({ "spec": { "matchingPrecedence": 9999 } })),
        frozen(row(FLOW, "prioritylevelconfigurations", level(10)).wide(), conditions())
            .changes(level(20)),
        row("coordination.k8s.io/v1", "leases", json!({ "spec": { "holderIdentity": "me" } }))
            .changes(json!({ "spec": { "holderIdentity": "you", "leaseDurationSeconds": 15 } })),
        row("events.k8s.io/v1", "events of the new group", event).changes(series),
        row("node.k8s.io/v1", "runtimeclasses", json!({ "handler": "micro" }))
            .wide()
            .refuses(json!({ "handler": "other" })),
        frozen(
            row("storagemigration.k8s.io/v1", "storageversionmigrations", migration).wide(),
            conditions(),
        ),
    ]
}
