//! Objects, lists, Tables and metadata in another version than the stored one.

use super::*;

#[tokio::test]
async fn r129_an_object_is_read_in_the_version_that_is_asked_for() {
    let (house, converter) = routes("v1").await;
    house.made(V1, first("a", "here:80")).await;
    assert_eq!(converter.calls(), 0, "nobody asked for another version");
    let read = house.get(&format!("{V2}/a")).await.with(200);
    assert_eq!((&read["apiVersion"], &read["kind"]), (&json!("example.com/v2"), &json!("Route")));
    assert_eq!(read["spec"], json!({ "host": "here", "port": 80 }));
    let plain = house.get(&format!("{V1}/a")).await.with(200);
    assert_eq!(plain["spec"], json!({ "address": "here:80" }));
    assert_eq!(read["metadata"], plain["metadata"], "of these nothing changed");
    let [request] = converter.asked().try_into().unwrap();
    assert_eq!(request["desiredAPIVersion"], "example.com/v2");
    assert!(request["uid"].as_str().is_some_and(|uid| !uid.is_empty()));
    assert_eq!(request["objects"].as_array().unwrap().len(), 1);
    assert_eq!(request["objects"][0]["spec"], json!({ "address": "here:80" }));
    assert_eq!(request["objects"][0]["apiVersion"], "example.com/v1");
}

#[tokio::test]
async fn r129_a_list_is_converted_in_one_call_and_only_as_far_as_it_must_be() {
    let (house, converter) = routes("v1").await;
    for name in ["a", "b", "c"] {
        house.made(V1, first(name, &format!("{name}:1"))).await;
    }
    store_as(&house, "v2").await;
    house.made(V2, second("d", "d", 1)).await;
    converter.calls();
    let list = house.get(V2).await.with(200);
    assert_eq!(names(&list), ["a", "b", "c", "d"]);
    let items = list["items"].as_array().unwrap();
    for item in items {
        assert_eq!(item["apiVersion"], "example.com/v2");
        assert_eq!(item["spec"], json!({ "host": name(item), "port": 1 }));
    }
    let [request] = converter.asked().try_into().unwrap();
    let sent = request["objects"].as_array().unwrap();
    assert_eq!(sent.iter().map(name).collect::<Vec<_>>(), ["a", "b", "c"], "the fourth is there");
    // The other way round only the fourth needs it.
    let list = house.get(V1).await.with(200);
    assert_eq!(names(&list), ["a", "b", "c", "d"]);
    assert_eq!(list["items"][3]["spec"], json!({ "address": "d:1" }));
    let [request] = converter.asked().try_into().unwrap();
    assert_eq!(request["objects"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn r129_pages_rows_and_metadata_are_of_the_version() {
    let (house, converter) = routes("v1").await;
    for name in ["a", "b", "c"] {
        house.made(V1, first(name, &format!("{name}:1"))).await;
    }
    let page = house.get(&format!("{V2}?limit=2")).await.with(200);
    assert_eq!(names(&page), ["a", "b"]);
    assert_eq!(converter.asked()[0]["objects"].as_array().unwrap().len(), 2, "the page's");
    let next = page["metadata"]["continue"].as_str().unwrap();
    let rest = house.get(&format!("{V2}?limit=2&continue={next}")).await.with(200);
    assert_eq!(rest["items"][0]["spec"]["host"], "c");
    let table = house.get_as(V2, TABLE).await.with(200);
    assert_eq!(table["columnDefinitions"][1]["name"], "Host");
    assert_eq!(table["rows"][0]["cells"], json!(["a", "a"]));
    let one = house.get_as(&format!("{V2}/b"), TABLE).await.with(200);
    assert_eq!(one["rows"][0]["cells"], json!(["b", "b"]));
    // Labels and annotations are what a webhook may change of metadata.
    converter.changes(|all| {
        for object in all {
            object["metadata"]["labels"] = json!({ "converted": "yes" });
        }
    });
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let metadata = house.get_as(V2, accept).await.with(200);
    assert_eq!(metadata["items"][0]["metadata"]["labels"], json!({ "converted": "yes" }));
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let metadata = house.get_as(&format!("{V2}/a"), accept).await.with(200);
    assert_eq!(metadata["metadata"]["labels"], json!({ "converted": "yes" }));
    assert!(metadata.get("spec").is_none());
    converter.breaks();
    fails(house.get_as(&format!("{V2}/a"), accept).await, "out of order");
    fails(house.get_as(V2, TABLE).await, "out of order");
}

#[tokio::test]
async fn r129_labels_and_fields_are_those_of_the_version_that_is_asked_for() {
    let (house, converter) = routes("v1").await;
    for name in ["a", "b", "c"] {
        house.made(V1, first(name, &format!("{name}:1"))).await;
    }
    let found = house.get(&format!("{V2}?fieldSelector=spec.host%3Db")).await.with(200);
    assert_eq!(names(&found), ["b"], "what is stored has no such field");
    let others = house.get(&format!("{V2}?fieldSelector=spec.host!%3Db&limit=1")).await.with(200);
    assert_eq!(names(&others), ["a"]);
    let next = others["metadata"]["continue"].as_str().unwrap();
    let path = format!("{V2}?fieldSelector=spec.host!%3Db&limit=1&continue={next}");
    let last = house.get(&path).await.with(200);
    assert_eq!((names(&last), &last["metadata"]["continue"]), (vec!["c"], &json!("")));
    converter.changes(|all| {
        for object in all {
            object["metadata"]["labels"] = json!({ "host": object["spec"]["host"] });
        }
    });
    let found = house.get(&format!("{V2}?labelSelector=host%3Dc")).await.with(200);
    assert_eq!(names(&found), ["c"]);
    let deleted = house.delete(&format!("{V2}?labelSelector=host%3Dc")).await.with(200);
    assert_eq!(names(&deleted), ["c"]);
    assert_eq!(names(&house.get(V1).await.with(200)), ["a", "b"]);
}

#[tokio::test]
async fn r121a_what_is_read_is_defaulted_as_stored_and_pruned_as_asked() {
    let (house, converter) = (House::new().await, Converter::start().await);
    let mut whole = definition(&converter, "v1");
    let fields = |at: usize| {
        format!("/spec/versions/{at}/schema/openAPIV3Schema/properties/spec/properties")
    };
    whole.pointer_mut(&fields(0)).unwrap()["old"]["default"] = "first".into();
    whole.pointer_mut(&fields(1)).unwrap()["new"]["default"] = "second".into();
    house.made(DEFINITIONS, whole).await;
    house.made(V1, first("a", "here:80")).await;
    converter.calls();
    converter.changes(|all| {
        for object in all {
            object["spec"]["strange"] = true.into();
        }
    });
    let read = house.get(&format!("{V2}/a")).await.with(200);
    // `old` is no field of version 2, `new` is filled in where it is written, not where it is read.
    assert_eq!(read["spec"], json!({ "host": "here", "port": 80 }));
    assert_eq!(converter.asked()[0]["objects"][0]["spec"]["old"], "first");
    let list = house.get(V2).await.with(200);
    assert_eq!(list["items"][0]["spec"], json!({ "host": "here", "port": 80 }));
}

#[tokio::test]
async fn r129_a_long_list_goes_in_a_few_calls_and_others_are_answered_meanwhile() {
    let (house, converter) = routes("v1").await;
    let text = "x".repeat(20_000);
    for number in 0..300 {
        let mut route = first(&format!("r-{number:03}"), "here:80");
        route["metadata"]["annotations"] = json!({ "text": text });
        house.made(V1, route).await;
    }
    converter.calls();
    let list = house.get(V2).await.with(200);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 300);
    assert!(items.iter().all(|item| item["spec"] == json!({ "host": "here", "port": 80 })));
    assert!(items.iter().all(|item| item["metadata"]["annotations"]["text"] == text.as_str()));
    let asked = converter.asked();
    let sent: Vec<&str> =
        asked.iter().flat_map(|one| one["objects"].as_array().unwrap()).map(name).collect();
    let mut wanted: Vec<&str> = items.iter().map(name).collect();
    wanted.sort_unstable();
    assert_eq!(sent, wanted, "each once, in their order");
    assert!((2..=4).contains(&asked.len()), "{} calls of at most 4 MiB", asked.len());
}
