//! What is stored and not acted on says so.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tenure_client_tests::Server;

/// Objects that look like protection, or like work that somebody does, and are neither here.
fn ignored() -> Vec<(&'static str, Value)> {
    let webhook = json!([{
        "name": "deny.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": { "url": "https://127.0.0.1:1/deny" },
        "rules": [{ "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"] }],
    }]);
    let target = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" });
    let service = json!({ "namespace": "default", "name": "s" });
    let kinds = json!({ "plural": "widgets", "singular": "widget", "kind": "Widget" });
    let version = json!({ "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object" } } });
    let conversion = json!({ "strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/convert" },
    } });
    vec![
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({ "metadata": { "name": "v" }, "webhooks": webhook }),
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            json!({ "metadata": { "name": "m" }, "webhooks": webhook }),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            json!({ "metadata": { "name": "n" }, "spec": { "podSelector": {}, "policyTypes": ["Ingress"] } }),
        ),
        (
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            json!({ "metadata": { "name": "h" }, "spec": { "maxReplicas": 3, "scaleTargetRef": target } }),
        ),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices",
            json!({ "metadata": { "name": "v1.other.example.com" }, "spec": {
                "group": "other.example.com", "version": "v1", "groupPriorityMinimum": 1,
                "versionPriority": 1, "insecureSkipTLSVerify": true, "service": service,
            } }),
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            json!({ "metadata": { "name": "widgets.example.com" }, "spec": {
                "group": "example.com", "scope": "Namespaced", "names": kinds,
                "versions": [version], "conversion": conversion,
            } }),
        ),
    ]
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
