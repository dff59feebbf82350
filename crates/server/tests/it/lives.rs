//! What upstream's conformance suite asks of one kind beyond what it asks of all (`every_kind`), by its names.
//! Rules of spec/api-server.md.

use serde_json::{Value, json};

use crate::house::*;

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn items(list: &Answer) -> usize {
    list.json["items"].as_array().unwrap().len()
}

/// ResourceQuota should be able to update and delete ResourceQuota.
#[tokio::test]
async fn r36_a_quota_is_updated_and_deleted() {
    let house = House::new().await;
    let spec = json!({"hard": {"cpu": "1", "memory": "500Mi"}});
    let mut quota = house.made(QUOTAS, json!({"metadata": {"name": "q"}, "spec": spec})).await;
    assert_eq!(quota["spec"]["hard"], json!({"cpu": "1", "memory": "500Mi"}));
    quota["spec"]["hard"] = json!({"cpu": "2", "memory": "1Gi"});
    house.put(&format!("{QUOTAS}/q"), quota).await.with(200);
    let read = house.get(&format!("{QUOTAS}/q")).await.with(200);
    assert_eq!(read["spec"]["hard"], json!({"cpu": "2", "memory": "1Gi"}));
    house.delete(&format!("{QUOTAS}/q")).await.with(200);
    house.get(&format!("{QUOTAS}/q")).await.fails(404, "NotFound");
}

/// ReplicaSet Replace and Patch tests.
#[tokio::test]
async fn r36_a_replica_set_is_replaced_and_patched() {
    let house = House::new().await;
    let spec =
        json!({"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template()});
    let mut set = house.made(SETS, json!({"metadata": {"name": "s"}, "spec": spec})).await;
    set["spec"]["replicas"] = 2.into();
    let set = house.put(&format!("{SETS}/s"), set).await.with(200);
    assert_eq!((&set["spec"]["replicas"], &set["metadata"]["generation"]), (&json!(2), &json!(2)));
    let patch = json!({"metadata": {"labels": {"test-rs": "patched"}}, "spec": {"replicas": 3,
        "template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}});
    let set = house.patch(&format!("{SETS}/s"), STRATEGIC, patch).await.with(200);
    assert_eq!(set["metadata"]["labels"]["test-rs"], "patched");
    assert_eq!(set["spec"]["replicas"], 3);
    let containers = set["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!((containers.len(), &containers[0]["image"]), (1, &json!("other")));
}

/// ReplicationController should test the lifecycle of a ReplicationController: its scale.
#[tokio::test]
async fn r36_a_replication_controller_is_scaled() {
    let house = House::new().await;
    let spec = json!({"replicas": 1, "selector": {"app": "a"}, "template": template()});
    house.made(CONTROLLERS, json!({"metadata": {"name": "c"}, "spec": spec})).await;
    let at = format!("{CONTROLLERS}/c/scale");
    let mut scale = house.get(&at).await.with(200);
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(1)));
    scale["spec"]["replicas"] = 2.into();
    assert_eq!(house.put(&at, scale).await.with(200)["spec"]["replicas"], 2);
    let patched = house.merge(&at, json!({"spec": {"replicas": 3}})).await.with(200);
    assert_eq!(patched["spec"]["replicas"], 3);
    assert_eq!(house.get(&format!("{CONTROLLERS}/c")).await.json["spec"]["replicas"], 3);
}

/// Job should manage the lifecycle of a job.
#[tokio::test]
async fn r36_a_job_is_suspended_resumed_and_deleted() {
    let house = House::new().await;
    let mut template = template();
    template["spec"]["restartPolicy"] = "Never".into();
    let body = json!({"metadata": {"name": "j", "labels": {"e2e": "job"}},
        "spec": {"suspend": true, "template": template}});
    house.made(JOBS, body).await;
    let path = format!("{JOBS}/j");
    let patched = house.merge(&path, json!({"metadata": {"labels": {"patched": "true"}}})).await;
    let mut job = patched.with(200);
    assert_eq!(
        (&job["spec"]["suspend"], &job["metadata"]["labels"]["patched"]),
        (&json!(true), &json!("true"))
    );
    job["spec"]["suspend"] = false.into();
    job["metadata"]["annotations"] = json!({"updated": "true"});
    let job = house.put(&path, job).await.with(200);
    assert_eq!(job["spec"]["suspend"], false);
    assert_eq!(items(&house.get("/apis/batch/v1/jobs?labelSelector=e2e%3Djob").await), 1);
    let all = format!("{JOBS}?labelSelector=e2e%3Djob&propagationPolicy=Background");
    house.delete(&all).await.with(200);
    house.until(&path, 404).await;
}

/// ServiceAccounts should update a ServiceAccount.
#[tokio::test]
async fn r36_a_service_account_is_updated() {
    let house = House::new().await;
    let body = json!({"metadata": {"name": "a"}, "automountServiceAccountToken": false});
    let mut account = house.made(ACCOUNTS, body).await;
    assert_eq!(account["automountServiceAccountToken"], false);
    account["automountServiceAccountToken"] = true.into();
    house.put(&format!("{ACCOUNTS}/a"), account).await.with(200);
    let read = house.get(&format!("{ACCOUNTS}/a")).await.with(200);
    assert_eq!(read["automountServiceAccountToken"], true);
}

/// Lease lease API should be available.
#[tokio::test]
async fn r36_a_lease_changes_hands() {
    let house = House::new().await;
    let time = |second: u32| format!("2026-01-02T03:04:{second:02}.000006Z");
    let spec = json!({"holderIdentity": "one", "leaseDurationSeconds": 30, "acquireTime": time(1),
        "renewTime": time(2), "leaseTransitions": 0});
    let mut lease = house.made(LEASES, json!({"metadata": {"name": "l"}, "spec": spec})).await;
    for (second, holder) in [(3, "two"), (4, "three")] {
        lease["spec"]["holderIdentity"] = holder.into();
        lease["spec"]["renewTime"] = time(second).into();
        lease = house.put(&format!("{LEASES}/l"), lease).await.with(200);
        assert_eq!(lease["spec"]["holderIdentity"], holder);
        assert_eq!(lease["spec"]["renewTime"], time(second));
    }
    let patched =
        house.merge(&format!("{LEASES}/l"), json!({"spec": {"leaseTransitions": 2}})).await;
    assert_eq!(patched.with(200)["spec"]["leaseTransitions"], 2);
}

/// CSIInlineVolumes should support CSIVolumeSource in Pod API.
#[tokio::test]
async fn r36_a_pod_with_a_volume_of_a_driver_is_stored_as_it_is() {
    let house = House::new().await;
    let csi =
        json!({"driver": "e2e.example.com", "readOnly": true, "volumeAttributes": {"a": "b"}});
    let body = json!({"metadata": {"name": "p", "labels": {"e2e": "csi"}}, "spec": {
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "csi": csi}]}});
    let pod = house.made(PODS, body).await;
    assert_eq!(pod["spec"]["volumes"][0]["csi"], csi);
    let path = format!("{PODS}/p");
    house.merge(&path, json!({"metadata": {"annotations": {"patched": "true"}}})).await.with(200);
    let read = house.get(&path).await.with(200);
    assert_eq!(read["metadata"]["annotations"]["patched"], "true");
    assert_eq!(items(&house.get("/api/v1/pods?labelSelector=e2e%3Dcsi").await), 1);
    house.delete(&format!("{PODS}?labelSelector=e2e%3Dcsi")).await.with(200);
    house.until(&path, 404).await;
}

/// DisruptionController Listing PodDisruptionBudgets for all namespaces should list and delete a collection of
/// PodDisruptionBudgets, and LimitRange should list, patch and delete a LimitRange by collection.
#[tokio::test]
async fn r36_a_collection_is_deleted_in_one_namespace_alone() {
    let house = House::new().await;
    house.made(NAMESPACES, named("other")).await;
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}});
    let range = json!({"limits": [{"type": "Container", "max": {"cpu": "4"}}]});
    for (version, plural, spec) in
        [("/apis/policy/v1", "poddisruptionbudgets", budget), ("/api/v1", "limitranges", range)]
    {
        let of = |namespace: &str| format!("{version}/namespaces/{namespace}/{plural}");
        let everywhere = format!("{version}/{plural}?labelSelector=e2e%3Dtwo");
        for (namespace, name) in [("default", "a"), ("default", "b"), ("other", "c")] {
            let metadata = json!({"name": name, "labels": {"e2e": "two"}});
            house.made(&of(namespace), json!({"metadata": metadata, "spec": spec})).await;
        }
        assert_eq!(items(&house.get(&everywhere).await), 3, "{plural}");
        let patch = json!({"metadata": {"labels": {"patched": "true"}}});
        house.merge(&format!("{}/a", of("default")), patch).await.with(200);
        let patched = format!("{version}/{plural}?labelSelector=patched%3Dtrue");
        assert_eq!(items(&house.get(&patched).await), 1, "{plural}");
        house.delete(&format!("{}?labelSelector=e2e%3Dtwo", of("default"))).await.with(200);
        assert_eq!(items(&house.get(&everywhere).await), 1, "{plural}");
        house.get(&format!("{}/c", of("other"))).await.with(200);
    }
}

/// Services should find a service from listing all namespaces.
#[tokio::test]
async fn r36_the_service_of_the_server_is_in_the_list_over_all_namespaces() {
    let house = House::new().await;
    let list = house.get("/api/v1/services").await.with(200);
    let all = list["items"].as_array().unwrap();
    let own = |one: &&Value| {
        one["metadata"]["name"] == "kubernetes" && one["metadata"]["namespace"] == "default"
    };
    assert_eq!(all.iter().filter(own).count(), 1);
}

/// PriorityClass endpoints verify PriorityClass endpoints can be operated with different HTTP methods.
#[tokio::test]
async fn r36_the_value_of_a_priority_class_stays() {
    let house = House::new().await;
    let mut class = house.made(CLASSES, json!({"metadata": {"name": "p"}, "value": 7})).await;
    let path = format!("{CLASSES}/p");
    let patched = house.merge(&path, json!({"value": 8})).await;
    let causes = patched.fails(422, "Invalid")["details"]["causes"].clone();
    assert_eq!(causes[0]["field"], "value");
    class["value"] = 9.into();
    house.put(&path, class.clone()).await.fails(422, "Invalid");
    class["value"] = 7.into();
    class["description"] = "new".into();
    let class = house.put(&path, class).await.with(200);
    assert_eq!((&class["value"], &class["description"]), (&json!(7), &json!("new")));
}

fn crd(group: &str, kind: &str, versions: &[(&str, bool)]) -> Value {
    let kind_lower = kind.to_lowercase();
    let version = |(index, (name, served)): (usize, &(&str, bool))| {
        json!({"name": name, "served": served, "storage": index == 0, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {
                "of": {"type": "string", "description": format!("{kind} {name}")}}}}}}})
    };
    let versions: Vec<Value> = versions.iter().enumerate().map(version).collect();
    json!({"metadata": {"name": format!("{kind_lower}s.{group}"), "labels": {"e2e": "crd"}}, "spec": {
        "group": group, "scope": "Namespaced", "versions": versions,
        "names": {"plural": format!("{kind_lower}s"), "kind": kind}}})
}

/// Simple CustomResourceDefinition listing custom resource definition objects works.
#[tokio::test]
async fn r130_definitions_are_listed_and_deleted_as_a_collection() {
    let house = House::new().await;
    for number in 0..10 {
        let one =
            crd("e2e.example.com", &format!("Thing{}", char::from(b'a' + number)), &[("v1", true)]);
        house.made(DEFINITIONS, one).await;
    }
    let chosen = format!("{DEFINITIONS}?labelSelector=e2e%3Dcrd");
    assert_eq!(items(&house.get(&chosen).await), 10);
    house.delete(&chosen).await.with(200);
    house.until_looks(&chosen, |list| list["items"] == json!([])).await;
}

/// The definitions of `/openapi/v2` that are about kinds of tests, as `group version kind`.
async fn published(house: &House) -> Vec<String> {
    let document = house.get("/openapi/v2").await.with(200);
    let all = document["definitions"].as_object().unwrap().values();
    let mut found: Vec<String> = all
        .filter(|one| one["properties"]["spec"]["properties"]["of"].is_object())
        .map(|one| {
            let of = &one["x-kubernetes-group-version-kind"][0];
            let text = |member: &str| of[member].as_str().unwrap();
            let said =
                one["properties"]["spec"]["properties"]["of"]["description"].as_str().unwrap();
            assert_eq!(said, format!("{} {}", text("kind"), text("version")), "of another schema");
            format!("{} {} {}", text("group"), text("version"), text("kind"))
        })
        .collect();
    found.sort();
    found
}

/// CustomResourcePublishOpenAPI works for multiple CRDs of different groups, of same group but different versions,
/// and of same group and version but different kinds.
#[tokio::test]
async fn r48_many_definitions_are_published() {
    let house = House::new().await;
    for one in [
        crd("one.example.com", "Foo", &[("v1", true), ("v2", true)]),
        crd("one.example.com", "Bar", &[("v1", true)]),
        crd("two.example.com", "Foo", &[("v3", true)]),
    ] {
        house.made(DEFINITIONS, one).await;
    }
    assert_eq!(
        published(&house).await,
        [
            "one.example.com v1 Bar",
            "one.example.com v1 Foo",
            "one.example.com v2 Foo",
            "two.example.com v3 Foo"
        ]
    );
    let newer = house.get("/openapi/v3/apis/one.example.com/v1").await.with(200);
    let kinds = newer["components"]["schemas"].as_object().unwrap().keys();
    assert_eq!(kinds.filter(|name| name.ends_with(".Foo") || name.ends_with(".Bar")).count(), 2);
}

/// CustomResourcePublishOpenAPI removes definition from spec when one version gets changed to not be served, and
/// updates the published spec when one version gets renamed.
#[tokio::test]
async fn r48_what_is_published_follows_the_versions_that_are_served() {
    let house = House::new().await;
    let path = format!("{DEFINITIONS}/foos.one.example.com");
    house.made(DEFINITIONS, crd("one.example.com", "Foo", &[("v2", true), ("v3", true)])).await;
    assert_eq!(published(&house).await, ["one.example.com v2 Foo", "one.example.com v3 Foo"]);
    for (versions, expected) in [
        (
            &[("v2", true), ("v4", true)][..],
            &["one.example.com v2 Foo", "one.example.com v4 Foo"][..],
        ),
        (&[("v2", true), ("v4", false)], &["one.example.com v2 Foo"]),
    ] {
        let spec = crd("one.example.com", "Foo", versions)["spec"].clone();
        house.merge(&path, json!({"spec": {"versions": spec["versions"]}})).await.with(200);
        assert_eq!(published(&house).await, expected);
    }
    house.get("/openapi/v3/apis/one.example.com/v4").await.fails(404, "NotFound");
}
