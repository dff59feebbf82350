//! A controller written with kube-rs that has no right on Secrets: it reads just those that are referenced to
//! it, withdraws what is revoked, and says on the Gateway what is not permitted.
//!
//! `cargo run -p tenure-references --example gateway`
#![expect(clippy::disallowed_methods, reason = "an example may read the clock and the environment")]

mod controller;
mod objects;
mod story;

use tenure_cluster::Cluster;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let admin = cluster.client();
    story::set_up(&admin).await?;
    let account = cluster.service_account_client("edge-system", "edge").await?;
    story::tell(&admin, account).await
}
