//! The resources that controllers read and write, each with its names.
//!
//! A flat list: a controller that needs another resource adds a row. What a kind means is not here.

/// One served resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BuiltinResource {
    /// `v1` pods.
    Pods,
    /// `v1` replicationcontrollers.
    ReplicationControllers,
    /// `v1` services.
    Services,
    /// `v1` endpoints.
    Endpoints,
    /// `v1` nodes.
    Nodes,
    /// `v1` namespaces.
    Namespaces,
    /// `v1` serviceaccounts.
    ServiceAccounts,
    /// `v1` configmaps.
    ConfigMaps,
    /// `v1` secrets.
    Secrets,
    /// `v1` persistentvolumeclaims.
    PersistentVolumeClaims,
    /// `v1` persistentvolumes.
    PersistentVolumes,
    /// `v1` resourcequotas.
    ResourceQuotas,
    /// `apps/v1` replicasets.
    ReplicaSets,
    /// `apps/v1` deployments.
    Deployments,
    /// `apps/v1` statefulsets.
    StatefulSets,
    /// `apps/v1` daemonsets.
    DaemonSets,
    /// `apps/v1` controllerrevisions.
    ControllerRevisions,
    /// `batch/v1` jobs.
    Jobs,
    /// `batch/v1` cronjobs.
    CronJobs,
    /// `autoscaling/v2` horizontalpodautoscalers.
    HorizontalPodAutoscalers,
    /// `discovery.k8s.io/v1` endpointslices.
    EndpointSlices,
    /// `policy/v1` poddisruptionbudgets.
    PodDisruptionBudgets,
    /// `coordination.k8s.io/v1` leases.
    Leases,
    /// `storage.k8s.io/v1` storageclasses.
    StorageClasses,
    /// `storage.k8s.io/v1` volumeattributesclasses.
    VolumeAttributesClasses,
    /// `scheduling.k8s.io/v1` priorityclasses.
    PriorityClasses,
    /// `certificates.k8s.io/v1` certificatesigningrequests.
    CertificateSigningRequests,
    /// `apiextensions.k8s.io/v1` customresourcedefinitions.
    CustomResourceDefinitions,
    /// `rbac.authorization.k8s.io/v1` clusterroles.
    ClusterRoles,
    /// `apiregistration.k8s.io/v1` apiservices.
    ApiServices,
    /// `networking.k8s.io/v1` servicecidrs.
    ServiceCidrs,
    /// `networking.k8s.io/v1` ipaddresses.
    IpAddresses,
    /// `certificates.k8s.io/v1` podcertificaterequests.
    PodCertificateRequests,
    /// `admissionregistration.k8s.io/v1` validatingadmissionpolicies.
    ValidatingAdmissionPolicies,
    /// `storagemigration.k8s.io/v1` storageversionmigrations.
    StorageVersionMigrations,
}

/// Group, version, kind, plural, whether objects live in namespaces.
type ResourceNames = (&'static str, &'static str, &'static str, &'static str, bool);

impl BuiltinResource {
    /// Every resource, in the order of the list.
    pub const ALL: &'static [BuiltinResource] = &[
        BuiltinResource::Pods,
        BuiltinResource::ReplicationControllers,
        BuiltinResource::Services,
        BuiltinResource::Endpoints,
        BuiltinResource::Nodes,
        BuiltinResource::Namespaces,
        BuiltinResource::ServiceAccounts,
        BuiltinResource::ConfigMaps,
        BuiltinResource::Secrets,
        BuiltinResource::PersistentVolumeClaims,
        BuiltinResource::PersistentVolumes,
        BuiltinResource::ResourceQuotas,
        BuiltinResource::ReplicaSets,
        BuiltinResource::Deployments,
        BuiltinResource::StatefulSets,
        BuiltinResource::DaemonSets,
        BuiltinResource::ControllerRevisions,
        BuiltinResource::Jobs,
        BuiltinResource::CronJobs,
        BuiltinResource::HorizontalPodAutoscalers,
        BuiltinResource::EndpointSlices,
        BuiltinResource::PodDisruptionBudgets,
        BuiltinResource::Leases,
        BuiltinResource::StorageClasses,
        BuiltinResource::VolumeAttributesClasses,
        BuiltinResource::PriorityClasses,
        BuiltinResource::CertificateSigningRequests,
        BuiltinResource::CustomResourceDefinitions,
        BuiltinResource::ClusterRoles,
        BuiltinResource::ApiServices,
        BuiltinResource::ServiceCidrs,
        BuiltinResource::IpAddresses,
        BuiltinResource::PodCertificateRequests,
        BuiltinResource::ValidatingAdmissionPolicies,
        BuiltinResource::StorageVersionMigrations,
    ];

    const fn names(self) -> ResourceNames {
        match self {
            BuiltinResource::Pods => ("", "v1", "Pod", "pods", true),
            BuiltinResource::ReplicationControllers => {
                ("", "v1", "ReplicationController", "replicationcontrollers", true)
            }
            BuiltinResource::Services => ("", "v1", "Service", "services", true),
            BuiltinResource::Endpoints => ("", "v1", "Endpoints", "endpoints", true),
            BuiltinResource::Nodes => ("", "v1", "Node", "nodes", false),
            BuiltinResource::Namespaces => ("", "v1", "Namespace", "namespaces", false),
            BuiltinResource::ServiceAccounts => {
                ("", "v1", "ServiceAccount", "serviceaccounts", true)
            }
            BuiltinResource::ConfigMaps => ("", "v1", "ConfigMap", "configmaps", true),
            BuiltinResource::Secrets => ("", "v1", "Secret", "secrets", true),
            BuiltinResource::PersistentVolumeClaims => {
                ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true)
            }
            BuiltinResource::PersistentVolumes => {
                ("", "v1", "PersistentVolume", "persistentvolumes", false)
            }
            BuiltinResource::ResourceQuotas => ("", "v1", "ResourceQuota", "resourcequotas", true),
            BuiltinResource::ReplicaSets => ("apps", "v1", "ReplicaSet", "replicasets", true),
            BuiltinResource::Deployments => ("apps", "v1", "Deployment", "deployments", true),
            BuiltinResource::StatefulSets => ("apps", "v1", "StatefulSet", "statefulsets", true),
            BuiltinResource::DaemonSets => ("apps", "v1", "DaemonSet", "daemonsets", true),
            BuiltinResource::ControllerRevisions => {
                ("apps", "v1", "ControllerRevision", "controllerrevisions", true)
            }
            BuiltinResource::Jobs => ("batch", "v1", "Job", "jobs", true),
            BuiltinResource::CronJobs => ("batch", "v1", "CronJob", "cronjobs", true),
            BuiltinResource::HorizontalPodAutoscalers => {
                ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true)
            }
            BuiltinResource::EndpointSlices => {
                ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true)
            }
            BuiltinResource::PodDisruptionBudgets => {
                ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true)
            }
            BuiltinResource::Leases => ("coordination.k8s.io", "v1", "Lease", "leases", true),
            BuiltinResource::StorageClasses => {
                ("storage.k8s.io", "v1", "StorageClass", "storageclasses", false)
            }
            BuiltinResource::VolumeAttributesClasses => {
                ("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", false)
            }
            BuiltinResource::PriorityClasses => {
                ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false)
            }
            BuiltinResource::CertificateSigningRequests => (
                "certificates.k8s.io",
                "v1",
                "CertificateSigningRequest",
                "certificatesigningrequests",
                false,
            ),
            BuiltinResource::CustomResourceDefinitions => (
                "apiextensions.k8s.io",
                "v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
                false,
            ),
            BuiltinResource::ClusterRoles => {
                ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false)
            }
            BuiltinResource::ApiServices => {
                ("apiregistration.k8s.io", "v1", "APIService", "apiservices", false)
            }
            BuiltinResource::ServiceCidrs => {
                ("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", false)
            }
            BuiltinResource::IpAddresses => {
                ("networking.k8s.io", "v1", "IPAddress", "ipaddresses", false)
            }
            BuiltinResource::PodCertificateRequests => (
                "certificates.k8s.io",
                "v1",
                "PodCertificateRequest",
                "podcertificaterequests",
                true,
            ),
            BuiltinResource::ValidatingAdmissionPolicies => (
                "admissionregistration.k8s.io",
                "v1",
                "ValidatingAdmissionPolicy",
                "validatingadmissionpolicies",
                false,
            ),
            BuiltinResource::StorageVersionMigrations => (
                "storagemigration.k8s.io",
                "v1",
                "StorageVersionMigration",
                "storageversionmigrations",
                false,
            ),
        }
    }

    /// The API group; empty for core.
    #[must_use]
    pub const fn group(self) -> &'static str {
        self.names().0
    }

    /// The API version without its group.
    #[must_use]
    pub const fn version(self) -> &'static str {
        self.names().1
    }

    /// Such as `ReplicaSet`.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        self.names().2
    }

    /// Such as `replicasets`.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        self.names().3
    }

    /// Whether objects live in namespaces.
    #[must_use]
    pub const fn namespaced(self) -> bool {
        self.names().4
    }

    /// As objects write it: `v1` or `apps/v1`.
    #[must_use]
    pub const fn api_version(self) -> &'static str {
        match self.group().as_bytes() {
            b"apps" => "apps/v1",
            b"batch" => "batch/v1",
            b"autoscaling" => "autoscaling/v2",
            b"policy" => "policy/v1",
            b"discovery.k8s.io" => "discovery.k8s.io/v1",
            b"coordination.k8s.io" => "coordination.k8s.io/v1",
            b"storage.k8s.io" => "storage.k8s.io/v1",
            b"scheduling.k8s.io" => "scheduling.k8s.io/v1",
            b"certificates.k8s.io" => "certificates.k8s.io/v1",
            b"rbac.authorization.k8s.io" => "rbac.authorization.k8s.io/v1",
            b"apiregistration.k8s.io" => "apiregistration.k8s.io/v1",
            b"admissionregistration.k8s.io" => "admissionregistration.k8s.io/v1",
            b"apiextensions.k8s.io" => "apiextensions.k8s.io/v1",
            b"networking.k8s.io" => "networking.k8s.io/v1",
            b"storagemigration.k8s.io" => "storagemigration.k8s.io/v1",
            _ => "v1",
        }
    }

    /// The resource with these names, if controllers know it.
    #[must_use]
    pub fn find(group: &str, plural: &str) -> Option<BuiltinResource> {
        let same = |r: &&BuiltinResource| r.group() == group && r.plural() == plural;
        BuiltinResource::ALL.iter().find(same).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::BuiltinResource;
    use alloc::collections::BTreeSet;
    use alloc::format;

    #[test]
    fn names_agree_with_each_other() {
        let all: BTreeSet<BuiltinResource> = BuiltinResource::ALL.iter().copied().collect();
        assert_eq!(all.len(), BuiltinResource::ALL.len(), "a row is listed twice");
        for resource in BuiltinResource::ALL {
            assert_eq!(BuiltinResource::find(resource.group(), resource.plural()), Some(*resource));
            let written = match resource.group() {
                "" => "v1".into(),
                group => format!("{group}/{}", resource.version()),
            };
            assert_eq!(resource.api_version(), written);
        }
    }
}
