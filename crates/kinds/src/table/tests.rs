//! Rules of spec/api-server.md.

mod page;

use serde_json::json;
use tenure_machinery::kind::{ActedOn, Dependents, Kind, NameRule, StatusMeta, Verbs};

use super::{GROUP_ORDER, builtin};

fn names(rows: &[Kind], keep: impl Fn(&Kind) -> bool) -> Vec<String> {
    let mut names: Vec<String> =
        rows.iter().filter(|row| keep(row)).map(|row| row.kind.to_string()).collect();
    names.sort();
    names
}

#[test]
fn r41_rows_stand_in_discovery_order() {
    let rows = builtin();
    let place = |row: &Kind| GROUP_ORDER.iter().position(|g| *g == row.group).unwrap();
    assert!(rows.is_sorted_by_key(|row| (
        place(row),
        // The version that clients should prefer comes first.
        std::cmp::Reverse(row.version.to_string()),
        row.plural.to_string()
    )));
    let mut groups: Vec<&str> = rows.iter().map(|row| row.group.as_ref()).collect();
    groups.dedup();
    assert_eq!(groups, GROUP_ORDER);
}

#[test]
fn r136_no_name_stands_twice() {
    let rows = builtin();
    for (index, row) in rows.iter().enumerate() {
        for other in rows.iter().skip(index + 1).filter(|other| other.group == row.group) {
            assert_ne!((&row.version, &row.plural), (&other.version, &other.plural));
            assert_ne!((&row.version, &row.kind), (&other.version, &other.kind));
        }
        for other in rows.iter().skip(index + 1).filter(|other| other.storage == row.storage) {
            // Two views of one storage.
            assert_eq!(row.plural, other.plural);
            assert!(["events", "horizontalpodautoscalers"].contains(&&*row.plural));
        }
    }
}

#[test]
fn r137_every_type_is_in_the_facts() {
    let facts = tenure_schema::facts();
    let missing: Vec<String> = builtin()
        .iter()
        .filter(|row| facts.type_id(&row.type_name).is_none())
        .map(|row| row.type_name.to_string())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn r190_storage_prefixes() {
    let rows = builtin();
    let unusual: Vec<(&str, &str)> = rows
        .iter()
        .filter(|row| row.storage != row.plural)
        .map(|row| (row.plural.as_ref(), row.storage.as_ref()))
        .collect();
    assert_eq!(
        unusual,
        [
            ("endpoints", "services/endpoints"),
            ("nodes", "minions"),
            ("replicationcontrollers", "controllers"),
            ("services", "services/specs"),
            ("apiservices", "apiregistration.k8s.io/apiservices"),
            ("ingresses", "ingress"),
            ("customresourcedefinitions", "apiextensions.k8s.io/customresourcedefinitions"),
        ]
    );
}

#[test]
fn r36_kinds_that_answer_delete_with_the_object() {
    assert_eq!(
        names(&builtin(), |row| row.returns_deleted),
        [
            "CSIDriver",
            "CSINode",
            "DeviceClass",
            "DeviceTaintRule",
            "Namespace",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ResourceClaim",
            "ResourceClaimTemplate",
            "ResourceQuota",
            "ResourceSlice",
            "Service",
            "ServiceAccount",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ]
    );
}

#[test]
fn r61_kinds_that_count_changes() {
    let uncounted = names(&builtin(), |row| !row.generation && row.verbs != Verbs::CreateOnly);
    for kind in [
        "ConfigMap",
        "Secret",
        "Service",
        "ServiceAccount",
        "Namespace",
        "Node",
        "Event",
        "Lease",
        "Role",
        "ClusterRoleBinding",
        "PersistentVolume",
        "PersistentVolumeClaim",
    ] {
        assert!(uncounted.contains(&kind.to_owned()), "{kind}");
    }
    let counted = names(&builtin(), |row| row.generation);
    for kind in [
        "Pod",
        "PodTemplate",
        "ReplicationController",
        "Deployment",
        "Job",
        "CronJob",
        "HorizontalPodAutoscaler",
        "Ingress",
        "IngressClass",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "EndpointSlice",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicyBinding",
        "FlowSchema",
        "DeviceClass",
        "ResourceSlice",
        "CustomResourceDefinition",
    ] {
        assert!(counted.contains(&kind.to_owned()), "{kind}");
    }
}

#[test]
fn r66_kinds_that_refuse_an_update_without_version() {
    let refusing = names(&builtin(), |row| !row.unconditional_update);
    for kind in [
        "Lease",
        "PodDisruptionBudget",
        "CustomResourceDefinition",
        "RuntimeClass",
        "CSIDriver",
        "VolumeAttachment",
        "MutatingAdmissionPolicy",
        "APIService",
    ] {
        assert!(refusing.contains(&kind.to_owned()), "{kind}");
    }
    assert!(!refusing.contains(&"ConfigMap".to_owned()));
}

#[test]
fn r67_kinds_that_a_put_creates() {
    assert_eq!(
        names(&builtin(), |row| row.create_on_update),
        [
            "ClusterRole",
            "ClusterRoleBinding",
            "Endpoints",
            "Event",
            "Event",
            "Lease",
            "LimitRange",
            "Role",
            "RoleBinding",
            "RuntimeClass",
            "Service",
        ]
    );
}

#[test]
fn r81_status_and_its_subresource_go_together() {
    for row in builtin() {
        assert_eq!(row.status.is_some(), row.subresource("status").is_some(), "{}", row.kind);
        let sorted = row.subresources.is_sorted_by_key(|sub| sub.name);
        assert!(sorted, "{}", row.kind);
    }
    let of = |kind: &str| builtin().into_iter().find(|row| row.kind == kind).unwrap().status;
    assert_eq!(of("Pod"), Some(StatusMeta::KeepOwners));
    assert_eq!(of("Deployment"), Some(StatusMeta::KeepLabels));
    assert_eq!(of("Node"), Some(StatusMeta::Open));
}

#[test]
fn ownership_r46_dependents_without_options() {
    let rows = builtin();
    let orphan = names(&rows, |row| row.dependents == Dependents::Orphan);
    assert_eq!(orphan, ["Job", "ReplicationController"]);
    let unsupported = names(&rows, |row| row.dependents == Dependents::Unsupported);
    assert_eq!(unsupported, ["Event", "Event"]);
}

#[test]
fn r60_names_by_kind() {
    let rows = builtin();
    let label = names(&rows, |row| row.name_rule == NameRule::Label);
    assert_eq!(label, ["Namespace", "Service", "StatefulSet"]);
    assert_eq!(
        names(&rows, |row| row.name_rule == NameRule::PathSegment),
        [
            "APIService",
            "CertificateSigningRequest",
            "ClusterRole",
            "ClusterRoleBinding",
            "ClusterTrustBundle",
            "Event",
            "IPAddress",
            "PodDisruptionBudget",
            "Role",
            "RoleBinding",
        ]
    );
}

#[test]
fn r13_field_selectors() {
    let rows = builtin();
    let labels = |kind: &str| -> Vec<String> {
        let row = rows.iter().find(|row| row.kind == kind).unwrap();
        row.fields.iter().map(|field| field.label.to_string()).collect()
    };
    assert_eq!(labels("Node"), ["spec.unschedulable"]);
    assert_eq!(labels("Secret"), ["type"]);
    assert_eq!(labels("ReplicationController"), ["status.replicas"]);
    assert_eq!(labels("ReplicaSet"), [""; 0]);
    assert_eq!(labels("Job"), ["status.successful"]);
    assert_eq!(labels("Service"), ["spec.clusterIP", "spec.type"]);
    assert_eq!(labels("Event").len(), 11);
    assert_eq!(labels("Pod").len(), 10);
}

#[test]
fn r255_every_kind_is_acted_on_by_somebody_or_says_that_it_is_not() {
    let rows = builtin();
    for row in &rows {
        let said = match row.acted_on {
            ActedOn::By(who) => who,
            ActedOn::Nobody(why) => why,
        };
        assert!(!said.is_empty(), "{}: who acts on it? say so in its row", row.kind);
    }
    // Whoever makes one of these work takes it off, and the warning with it.
    assert_eq!(
        names(&rows, |row| matches!(row.acted_on, ActedOn::Nobody(_))),
        [
            "CSIDriver",
            "CSIStorageCapacity",
            "DeviceClass",
            "DeviceTaintRule",
            "FlowSchema",
            "NetworkPolicy",
            "PriorityLevelConfiguration",
            "ResourceClaimTemplate",
            "VolumeAttributesClass",
        ]
    );
}

#[test]
fn r255_the_page_of_what_does_not_work_names_every_kind_that_nobody_acts_on() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/what-does-not-work.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = builtin();
    for kind in names(&rows, |row| matches!(row.acted_on, ActedOn::Nobody(_))) {
        assert!(page.contains(&kind), "{kind} is not on the page");
    }
}

#[test]
fn r60_finalizers_need_a_domain_where_upstream_asks_for_one() {
    let faults = |group: &str, kind: &str| {
        let row = crate::check::row(group, kind);
        let metadata = json!({"name": "a", "finalizers": ["hold"]});
        let object = json!({"metadata": metadata}).as_object().cloned().unwrap();
        let mut errors = tenure_machinery::Errors::new();
        tenure_machinery::meta::validate_meta(&object, &row, &mut errors);
        errors.causes().iter().filter(|cause| cause.field.contains("finalizers")).count()
    };
    assert_eq!([faults("", "ConfigMap"), faults("events.k8s.io", "Event")], [1, 1]);
    assert_eq!(faults("", "Event"), 0);
    for kind in ["ValidatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding"] {
        assert_eq!(faults("admissionregistration.k8s.io", kind), 0);
    }
    assert_eq!(faults("apiextensions.k8s.io", "CustomResourceDefinition"), 0);
}

#[test]
fn r65_metadata_of_custom_objects_is_told_as_often_as_it_is_looked_at() {
    let old =
        json!({"metadata": {"name": "a", "uid": "1", "deletionTimestamp": "2024-01-02T03:04:05Z"}});
    let new = json!({"metadata": {"name": "a", "uid": "2", "deletionTimestamp": "2024-01-02T03:04:05Z",
        "labels": {"a": "b c"}, "finalizers": ["example.com/new"]}});
    let told = |custom: bool| {
        let mut row = crate::check::row("", "ConfigMap");
        if custom {
            row.type_name = "".into();
        }
        let mut errors = tenure_machinery::Errors::new();
        let (new, old) = (new.as_object().unwrap(), old.as_object().unwrap());
        tenure_machinery::meta::validate_meta_update(new, old, &row, &mut errors);
        let last = |field: &str| field.rsplit('.').next().unwrap_or_default().to_owned();
        errors.causes().iter().map(|cause| last(&cause.field)).collect::<Vec<_>>()
    };
    assert_eq!(told(false), ["labels", "finalizers", "uid"]);
    assert_eq!(
        told(true),
        ["labels", "finalizers", "uid", "labels", "finalizers", "labels", "uid"]
    );
}
