//! What is around a pod when its values are read: its node, its addresses, other objects. How they
//! were fetched never lives here.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde_json::Value;
use tenure_core::field_path::Extra;
use tenure_machinery::{Object, ObjectExt};

use crate::certificate::CredentialBundle;

/// Where a value goes, which decides how owner references are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueDestination {
    /// An environment variable: one line.
    Env,
    /// A file: lines, indented.
    File,
}

/// What an operator may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownwardApiOptions {
    /// Which fields there are besides those of every Kubernetes.
    pub extra: Extra,
    /// Owner references in files as in variables: one line (D3).
    pub compact_files: bool,
}

impl Default for DownwardApiOptions {
    fn default() -> DownwardApiOptions {
        let extra = Extra { owner_references: true, volume_parity: false };
        DownwardApiOptions { extra, compact_files: false }
    }
}

/// What a node knows around one pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuntimeView<'a> {
    /// The Node object, for its addresses and `status.allocatable`.
    pub node: Option<&'a Object>,
    /// Addresses of the pod's sandbox; a pod on the node's network has the node's instead.
    pub pod_ips: &'a [IpAddr],
    /// What an operator chose.
    pub settings: DownwardApiOptions,
}

impl RuntimeView<'_> {
    /// Addresses of the node: the main one, and the first of the other family.
    #[must_use]
    pub fn host_ips(&self) -> Vec<IpAddr> {
        self.node.map(host_ips).unwrap_or_default()
    }

    /// Addresses of a pod: at most one of each family, the node's main family first (R27).
    #[must_use]
    pub fn pod_ips(&self, pod: &Object) -> Vec<IpAddr> {
        let host = self.host_ips();
        if pod.bool_at(&["spec", "hostNetwork"]) == Some(true) {
            return host;
        }
        let main = host.first().or(self.pod_ips.first()).is_none_or(IpAddr::is_ipv4);
        let of = |ipv4: bool| self.pod_ips.iter().find(|ip| ip.is_ipv4() == ipv4).copied();
        of(main).into_iter().chain(of(!main)).collect()
    }
}

/// Addresses of a Node: the first that is internal, else external, and the first of the other family
/// (R25, R26).
#[must_use]
pub fn host_ips(node: &Object) -> Vec<IpAddr> {
    let addresses = node.list_at(&["status", "addresses"]);
    let of = |kind: &'static str| {
        let addresses = addresses.iter().filter_map(Value::as_object);
        let addresses = addresses.filter(move |address| address.str_at(&["type"]) == Some(kind));
        addresses.filter_map(|address| address.str_at(&["address"])?.parse::<IpAddr>().ok())
    };
    let mut all = of("InternalIP").chain(of("ExternalIP"));
    let Some(first) = all.next() else { return Vec::new() };
    let other = all.find(|ip| ip.is_ipv4() != first.is_ipv4());
    core::iter::once(first).chain(other).collect()
}

/// Other objects and files that values come from, as the host holds them now.
///
/// Names are names in the pod's namespace. `Ok(None)` says that there is no such object; an error
/// says that nobody can tell now, in words for people.
pub trait Sources {
    /// The Services of every namespace; an error until they were read once (R61h).
    ///
    /// # Errors
    /// Services were not read yet.
    fn services(&self) -> Result<&[Arc<Object>], String>;

    /// A ConfigMap.
    ///
    /// # Errors
    /// Nobody can tell now.
    fn config_map(&self, name: &str) -> Result<Option<Arc<Object>>, String>;

    /// A Secret.
    ///
    /// # Errors
    /// Nobody can tell now.
    fn secret(&self, name: &str) -> Result<Option<Arc<Object>>, String>;

    /// The bytes of a file in a volume, for variables with `fileKeyRef`.
    ///
    /// # Errors
    /// The volume or the file is not there or cannot be read.
    fn file(&self, volume: &str, path: &str) -> Result<Vec<u8>, String>;

    /// A token the host has asked for before; see [`tokens_wanted`].
    ///
    /// # Errors
    /// There is none.
    fn token(&self, wanted: &TokenWanted) -> Result<Vec<u8>, String>;

    /// The certificates of a `clusterTrustBundle` source.
    ///
    /// # Errors
    /// They cannot be had.
    fn trust_bundle(&self, _source: &Object) -> Result<Vec<u8>, String> {
        Err("this node does not know ClusterTrustBundles".into())
    }

    /// Key and certificates of a `podCertificate` source, by volume and position.
    ///
    /// # Errors
    /// They cannot be had.
    fn pod_certificate(&self, _volume: &str, _at: usize) -> Result<CredentialBundle, String> {
        Err("this node does not request certificates for pods".into())
    }
}

/// A token that a projected volume shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenWanted {
    /// For whom; none: the API server.
    pub audience: Option<String>,
    /// For how long.
    pub expiration_seconds: i64,
}

/// The life of a token when nothing is said.
const TOKEN_SECONDS: i64 = 3600;

impl TokenWanted {
    pub(crate) fn of(source: &Object) -> TokenWanted {
        let audience = source.str_at(&["audience"]).filter(|audience| !audience.is_empty());
        TokenWanted {
            audience: audience.map(Into::into),
            expiration_seconds: source.int_at(&["expirationSeconds"]).unwrap_or(TOKEN_SECONDS),
        }
    }
}

/// The tokens that a volume of a pod shows, to be had before its files are collected.
#[must_use]
pub fn tokens_wanted(volume: &Object) -> Vec<TokenWanted> {
    let sources = volume.list_at(&["projected", "sources"]).iter().filter_map(Value::as_object);
    sources
        .filter_map(|source| Some(TokenWanted::of(source.map_at(&["serviceAccountToken"])?)))
        .collect()
}
