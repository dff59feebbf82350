//! What upstream's conformance suite asks of the API of one kind after the other: made, read, listed, watched,
//! patched, replaced, its status written, deleted, and deleted as a collection. One table for all kinds; rules
//! of spec/api-server.md.
//!
//! Upstream's names: `should support … API operations` of FlowSchema, PriorityLevelConfiguration,
//! MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
//! ValidatingAdmissionPolicyBinding, CronJob, PodCertificateRequest, EndpointSlice, Ingress, IngressClass,
//! IPAddress, ServiceCIDR, RuntimeClasses and CSIStorageCapacities; `CRUD Tests` of StorageVersionMigration,
//! ClusterTrustBundles, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate and ResourceSlice;
//! the life of ControllerRevision, Deployment, Job, ReplicationController, ServiceAccount, Event, Endpoint,
//! Lease, Node, PodTemplates, Pods, ResourceQuota, LimitRange, PriorityClass, CSIDriver, csinode, PV and PVC,
//! StorageClass, VolumeAttachment and VolumeAttributesClass; `should list and delete a collection of …`; and
//! `should apply changes to … status`, `should validate … Status endpoints` and their like.

use serde_json::{Value, json};
use tenure_kinds::builtin;
use tenure_machinery::kind::{Kind, Verbs};

use crate::house::*;
use crate::members::bases::base;

/// The label that all objects of a kind bear here.
const LABEL: &str = "e2e-test-name=every-kind";

/// Where a kind is.
struct Place {
    collection: String,
    /// The same over all namespaces.
    everywhere: String,
}

impl Place {
    fn of(row: &Kind) -> Place {
        let version = match row.group.is_empty() {
            true => format!("/api/{}", row.version),
            false => format!("/apis/{}/{}", row.group, row.version),
        };
        let within = if row.namespaced { "namespaces/default/" } else { "" };
        Place {
            collection: format!("{version}/{within}{}", row.plural),
            everywhere: format!("{version}/{}", row.plural),
        }
    }

    fn object(&self, object: &Value) -> String {
        format!("{}/{}", self.collection, name(object))
    }

    fn chosen(&self) -> String {
        format!("{}?labelSelector={}", self.collection, LABEL.replace('=', "%3D"))
    }
}

/// One of several objects of a kind.
fn numbered(row: &Kind, number: usize) -> Value {
    let mut object = base(row);
    let name = match row.kind.as_ref() {
        "APIService" => {
            object["spec"]["version"] = format!("v{number}").into();
            format!("v{number}.a.example")
        }
        "CustomResourceDefinition" => {
            object["spec"]["names"] = json!({"plural": format!("things{number}"),
                "singular": format!("thing{number}"), "kind": format!("Thing{number}")});
            format!("things{number}.a.example")
        }
        "IPAddress" => format!("10.0.0.{}", 77 + number),
        kind => format!("e2e-{}-{number}", kind.to_lowercase()),
    };
    object["metadata"]["name"] = name.into();
    let (key, value) = LABEL.split_once('=').unwrap();
    object["metadata"]["labels"] = json!({key: value});
    object
}

/// What the status of a kind takes; none where a status must fit what somebody else writes, which other tests do.
fn status(kind: &str) -> Option<Value> {
    let condition = json!({"type": "StatusPatched", "status": "True", "reason": "E2E",
        "message": "Set by an e2e test", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    Some(match kind {
        "CertificateSigningRequest" | "PodCertificateRequest" | "APIService" => return None,
        "CronJob" => json!({"lastScheduleTime": "2026-01-02T03:04:05Z"}),
        "Ingress" => json!({"loadBalancer": {"ingress": [{"ip": "169.1.1.1"}]}}),
        "PersistentVolume" => json!({"phase": "Available", "message": "StatusPatched"}),
        "ResourceQuota" => json!({"hard": {"pods": "100"}, "used": {"pods": "1"}}),
        "VolumeAttachment" => json!({"attached": true}),
        "ResourceClaim" => json!({"allocation": {"devices": {"results": [
            {"request": "r", "driver": "a.example", "pool": "p", "device": "d"}]}}}),
        "HorizontalPodAutoscaler" => json!({"desiredReplicas": 2}),
        "ValidatingAdmissionPolicy" => json!({"conditions": [condition]}),
        _ => json!({"conditions": [condition]}),
    })
}

fn served(row: &&Kind) -> bool {
    row.verbs != Verbs::CreateOnly
}

#[tokio::test]
async fn r36_every_kind_is_made_read_changed_and_deleted() {
    let house = House::new().await;
    for row in builtin().iter().filter(served) {
        life(&house, row).await;
    }
}

async fn life(house: &House, row: &Kind) {
    let (place, kind) = (Place::of(row), &row.kind);
    let mut watch = house.watch(&format!("{}&watch=true", place.chosen())).await;
    let mut made = Vec::new();
    for number in 1..=3 {
        let answer = house.post(&place.collection, numbered(row, number)).await;
        assert_eq!(answer.code, 201, "{kind}: {}", answer.json);
        made.push(answer.json);
    }
    let count = async |path: &str| {
        let list = house.get(path).await;
        assert_eq!(list.code, 200, "{kind}: {}", list.json);
        list.json["items"].as_array().unwrap().len()
    };
    assert_eq!(count(&place.chosen()).await, 3, "{kind}");
    let everywhere = format!("{}?labelSelector={LABEL}", place.everywhere);
    assert_eq!(count(&everywhere).await, 3, "{kind}");
    let path = place.object(&made[0]);
    assert_eq!(house.get(&path).await.with(200)["metadata"]["uid"], made[0]["metadata"]["uid"]);

    let patched = json!({"metadata": {"annotations": {"patched": "true"}}});
    let answer = house.merge(&path, patched).await;
    assert_eq!(answer.code, 200, "{kind}: {}", answer.json);
    assert_eq!(answer.json["metadata"]["annotations"]["patched"], "true", "{kind}");
    replaced(house, kind, &path, "updated").await;
    if row.subresource("status").is_some() {
        written(house, kind, &path).await;
    }

    let seen = |event: &Value, of: &str, mark: Option<&str>| {
        let object = &event["object"];
        event["type"] == of
            && object["metadata"]["name"] == made[0]["metadata"]["name"]
            && mark.is_none_or(|mark| object["metadata"]["annotations"][mark] == "true")
    };
    for (of, mark) in
        [("ADDED", None), ("MODIFIED", Some("patched")), ("MODIFIED", Some("updated"))]
    {
        while !seen(&watch.next().await.unwrap(), of, mark) {}
    }
    release(house, &path).await;
    let gone = house.delete(&path).await;
    assert!([200, 202].contains(&gone.code), "{kind}: {}", gone.json);
    house.until(&path, 404).await;
    while !seen(&watch.next().await.unwrap(), "DELETED", None) {}

    for object in &made[1..] {
        release(house, &place.object(object)).await;
    }
    if row.verbs == Verbs::NoDeleteCollection {
        for object in &made[1..] {
            house.delete(&place.object(object)).await;
        }
    } else {
        let all = house.delete(&place.chosen()).await;
        assert_eq!(all.code, 200, "{kind}: {}", all.json);
    }
    house.until_looks(&place.chosen(), |list| list["items"] == json!([])).await;
}

/// Replaces an object as it is now, with an annotation; somebody else may write at the same time.
async fn replaced(house: &House, kind: &str, path: &str, mark: &str) {
    for _ in 0..20 {
        let mut object = house.get(path).await.with(200);
        object["metadata"]["annotations"][mark] = "true".into();
        let answer = house.put(path, object).await;
        if answer.code != 409 {
            assert_eq!(answer.code, 200, "{kind}: {}", answer.json);
            assert_eq!(answer.json["metadata"]["annotations"][mark], "true", "{kind}");
            return;
        }
    }
    panic!("{kind} moves all the time");
}

/// Patches and replaces the status; the specification stays.
async fn written(house: &House, kind: &str, path: &str) {
    let at = format!("{path}/status");
    let before = house.get(&at).await.with(200);
    assert_eq!(before["metadata"]["name"], house.get(path).await.with(200)["metadata"]["name"]);
    let Some(status) = status(kind) else { return };
    let (member, value) = status.as_object().unwrap().iter().next().unwrap();
    let answer = house.merge(&at, json!({"status": status, "spec": {"nonsense": 1}})).await;
    assert_eq!(answer.code, 200, "{kind}: {}", answer.json);
    let said = |object: &Value| match value {
        Value::Array(conditions) => {
            let all = object["status"][member].as_array().cloned().unwrap_or_default();
            all.iter().any(|one| one["type"] == conditions[0]["type"])
        }
        value => object["status"][member] == *value,
    };
    assert!(said(&answer.json), "{kind}: {}", answer.json["status"]);
    assert_eq!(answer.json["spec"], before["spec"], "{kind}: only the status is written");
    for _ in 0..20 {
        let object = house.get(&at).await.with(200);
        assert!(said(&object), "{kind}: {}", object["status"]);
        let answer = house.put(&at, object).await;
        if answer.code != 409 {
            assert_eq!(answer.code, 200, "{kind}: {}", answer.json);
            return;
        }
    }
    panic!("{kind} moves all the time");
}

/// Takes off finalizers of controllers that do not run here.
async fn release(house: &House, path: &str) {
    let object = house.get(path).await.with(200);
    let protects = |one: &Value| one.as_str().is_some_and(|text| text.ends_with("-protection"));
    let held = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    if held.iter().any(protects) {
        let none = json!({"metadata": {"finalizers": null}});
        house.merge(path, none).await.with(200);
    }
}
