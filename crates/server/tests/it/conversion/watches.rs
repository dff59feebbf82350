//! Watches of objects in another version than the stored one.

use super::*;

/// The next event as `TYPE name spec`.
async fn told(watch: &mut Stream) -> String {
    let event = watch.next().await.expect("the watch ended");
    format!("{} {}", brief(&event), event["object"]["spec"])
}

#[tokio::test]
async fn r129_a_watch_shows_its_version() {
    let (house, _converter) = routes("v1").await;
    house.made(V1, first("a", "here:80")).await;
    let mut watch = house.watch(&format!("{V2}?watch=1")).await;
    assert_eq!(told(&mut watch).await, r#"ADDED a {"host":"here","port":80}"#);
    house.merge(&format!("{V1}/a"), json!({ "spec": { "address": "here:81" } })).await.with(200);
    assert_eq!(told(&mut watch).await, r#"MODIFIED a {"host":"here","port":81}"#);
    house.made(V2, second("b", "there", 1)).await;
    assert_eq!(told(&mut watch).await, r#"ADDED b {"host":"there","port":1}"#);
    let gone = house.delete(&format!("{V1}/a")).await.with(200);
    assert_eq!(gone["status"], "Success");
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["spec"], json!({ "host": "here", "port": 81 }));
    assert_eq!(event["object"]["apiVersion"], "example.com/v2");
    let revision = house.revision().to_string();
    assert_eq!(event["object"]["metadata"]["resourceVersion"], revision.as_str());
}

#[tokio::test]
async fn r129_a_watch_as_table_or_metadata_is_of_its_version() {
    let (house, _converter) = routes("v1").await;
    house.made(V1, first("a", "here:80")).await;
    let mut rows = house.watch_as(&format!("{V2}?watch=1"), TABLE).await;
    assert_eq!(rows.next().await.unwrap()["object"]["rows"][0]["cells"], json!(["a", "here"]));
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let mut metadata = house.watch_as(&format!("{V2}?watch=1"), accept).await;
    let event = metadata.next().await.unwrap();
    assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
    house.delete(&format!("{V1}/a")).await.with(200);
    let event = rows.next().await.unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["rows"][0]["cells"]),
        (&json!("DELETED"), &json!(["a", "here"]))
    );
}

#[tokio::test]
async fn r129_many_watches_share_a_conversion() {
    let (house, converter) = routes("v1").await;
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(house.watch(&format!("{V2}?watch=1")).await);
    }
    house.made(V1, first("a", "here:80")).await;
    for watch in &mut watches {
        assert_eq!(told(watch).await, r#"ADDED a {"host":"here","port":80}"#);
    }
    assert_eq!(converter.calls(), 1);
}

#[tokio::test]
async fn r129_what_a_watch_selects_by_is_what_its_version_says() {
    let (house, _converter) = routes("v1").await;
    house.made(V1, first("a", "here:80")).await;
    house.made(V1, first("b", "there:80")).await;
    let mut watch = house.watch(&format!("{V2}?watch=1&fieldSelector=spec.host%3Dhere")).await;
    watch.expect(&["ADDED a"]).await;
    house.merge(&format!("{V1}/b"), json!({ "spec": { "address": "here:80" } })).await.with(200);
    watch.expect(&["ADDED b"]).await;
    house.merge(&format!("{V1}/a"), json!({ "spec": { "address": "there:80" } })).await.with(200);
    watch.expect(&["DELETED a"]).await;
    house.merge(&format!("{V1}/b"), json!({ "spec": { "address": "here:81" } })).await.with(200);
    watch.expect(&["MODIFIED b"]).await;
    house.made(V1, first("c", "there:80")).await;
    assert!(watch.is_silent().await);
}

#[tokio::test]
async fn r129_an_event_that_cannot_be_converted_ends_its_watch() {
    let (house, converter) = routes("v1").await;
    house.made(V1, first("a", "here:80")).await;
    let mut other = house.watch(&format!("{V1}?watch=1")).await;
    other.expect(&["ADDED a"]).await;
    let mut watch = house.watch(&format!("{V2}?watch=1")).await;
    watch.expect(&["ADDED a"]).await;
    converter.breaks();
    house.merge(&format!("{V1}/a"), json!({ "spec": { "address": "here:81" } })).await.with(200);
    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(500)));
    let message = event["object"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("conversion webhook for example.com/v1, Kind=Route failed"),
        "{message}"
    );
    assert_eq!(watch.next().await, None);
    // Whoever watches what is stored hears of it.
    other.expect(&["MODIFIED a"]).await;
    let mut state = house.watch(&format!("{V2}?watch=1")).await;
    assert_eq!(state.next().await.unwrap()["type"], "ERROR");
    assert_eq!(state.next().await, None);
    converter.works();
    let mut watch = house.watch(&format!("{V2}?watch=1")).await;
    assert_eq!(told(&mut watch).await, r#"ADDED a {"host":"here","port":81}"#);
}

#[tokio::test]
async fn r115_a_watch_ends_when_somebody_else_converts() {
    let (house, converter) = routes("v1").await;
    let mut watch = house.watch(&format!("{V2}?watch=1")).await;
    let mut stanza = converter.stanza();
    stanza["webhook"]["clientConfig"]["url"] = converter.reviews.server.url("/other").into();
    house.merge(DEFINITION, json!({ "spec": { "conversion": stanza } })).await.with(200);
    assert_eq!(watch.next().await, None);
}
