//! The labels of a namespace hold for whoever makes pods, also for controllers that make them for others.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::{Server, wire::Connection};

const NAMESPACE: &str = "/api/v1/namespaces/guarded";

async fn send(
    connection: &mut Connection,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<(u16, Value)> {
    let answer = connection.send(method, path, Some(&serde_json::to_vec(body)?)).await?;
    Ok((answer.code, answer.json()?))
}

fn guarded() -> Value {
    let labels = json!({ "pod-security.kubernetes.io/enforce": "baseline" });
    json!({ "metadata": { "name": "guarded", "labels": labels } })
}

#[tokio::test]
async fn a_controller_makes_no_pod_that_its_user_may_not_make() -> Result<()> {
    let server = Server::start(&["--ephemeral", "--nodes", "0"])?;
    let mut connection = server.access()?.connect().await?;
    let (code, _) = send(&mut connection, "POST", "/api/v1/namespaces", &guarded()).await?;
    assert_eq!(code, 201);
    let host = json!({ "hostNetwork": true, "containers": [{ "name": "c", "image": "i" }] });
    let pod = json!({ "metadata": { "name": "direct" }, "spec": host });
    let (code, status) = send(&mut connection, "POST", &format!("{NAMESPACE}/pods"), &pod).await?;
    assert_eq!(code, 403, "{status}");
    let template = json!({ "metadata": { "labels": { "a": "b" } }, "spec": host });
    let deployment = json!({
        "metadata": { "name": "d" },
        "spec": { "replicas": 2, "selector": { "matchLabels": { "a": "b" } }, "template": template },
    });
    let deployments = "/apis/apps/v1/namespaces/guarded/deployments";
    let body = serde_json::to_vec(&deployment)?;
    let made = connection.send("POST", deployments, Some(&body)).await?;
    assert_eq!(made.code, 201);
    // Heads are read in lower case.
    let warning = made.header("warning").unwrap_or_default();
    assert!(warning.contains("would violate podsecurity"), "{warning}");
    // The controller has tried once an event says so.
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let events = connection.send("GET", &format!("{NAMESPACE}/events"), None).await?.json()?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        if events.iter().any(|event| {
            event["reason"] == "FailedCreate"
                && event["message"].as_str().unwrap_or_default().contains("violates PodSecurity")
        }) {
            break;
        }
        let pods = connection.send("GET", &format!("{NAMESPACE}/pods"), None).await?.json()?;
        ensure!(pods["items"] == json!([]), "the controller made {}", pods["items"][0]["spec"]);
        ensure!(Instant::now() < end, "no event tells that pods are refused");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let pods = connection.send("GET", &format!("{NAMESPACE}/pods"), None).await?.json()?;
    assert_eq!(pods["items"], json!([]));
    Ok(())
}

#[tokio::test]
async fn no_way_around_the_labels_is_left_open() -> Result<()> {
    let server = Server::start(&["--ephemeral", "--nodes", "0"])?;
    let mut connection = server.access()?.connect().await?;
    send(&mut connection, "POST", "/api/v1/namespaces", &guarded()).await?;
    let pods = format!("{NAMESPACE}/pods");
    let plain = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let (code, mut pod) = send(&mut connection, "POST", &pods, &plain).await?;
    assert_eq!(code, 201, "{pod}");
    // A debug container with the rights of the node.
    let rights = json!({ "privileged": true });
    pod["spec"]["ephemeralContainers"] =
        json!([{ "name": "d", "image": "i", "securityContext": rights }]);
    let debug = format!("{pods}/p/ephemeralcontainers");
    assert_eq!(send(&mut connection, "PUT", &debug, &pod).await?.0, 403);
    // An init container, the node's files, one of its ports, more capabilities.
    for (member, value) in [
        ("initContainers", json!([{ "name": "x", "image": "i", "securityContext": rights }])),
        ("volumes", json!([{ "name": "v", "hostPath": { "path": "/" } }])),
        (
            "containers",
            json!([{ "name": "c", "image": "i", "ports": [{ "containerPort": 1, "hostPort": 1 }] }]),
        ),
        (
            "containers",
            json!([{ "name": "c", "image": "i", "securityContext": { "capabilities": { "add": ["SYS_ADMIN"] } } }]),
        ),
    ] {
        let mut bad = plain.clone();
        bad["metadata"]["name"] = json!("x");
        bad["spec"][member] = value;
        let (code, status) = send(&mut connection, "POST", &pods, &bad).await?;
        assert_eq!(code, 403, "{member}: {status}");
    }
    // A label that means nothing opens nothing: it is refused.
    let mut wrong = guarded();
    wrong["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = json!("Privileged");
    assert_eq!(send(&mut connection, "PUT", NAMESPACE, &wrong).await?.0, 422);
    Ok(())
}
