//! A field selector names nothing that is written.

use serde_json::{Value, json};
use tenure_client_tests::Server;

use super::caller::Caller;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Ways to write a selector that names `foo`.
const SELECTORS: [&str; 4] = [
    "fieldSelector=metadata.name=foo",
    "fieldSelector=metadata.name%3Dfoo",
    "fieldSelector=metadata.name%3D%3Dfoo",
    "fieldSelector=metadata.name%3Dfoo,metadata.namespace%3Ddefault",
];

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

/// A server with `foo` and `bar`, and somebody who may do everything with `foo`.
async fn begin() -> (Server, Caller, Caller) {
    let server = Server::ephemeral().unwrap();
    let admin = Caller::new(server.access().unwrap());
    for name in ["foo", "bar"] {
        admin.create(CONFIG_MAPS, config_map(name)).await;
    }
    let rules = json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "resourceNames": ["foo"]},
    ]);
    let mallory = admin.user_with("mallory", rules).await;
    (server, admin, mallory)
}

async fn names(admin: &Caller) -> Vec<String> {
    let list = admin.get(CONFIG_MAPS).await.expect(200, "list");
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_selector_lets_nobody_create() {
    let (_server, admin, mallory) = begin().await;
    let before = names(&admin).await;
    for selector in SELECTORS {
        for name in ["foo", "baz"] {
            let path = format!("{CONFIG_MAPS}?{selector}");
            mallory.post(&path, &config_map(name)).await.expect(403, &path);
            let path = format!("{CONFIG_MAPS}?{selector}&dryRun=All");
            mallory.post(&path, &config_map(name)).await.expect(403, &path);
        }
        // What reviews and bindings are posted to has collections too.
        let pods = format!("/api/v1/namespaces/default/pods?{selector}");
        let pod = json!({
            "metadata": {"name": "foo"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        mallory.post(&pods, &pod).await.expect(403, &pods);
        let path = format!("/api/v1/namespaces?{selector}");
        mallory.post(&path, &json!({"metadata": {"name": "foo"}})).await.expect(403, &path);
        let token = format!("/api/v1/namespaces/default/serviceaccounts/default/token?{selector}");
        mallory.post(&token, &json!({"spec": {}})).await.expect(403, &token);
    }
    assert_eq!(names(&admin).await, before);
}

#[tokio::test]
async fn a_selector_lets_nobody_delete_a_collection() {
    let (_server, admin, mallory) = begin().await;
    let before = names(&admin).await;
    for selector in SELECTORS {
        for path in [
            format!("{CONFIG_MAPS}?{selector}"),
            format!("{CONFIG_MAPS}?{selector}&dryRun=All"),
            format!("/api/v1/namespaces/default/secrets?{selector}"),
            format!("/api/v1/nodes?{selector}"),
        ] {
            mallory.delete(&path).await.expect(403, &path);
        }
    }
    assert_eq!(names(&admin).await, before);
    // By its name it may be deleted.
    let foo = format!("{CONFIG_MAPS}/foo");
    mallory.delete(&foo).await.expect(200, &foo);
}

#[tokio::test]
async fn a_selector_narrows_a_list_and_a_watch_and_nothing_more() {
    let (_server, _admin, mallory) = begin().await;
    for selector in SELECTORS {
        let path = format!("{CONFIG_MAPS}?{selector}");
        let list = mallory.get(&path).await.expect(200, &path);
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{path}: {list}");
        assert_eq!(items[0]["metadata"]["name"], "foo");
        let path = format!("{path}&watch=1&timeoutSeconds=1");
        let events = mallory.get(&path).await;
        assert_eq!(events.code, 200, "{path}: {}", events.json);
        assert!(!events.json.to_string().contains("bar"), "{path}: {}", events.json);
    }
    for path in [
        CONFIG_MAPS.to_owned(),
        format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1"),
        format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dbar"),
        format!("{CONFIG_MAPS}?fieldSelector=metadata.name!%3Dfoo"),
        format!("{CONFIG_MAPS}?fieldSelector=metadata.namespace%3Dfoo"),
        format!("{CONFIG_MAPS}?labelSelector=metadata.name%3Dfoo"),
        // Of two, the first counts, whichever of them is read.
        format!(
            "{CONFIG_MAPS}?fieldSelector=metadata.name%3Dbar&fieldSelector=metadata.name%3Dfoo"
        ),
        // A semicolon, and a broken escape: as if nothing was sent.
        format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dfoo;x=1"),
        format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dfoo%zz"),
        // What is no name of a path names nothing.
        format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dfoo%2F..%2Fbar"),
    ] {
        mallory.get(&path).await.expect(403, &path);
    }
}
