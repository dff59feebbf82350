//! Writes in another version than the stored one: what is stored, what is answered, what fails half-way.

use super::*;

/// What is stored of a route, whoever asks.
fn stored(house: &House, name: &str) -> Value {
    let key = format!("/registry/example.com/routes/default/{name}");
    let record = house.world.current().get(&key).cloned().unwrap();
    serde_json::from_slice(record.bytes()).unwrap()
}

#[tokio::test]
async fn r129_what_is_written_is_stored_in_the_storage_version() {
    let (house, converter) = routes("v1").await;
    let made = house.made(V2, second("a", "here", 80)).await;
    assert_eq!(
        (&made["apiVersion"], &made["spec"]["host"]),
        (&json!("example.com/v2"), &json!("here"))
    );
    let kept = stored(&house, "a");
    assert_eq!(
        (&kept["apiVersion"], &kept["spec"]),
        (&json!("example.com/v1"), &json!({ "address": "here:80" }))
    );
    assert_eq!(kept["metadata"]["uid"], made["metadata"]["uid"]);
    let versions: Vec<Value> =
        converter.asked().iter().map(|one| one["desiredAPIVersion"].clone()).collect();
    assert_eq!(versions, ["example.com/v1", "example.com/v2"], "there and back");

    let path = format!("{V2}/a");
    let mut changed = made.clone();
    changed["spec"]["port"] = 81.into();
    assert_eq!(house.put(&path, changed).await.with(200)["spec"]["port"], 81);
    assert_eq!(stored(&house, "a")["spec"]["address"], "here:81");
    let merged = house.merge(&path, json!({ "spec": { "port": 82 } })).await.with(200);
    assert_eq!(merged["spec"], json!({ "host": "here", "port": 82 }));
    let steps = json!([{ "op": "replace", "path": "/spec/port", "value": 83 }]);
    assert_eq!(house.patch(&path, JSON_PATCH, steps).await.with(200)["spec"]["port"], 83);
    assert_eq!(stored(&house, "a")["spec"]["address"], "here:83");
    let dry = house.merge(&format!("{path}?dryRun=All"), json!({ "spec": { "port": 1 } })).await;
    assert_eq!(dry.with(200)["spec"]["port"], 1);
    assert_eq!(stored(&house, "a")["spec"]["address"], "here:83");
}

#[tokio::test]
async fn r129_an_applied_configuration_is_of_its_own_version() {
    let (house, _converter) = routes("v1").await;
    let path = format!("{V2}/a?fieldManager=one");
    let made = house.patch(&path, APPLY, second("a", "here", 80)).await.with(201);
    assert_eq!(made["spec"], json!({ "host": "here", "port": 80 }));
    assert_eq!(made["metadata"]["managedFields"][0]["apiVersion"], "example.com/v2");
    assert_eq!(stored(&house, "a")["spec"], json!({ "address": "here:80" }));
    let again = house.patch(&path, APPLY, second("a", "there", 80)).await.with(200);
    assert_eq!(again["spec"]["host"], "there");
    assert_eq!(stored(&house, "a")["spec"], json!({ "address": "there:80" }));
    house
        .patch(&format!("{V2}/a?fieldManager=two"), APPLY, second("a", "else", 80))
        .await
        .fails(409, "Conflict");
}

#[tokio::test]
async fn r129_status_and_scale_are_written_through_any_version() {
    let (house, _converter) = routes("v1").await;
    let mut route = second("a", "here", 80);
    route["spec"]["replicas"] = 2.into();
    house.made(V2, route).await;
    let path = format!("{V2}/a");
    let status = json!({ "status": { "replicas": 1 } });
    let after = house.merge(&format!("{path}/status"), status).await.with(200);
    assert_eq!(after["status"], json!({ "replicas": 1 }));
    assert_eq!(after["spec"]["host"], "here");
    assert_eq!(stored(&house, "a")["status"], json!({ "replicas": 1 }));
    let scale = house.get(&format!("{path}/scale")).await.with(200);
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(2), &json!(1)));
    let scaled = house.merge(&format!("{path}/scale"), json!({ "spec": { "replicas": 5 } })).await;
    assert_eq!(scaled.with(200)["spec"]["replicas"], 5);
    assert_eq!(stored(&house, "a")["spec"], json!({ "address": "here:80", "replicas": 5 }));
}

#[tokio::test]
async fn r129_deletion_answers_in_the_version_and_marks_what_is_stored() {
    let (house, _converter) = routes("v1").await;
    for name in ["a", "b", "c"] {
        let mut route = first(name, "here:80");
        if name == "a" {
            route["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        house.made(V1, route).await;
    }
    let marked = house.delete(&format!("{V2}/a")).await.with(200);
    assert_eq!(marked["spec"], json!({ "host": "here", "port": 80 }));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let kept = stored(&house, "a");
    assert_eq!(
        (&kept["apiVersion"], &kept["spec"]["address"]),
        (&json!("example.com/v1"), &json!("here:80"))
    );
    let free = json!({ "metadata": { "finalizers": null } });
    house.merge(&format!("{V2}/a"), free).await.with(200);
    house.get(&format!("{V2}/a")).await.fails(404, "NotFound");
    let list = house.delete(V2).await.with(200);
    assert_eq!(list["items"][1]["spec"], json!({ "host": "here", "port": 80 }));
    assert!(names(&house.get(V2).await.with(200)).is_empty());
}

#[tokio::test]
async fn r129_nothing_is_stored_that_cannot_be_converted() {
    let (house, converter) = routes("v1").await;
    converter.breaks();
    fails(house.post(V2, second("a", "here", 80)).await, "out of order");
    house.get(&format!("{V1}/a")).await.fails(404, "NotFound");
    // In the stored version nobody is asked.
    house.made(V1, first("a", "here:80")).await;
    house.merge(&format!("{V1}/a"), json!({ "spec": { "address": "here:81" } })).await.with(200);
    let change = json!({ "spec": { "port": 1 } });
    fails(house.merge(&format!("{V2}/a"), change).await, "out of order");
    assert_eq!(stored(&house, "a")["spec"]["address"], "here:81");
    // Deletion works where it does upstream: in the version in which the object can be read.
    fails(house.delete(&format!("{V2}/a")).await, "out of order");
    house.delete(&format!("{V1}/a")).await.with(200);
}

#[tokio::test]
async fn r129_an_answer_that_fails_half_way_leaves_what_was_stored() {
    let (house, converter) = routes("v1").await;
    converter.answers(|review| match review["request"]["desiredAPIVersion"].as_str() {
        Some("example.com/v1") => done(review, each(review)),
        _ => status(StatusCode::BAD_GATEWAY, "the way back is closed"),
    });
    fails(house.post(V2, second("a", "here", 80)).await, "the way back is closed");
    // It was committed before: the client finds it when it looks.
    assert_eq!(stored(&house, "a")["spec"]["address"], "here:80");
    converter.works();
    house.post(V2, second("a", "here", 80)).await.fails(409, "AlreadyExists");
    assert_eq!(house.get(&format!("{V2}/a")).await.with(200)["spec"]["host"], "here");
}

#[tokio::test]
async fn r121a_what_the_storage_version_does_not_know_is_not_kept() {
    let (house, _converter) = routes("v1").await;
    let mut route = second("a", "here", 80);
    route["spec"]["new"] = "only in version 2".into();
    let made = house.made(V2, route).await;
    // The webhook lets it stand, the schema of version 1 does not.
    assert_eq!(made["spec"], json!({ "host": "here", "port": 80 }));
    assert_eq!(stored(&house, "a")["spec"], json!({ "address": "here:80" }));
}
