//! Rules of spec/api-server.md.
//!
//! Lists and gets: selectors, versions and shapes. Pages and Tables live in modules of their own.

use serde_json::{Value, json};

use crate::house::*;

const FAR: &str = "9000000000000000000";

fn selected(query: &str) -> String {
    let mut text = String::new();
    for byte in query.bytes() {
        text += &format!("%{byte:02X}");
    }
    text
}

#[tokio::test]
async fn r12_label_selectors_choose() {
    let house = House::new().await;
    house.made(SECRETS, labelled("a", json!({ "t": "x", "n": "5" }))).await;
    house.made(SECRETS, labelled("b", json!({ "t": "y", "n": "7" }))).await;
    house.made(SECRETS, named("c")).await;
    for (selector, found) in [
        ("t=x", vec!["a"]),
        ("t==x", vec!["a"]),
        ("t!=x", vec!["b", "c"]),
        ("t in (x,y)", vec!["a", "b"]),
        ("t notin (x)", vec!["b", "c"]),
        ("t", vec!["a", "b"]),
        ("!t", vec!["c"]),
        ("t,n>5", vec!["b"]),
        ("n<7", vec!["a"]),
        ("t=x,n=7", vec![]),
        ("t in ()", vec![]),
        ("", vec!["a", "b", "c"]),
    ] {
        let list = house.get(&format!("{SECRETS}?labelSelector={}", selected(selector))).await;
        assert_eq!(names(&list.with(200)), found, "{selector}");
    }
}

#[tokio::test]
async fn r12_bad_label_selectors_are_400() {
    let house = House::new().await;
    for selector in ["t===x", "t in x", "t>5x", ",", "t=bad value", "bad key=x", "==", "t in (x"] {
        let path = format!("{SECRETS}?labelSelector={}", selected(selector));
        let status = house.get(&path).await.fails(400, "BadRequest");
        assert_eq!(status.get("details"), None, "{selector}");
        house.get(&format!("{path}&watch=1")).await.fails(400, "BadRequest");
    }
}

#[tokio::test]
async fn r13_field_selectors_choose() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    house.made(SECRETS, json!({ "metadata": { "name": "b" }, "type": "x.io/t=1,2" })).await;
    for (selector, found) in [
        ("metadata.name=a", vec!["a"]),
        ("metadata.name==a", vec!["a"]),
        ("metadata.name!=a,metadata.namespace=default", vec!["b"]),
        ("type=Opaque", vec!["a"]),
        (r"type=x.io/t\=1\,2", vec!["b"]),
        ("metadata.namespace=other", vec![]),
        ("", vec!["a", "b"]),
    ] {
        let list = house.get(&format!("{SECRETS}?fieldSelector={}", selected(selector))).await;
        assert_eq!(names(&list.with(200)), found, "{selector}");
    }
    for (path, selector) in [
        (SECRETS, "spec.x=1"),
        (SECRETS, "metadata.name"),
        (SECRETS, "metadata.name>a"),
        (DEPLOYMENTS, "spec.replicas=1"),
        ("/api/v1/namespaces", "metadata.namespace=x"),
    ] {
        let path = format!("{path}?fieldSelector={}", selected(selector));
        let status = house.get(&path).await.fails(400, "BadRequest");
        assert_eq!(status.get("details"), None, "{selector}");
    }
    let status = house.get(&format!("{SECRETS}?fieldSelector=spec.x%3D1")).await.json;
    assert!(status["message"].as_str().unwrap().contains("field label not supported: spec.x"));
}

#[tokio::test]
async fn r13_kinds_have_fields_of_their_own() {
    let house = House::new().await;
    let mut bound = pod("b");
    bound["spec"]["nodeName"] = json!("n1");
    bound["spec"]["restartPolicy"] = json!("Never");
    house.made(PODS, pod("a")).await;
    house.made(PODS, bound).await;
    let mut service = json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80 }] } });
    service["spec"]["clusterIP"] = json!("None");
    house.made(SERVICES, service).await;
    for (path, selector, found) in [
        (PODS, "spec.nodeName=", vec!["a"]),
        (PODS, "spec.nodeName=n1,status.phase=Pending", vec!["b"]),
        (PODS, "spec.restartPolicy=Never", vec!["b"]),
        (PODS, "status.podIP=", vec!["a", "b"]),
        (PODS, "spec.serviceAccountName=default", vec!["a", "b"]),
        (PODS, "spec.schedulerName!=default-scheduler", vec![]),
        (SERVICES, "spec.clusterIP=None", vec!["s"]),
        (SERVICES, "spec.type=NodePort", vec![]),
        (NAMESPACES, "metadata.name=default,status.phase=Active", vec!["default"]),
    ] {
        let list = house.get(&format!("{path}?fieldSelector={}", selected(selector))).await;
        assert_eq!(names(&list.with(200)), found, "{selector}");
    }
}

#[tokio::test]
async fn r16_versions_choose_the_state() {
    let house = House::new().await;
    let old = house.made(SECRETS, named("a")).await;
    let new = house.made(SECRETS, named("b")).await;
    let (old, new) = (version(&old), version(&new));
    for (query, found) in [
        (String::new(), 2),
        ("resourceVersion=0".into(), 2),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan".into(), 2),
        ("resourceVersion=0&limit=1".into(), 1),
        (format!("resourceVersion={old}"), 2),
        (format!("resourceVersion={old}&limit=10"), 1),
        (format!("resourceVersion={old}&limit=10&resourceVersionMatch=NotOlderThan"), 2),
        (format!("resourceVersion={old}&resourceVersionMatch=Exact"), 1),
        (format!("resourceVersion={new}&resourceVersionMatch=Exact"), 2),
    ] {
        let list = house.get(&format!("{SECRETS}?{query}")).await.with(200);
        assert_eq!(names(&list).len(), found, "{query}");
        if query.contains("Exact") {
            assert!(query.contains(&format!("={}&", version(&list))), "{query}");
        }
    }
    house.compact().await;
    let gone = format!("{SECRETS}?resourceVersion={old}&resourceVersionMatch=Exact");
    house.get(&gone).await.fails(410, "Expired");
    house.get(&format!("{SECRETS}?resourceVersion={old}")).await.with(200);
}

#[tokio::test]
async fn r16_versions_and_matches_that_do_not_go_together_are_422() {
    let house = House::new().await;
    let (forbidden, unknown) = ("FieldValueForbidden", "FieldValueNotSupported");
    let field = "resourceVersionMatch";
    for (query, causes) in [
        ("resourceVersionMatch=Exact", vec![(field, forbidden)]),
        ("resourceVersionMatch=Exact&resourceVersion=0", vec![(field, forbidden)]),
        ("resourceVersionMatch=Near&resourceVersion=5", vec![(field, unknown)]),
        (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            vec![(field, forbidden), ("sendInitialEvents", forbidden)],
        ),
    ] {
        let status = house.get(&format!("{SECRETS}?{query}")).await.fails(422, "Invalid");
        assert_eq!(status["details"]["kind"], "ListOptions", "{query}");
        let found = status["details"]["causes"].as_array().unwrap();
        let found: Vec<_> = found.iter().map(|c| (&c["field"], &c["reason"])).collect();
        let causes: Vec<_> = causes.iter().map(|(f, r)| (json!(f), json!(r))).collect();
        assert_eq!(found, causes.iter().map(|(f, r)| (f, r)).collect::<Vec<_>>(), "{query}");
    }
    let watch = format!("{SECRETS}?watch=true&continue=x");
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let status = house.get(&format!("{watch}&{query}")).await.fails(422, "Invalid");
    assert_eq!(fields(&status), [field]);
    // Without it, a watch has no pages to go on with.
    let now = house.revision();
    house.watch(&format!("{watch}&resourceVersion={now}")).await;
}

#[tokio::test]
async fn r17_a_version_to_come_is_waited_for() {
    let house = House::new().await;
    let next = house.revision().0 + 1;
    let path = format!("{SECRETS}?resourceVersion={next}");
    let one = format!("{SECRETS}/a?resourceVersion={next}");
    let (list, object, _) =
        tokio::join!(house.get(&path), house.get(&one), house.made(SECRETS, named("a")));
    assert_eq!(names(&list.with(200)), ["a"]);
    object.with(200);
}

#[tokio::test]
async fn r17_a_version_that_never_comes_is_504_with_its_cause() {
    let house = House::new().await;
    house.made(SECRETS, named("a")).await;
    tokio::time::pause();
    for path in [SECRETS.to_owned(), format!("{SECRETS}/a")] {
        let answer = house.get(&format!("{path}?resourceVersion={FAR}")).await;
        assert_eq!(answer.header("retry-after"), "1");
        let status = answer.fails(504, "Timeout");
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        assert_eq!(status["details"]["retryAfterSeconds"], 1);
        let current = house.revision();
        let text = format!("Too large resource version: {FAR}, current: {current}");
        assert!(status["message"].as_str().unwrap().contains(&text), "{status}");
    }
}

#[tokio::test]
async fn r18_get_takes_any_version_that_is_not_to_come() {
    let house = House::new().await;
    let made = house.made(SECRETS, named("a")).await;
    for given in ["", "0", "1", version(&made)] {
        let found = house.get(&format!("{SECRETS}/a?resourceVersion={given}")).await.with(200);
        assert_eq!(found, made, "{given}");
    }
    house.get(&format!("{SECRETS}/a?resourceVersion=x")).await.fails(400, "BadRequest");
}

#[tokio::test]
async fn r19_lists_have_their_shape() {
    let house = House::new().await;
    for (path, kind, api_version) in [
        (SECRETS, "SecretList", "v1"),
        (DEPLOYMENTS, "DeploymentList", "apps/v1"),
        ("/api/v1/namespaces/nowhere/configmaps", "ConfigMapList", "v1"),
    ] {
        let list = house.get(path).await.with(200);
        let revision = version(&list).to_owned();
        assert_eq!(
            list,
            json!({
                "kind": kind, "apiVersion": api_version, "items": [],
                "metadata": { "resourceVersion": revision },
            })
        );
    }
    let made = house.made(SECRETS, named("a")).await;
    let later = house.config_map("later").await;
    let list = house.get(SECRETS).await.with(200);
    let mut item = made.clone();
    item.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
    assert_eq!(list["items"], json!([item]));
    let revision = |object: &Value| version(object).parse::<u64>().unwrap();
    assert!(revision(&list) >= revision(&later));
}

#[tokio::test]
async fn r19_lists_are_in_key_order() {
    let house = House::new().await;
    let mut keys = Vec::new();
    for namespace in ["n", "n-a", "m"] {
        house.made(NAMESPACES, named(namespace)).await;
        for name in ["b", "a.b", "a", "a-b", "0"] {
            house.made(&format!("/api/v1/namespaces/{namespace}/secrets"), named(name)).await;
            keys.push(format!("{namespace}/{name}"));
        }
    }
    keys.sort();
    let list = house.get("/api/v1/secrets").await.with(200);
    let found: Vec<String> = list["items"].as_array().unwrap().iter().map(key).collect();
    assert_eq!(found, keys);
}
