//! Server-side apply: each client has an object of its own and every apply changes one field of it.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::Server;
use tenure_client_tests::wire::request;

use super::measure::{CLIENTS, Measure, OBJECTS, storm};

const FIELDS: usize = 20;
/// Stands where a number comes that no other apply has.
const CHANGES: &str = "(number)";
const TEMPLATES: &str = "/api/v1/namespaces/default/podtemplates";

/// Durable, as a server is unless told otherwise; the first apply of each client creates.
pub(super) async fn rates() -> Result<Vec<Measure>> {
    let maps = rate(OBJECTS, config_map).await?;
    let templates = rate(TEMPLATES, template).await?;
    Ok(vec![
        Measure::at_least("applies of a ConfigMap of 20 fields, 32 clients", 5_000.0, maps),
        Measure::at_least("applies of a PodTemplate of 20 fields, 32 clients", 5_000.0, templates),
    ])
}

async fn rate(resource: &'static str, object: fn(&str) -> Value) -> Result<f64> {
    let folder = tempfile::TempDir::new()?;
    let server = Server::durable(folder.path())?;
    let access = server.access()?;
    // Text, not a tree, because the generator must be cheaper than the server.
    let bodies: Vec<String> =
        (0..CLIENTS).map(|client| object(&format!("m-{client}")).to_string()).collect();
    let apply = move |client: usize, number: usize| {
        let body = bodies.get(client).map(|body| body.replace(CHANGES, &number.to_string()));
        let path = format!("{resource}/m-{client}?fieldManager=load");
        let body = body.as_deref().unwrap_or_default().as_bytes();
        request("PATCH", &path, "application/apply-patch+yaml", Some(body))
    };
    let mut connection = access.connect().await?;
    for client in 0..CLIENTS {
        connection.write(&apply(client, 0)).await?;
        let answer = connection.answer().await?;
        ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    storm(&access, Duration::from_secs(4), 200, move |client, number| apply(client, number + 1))
        .await
}

/// The name and 19 keys, one of which changes.
fn config_map(name: &str) -> Value {
    let key = |at: usize| (format!("key-{at}"), Value::from(format!("value-{at}")));
    let mut data: serde_json::Map<String, Value> = (2..FIELDS).map(key).collect();
    data.insert("changes".into(), CHANGES.into());
    let metadata = json!({ "name": name });
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data })
}

/// As a controller would apply a workload, but of a kind that no controller acts upon; 20 values, of
/// which the one in an environment variable changes.
fn template(name: &str) -> Value {
    let container = json!({
        "name": "main",
        "image": "example.com/web:v1",
        "args": ["--serve"],
        "env": [
            { "name": "CHANGES", "value": CHANGES },
            { "name": "MODE", "value": "production" },
        ],
        "ports": [{ "name": "http", "containerPort": 8080 }],
        "resources": { "requests": { "cpu": "100m", "memory": "64Mi" } },
        "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" } },
    });
    json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": { "name": name, "labels": { "app": name, "tier": "front" } },
        "template": {
            "metadata": { "labels": { "app": name } },
            "spec": {
                "serviceAccountName": "default",
                "terminationGracePeriodSeconds": 10,
                "containers": [container],
            },
        },
    })
}
