//! A Kubernetes control plane inside your own test, started in milliseconds.
//!
//! ```
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::api::{Api, PostParams};
//! use tenure_cluster::Cluster;
//!
//! #[tokio::test]
//! async fn a_config_map_can_be_made() -> anyhow::Result<()> {
//!     let cluster = Cluster::start().await?;
//!     let maps: Api<ConfigMap> = Api::default_namespaced(cluster.client());
//!     let mut map = ConfigMap::default();
//!     map.metadata.name = Some("greeting".into());
//!     maps.create(&PostParams::default(), &map).await?;
//!     assert!(maps.get_opt("greeting").await?.is_some());
//!     Ok(())
//! }
//! ```
//!
//! ```text
//!   your test ── kube::Client, kubectl, anything ──TLS, loopback──► Cluster
//!                                                                   threads, memory, port and
//!                                                                   certificates of its own
//! ```
//!
//! - Each [`Cluster`] shares nothing with any other, so tests may run side by side.
//! - It ends when it is dropped.
//! - It has threads of its own: `#[tokio::test]` of either flavour and plain `#[test]` both work,
//!   the latter with [`Cluster::start_blocking`] and [`Cluster::block_on`].
//! - [`Cluster::client_as`] speaks as any user, [`Cluster::service_account_client`] with the token
//!   of a service account, and [`Cluster::kubeconfig_file`] serves programs in any language.
//!
//! Requests are never handled here; that is the work of the server this crate starts.

mod builder;
#[cfg(feature = "kube")]
mod client;
mod cluster;

pub use builder::Builder;
pub use cluster::{Cluster, StartError};
pub use tenure_host::{Config, Durability};
