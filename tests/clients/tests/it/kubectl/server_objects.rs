//! What belongs to the server itself: `kubectl delete all --all`, `kubectl version`, and watches that are cut
//! inside a revision. Rules of spec/api-server.md.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_client_tests::Server;

use super::Kubectl;

#[test]
fn r79_delete_all_leaves_a_cluster_that_works() {
    let kubectl = Kubectl::start();
    let before = kubectl.ok(&[
        "--namespace",
        "default",
        "get",
        "service",
        "kubernetes",
        "--output",
        "jsonpath={.metadata.uid}",
    ]);
    kubectl.ok(&["--namespace", "default", "delete", "all", "--all"]);
    let begin = Instant::now();
    loop {
        let output = kubectl
            .command(&[
                "--namespace",
                "default",
                "get",
                "service",
                "kubernetes",
                "--output",
                "jsonpath={.metadata.uid} {.spec.clusterIP}",
            ])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some((uid, address)) = said.split_once(' ') {
            assert_ne!(uid, before);
            assert_eq!(address, "10.96.0.1");
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(2), "the Service never came back");
        std::thread::sleep(Duration::from_millis(20));
    }
    for kind in ["endpoints", "endpointslices"] {
        let there = kubectl.ok(&["--namespace", "default", "get", kind, "--output", "name"]);
        assert!(there.contains("/kubernetes"), "{kind}: {there}");
    }
}

#[test]
fn r37_kubectl_version_prints_everything() {
    let kubectl = Kubectl::start();
    let said: Value = serde_json::from_str(&kubectl.ok(&["version", "--output", "json"])).unwrap();
    let server = &said["serverVersion"];
    for name in
        ["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate", "platform"]
    {
        assert!(server[name].as_str().is_some_and(|text| !text.is_empty()), "{name} in {server}");
    }
    let commit = server["gitCommit"].as_str().unwrap();
    assert!(commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{commit}");
    let text = kubectl.ok(&["version"]);
    assert!(text.contains("\nServer Version: v1."), "{text}");
}

/// Two quotas count one object at one revision, and a watch is cut after the first of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r104_a_watch_that_was_cut_inside_a_revision_misses_nothing() {
    let server = Server::ephemeral().unwrap();
    let access = server.access().unwrap();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    for name in ["a", "b"] {
        let body = json!({ "metadata": { "name": name }, "spec": { "hard": { "count/configmaps": "9" } } });
        let body = body.to_string();
        assert_eq!(access.once("POST", quotas, Some(body.as_bytes())).await.unwrap().code, 201);
    }
    let counted = |list: &Value| {
        let used = |item: &Value| item["status"]["used"]["count/configmaps"].is_string();
        list["items"].as_array().unwrap().iter().all(used)
    };
    let begin = Instant::now();
    let mut list = Value::Null;
    while list.is_null() || !counted(&list) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{list}");
        list = access.once("GET", quotas, None).await.unwrap().json().unwrap();
    }
    let from = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let path = format!("{quotas}?watch=true&resourceVersion={from}");
    let mut watch = access.connect().await.unwrap().watch(&path).await.unwrap();
    let body = json!({ "metadata": { "name": "counted" } }).to_string();
    let maps = "/api/v1/namespaces/default/configmaps";
    assert_eq!(access.once("POST", maps, Some(body.as_bytes())).await.unwrap().code, 201);
    let told = |event: &Value| {
        let metadata = &event["object"]["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap().to_owned();
        (text("resourceVersion"), text("name"))
    };
    let first = told(&watch.event().await.unwrap().unwrap());
    drop(watch);
    let path = format!("{quotas}?watch=true&resourceVersion={}", first.0);
    let mut resumed = access.connect().await.unwrap().watch(&path).await.unwrap();
    let mut heard = vec![first.clone()];
    while heard.iter().all(|(at, name)| *at != first.0 || *name == first.1) {
        let next = tokio::time::timeout(Duration::from_secs(5), resumed.event()).await;
        heard.push(told(&next.expect("the second of them is lost").unwrap().unwrap()));
    }
}
