//! Snapshots: of a server that runs, restored twice, and after a crash in the middle (api-server R198).

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_client_tests::wire::Access;
use tenure_client_tests::{Server, server::binary};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn tenure(arguments: &[&str]) -> Output {
    Command::new(binary().unwrap()).args(arguments).output().unwrap()
}

/// Runs it, expects success, and gives what it printed.
#[track_caller]
fn done(arguments: &[&str]) -> String {
    let output = tenure(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "tenure {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn create(access: &Access, name: &str) -> u64 {
    let body = json!({ "metadata": { "name": name }, "data": { "k": "x".repeat(2000) } });
    let answer = access.once("POST", CONFIG_MAPS, Some(body.to_string().as_bytes())).await.unwrap();
    assert_eq!(answer.code, 201);
    let made: Value = answer.json().unwrap();
    made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// The ConfigMaps of tests, by name.
async fn there(access: &Access) -> Vec<String> {
    let list = access.once("GET", CONFIG_MAPS, None).await.unwrap().json().unwrap();
    let names = list["items"].as_array().unwrap().iter();
    let names = names.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("c-")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r198_a_running_server_is_saved_as_it_is_at_one_revision() {
    let folder = TempDir::new().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("snapshot"));
    let server = Server::durable(&data).unwrap();
    let access = server.access().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (access, stop) = (access.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut made = Vec::new();
                while !stop.load(Ordering::SeqCst) {
                    let name = format!("c-{writer}-{:05}", made.len());
                    made.push((create(&access, &name).await, name));
                }
                made
            })
        })
        .collect();
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let (path, kubeconfig) = (text(&file).to_owned(), server.kubeconfig().to_owned());
    let said = tokio::task::spawn_blocking(move || {
        done(&["snapshot", "save", &path, "--kubeconfig", text(&kubeconfig)])
    });
    let said = said.await.unwrap();
    stop.store(true, Ordering::SeqCst);
    let mut made = Vec::new();
    for writer in writers {
        made.extend(writer.await.unwrap());
    }
    server.stop().unwrap();
    let revision = said.trim_end().rsplit(' ').next().unwrap().parse::<u64>().expect(&said);
    let mut expected: Vec<String> =
        made.iter().filter(|(at, _)| *at <= revision).map(|(_, name)| name.clone()).collect();
    expected.sort();
    assert!(!expected.is_empty() && expected.len() < made.len(), "writers wrote before and after");

    let other = folder.path().join("other");
    done(&["snapshot", "restore", text(&file), "--data-dir", text(&other)]);
    let server = Server::durable(&other).unwrap();
    let access = server.access().unwrap();
    assert_eq!(there(&access).await, expected);
    // Revisions go on where nobody has been.
    let last = made.iter().map(|(at, _)| *at).max().unwrap();
    assert!(create(&access, "c-later").await > last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r198_a_folder_in_use_is_saved_by_its_own_kubeconfig_and_only_for_administrators() {
    let folder = TempDir::new().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("snapshot"));
    let server = Server::durable(&data).unwrap();
    create(&server.access().unwrap(), "c-1").await;
    let said = done(&["snapshot", "save", text(&file), "--data-dir", text(&data)]);
    assert!(said.starts_with(&format!("saved `{}` (", file.display())), "{said}");
    assert!(said.contains(" as of revision "), "{said}");
    // Who may read every path may not read every object.
    let access = server.access().unwrap();
    for (path, body) in [
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({ "metadata": { "name": "paths" },
                    "rules": [{ "nonResourceURLs": ["*"], "verbs": ["*"] }] }),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            json!({ "metadata": { "name": "paths" },
                    "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "paths" },
                    "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": "default" }] }),
        ),
    ] {
        let answer = access.once("POST", path, Some(body.to_string().as_bytes())).await.unwrap();
        assert_eq!(answer.code, 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let token = access.once("POST", path, Some(b"{\"spec\":{}}")).await.unwrap().json().unwrap();
    let token = token["status"]["token"].as_str().unwrap();
    let other = Access::bearer(server.kubeconfig(), token).unwrap();
    assert_eq!(other.once("GET", "/metrics", None).await.unwrap().code, 200);
    assert_eq!(other.once("GET", "/tenure/snapshot", None).await.unwrap().code, 403);
    assert_eq!(access.once("POST", "/tenure/snapshot", None).await.unwrap().code, 405);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r198_restores_keep_everything_and_a_crash_between_their_steps_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("snapshot"));
    let server = Server::durable(&data).unwrap();
    create(&server.access().unwrap(), "c-1").await;
    server.stop().unwrap();
    done(&["snapshot", "save", text(&file), "--data-dir", text(&data)]);
    let mut kept = Vec::new();
    for name in ["c-2", "c-3"] {
        let server = Server::durable(&data).unwrap();
        create(&server.access().unwrap(), name).await;
        server.stop().unwrap();
        let said = done(&["snapshot", "restore", text(&file), "--data-dir", text(&data)]);
        kept.push(said.split('`').nth(5).unwrap().to_owned());
    }
    // Each has what was there when it was restored over.
    for (kept, name) in kept.iter().zip(["c-2", "c-3"]) {
        let look = folder.path().join(name);
        std::fs::create_dir(&look).unwrap();
        std::fs::rename(kept, look.join("store")).unwrap();
        let server = Server::durable(&look).unwrap();
        assert_eq!(there(&server.access().unwrap()).await, ["c-1", name]);
        server.stop().unwrap();
    }
    // As if the machine had stopped between the two renames of a file system that has no better.
    done(&["snapshot", "restore", text(&file), "--data-dir", text(&data)]);
    std::fs::rename(data.join("store"), data.join("store.restored")).unwrap();
    std::fs::write(data.join("store.restored/restored"), "").unwrap();
    let server = Server::durable(&data).unwrap();
    assert_eq!(there(&server.access().unwrap()).await, ["c-1"]);
}
