//! Histories recorded on upstream, replayed on a fresh server per file. Which cases may fail is
//! listed in tests/parity/expected-failures.txt; the list only ever shrinks.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use tenure_client_tests::{Server, server::root};

/// Files whose topic is not served yet, each with what brings it.
const LATER: [(&str, &str); 2] = [
    ("ownership.json", "owner references and garbage collection"),
    ("workloads.json", "workload controllers"),
];
const NOW: [&str; 5] = ["api-core.json", "apply.json", "crd.json", "patch.json", "watchlist.json"];

#[test]
fn api_core() {
    replay(NOW[0]);
}

#[test]
fn apply() {
    replay(NOW[1]);
}

#[test]
fn crd() {
    replay(NOW[2]);
}

#[test]
fn patch() {
    replay(NOW[3]);
}

#[test]
fn watchlist() {
    replay(NOW[4]);
}

#[test]
fn every_recording_is_replayed_or_named_with_its_reason() {
    let folder = root().unwrap().join("tests/parity/cases");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let found: BTreeSet<String> = names.map(|name| name.into_string().unwrap()).collect();
    let known = NOW.into_iter().chain(LATER.map(|(file, _)| file)).map(str::to_owned);
    assert_eq!(found, known.collect());
    for (file, topic) in LATER {
        println!("{file} is not replayed yet: it comes with {topic}");
    }
}

#[test]
fn every_expected_failure_is_a_case() {
    let cases: BTreeSet<String> = NOW.iter().flat_map(|file| cases(file)).collect();
    let unknown: Vec<_> = NOW.iter().flat_map(|file| expected(file)).collect();
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

fn replay(file: &str) {
    let server = Server::ephemeral().unwrap();
    let folder = root().unwrap().join("tests/parity");
    let report = server.folder().join("report");
    let output = Command::new("python3")
        .arg(folder.join("parity.py"))
        .args(["check", "--kubeconfig"])
        .arg(server.kubeconfig())
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
