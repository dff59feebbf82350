//! Custom resources: how soon a definition is worth something.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::Server;
use tenure_client_tests::wire::Connection;

use super::measure::{Measure, middle, milliseconds};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const PATIENCE: Duration = Duration::from_secs(10);

/// From the 201 of a definition until an object of its kind was created and discovery shows the
/// kind; one definition after another, so that later ones come to a server that has many.
pub(super) async fn usable() -> Result<Vec<Measure>> {
    let server = Server::ephemeral()?;
    let mut connection = server.access()?.connect().await?;
    let mut times = Vec::new();
    for number in 0..50 {
        let (group, body) = definition(number);
        let answer =
            connection.send("POST", DEFINITIONS, Some(body.to_string().as_bytes())).await?;
        ensure!(answer.code == 201, "{}", String::from_utf8_lossy(&answer.body));
        let begin = Instant::now();
        create(&mut connection, &group, begin).await?;
        discover(&mut connection, &group, begin).await?;
        times.push(begin.elapsed());
    }
    let name = "definition answered → object created, discovery shows it";
    Ok(vec![Measure::at_most(name, 20.0, milliseconds(middle(&mut times)), "ms")])
}

async fn create(connection: &mut Connection, group: &str, begin: Instant) -> Result<()> {
    let path = format!("/apis/{group}/v1/namespaces/default/gardens");
    let body = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Garden",
        "metadata": { "name": "kitchen" }, "spec": { "beds": 2 },
    });
    let body = body.to_string();
    loop {
        let answer = connection.send("POST", &path, Some(body.as_bytes())).await?;
        if answer.code == 201 {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&answer.body));
    }
}

async fn discover(connection: &mut Connection, group: &str, begin: Instant) -> Result<()> {
    let path = format!("/apis/{group}/v1");
    loop {
        let answer = connection.send("GET", &path, None).await?;
        if answer.code == 200 && String::from_utf8_lossy(&answer.body).contains("\"gardens\"") {
            return Ok(());
        }
        ensure!(begin.elapsed() < PATIENCE, "discovery does not show {group}");
    }
}

/// A group of its own for each, with a schema and a rule.
fn definition(number: usize) -> (String, Value) {
    let group = format!("g{number}.example.com");
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "beds": { "type": "integer", "minimum": 1 },
                    "crop": { "type": "string", "default": "fallow" },
                },
                "x-kubernetes-validations": [{ "rule": "self.beds < 100" }],
            },
        },
    });
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
    });
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gardens.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "plural": "gardens", "singular": "garden", "kind": "Garden" },
            "versions": [version],
        },
    });
    (group, body)
}
