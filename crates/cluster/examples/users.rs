//! A service account with a Role may read one ConfigMap and is refused the other.
//!
//! `cargo run -p tenure-cluster --example users`

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::Client;
use kube::api::{Api, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tenure_cluster::Cluster;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let admin = cluster.client();
    for name in ["open", "closed"] {
        create::<ConfigMap>(&admin, json!({ "metadata": { "name": name } })).await?;
    }
    create::<ServiceAccount>(&admin, json!({ "metadata": { "name": "reader" } })).await?;
    let rule = json!({
        "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["open"], "verbs": ["get"],
    });
    let role = json!({ "metadata": { "name": "read-open" }, "rules": [rule] });
    create::<Role>(&admin, role).await?;
    let binding = json!({
        "metadata": { "name": "read-open" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read-open" },
        "subjects": [
            { "kind": "ServiceAccount", "name": "reader", "namespace": "default" },
            { "kind": "Group", "name": "auditors", "apiGroup": "rbac.authorization.k8s.io" },
        ],
    });
    create::<RoleBinding>(&admin, binding).await?;

    // One reads with a token, the other with a certificate that names the group.
    let reader = cluster.service_account_client("default", "reader").await?;
    let alice = cluster.client_as("alice", &["auditors", "staff"]);
    for (who, client) in [("the service account", reader), ("alice", alice)] {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        maps.get("open").await?;
        match maps.get("closed").await {
            Err(kube::Error::Api(status)) if status.code == 403 => {
                println!("{who} may read `open`; of `closed` the server says: {}", status.message);
            }
            other => anyhow::bail!("{who} should be refused: {other:?}"),
        }
    }
    Ok(())
}

/// Creates an object of any kind in the namespace `default`.
async fn create<K>(client: &Client, object: Value) -> anyhow::Result<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + DeserializeOwned
        + serde::Serialize
        + Clone
        + std::fmt::Debug,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}
