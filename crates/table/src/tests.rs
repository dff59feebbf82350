//! Rules of `spec/api-server.md`: columns and cells of every kind.

use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    "2024-01-01T01:00:00Z".parse().expect("a time")
}

/// The cells of an object that was created five minutes and three seconds ago and is called `x`.
fn show(group: &str, kind: &str, mut object: Value) -> Value {
    let metadata = object.as_object_mut().expect("an object").entry("metadata");
    let metadata = metadata.or_insert_with(|| json!({}));
    metadata["name"] = json!("x");
    metadata["creationTimestamp"] = json!("2024-01-01T00:54:57Z");
    let printer = printer(group, kind).expect("a printer");
    let cells = printer.cells(object.as_object().expect("an object"), now());
    assert_eq!(cells.len(), printer.columns().len(), "{kind}: one cell per column");
    Value::Array(cells)
}

fn names(group: &str, kind: &str) -> String {
    let columns = printer(group, kind).expect("a printer").columns();
    let shown: Vec<_> = columns
        .iter()
        .map(|column| format!("{}{}", column.name, if column.priority == 1 { "*" } else { "" }))
        .collect();
    shown.join(", ")
}

#[test]
fn r29_columns_are_those_of_the_table() {
    let table = [
        (
            "",
            "Pod",
            "Name, Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*",
        ),
        (
            "",
            "Node",
            "Name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, Container-Runtime*",
        ),
        ("", "Namespace", "Name, Status, Age"),
        ("", "ConfigMap", "Name, Data, Age, Retained-By*, GC*"),
        ("", "Secret", "Name, Type, Data, Age, Retained-By*, GC*"),
        ("", "Service", "Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*"),
        ("", "Endpoints", "Name, Endpoints, Age"),
        ("discovery.k8s.io", "EndpointSlice", "Name, AddressType, Ports, Endpoints, Age"),
        ("", "ServiceAccount", "Name, Age"),
        (
            "",
            "Event",
            "Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name*",
        ),
        (
            "",
            "PersistentVolume",
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, VolumeMode*",
        ),
        (
            "",
            "PersistentVolumeClaim",
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode*",
        ),
        (
            "",
            "ReplicationController",
            "Name, Desired, Current, Ready, Age, Containers*, Images*, Selector*",
        ),
        (
            "apps",
            "ReplicaSet",
            "Name, Desired, Current, Ready, Age, Containers*, Images*, Selector*",
        ),
        (
            "apps",
            "Deployment",
            "Name, Ready, Up-to-date, Available, Age, Containers*, Images*, Selector*",
        ),
        ("apps", "StatefulSet", "Name, Ready, Age, Containers*, Images*"),
        (
            "apps",
            "DaemonSet",
            "Name, Desired, Current, Ready, Up-to-date, Available, Node Selector, Age, Containers*, Images*, Selector*",
        ),
        ("apps", "ControllerRevision", "Name, Controller, Revision, Age"),
        (
            "batch",
            "Job",
            "Name, Status, Completions, Duration, Age, Containers*, Images*, Selector*",
        ),
        (
            "batch",
            "CronJob",
            "Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age, Containers*, Images*, Selector*",
        ),
        ("coordination.k8s.io", "Lease", "Name, Holder, Age"),
        (
            "policy",
            "PodDisruptionBudget",
            "Name, Min Available, Max Unavailable, Allowed Disruptions, Age",
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age",
        ),
        (
            "rbac.authorization.k8s.io",
            "RoleBinding",
            "Name, Role, Age, Users*, Groups*, ServiceAccounts*",
        ),
        ("networking.k8s.io", "Ingress", "Name, Class, Hosts, Address, Ports, Age"),
        ("networking.k8s.io", "NetworkPolicy", "Name, Pod-Selector, Age"),
        (
            "storage.k8s.io",
            "StorageClass",
            "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
        ),
        (
            "scheduling.k8s.io",
            "PriorityClass",
            "Name, Value, Global-Default, Age, PreemptionPolicy",
        ),
        ("", "ResourceQuota", "Name, Request, Limit, Age"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration", "Name, Webhooks, Age"),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy",
            "Name, Validations, ParamKind, Age",
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicyBinding",
            "Name, PolicyName, ParamRef, Age",
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "Name, Age, SignerName, Requestor, RequestedDuration, Condition",
        ),
        ("autoscaling", "Scale", "Name, Desired, Available, Age"),
        ("", "Status", "Status, Reason, Message"),
    ];
    for (group, kind, want) in table {
        assert_eq!(names(group, kind), want, "{kind}");
    }
}

#[test]
fn r29_empty_objects_fill_every_column_of_every_printer() {
    let kinds = [
        ("", "Pod PodTemplate ReplicationController Service Endpoints Node Event Namespace Secret"),
        ("", "ConfigMap ServiceAccount ResourceQuota ComponentStatus PersistentVolume Status"),
        ("", "PersistentVolumeClaim"),
        ("apps", "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision"),
        ("batch", "Job CronJob"),
        ("policy", "PodDisruptionBudget"),
        ("autoscaling", "HorizontalPodAutoscaler Scale"),
        ("rbac.authorization.k8s.io", "RoleBinding ClusterRoleBinding"),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest ClusterTrustBundle PodCertificateRequest",
        ),
        ("apiregistration.k8s.io", "APIService"),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration MutatingAdmissionPolicy"),
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
        ),
        ("discovery.k8s.io", "EndpointSlice"),
        ("networking.k8s.io", "Ingress IngressClass NetworkPolicy ServiceCIDR IPAddress"),
        ("storage.k8s.io", "StorageClass VolumeAttributesClass VolumeAttachment CSINode CSIDriver"),
        ("storage.k8s.io", "CSIStorageCapacity"),
        ("storagemigration.k8s.io", "StorageVersionMigration"),
        ("events.k8s.io", "Event"),
        ("coordination.k8s.io", "Lease LeaseCandidate"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("node.k8s.io", "RuntimeClass"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema PriorityLevelConfiguration"),
        ("resource.k8s.io", "ResourceClaim ResourceSlice DeviceClass ResourceClaimTemplate"),
        ("resource.k8s.io", "DeviceTaintRule"),
        (
            "reference.authorization.k8s.io",
            "ReferenceStrategy ClusterReferenceConsumer ReferenceGrant",
        ),
    ];
    for (group, kinds) in kinds {
        for kind in kinds.split_whitespace() {
            show(group, kind, json!({}));
        }
    }
}

#[test]
fn r29_column_types_are_as_recorded() {
    let types = |group: &str, kind: &str| -> String {
        let columns = printer(group, kind).expect("a printer").columns();
        columns.iter().map(|column| column.kind.chars().next().expect("a type")).collect()
    };
    assert_eq!(types("apps", "ReplicaSet"), "siiissss");
    assert_eq!(types("apps", "Deployment"), "ssssssss");
    assert_eq!(types("apps", "DaemonSet"), "siiiiisssss");
    assert_eq!(types("batch", "CronJob"), "sssbisssss");
    assert_eq!(types("policy", "PodDisruptionBudget"), "sssis");
    let definition = columns_json("", "Event");
    assert_eq!(definition[9]["format"], "name");
    assert_eq!(definition[0]["format"], "");
}

fn columns_json(group: &str, kind: &str) -> Value {
    definitions(printer(group, kind).expect("a printer").columns())
}

fn pod(spec: Value, status: Value) -> (Value, Value, Value) {
    let spec =
        if spec.is_null() { json!({"containers": [{"name": "c"}, {"name": "d"}]}) } else { spec };
    let cells = show("", "Pod", json!({"spec": spec, "status": status}));
    (cells[1].clone(), cells[2].clone(), cells[3].clone())
}

#[test]
fn r29_pod_status_is_overridden_step_by_step() {
    let table = [
        (json!({"phase": "Pending"}), "Pending"),
        (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
        (
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
            "SchedulingGated",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            "CrashLoopBackOff",
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]}),
            "ExitCode:1",
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 137, "signal": 9}}}]}),
            "Signal:9",
        ),
        (
            json!({"phase": "Running", "containerStatuses": [
            {"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"name": "d", "ready": true, "state": {"running": {}}}]}),
            "NotReady",
        ),
        (
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [
            {"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"name": "d", "ready": true, "state": {"running": {}}}]}),
            "Running",
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [
            {"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
            {"name": "d", "state": {"terminated": {"exitCode": 2, "reason": "Error"}}}]}),
            "Error",
        ),
    ];
    for (status, want) in table {
        assert_eq!(pod(Value::Null, status.clone()).1, want, "{status}");
    }
}

#[test]
fn r29_pod_status_shows_the_first_unfinished_init_container() {
    let spec = json!({"containers": [{"name": "c"}],
        "initContainers": [{"name": "a"}, {"name": "b"}]});
    let done = json!({"name": "a", "state": {"terminated": {"exitCode": 0}}});
    let table = [
        (json!([done, {"name": "b", "state": {"running": {}}}]), "Init:1/2"),
        (
            json!([done, {"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}}]),
            "Init:1/2",
        ),
        (
            json!([{"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]),
            "Init:ImagePullBackOff",
        ),
        (
            json!([{"name": "a", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]),
            "Init:Error",
        ),
        (json!([{"name": "a", "state": {"terminated": {"exitCode": 3}}}]), "Init:ExitCode:3"),
        (
            json!([{"name": "a", "state": {"terminated": {"exitCode": 9, "signal": 9}}}]),
            "Init:Signal:9",
        ),
    ];
    for (statuses, want) in table {
        let status = json!({"phase": "Pending", "initContainerStatuses": statuses});
        assert_eq!(pod(spec.clone(), status).1, want);
    }
}

#[test]
fn r29_pod_counts_sidecars_and_restarts() {
    let spec = json!({"containers": [{"name": "c"}],
        "initContainers": [{"name": "a"}, {"name": "s", "restartPolicy": "Always"}]});
    let status = json!({"phase": "Running",
        "initContainerStatuses": [
            {"name": "a", "restartCount": 5, "state": {"terminated": {"exitCode": 0}}},
            {"name": "s", "restartCount": 1, "started": true, "ready": true, "state": {"running": {}}}],
        "containerStatuses": [{"name": "c", "restartCount": 2, "ready": true, "state": {"running": {}},
            "lastState": {"terminated": {"finishedAt": "2024-01-01T00:55:00Z"}}}]});
    let (ready, reason, restarts) = pod(spec, status);
    assert_eq!((ready, reason, restarts), (json!("2/2"), json!("Running"), json!("3 (5m ago)")));
}

#[test]
fn r29_pod_being_deleted_is_terminating_or_unknown() {
    let deleted = |status: Value| {
        let metadata = json!({"deletionTimestamp": "2024-01-01T00:59:00Z"});
        show("", "Pod", json!({"metadata": metadata, "status": status}))[2].clone()
    };
    assert_eq!(deleted(json!({"phase": "Running"})), "Terminating");
    assert_eq!(deleted(json!({"phase": "Succeeded"})), "Succeeded");
    assert_eq!(deleted(json!({"phase": "Running", "reason": "NodeLost"})), "Unknown");
}

#[test]
fn r29_pod_wide_cells() {
    let cells = show(
        "",
        "Pod",
        json!({
        "spec": {"nodeName": "n", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
        "status": {"podIPs": [{"ip": "10.1.2.3"}], "conditions": [{"type": "b", "status": "True"}]}}),
    );
    assert_eq!(
        cells.as_array().expect("cells")[4..],
        [json!("5m3s"), json!("10.1.2.3"), json!("n"), json!("<none>"), json!("1/2")]
    );
    let done = json!({"status": {"phase": "Succeeded"}});
    let conditions = pod::conditions(done.as_object().expect("an object")).expect("conditions");
    assert_eq!(conditions[0]["reason"], "Succeeded");
}

#[test]
fn r29_workloads() {
    let template =
        json!({"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"}]}});
    let spec =
        json!({"replicas": 3, "template": template, "selector": {"matchLabels": {"app": "w"}}});
    let status =
        json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2});
    let object = json!({"spec": spec, "status": status});
    assert_eq!(
        show("apps", "Deployment", object.clone()),
        json!(["x", "2/3", 1, 2, "5m3s", "a,b", "i,j", "app=w"])
    );
    assert_eq!(
        show("apps", "ReplicaSet", object.clone()),
        json!(["x", 3, 3, 2, "5m3s", "a,b", "i,j", "app=w"])
    );
    assert_eq!(show("apps", "StatefulSet", object), json!(["x", "2/3", "5m3s", "a,b", "i,j"]));
    let plain = json!({"spec": {"replicas": 1, "template": template, "selector": {"app": "w"}}});
    assert_eq!(
        show("", "ReplicationController", plain),
        json!(["x", 1, 0, 0, "5m3s", "a,b", "i,j", "app=w"])
    );
    let daemons = json!({"spec": {"template": {"spec": {"nodeSelector": {"d": "s"}}}},
        "status": {"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
            "updatedNumberScheduled": 2, "numberAvailable": 1}});
    assert_eq!(
        show("apps", "DaemonSet", daemons),
        json!(["x", 5, 4, 3, 2, 1, "d=s", "5m3s", "", "", "<none>"])
    );
    let revision = json!({"revision": 4, "metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true}]}});
    assert_eq!(
        show("apps", "ControllerRevision", revision),
        json!(["x", "statefulset.apps/web", 4, "5m3s"])
    );
    let budget = json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}});
    assert_eq!(
        show("policy", "PodDisruptionBudget", budget),
        json!(["x", "50%", "N/A", 1, "5m3s"])
    );
}

#[test]
fn r29_jobs() {
    let job = |object: Value| {
        let cells = show("batch", "Job", object);
        [cells[1].clone(), cells[2].clone(), cells[3].clone()]
            .map(|cell| cell.as_str().expect("text").to_owned())
    };
    assert_eq!(
        job(
            json!({"spec": {"completions": 3}, "status": {"succeeded": 1, "startTime": "2024-01-01T00:59:00Z"}})
        ),
        ["Running", "1/3", "60s"]
    );
    assert_eq!(job(json!({"spec": {"parallelism": 2}})), ["Running", "0/1 of 2", ""]);
    let complete = json!([{"type": "Complete", "status": "True"}]);
    assert_eq!(
        job(json!({"spec": {}, "status": {"conditions": complete, "succeeded": 1,
        "startTime": "2024-01-01T00:00:00Z", "completionTime": "2024-01-01T00:00:07Z"}})),
        ["Complete", "1/1", "7s"]
    );
    assert_eq!(
        job(json!({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}))[0],
        "Suspended"
    );
    let cron = json!({"spec": {"schedule": "* * * * *", "suspend": false, "timeZone": "Etc/UTC"},
        "status": {"active": [{}], "lastScheduleTime": "2024-01-01T00:59:30Z"}});
    let cells = show("batch", "CronJob", cron);
    assert_eq!(
        cells.as_array().expect("cells")[..7],
        [
            json!("x"),
            json!("* * * * *"),
            json!("Etc/UTC"),
            json!("False"),
            json!(1),
            json!("30s"),
            json!("5m3s")
        ]
    );
}

#[test]
fn r29_autoscaler_targets() {
    let targets = |spec: Value, status: Value| {
        let object = json!({"spec": {"metrics": spec, "minReplicas": 1, "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "d"}}, "status": {"currentMetrics": status}});
        show("autoscaling", "HorizontalPodAutoscaler", object)[2].as_str().expect("text").to_owned()
    };
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
    assert_eq!(targets(json!([]), json!([])), "<none>");
    assert_eq!(targets(json!([cpu]), json!([])), "cpu: <unknown>/80%");
    assert_eq!(
        targets(
            json!([cpu]),
            json!([{"type": "Resource", "resource": {"current": {"averageUtilization": 50}}}])
        ),
        "cpu: 50%/80%"
    );
    let pods = json!({"type": "Pods", "pods": {"target": {"averageValue": "10"}}});
    assert_eq!(
        targets(
            json!([pods]),
            json!([{"type": "Pods", "pods": {"current": {"averageValue": "4"}}}])
        ),
        "4/10"
    );
    let external = json!({"type": "External", "external": {"target": {"averageValue": "10"}}});
    assert_eq!(targets(json!([external]), json!([])), "<unknown>/10 (avg)");
    assert_eq!(
        targets(json!([pods, cpu, external]), json!([])),
        "<unknown>/10, cpu: <unknown>/80% + 1 more..."
    );
    let old = json!({"spec": {"targetCPUUtilizationPercentage": 80}, "status": {"currentCPUUtilizationPercentage": 7}});
    assert_eq!(show("autoscaling", "HorizontalPodAutoscaler", old)[2], "cpu: 7%/80%");
}

#[test]
fn r29_services_and_endpoints() {
    let service = |spec: Value, status: Value| {
        let cells = show("", "Service", json!({"spec": spec, "status": status}));
        (cells[2].clone(), cells[3].clone(), cells[4].clone())
    };
    let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 443, "nodePort": 30000, "protocol": "TCP"}]);
    assert_eq!(
        service(
            json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": ports}),
            json!({})
        ),
        (json!("10.0.0.1"), json!("<none>"), json!("80/TCP,443:30000/TCP"))
    );
    assert_eq!(service(json!({"type": "LoadBalancer"}), json!({})).1, "<pending>");
    assert_eq!(
        service(
            json!({"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}),
            json!({"loadBalancer": {"ingress": [{"ip": "5.5.5.5"}, {"hostname": "h"}]}})
        )
        .1,
        "5.5.5.5,h,1.1.1.1"
    );
    assert_eq!(
        service(json!({"type": "ExternalName", "externalName": "example.com"}), json!({})),
        (json!("<none>"), json!("example.com"), json!("<none>"))
    );
    let endpoints = json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80}, {"port": 81}]}]});
    assert_eq!(
        show("", "Endpoints", endpoints)[1],
        "10.0.0.1:80,[fd00::1]:80,10.0.0.1:81 + 1 more..."
    );
    assert_eq!(show("", "Endpoints", json!({}))[1], "<none>");
    let slice = json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "n"}, {}],
        "endpoints": [{"addresses": ["10.0.0.1"]}]});
    assert_eq!(
        show("discovery.k8s.io", "EndpointSlice", slice),
        json!(["x", "IPv4", "80,n,*", "10.0.0.1", "5m3s"])
    );
    assert_eq!(show("discovery.k8s.io", "EndpointSlice", json!({}))[2], "<unset>");
}

#[test]
fn r29_ingresses_and_policies() {
    let rules = json!([{"host": "a"}, {"host": "b"}, {"host": "c"}, {}]);
    let ingress = json!({"spec": {"ingressClassName": "n", "rules": rules, "tls": [{}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}});
    assert_eq!(
        show("networking.k8s.io", "Ingress", ingress),
        json!(["x", "n", "a,b,c + 1 more...", "1.2.3.4", "80, 443", "5m3s"])
    );
    assert_eq!(
        show("networking.k8s.io", "Ingress", json!({})),
        json!(["x", "<none>", "*", "", "80", "5m3s"])
    );
    assert_eq!(
        show("networking.k8s.io", "NetworkPolicy", json!({"spec": {"podSelector": {}}}))[1],
        "<none>"
    );
    let address = json!({"spec": {"parentRef": {"group": "", "resource": "services", "namespace": "n", "name": "s"}}});
    assert_eq!(show("networking.k8s.io", "IPAddress", address)[1], "services/n/s");
}

#[test]
fn r29_nodes() {
    let node = json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "a"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "10.0.0.2"}],
            "nodeInfo": {"kubeletVersion": "v1", "kernelVersion": "6", "architecture": "arm64"}}});
    assert_eq!(
        show("", "Node", node),
        json!([
            "x",
            "Ready,SchedulingDisabled",
            "a,control-plane",
            "5m3s",
            "v1",
            "10.0.0.2",
            "<none>",
            "<unknown>",
            "6 (arm64)",
            "<unknown>"
        ])
    );
    assert_eq!(show("", "Node", json!({}))[1], "Unknown");
}

#[test]
fn r29_events_of_both_groups_look_alike() {
    let core = json!({"involvedObject": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "R", "message": " m ",
        "firstTimestamp": "2024-01-01T00:58:00Z", "lastTimestamp": "2024-01-01T00:59:00Z", "count": 4,
        "source": {"component": "c", "host": "h"}});
    let want = json!(["60s", "Normal", "R", "pod/p", "", "c, h", "m", "2m", 4, "x"]);
    assert_eq!(show("", "Event", core), want);
    let object = json!({"metadata": {"name": "x"}, "regarding": {"kind": "Pod", "name": "p"}, "type": "Normal", "reason": "R",
        "note": "m", "eventTime": "2024-01-01T00:58:00.000000Z", "reportingController": "c", "reportingInstance": "h",
        "series": {"count": 4, "lastObservedTime": "2024-01-01T00:59:00.000000Z"}});
    let row =
        RowInput { object: object.as_object().expect("an object"), now: now(), events_group: true };
    assert_eq!(Value::Array((event::EVENT.cells)(&row)), want);
    assert_eq!(show("", "Event", json!({}))[8], 1);
}

#[test]
fn r29_volumes_and_claims() {
    let volume = json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "s"},
        "status": {"phase": "Bound"}});
    assert_eq!(
        show("", "PersistentVolume", volume),
        json!([
            "x", "1Gi", "RWO,RWX", "Retain", "Bound", "n/c", "s", "<unset>", "", "5m3s", "<unset>"
        ])
    );
    let claim = json!({"spec": {"storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}, "status": {"phase": "Pending"}});
    assert_eq!(
        show("", "PersistentVolumeClaim", claim),
        json!(["x", "Pending", "", "", "", "s", "<unset>", "5m3s", "<unset>"])
    );
}

#[test]
fn r29_the_newest_default_storage_class_is_marked_in_lists() {
    let class = |name: &str, created: &str, default: &str| {
        json!({"metadata": {"name": name, "creationTimestamp": created,
            "annotations": {"storageclass.kubernetes.io/is-default-class": default}}})
    };
    let classes = [
        class("a", "2024-01-01T00:00:00Z", "true"),
        class("b", "2024-01-01T00:01:00Z", "true"),
        class("c", "2024-01-01T00:02:00Z", "false"),
    ];
    let objects: Vec<_> =
        classes.iter().map(|class| class.as_object().expect("an object")).collect();
    let mut rows = vec![vec![json!("a")], vec![json!("b")], vec![json!("c")]];
    storage::mark_default_class(&objects, &mut rows);
    assert_eq!(rows, [vec![json!("a")], vec![json!("b (default)")], vec![json!("c")]]);
}

#[test]
fn r29_small_kinds() {
    let table = [
        ("", "Namespace", json!({"status": {"phase": "Active"}}), json!(["x", "Active", "5m3s"])),
        (
            "",
            "ConfigMap",
            json!({"data": {"k": "1"}, "binaryData": {"l": ""}}),
            json!(["x", 2, "5m3s", 0, "-"]),
        ),
        (
            "",
            "Secret",
            json!({"type": "Opaque", "data": {"k": ""}}),
            json!(["x", "Opaque", 1, "5m3s", 0, "-"]),
        ),
        ("", "ServiceAccount", json!({}), json!(["x", "5m3s"])),
        (
            "",
            "ResourceQuota",
            json!({"status": {"hard": {"pods": "4", "limits.cpu": "2"}, "used": {"pods": "1"}}}),
            json!(["x", "pods: 1/4", "limits.cpu: 0/2", "5m3s"]),
        ),
        (
            "coordination.k8s.io",
            "Lease",
            json!({"spec": {"holderIdentity": "h"}}),
            json!(["x", "h", "5m3s"]),
        ),
        (
            "scheduling.k8s.io",
            "PriorityClass",
            json!({"value": 9, "preemptionPolicy": "Never"}),
            json!(["x", 9, false, "5m3s", "Never"]),
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            json!({"provisioner": "p"}),
            json!(["x", "p", "Delete", "Immediate", false, "5m3s"]),
        ),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            json!({"webhooks": [{}, {}]}),
            json!(["x", 2, "5m3s"]),
        ),
        (
            "rbac.authorization.k8s.io",
            "ClusterRoleBinding",
            json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}]}),
            json!(["x", "ClusterRole/r", "5m3s", "u, v", "", "n/s"]),
        ),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            json!({"spec": {"signerName": "s", "username": "u", "expirationSeconds": 600},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "eA=="}}),
            json!(["x", "5m3s", "s", "u", "10m", "Approved,Issued"]),
        ),
        (
            "autoscaling",
            "Scale",
            json!({"spec": {"replicas": 2}, "status": {"replicas": 1}}),
            json!(["x", 2, 1, "5m3s"]),
        ),
    ];
    for (group, kind, object, want) in table {
        assert_eq!(show(group, kind, object), want, "{kind}");
    }
}

#[test]
fn r29_kinds_without_a_printer_show_their_creation_time() {
    assert!(printer("", "LimitRange").is_none());
    assert!(printer("rbac.authorization.k8s.io", "Role").is_none());
    let object = json!({"metadata": {"name": "r", "creationTimestamp": "2024-01-01T00:00:00Z"}});
    let cells = row::DEFAULT.cells(object.as_object().expect("an object"), now());
    assert_eq!(cells, [json!("r"), json!("2024-01-01T00:00:00Z")]);
    assert_eq!(row::DEFAULT.columns()[1].kind, "date");
}
