//! What the log of a running server says of requests and pods (api-server R179e), and what nobody can make it say
//! (downward-api R214a).

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tenure_client_tests::Server;

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// A namespace that would end the line, write another one and color it.
const FORGED: &str = "/api/v1/namespaces/a%0A2026%20WARN%20forged%1b%5B31m%E2%80%AE/pods";

/// Types a line for kubectl, which may fail.
fn kubectl(server: &Server, words: &[&str]) -> String {
    let output = Command::new(std::env::var_os("KUBECTL").unwrap_or("kubectl".into()))
        .args(words)
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", server.folder())
        .output()
        .unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Waits for a line that says all of this.
fn line(server: &Server, parts: &[&str]) -> String {
    let begin = Instant::now();
    loop {
        let said = server.said();
        if let Some(line) = said.lines().find(|line| parts.iter().all(|part| line.contains(part))) {
            return line.to_owned();
        }
        assert!(begin.elapsed() < LIMIT, "no line with {parts:?} in\n{said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn r179e_each_request_is_one_line_that_nobody_else_can_write() {
    let server = Server::start(&["--ephemeral", "-v"]).unwrap();
    let selected = "/api/v1/namespaces/default/configmaps?labelSelector=hidden%3Dword";
    kubectl(&server, &["get", "--raw", selected]);
    let told = line(&server, &["/api/v1/namespaces/default/configmaps"]);
    for part in [
        " INFO request{",
        "verb=\"list\"",
        "resource=\"configmaps\"",
        "user=\"kubernetes-admin\"",
        "code=200",
        "revision=",
        "tenure::request: answered",
        "method=\"GET\"",
        "ms=",
        "bytes=",
    ] {
        assert!(told.contains(part), "no {part} in {told}");
    }
    assert!(!server.said().contains("hidden"), "what a query holds is nobody's business");
    kubectl(&server, &["get", "--raw", FORGED]);
    line(&server, &["forged"]);
    let said = server.said();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("forged")).collect();
    let [told] = lines[..] else { panic!("not one line: {lines:?}") };
    assert!(told.contains("namespaces/a\\n2026 WARN forged\\u{1b}[31m\\u{202e}/pods"), "{told}");
    assert!(!said.contains(['\x1b', '\u{202e}']), "{said}");
}

#[test]
fn r179e_requests_are_objects_where_lines_are_json() {
    let server = Server::start(&["--ephemeral", "-v", "--log-format", "json"]).unwrap();
    kubectl(&server, &["get", "--raw", FORGED]);
    let told = line(&server, &["forged"]);
    let read: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(read["target"], "tenure::request");
    assert_eq!(read["span"]["user"], "kubernetes-admin", "{told}");
    assert_eq!(read["span"]["verb"], "list", "{told}");
    let path = "/api/v1/namespaces/a\n2026 WARN forged\u{1b}[31m\u{202e}/pods";
    assert_eq!(read["fields"]["path"], path, "{told}");
    assert!(!server.said().contains(['\x1b', '\u{202e}']));
}

#[test]
fn r179e_steps_are_told_to_programs_and_requests_only_when_asked_for() {
    let server = Server::start(&["--ephemeral", "--log-format", "json"]).unwrap();
    kubectl(&server, &["get", "namespaces"]);
    for step in ["listening; requests are answered once all is ready", "\"message\":\"ready\""] {
        line(&server, &[step]);
    }
    assert!(!server.said().contains("tenure::request"), "{}", server.said());
}

#[test]
fn r179e_what_is_said_of_a_pod_names_it() {
    let server = Server::start(&["--ephemeral", "--nodes", "1", "-vv"]).unwrap();
    let overrides = r#"--overrides={"spec": {"containers": [{"name": "hooked", "image": "host",
        "command": ["sleep", "60"], "lifecycle": {"postStart": {"exec": {"command": ["false"]}}}}]}}"#;
    let said = kubectl(&server, &["run", "hooked", "--image=host", "--restart=Never", overrides]);
    assert!(said.contains("created"), "{said}");
    let told = line(&server, &["a hook failed"]);
    let uid = kubectl(&server, &["get", "pod", "hooked", "--output=jsonpath={.metadata.uid}"]);
    let expected = format!("pod{{namespace=\"default\" pod=\"hooked\" uid=\"{uid}\"}}");
    assert!(told.contains(&expected), "no {expected} in {told}");
}
