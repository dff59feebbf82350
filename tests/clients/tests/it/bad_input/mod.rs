//! Input that no honest client sends: every answer is a Status with the right code, memory stays
//! bounded, and the server is as healthy afterwards as before.

mod bodies;
mod clients;
mod paths;

use std::future::Future;

use serde_json::Value;
use tenure_client_tests::{Access, Answer, Server};

const OBJECTS: &str = "/api/v1/namespaces/default/configmaps";
const MEGABYTE: u64 = 1024 * 1024;

/// Runs a test on a fresh server, then asks the server how it is.
fn with_server<F: Future<Output = ()>>(test: impl FnOnce(Access) -> F) -> Server {
    let mut server = Server::ephemeral().unwrap();
    let access = server.access().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // Boxed, because these futures hold large buffers.
        Box::pin(test(access.clone())).await;
        healthy(&access).await;
    });
    server.alive().unwrap();
    let said = server.said();
    assert!(!said.contains("panicked"), "{said}");
    server
}

/// A new client is served as if nothing had happened.
async fn healthy(access: &Access) {
    assert_eq!(access.once("GET", "/readyz", None).await.unwrap().code, 200);
    let body =
        br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"healthy"},"data":{"k":"v"}}"#;
    assert_eq!(access.once("POST", OBJECTS, Some(body)).await.unwrap().code, 201);
    let one = format!("{OBJECTS}/healthy");
    let got = access.once("GET", &one, None).await.unwrap().json().unwrap();
    assert_eq!(got["data"]["k"], "v");
    assert_eq!(access.once("DELETE", &one, None).await.unwrap().code, 200);
}

/// The answer is a Status that says the same code as the head.
fn is_status(answer: &Answer, code: u16, what: &str) -> Value {
    let body = String::from_utf8_lossy(&answer.body);
    let body = body.chars().take(500).collect::<String>();
    assert_eq!(answer.code, code, "{what}: {body}");
    let status = answer.json().unwrap_or_else(|error| panic!("{what}: {error:#}"));
    assert_eq!(status["kind"], "Status", "{what}: {body}");
    assert_eq!(status["status"], "Failure", "{what}: {body}");
    assert_eq!(status["code"], code, "{what}: {body}");
    status
}
