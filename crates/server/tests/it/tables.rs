//! Rules of spec/api-server.md.
//!
//! Answers in other shapes: rows for people and bare metadata. Which columns a kind has is the table
//! crate's own matter.

use serde_json::{Value, json};

use crate::house::*;

const TABLE_BETA: &str = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIALS: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const META: &str = "meta.k8s.io/v1";

fn columns(table: &Value) -> Vec<&str> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns.iter().map(|column| column["name"].as_str().unwrap()).collect()
}

/// The cells of all rows but the last, which is the age.
fn cells(table: &Value) -> Vec<Vec<Value>> {
    let rows = table["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        let cells = row["cells"].as_array().unwrap();
        cells[..cells.len() - 1].to_vec()
    })
    .collect()
}

/// An object as bare metadata.
fn partial(object: &Value) -> Value {
    json!({ "kind": "PartialObjectMetadata", "apiVersion": META, "metadata": object["metadata"] })
}

#[tokio::test]
async fn r27_a_get_becomes_a_table_of_one_row() {
    let house = House::new().await;
    let body = json!({ "metadata": { "name": "a" }, "data": { "k": "1", "l": "2" } });
    let made = house.made(CONFIG_MAPS, body).await;
    for (accept, api_version) in [
        (TABLE, META),
        (TABLE_BETA, "meta.k8s.io/v1beta1"),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", META),
        ("application/json; g=meta.k8s.io; v=v1; as=Table", META),
    ] {
        let table = house.get_as(&format!("{CONFIG_MAPS}/a"), accept).await.with(200);
        assert_eq!(table["kind"], "Table", "{accept}");
        assert_eq!(table["apiVersion"], api_version, "{accept}");
        assert_eq!(table["metadata"], json!({ "resourceVersion": version(&made) }));
        assert_eq!(columns(&table), ["Name", "Data", "Age"]);
        assert_eq!(cells(&table), [vec![json!("a"), json!(2)]]);
        let mut row = partial(&made);
        row["apiVersion"] = json!(api_version);
        assert_eq!(table["rows"][0]["object"], row);
    }
    let column = &house.get_as(CONFIG_MAPS, TABLE).await.json["columnDefinitions"][0];
    assert_eq!((&column["type"], &column["format"]), (&json!("string"), &json!("name")));
    assert_eq!(column["priority"], 0);
    assert!(!column["description"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn r27_a_list_becomes_a_table_with_its_metadata() {
    let house = House::new().await;
    for name in ["s0", "s1", "s2"] {
        house.made(SECRETS, named(name)).await;
    }
    let page = house.get_as(&format!("{SECRETS}?limit=2"), TABLE).await.with(200);
    let row = |name: &str| vec![json!(name), json!("Opaque"), json!(0)];
    assert_eq!(cells(&page), [row("s0"), row("s1")]);
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    assert_eq!(page["metadata"]["resourceVersion"], house.revision().to_string());
    let token = page["metadata"]["continue"].as_str().unwrap();
    let last = house.get_as(&format!("{SECRETS}?limit=2&continue={token}"), TABLE).await.with(200);
    assert_eq!(cells(&last), [row("s2")]);
    assert_eq!(columns(&last), ["Name", "Type", "Data", "Age"]);
}

#[tokio::test]
async fn r27_include_object_says_what_rows_carry() {
    let house = House::new().await;
    let made = house.made(SECRETS, named("a")).await;
    for (query, object) in [
        ("", partial(&made)),
        ("?includeObject=Metadata", partial(&made)),
        ("?includeObject=None", Value::Null),
        ("?includeObject=Object", made.clone()),
    ] {
        for path in [SECRETS.to_owned(), format!("{SECRETS}/a")] {
            let table = house.get_as(&format!("{path}{query}"), TABLE).await.with(200);
            assert_eq!(table["rows"][0]["object"], object, "{path}{query}");
        }
    }
    let answer = house.get_as(&format!("{SECRETS}?includeObject=Other"), TABLE).await;
    answer.fails(400, "BadRequest");
}

#[tokio::test]
async fn r27_a_failure_stays_a_status_and_an_empty_table_has_columns() {
    let house = House::new().await;
    let status = house.get_as(&format!("{SECRETS}/none"), TABLE).await.fails(404, "NotFound");
    assert_eq!(status["details"], json!({ "kind": "secrets", "name": "none" }));
    let empty = house.get_as(SECRETS, TABLE).await.with(200);
    assert_eq!(empty["rows"], json!([]));
    assert_eq!(columns(&empty), ["Name", "Type", "Data", "Age"]);
    let plain = house.get_as("/api/v1/namespaces/default/limitranges", TABLE).await.with(200);
    assert_eq!(columns(&plain), ["Name", "Created At"]);
    assert_eq!(plain.get("rows"), Some(&Value::Null));
}

#[tokio::test]
async fn r27_a_watch_sends_rows_and_its_columns_once() {
    let house = House::new().await;
    let from = house.revision();
    let made = house.made(SECRETS, named("a")).await;
    let path = format!("{SECRETS}?watch=1&resourceVersion={from}");
    let mut stream = house.watch_as(&path, TABLE).await;
    house.merge(&format!("{SECRETS}/a"), json!({ "stringData": { "k": "v" } })).await.with(200);
    let first = stream.next().await.unwrap();
    assert_eq!(first["type"], "ADDED");
    assert_eq!(columns(&first["object"]), ["Name", "Type", "Data", "Age"]);
    assert_eq!(first["object"]["metadata"], json!({ "resourceVersion": version(&made) }));
    assert_eq!(first["object"]["rows"][0]["object"], partial(&made));
    let second = stream.next().await.unwrap();
    assert_eq!((&second["type"], &second["object"]["kind"]), (&json!("MODIFIED"), &json!("Table")));
    assert_eq!(second["object"].get("columnDefinitions"), Some(&Value::Null));
    assert_eq!(cells(&second["object"]), [vec![json!("a"), json!("Opaque"), json!(1)]]);
}

#[tokio::test]
async fn r27_a_bookmark_of_a_table_watch_is_a_table() {
    let house = House::new().await;
    let path = format!(
        "{SECRETS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut stream = house.watch_as(&path, TABLE).await;
    let event = stream.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("BOOKMARK"), &json!("Table")));
    let metadata = &event["object"]["rows"][0]["object"]["metadata"];
    assert_eq!(metadata["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(metadata["resourceVersion"], house.revision().to_string());
    let row = &event["object"]["rows"][0];
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["cells"], json!(["", "", 0, "<unknown>"]));
    assert_eq!(
        event["object"]["metadata"],
        json!({ "resourceVersion": metadata["resourceVersion"] })
    );
    // What ends the state is told even where no object is wanted.
    let mut stream = house.watch_as(&format!("{path}&includeObject=None"), TABLE).await;
    let event = stream.next().await.unwrap();
    assert_eq!(
        event["object"]["rows"][0]["object"]["metadata"]["annotations"],
        metadata["annotations"]
    );
}

#[tokio::test]
async fn r28_reviews_have_no_table() {
    let house = House::new().await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = json!({ "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } } });
    for (accept, code) in [(TABLE, 406), (PARTIAL, 406), (JSON, 201)] {
        let headers = [("accept", accept), ("content-type", JSON)];
        let answer = house.ask("POST", path, &headers, body.to_string()).await;
        assert_eq!(answer.code, code, "{accept}");
        if code == 406 {
            assert_eq!(answer.fails(406, "NotAcceptable").get("details"), None);
        }
    }
}

#[tokio::test]
async fn r30_an_object_becomes_its_metadata() {
    let house = House::new().await;
    let body = json!({ "metadata": { "name": "a", "labels": { "x": "y" } }, "data": { "k": "1" } });
    let made = house.made(CONFIG_MAPS, body).await;
    let a = format!("{CONFIG_MAPS}/a");
    assert_eq!(house.get_as(&a, PARTIAL).await.with(200), partial(&made));
    let beta = house.get_as(&a, &PARTIAL.replace("v1", "v1beta1")).await.with(200);
    assert_eq!(beta["apiVersion"], "meta.k8s.io/v1beta1");
    let headers = [("accept", PARTIAL), ("content-type", MERGE)];
    let body = json!({ "data": { "k": "2" } }).to_string();
    let patched = house.ask("PATCH", &a, &headers, body).await.with(200);
    assert_eq!(patched, partial(&house.get(&a).await.json));
    house.get_as(&format!("{CONFIG_MAPS}/none"), PARTIAL).await.fails(404, "NotFound");
}

#[tokio::test]
async fn r30_a_list_becomes_a_list_of_metadata() {
    let house = House::new().await;
    let made = house.made(SECRETS, labelled("a", json!({ "x": "y" }))).await;
    house.made(SECRETS, named("b")).await;
    let list = house.get_as(&format!("{SECRETS}?labelSelector=x"), PARTIALS).await.with(200);
    assert_eq!(
        list,
        json!({
            "kind": "PartialObjectMetadataList", "apiVersion": META, "items": [partial(&made)],
            "metadata": { "resourceVersion": house.revision().to_string() },
        })
    );
    let page = house.get_as(&format!("{SECRETS}?limit=1"), PARTIALS).await.with(200);
    assert_eq!((names(&page), &page["metadata"]["remainingItemCount"]), (vec!["a"], &json!(1)));
    for (path, accept) in [
        (SECRETS.to_owned(), PARTIAL),
        (format!("{SECRETS}/a"), PARTIALS),
        (format!("{SECRETS}?watch=1"), PARTIALS),
    ] {
        let status = house.get_as(&path, accept).await.fails(406, "NotAcceptable");
        assert_eq!(status.get("details"), None, "{path}");
    }
}

#[tokio::test]
async fn r30_a_watch_sends_metadata_and_bookmarks_alike() {
    let house = House::new().await;
    let made = house.made(SECRETS, named("a")).await;
    let path = format!(
        "{SECRETS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut stream = house.watch_as(&path, PARTIAL).await;
    let added = json!({ "type": "ADDED", "object": partial(&made) });
    assert_eq!(stream.next().await.unwrap(), added);
    let bookmark = stream.next().await.unwrap();
    assert_eq!(bookmark["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(bookmark["object"]["apiVersion"], META);
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    house.delete(&format!("{SECRETS}/a")).await.with(200);
    let gone = stream.next().await.unwrap();
    assert_eq!((brief(&gone).as_str(), gone["object"].get("data")), ("DELETED a", None));
    assert_eq!(version(&gone["object"]), house.revision().to_string());
}
