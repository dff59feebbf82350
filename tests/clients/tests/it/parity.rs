//! Histories recorded on upstream, replayed on a fresh server per file. Which cases may fail is
//! listed in tests/parity/expected-failures.txt; the list only ever shrinks.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use serde_json::json;
use tenure_client_tests::{Server, server::root};

/// Every file of recordings.
const FILES: [&str; 9] = [
    "api-core.json",
    "apply.json",
    "crd.json",
    "patch.json",
    "watchlist.json",
    "ownership.json",
    "workloads.json",
    "security.json",
    "access.json",
];

#[test]
fn api_core() {
    replay(FILES[0]);
}

#[test]
fn apply() {
    replay(FILES[1]);
}

#[test]
fn crd() {
    replay(FILES[2]);
}

#[test]
fn patch() {
    replay(FILES[3]);
}

#[test]
fn watchlist() {
    replay(FILES[4]);
}

#[test]
fn ownership() {
    replay(FILES[5]);
}

#[test]
fn workloads() {
    replay(FILES[6]);
}

#[test]
fn security() {
    replay(FILES[7]);
}

#[test]
fn access() {
    replay(FILES[8]);
}

#[test]
fn every_recording_is_replayed() {
    let folder = root().unwrap().join("tests/parity/cases");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let found: BTreeSet<String> = names.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(found, FILES.map(str::to_owned).into());
}

#[test]
fn every_expected_failure_is_a_case() {
    let cases: BTreeSet<String> = FILES.iter().flat_map(|file| cases(file)).collect();
    let unknown: Vec<_> = FILES.iter().flat_map(|file| expected(file)).collect();
    let unknown: Vec<_> = unknown.iter().filter(|name| !cases.contains(*name)).collect();
    assert!(unknown.is_empty(), "no such cases: {unknown:?}");
}

fn cases(file: &str) -> Vec<String> {
    let path = root().unwrap().join("tests/parity/cases").join(file);
    let cases: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases = cases.as_array().unwrap().iter();
    cases.map(|case| case["name"].as_str().unwrap().to_owned()).collect()
}

/// Names listed for one file: lines under `[FILE]`, with `#` before a reason.
fn expected(file: &str) -> BTreeSet<String> {
    let path = root().unwrap().join("tests/parity/expected-failures.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let (mut names, mut section) = (BTreeSet::new(), String::new());
    for line in text.lines().map(|line| line.split('#').next().unwrap().trim()) {
        match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            Some(name) => name.clone_into(&mut section),
            None if line.is_empty() || section != file => {}
            None => assert!(names.insert(line.to_owned()), "{line} is listed twice"),
        }
    }
    names
}

/// A kubeconfig with a token instead of a certificate: some recordings send no credential, or another,
/// and a certificate would go with the connection all the same.
#[tokio::main(flavor = "current_thread")]
async fn with_token(server: &Server) -> Result<PathBuf> {
    const ACCOUNTS: &str = "/api/v1/namespaces/kube-system/serviceaccounts";
    const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = json!({
        "metadata": { "name": "parity" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin",
        },
        "subjects": [{ "kind": "ServiceAccount", "name": "parity", "namespace": "kube-system" }],
    });
    let mut connection = server.access()?.connect().await?;
    let mut token = json!(null);
    for (path, body) in [
        (ACCOUNTS.to_owned(), json!({ "metadata": { "name": "parity" } })),
        (BINDINGS.to_owned(), binding),
        (format!("{ACCOUNTS}/parity/token"), json!({ "spec": { "expirationSeconds": 7200 } })),
    ] {
        let body = serde_json::to_vec(&body)?;
        let answer = connection.send("POST", &path, Some(&body)).await?;
        ensure!(answer.code == 201, "{path} answers {}", answer.code);
        token = answer.json()?["status"]["token"].take();
    }
    let written = std::fs::read_to_string(server.kubeconfig())?;
    let mut lines = written.lines().map(str::trim);
    let authority = lines.find_map(|line| line.strip_prefix("certificate-authority-data: "));
    let kubeconfig = json!({
        "current-context": "parity",
        "contexts": [{ "name": "parity", "context": { "cluster": "parity", "user": "parity" } }],
        "clusters": [{ "name": "parity", "cluster": {
            "server": server.url(), "certificate-authority-data": authority,
        }}],
        "users": [{ "name": "parity", "user": { "token": token } }],
    });
    let path = server.folder().join("kubeconfig-with-token");
    std::fs::write(&path, serde_json::to_vec(&kubeconfig)?)?;
    Ok(path)
}

fn replay(file: &str) {
    let server = Server::ephemeral().unwrap();
    let folder = root().unwrap().join("tests/parity");
    let report = server.folder().join("report");
    let kubeconfig = with_token(&server).unwrap();
    let output = Command::new("python3")
        .arg(folder.join("parity.py"))
        .args(["check", "--kubeconfig"])
        .arg(kubeconfig)
        .arg("--report")
        .arg(&report)
        .arg(folder.join("cases").join(file))
        // The YAML reader of the Python client, which reads the kubeconfig.
        .env("PYTHONPATH", root().unwrap().join("target/tools/python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains(" passed, "), "{text}{said}");
    let report = std::fs::read_to_string(report).unwrap();
    let prefix = format!("{file}: ");
    let failed = report.lines().filter_map(|line| line.strip_prefix(&prefix));
    let failed: BTreeSet<String> = failed.map(str::to_owned).collect();
    let expected = expected(file);
    let unexpected: Vec<_> = failed.difference(&expected).collect();
    assert!(
        unexpected.is_empty(),
        "these cases fail and are not listed: {unexpected:#?}\n{report}"
    );
    let mended: Vec<_> = expected.difference(&failed).collect();
    assert!(mended.is_empty(), "these cases pass now; remove them from the list: {mended:#?}");
    println!("{file}: {last}, all of the failed expected");
}
