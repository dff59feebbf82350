//! Referential authorization over HTTP: how long an open watch outlives the grant it rests on, counted from the
//! answer to whoever deleted the grant.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tenure_client_tests::wire::Connection;
use tenure_client_tests::{Access, Server};

use super::files::both;
use super::measure::Measure;

const ROUNDS: usize = 200;
/// How many watch the one Secret.
const WATCHERS: usize = 10;
const GROUP: &str = "/apis/reference.authorization.k8s.io/v1alpha1";
const GRANTS: &str =
    "/apis/reference.authorization.k8s.io/v1alpha1/namespaces/prod-tls/referencegrants";
const WATCH: &str =
    "/api/v1/namespaces/prod-tls/secrets?fieldSelector=metadata.name%3Dacme-tls&watch=1";

/// Grants and revokes while a service account watches.
pub(super) async fn closes() -> Result<Vec<Measure>> {
    let folder = tempfile::TempDir::new()?;
    let folder = folder.path().to_str().context("a folder in UTF-8")?;
    let server = Server::start(&["--data-dir", folder, "--nodes", "0"])?;
    let mut admin = server.access()?.connect().await?;
    let account = prepare(&server, &mut admin).await?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.extend(round(&mut admin, &account).await?);
    }
    server.stop()?;
    let names =
        ["reference: grant revoked → watch ended", "reference: grant revoked → watch ended, p99"];
    Ok(both(names, [10.0, 10.0], &mut times))
}

/// How long each watch lasted after the grant was gone.
async fn round(admin: &mut Connection, account: &Access) -> Result<Vec<Duration>> {
    post(admin, GRANTS, &grant()).await?;
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        let mut events = account.connect().await?.watch(WATCH).await?;
        events.event().await?.context("the Secret comes first")?;
        watches.push(tokio::task::spawn_local(async move {
            while events.line().await?.is_some() {}
            Ok::<Instant, anyhow::Error>(Instant::now())
        }));
    }
    let answer = admin.send("DELETE", &format!("{GRANTS}/edge"), None).await?;
    let revoked = Instant::now();
    ensure!(answer.code == 200, "{}", String::from_utf8_lossy(&answer.body));
    let mut times = Vec::new();
    for watch in watches {
        times.push(watch.await??.saturating_duration_since(revoked));
    }
    Ok(times)
}

fn origin() -> Value {
    json!({ "group": "networking.k8s.io", "resource": "ingresses" })
}

fn grant() -> Value {
    json!({
        "metadata": { "name": "edge" },
        "origin": { "group": "networking.k8s.io", "resource": "ingresses", "namespace": "prod" },
        "target": { "group": "", "resource": "secrets", "names": ["acme-tls"] },
        "purpose": "tls-serving",
    })
}

/// Everything but the grant; gives back the access of the account that watches.
async fn prepare(server: &Server, admin: &mut Connection) -> Result<Access> {
    let target = json!({ "group": "", "resource": "secrets" });
    let named = |name: &str| json!({ "metadata": { "name": name } });
    let expression = "self.spec.tls.map(t, {'name': t.secretName, 'namespace': dyn('prod-tls')})";
    let objects = [
        ("/api/v1/namespaces".to_owned(), named("prod")),
        ("/api/v1/namespaces".to_owned(), named("prod-tls")),
        ("/api/v1/namespaces/prod/serviceaccounts".to_owned(), named("edge")),
        ("/api/v1/namespaces/prod-tls/secrets".to_owned(), named("acme-tls")),
        (
            format!("{GROUP}/referencestrategies"),
            json!({
                "metadata": { "name": "ingresses" },
                "origin": origin(),
                "versions": [{ "version": "v1", "references": [
                    { "expression": expression, "target": target, "purpose": "tls-serving" },
                ] }],
            }),
        ),
        (
            format!("{GROUP}/clusterreferenceconsumers"),
            json!({
                "metadata": { "name": "edge" },
                "subject": { "kind": "ServiceAccount", "namespace": "prod", "name": "edge" },
                "references": [{ "origin": origin(), "target": target, "purpose": "tls-serving" }],
            }),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/prod/ingresses".to_owned(),
            json!({
                "metadata": { "name": "edge" },
                "spec": {
                    "tls": [{ "secretName": "acme-tls" }],
                    "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } },
                },
            }),
        ),
    ];
    for (path, body) in &objects {
        post(admin, path, body).await?;
    }
    let path = "/api/v1/namespaces/prod/serviceaccounts/edge/token";
    let given = post(admin, path, &json!({ "spec": {} })).await?;
    let token = given.pointer("/status/token").and_then(Value::as_str).context("a token")?;
    Access::bearer(server.kubeconfig(), token)
}

pub(super) async fn post(connection: &mut Connection, path: &str, body: &Value) -> Result<Value> {
    let answer = connection.send("POST", path, Some(body.to_string().as_bytes())).await?;
    ensure!(answer.code == 201, "{path}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}
