//! What is stored and not acted on says so.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tenure_client_tests::Server;

/// Objects that look like protection, or like work that somebody does, and are neither here.
fn ignored() -> Vec<(&'static str, Value)> {
    vec![(
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        json!({ "metadata": { "name": "n" }, "spec": { "podSelector": {}, "policyTypes": ["Ingress"] } }),
    )]
}

#[tokio::test]
async fn what_nobody_acts_on_is_warned_about_with_every_write() -> Result<()> {
    let server = Server::start(&["--ephemeral", "--nodes", "0"])?;
    let mut connection = server.access()?.connect().await?;
    for (path, object) in ignored() {
        let made = connection.send("POST", path, Some(&serde_json::to_vec(&object)?)).await?;
        assert_eq!(made.code, 201, "{path}: {}", made.json()?);
        let warning = made.header("warning").with_context(|| format!("{path} says nothing"))?;
        assert!(warning.contains("does not act on it"), "{path}: {warning}");
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let mut stored = made.json()?;
        stored["metadata"]["labels"] = json!({ "touched": "yes" });
        let path = format!("{path}/{name}");
        let again = connection.send("PUT", &path, Some(&serde_json::to_vec(&stored)?)).await?;
        assert_eq!(again.code, 200, "{path}: {}", again.json()?);
        assert!(again.header("warning").is_some(), "{path} says nothing when it changes");
    }
    // What is acted on is not.
    let plain = serde_json::to_vec(&json!({ "metadata": { "name": "a" } }))?;
    let made =
        connection.send("POST", "/api/v1/namespaces/default/configmaps", Some(&plain)).await?;
    assert_eq!((made.code, made.header("warning")), (201, None));
    Ok(())
}

#[tokio::test]
async fn a_guard_that_cannot_be_asked_lets_nothing_through() -> Result<()> {
    let server = Server::start(&["--ephemeral", "--nodes", "0"])?;
    let mut connection = server.access()?.connect().await?;
    let guard = json!({ "metadata": { "name": "guard" }, "webhooks": [{
        "name": "deny.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": { "url": "https://127.0.0.1:1/deny", "caBundle": "" },
        "rules": [{ "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["secrets"] }],
    }] });
    let base = "/apis/admissionregistration.k8s.io/v1";
    let secrets = "/api/v1/namespaces/default/secrets";
    for (kind, code) in
        [("validatingwebhookconfigurations", 500), ("mutatingwebhookconfigurations", 500)]
    {
        let path = format!("{base}/{kind}");
        let made = connection.send("POST", &path, Some(&serde_json::to_vec(&guard)?)).await?;
        assert_eq!((made.code, made.header("warning")), (201, None), "{}", made.json()?);
        let secret = serde_json::to_vec(&json!({ "metadata": { "name": "s" } }))?;
        let refused = connection.send("POST", secrets, Some(&secret)).await?;
        assert_eq!(refused.code, code, "{}", refused.json()?);
        let why = refused.json()?["message"].as_str().unwrap_or_default().to_owned();
        assert!(why.contains("failed calling webhook \"deny.example.com\""), "{why}");
        // The guard itself can be taken away.
        connection.send("DELETE", &format!("{path}/guard"), None).await?;
        let made = connection.send("POST", secrets, Some(&secret)).await?;
        assert_eq!(made.code, 201, "{}", made.json()?);
        connection.send("DELETE", &format!("{secrets}/s"), None).await?;
    }
    Ok(())
}
