//! From a kind to its resource (M3): by what is served, else by a table, never by guessing.

use tenure_reference::{Resource, ServedType};

/// A kind whose resource is known without asking a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownKind {
    /// Its API group.
    pub group: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Its plural name.
    pub resource: &'static str,
}

const fn known(group: &'static str, kind: &'static str, resource: &'static str) -> KnownKind {
    KnownKind { group, kind, resource }
}

const GATEWAY: &str = "gateway.networking.k8s.io";
const SOURCE: &str = "source.toolkit.fluxcd.io";

/// Kinds that grants and bundled strategies name; all of them have a namespace.
pub const KNOWN_KINDS: [KnownKind; 23] = [
    known(GATEWAY, "Gateway", "gateways"),
    known(GATEWAY, "HTTPRoute", "httproutes"),
    known(GATEWAY, "GRPCRoute", "grpcroutes"),
    known(GATEWAY, "TLSRoute", "tlsroutes"),
    known(GATEWAY, "TCPRoute", "tcproutes"),
    known(GATEWAY, "UDPRoute", "udproutes"),
    known(GATEWAY, "ListenerSet", "listenersets"),
    known(GATEWAY, "BackendTLSPolicy", "backendtlspolicies"),
    known("", "Secret", "secrets"),
    known("", "ConfigMap", "configmaps"),
    known("", "Service", "services"),
    known("", "PersistentVolumeClaim", "persistentvolumeclaims"),
    known("snapshot.storage.k8s.io", "VolumeSnapshot", "volumesnapshots"),
    known("networking.k8s.io", "Ingress", "ingresses"),
    known("cert-manager.io", "Certificate", "certificates"),
    known("cert-manager.io", "Issuer", "issuers"),
    known(SOURCE, "GitRepository", "gitrepositories"),
    known(SOURCE, "HelmRepository", "helmrepositories"),
    known(SOURCE, "OCIRepository", "ocirepositories"),
    known(SOURCE, "HelmChart", "helmcharts"),
    known(SOURCE, "Bucket", "buckets"),
    known("helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases"),
    known("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations"),
];

/// A resource, and whether its objects have a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) resource: Resource,
    pub(super) namespaced: bool,
}

/// The resource of a kind.
pub(super) fn resolve(group: &str, kind: &str, served: &[ServedType]) -> Option<Resolved> {
    let found = served.iter().find(|row| row.resource.group == group && row.kind == kind);
    if let Some(row) = found {
        return Some(Resolved { resource: row.resource.clone(), namespaced: row.namespaced });
    }
    let known = KNOWN_KINDS.iter().find(|known| known.group == group && known.kind == kind)?;
    Some(Resolved { resource: Resource::new(known.group, known.resource), namespaced: true })
}
