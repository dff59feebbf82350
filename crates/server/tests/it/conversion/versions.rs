//! The storage version changes, back and forth; what is stored in which version is known.

use super::*;

fn stored_version(house: &House, name: &str) -> String {
    let key = format!("/registry/example.com/routes/default/{name}");
    house.world.current().get(&key).unwrap().api_version().to_owned()
}

#[tokio::test]
async fn r129_the_storage_version_may_change_there_and_back() {
    let (house, converter) = routes("v1").await;
    house.made(V1, first("a", "here:80")).await;
    let before = house.get(DEFINITION).await.with(200);
    assert_eq!(before["status"]["storedVersions"], json!(["v1"]));
    store_as(&house, "v2").await;
    let after = house.get(DEFINITION).await.with(200);
    assert_eq!(after["status"]["storedVersions"], json!(["v1", "v2"]));
    house.made(V1, first("b", "there:80")).await;
    assert_eq!(stored_version(&house, "a"), "example.com/v1");
    assert_eq!(stored_version(&house, "b"), "example.com/v2");
    for (name, host) in [("a", "here"), ("b", "there")] {
        assert_eq!(
            house.get(&format!("{V1}/{name}")).await.with(200)["spec"]["address"],
            format!("{host}:80")
        );
        assert_eq!(house.get(&format!("{V2}/{name}")).await.with(200)["spec"]["host"], host);
    }
    // A write that changes nothing brings an object into the version of today.
    let same = house.get(&format!("{V2}/a")).await.with(200);
    let written = house.put(&format!("{V2}/a"), same.clone()).await.with(200);
    assert_ne!(version(&written), version(&same));
    assert_eq!(written["metadata"]["generation"], same["metadata"]["generation"]);
    assert_eq!(stored_version(&house, "a"), "example.com/v2");
    let again = house.put(&format!("{V2}/a"), written.clone()).await.with(200);
    assert_eq!(version(&again), version(&written), "now nothing changes any more");
    store_as(&house, "v1").await;
    house.merge(&format!("{V2}/b"), json!({ "spec": { "port": 81 } })).await.with(200);
    assert_eq!(stored_version(&house, "b"), "example.com/v1");
    assert_eq!(stored_version(&house, "a"), "example.com/v2");
    converter.calls();
    let list = house.get(V1).await.with(200);
    assert_eq!(list["items"][0]["spec"], json!({ "address": "here:80" }));
    assert_eq!(list["items"][1]["spec"], json!({ "address": "there:81" }));
    assert_eq!(converter.calls(), 1);
}

#[tokio::test]
async fn r118_a_version_that_objects_may_be_stored_in_stays() {
    let (house, _converter) = routes("v1").await;
    house.made(V1, first("a", "here:80")).await;
    store_as(&house, "v2").await;
    let only = json!([versions("v2")[1]]);
    let change = json!({ "spec": { "versions": only } });
    let refused = house.merge(DEFINITION, change.clone()).await.fails(422, "Invalid");
    assert_eq!(fields(&refused), ["status.storedVersions[0]"]);
    let same = house.get(&format!("{V2}/a")).await.with(200);
    house.put(&format!("{V2}/a"), same).await.with(200);
    let cleared = json!({ "status": { "storedVersions": ["v2"] } });
    house.merge(&format!("{DEFINITION}/status"), cleared).await.with(200);
    house.merge(DEFINITION, change).await.with(200);
    assert_eq!(house.get(&format!("{V2}/a")).await.with(200)["spec"]["host"], "here");
}

#[tokio::test]
async fn r129_a_version_that_is_stored_need_not_be_served() {
    let (house, _converter) = routes("v1").await;
    house.made(V1, first("a", "here:80")).await;
    let mut both = versions("v1");
    both[0]["served"] = false.into();
    house.merge(DEFINITION, json!({ "spec": { "versions": both } })).await.with(200);
    assert_eq!(house.get(&format!("{V2}/a")).await.with(200)["spec"]["host"], "here");
    house.merge(&format!("{V2}/a"), json!({ "spec": { "port": 81 } })).await.with(200);
    assert_eq!(stored_version(&house, "a"), "example.com/v1");
    assert_eq!(house.get(V1).await.code, 404);
}

#[tokio::test]
async fn r255_a_conversion_webhook_is_not_warned_about() {
    let (house, converter) = (House::new().await, Converter::start().await);
    let made = house.post(DEFINITIONS, definition(&converter, "v1")).await;
    assert!(made.warnings().is_empty(), "{:?}", made.warnings());
    made.with(201);
}

#[tokio::test]
async fn r132_a_definition_goes_with_its_instances_although_its_webhook_is_gone() {
    let (house, converter) = routes("v1").await;
    house.made(V1, first("a", "here:80")).await;
    store_as(&house, "v2").await;
    house.made(V2, second("b", "here", 80)).await;
    converter.breaks();
    house.delete(DEFINITION).await.with(200);
    house.until(DEFINITION, 404).await;
}

#[tokio::test]
async fn r149_a_namespace_goes_with_what_is_in_it_although_a_webhook_is_gone() {
    let (house, converter) = routes("v1").await;
    house.made(NAMESPACES, named("n")).await;
    let place = "/apis/example.com/v1/namespaces/n/routes";
    house.made(place, first("a", "here:80")).await;
    store_as(&house, "v2").await;
    converter.breaks();
    house.delete(&format!("{NAMESPACES}/n")).await.with(200);
    house.until(&format!("{NAMESPACES}/n"), 404).await;
    assert_eq!(house.get(&format!("{place}/a")).await.code, 404);
}
