//! The story: a Gateway points, its owner grants, the owner revokes; the controller follows each step.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kube::Client;
use serde_json::Value;

use super::controller::Edge;
use super::objects;

/// Far more than any step takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Writes everything the story starts from.
pub(crate) async fn set_up(admin: &Client) -> Result<()> {
    for (path, object) in objects::set_up() {
        apply(admin, &path, &object).await?;
    }
    Ok(())
}

/// Runs the story with an administrator and the controller's service account.
pub(crate) async fn tell(admin: &Client, account: Client) -> Result<()> {
    let secrets = "/api/v1/namespaces/prod-tls/secrets";
    let one = format!("{secrets}/acme-tls");
    ensure!(status(&account, &one).await == 403, "the account must have no rights on Secrets");

    let edge = Edge::start(account.clone(), "edge-system", "edge");
    let controller = tokio::spawn(Arc::clone(&edge).run());
    let (gateway, object) = objects::gateway();
    // A new kind is served a moment after its definition.
    until("the Gateway is accepted", async || apply(admin, &gateway, &object).await.is_ok())
        .await?;
    until("the Gateway is told RefNotPermitted", async || {
        reason(admin, &gateway).await.as_deref() == Some("RefNotPermitted")
    })
    .await?;
    ensure!(edge.served("web").is_empty(), "nothing is served without a grant");
    println!("not granted: the Gateway says RefNotPermitted, nothing is served");

    let (grant, object) = objects::grant();
    apply(admin, &grant, &object).await?;
    until("the certificate is served", async || edge.served("web").len() == 1).await?;
    until("the Gateway is told ResolvedRefs", async || {
        reason(admin, &gateway).await.as_deref() == Some("ResolvedRefs")
    })
    .await?;
    ensure!(status(&account, &one).await == 200, "the one Secret can be read");
    ensure!(status(&account, &format!("{secrets}/other-tls")).await == 403, "and no other");
    ensure!(status(&account, secrets).await == 403, "nor all of them");
    println!("granted: served {:?}; other Secrets stay forbidden", edge.served("web"));

    let request = Request::delete(&grant).body(Vec::new())?;
    admin.request::<Value>(request).await?;
    ensure!(status(&account, &one).await == 403, "revoked with the acknowledged write");
    until("nothing is served", async || edge.served("web").is_empty()).await?;
    until("the Gateway is told RefNotPermitted", async || {
        reason(admin, &gateway).await.as_deref() == Some("RefNotPermitted")
    })
    .await?;
    println!("revoked: withdrawn");
    controller.abort();
    Ok(())
}

async fn apply(client: &Client, path: &str, object: &Value) -> Result<()> {
    let request = Request::patch(format!("{path}?fieldManager=story&force=true"))
        .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(object.to_string().into_bytes())?;
    client.request::<Value>(request).await.with_context(|| path.to_owned())?;
    Ok(())
}

/// The code a read is answered with.
async fn status(client: &Client, path: &str) -> u16 {
    let Ok(request) = Request::get(path).body(Vec::new()) else { return 0 };
    match client.request::<Value>(request).await {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    }
}

/// The reason of the Gateway's condition.
async fn reason(client: &Client, gateway: &str) -> Option<String> {
    let request = Request::get(gateway).body(Vec::new()).ok()?;
    let object = client.request::<Value>(request).await.ok()?;
    Some(object.pointer("/status/conditions/0/reason")?.as_str()?.to_owned())
}

/// Waits for something to become true.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) -> Result<()> {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.with_context(|| format!("not in time: {what}"))
}
