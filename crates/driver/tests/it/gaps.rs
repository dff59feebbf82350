//! The gaps of upstream that spec/ownership.md lists, on the running server: what clients see instead.

use serde_json::json;

use crate::estate::*;
use crate::house::*;

#[tokio::test]
async fn r18_g1_a_cluster_scoped_dependent_is_reported_though_nobody_saw_its_owner() {
    let estate = Estate::new().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let body = json!({ "metadata": { "name": "r", "ownerReferences": [nobody("ConfigMap")] } });
    estate.house.made(roles, body).await;
    // The same in a namespace is only dangling.
    estate.map("m", &[nobody("ConfigMap")]).await;
    estate.settle().await;
    let message = "ownerRef [v1/ConfigMap, namespace: , name: nobody, uid: nobody] does not exist \
                   in namespace \"\"";
    estate
        .house
        .until_looks("/api/v1/namespaces/default/events", |list| {
            list["items"].as_array().is_some_and(|items| items.len() == 1)
        })
        .await;
    assert_eq!(estate.reports().await, [("r".to_owned(), message.to_owned())]);
    estate.house.get(&format!("{roles}/r")).await.with(200);
    assert!(estate.left(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn r118_g3_a_dependent_that_comes_while_its_owner_orphans_is_orphaned_too() {
    let estate = Estate::new().await;
    for round in 0..20 {
        let owner = estate.map(&format!("o{round}"), &[]).await;
        for number in 0..5 {
            estate.map(&format!("d{round}-{number}"), &[to(&owner)]).await;
        }
        let name = format!("o{round}");
        let (_, ()) = tokio::join!(estate.end(&name, "Orphan"), async {
            for number in 5..15 {
                // The last ones may come when the owner is gone, and are then no dependents of it.
                let body = owned(&format!("d{round}-{number}"), &[to(&owner)]);
                let made = estate.house.post(CONFIG_MAPS, body).await;
                assert_eq!(made.code, 201);
                let going = estate.house.get(&format!("{CONFIG_MAPS}/{name}")).await;
                if going.code == 404 {
                    break;
                }
            }
        });
        estate.settle().await;
        estate.house.get(&format!("{CONFIG_MAPS}/{name}")).await.with(404);
    }
    let list = estate.house.get(CONFIG_MAPS).await.with(200);
    let dependents: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| name(item).starts_with('d'))
        .collect();
    assert!(dependents.len() >= 100, "{} of those from before are left", dependents.len());
    assert!(dependents.iter().all(|item| item["metadata"]["ownerReferences"].is_null()));
}

#[tokio::test]
async fn r164_g5_a_volume_waits_for_its_claim_not_for_a_pod() {
    let estate = Estate::new().await;
    let (volumes, claims) =
        ("/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims");
    let common = json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": "none" });
    let mut volume = json!({ "metadata": { "name": "v" }, "spec": common.clone() });
    volume["spec"]["capacity"] = json!({ "storage": "1Gi" });
    volume["spec"]["persistentVolumeReclaimPolicy"] = json!("Retain");
    volume["spec"]["hostPath"] = json!({ "path": "/none" });
    let mut claim = json!({ "metadata": { "name": "c" }, "spec": common });
    claim["spec"]["volumeName"] = json!("v");
    claim["spec"]["resources"] = json!({ "requests": { "storage": "1Gi" } });
    estate.house.made(volumes, volume).await;
    estate.house.made(claims, claim).await;
    let path = format!("{volumes}/v");
    estate.house.until_looks(&path, |volume| volume["status"]["phase"] == "Bound").await;
    // No pod is there, and it waits all the same.
    estate.house.delete(&path).await.with(200);
    estate.settle().await;
    let going = estate.house.get(&path).await.with(200);
    assert_eq!(going["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    estate.house.delete(&format!("{claims}/c")).await.with(200);
    estate.house.until(&path, 404).await;
}

#[tokio::test]
async fn g6_g13_an_object_in_another_namespace_neither_holds_an_owner_nor_is_edited() {
    let estate = Estate::new().await;
    estate.house.made(NAMESPACES, named("far")).await;
    let far = "/api/v1/namespaces/far/configmaps";
    for policy in ["Foreground", "Orphan"] {
        let owner = estate.map("o", &[]).await;
        let mut body = owned("foreign", &[blocking(&owner), nobody("Nothing")]);
        body["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let before = estate.house.made(far, body).await;
        estate.settle().await;
        estate.end("o", policy).await;
        estate.settle().await;
        estate.house.get(&format!("{CONFIG_MAPS}/o")).await.with(404);
        let after = estate.house.get(&format!("{far}/foreign")).await.with(200);
        assert_eq!(after, before, "{policy}");
        estate
            .house
            .merge(&format!("{far}/foreign"), json!({ "metadata": { "finalizers": null } }))
            .await;
        estate.house.delete(&format!("{far}/foreign")).await.with(200);
    }
}

#[tokio::test]
async fn g7_an_object_that_owns_itself_ends_in_the_foreground() {
    let estate = Estate::new().await;
    let own = estate.map("self", &[]).await;
    let references = json!({ "metadata": { "ownerReferences": [blocking(&own)] } });
    estate.house.merge(&format!("{CONFIG_MAPS}/self"), references).await.with(200);
    estate.settle().await;
    assert_eq!(estate.left(CONFIG_MAPS).await, ["self"]);
    estate.end("self", "Foreground").await;
    estate.settle().await;
    assert!(estate.left(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn g8_rings_whose_members_are_deleted_in_the_foreground_at_once_drain() {
    let estate = Estate::new().await;
    for round in 0..10 {
        let names: Vec<String> = (0..4).map(|number| format!("r{round}-{number}")).collect();
        let mut made = Vec::new();
        for name in &names {
            made.push(estate.map(name, &[]).await);
        }
        for (at, name) in names.iter().enumerate() {
            let owner = blocking(&made[(at + 1) % made.len()]);
            let references = json!({ "metadata": { "ownerReferences": [owner] } });
            estate.house.merge(&format!("{CONFIG_MAPS}/{name}"), references).await.with(200);
        }
        let path = |at: usize| format!("{CONFIG_MAPS}/{}?propagationPolicy=Foreground", names[at]);
        let (first, second) = (path(0), path(2));
        tokio::join!(estate.house.delete(&first), estate.house.delete(&second));
        estate.settle().await;
        assert!(estate.left(CONFIG_MAPS).await.is_empty(), "round {round}");
    }
}

#[tokio::test]
async fn g9_in_a_blocking_chain_no_owner_goes_before_what_blocks_it() {
    let estate = Estate::new().await;
    let a = estate.map("a", &[]).await;
    let b = estate.map("b", &[blocking(&a)]).await;
    let c = estate.map("c", &[blocking(&b)]).await;
    estate.stuck("d", &[blocking(&c)]).await;
    estate.settle().await;
    estate.end("c", "Foreground").await;
    estate.end("a", "Foreground").await;
    estate.settle().await;
    assert_eq!(estate.left(CONFIG_MAPS).await, ["a", "b", "c", "d"]);
    estate.free("d").await;
    estate.settle().await;
    assert!(estate.left(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn r132_g11_a_name_changed_in_place_is_examined() {
    let estate = Estate::new().await;
    let owner = estate.map("o", &[]).await;
    estate.map("d", &[to(&owner)]).await;
    estate.settle().await;
    let mut wrong = to(&owner);
    wrong["name"] = json!("another");
    let references = json!({ "metadata": { "ownerReferences": [wrong] } });
    estate.house.merge(&format!("{CONFIG_MAPS}/d"), references).await.with(200);
    estate.settle().await;
    assert_eq!(estate.left(CONFIG_MAPS).await, ["o"]);
}

#[tokio::test]
async fn g14_an_unresolvable_reference_does_not_keep_a_dangling_one_beside_a_solid_owner() {
    let estate = Estate::new().await;
    let owner = estate.map("o", &[]).await;
    let (gone, unknown) = (nobody("ConfigMap"), nobody("Nothing"));
    estate.map("d", &[gone, unknown.clone(), to(&owner)]).await;
    estate.settle().await;
    let left = estate.house.get(&format!("{CONFIG_MAPS}/d")).await.with(200);
    assert_eq!(left["metadata"]["ownerReferences"], json!([unknown, to(&owner)]));
    // A waiting reference goes as well, so that its owner is free.
    let waiting = estate.map("w", &[]).await;
    estate.map("e", &[blocking(&waiting), nobody("Nothing"), to(&owner)]).await;
    estate.end("w", "Foreground").await;
    estate.settle().await;
    assert_eq!(estate.left(CONFIG_MAPS).await, ["d", "e", "o"]);
    // Without a solid owner nothing is concluded (R86).
    estate.end("o", "Background").await;
    estate.settle().await;
    assert_eq!(estate.left(CONFIG_MAPS).await, ["d", "e"]);
}

#[tokio::test]
async fn r80_n1_a_dependent_made_under_a_waiting_owner_is_examined_at_once() {
    let estate = Estate::new().await;
    let owner = estate.map("o", &[]).await;
    estate.stuck("holds", &[blocking(&owner)]).await;
    estate.end("o", "Foreground").await;
    estate.settle().await;
    estate.map("late", &[to(&owner)]).await;
    estate.map("later", &[blocking(&owner)]).await;
    estate.settle().await;
    assert_eq!(estate.left(CONFIG_MAPS).await, ["holds", "o"]);
    estate.free("holds").await;
    estate.settle().await;
    assert!(estate.left(CONFIG_MAPS).await.is_empty());
}
