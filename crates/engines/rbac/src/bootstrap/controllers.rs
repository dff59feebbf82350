//! The cluster roles of the controllers, each bound to the account of the same name in `kube-system`.
//!
//! Names stand without `system:controller:`, which all of them share.

use super::facts::{EVENTS, READ, RoleFacts, named, on, role};

pub(super) const ROLES: &[RoleFacts] = &[
    role(
        "attachdetach-controller",
        &[
            on("list watch", "", "persistentvolumeclaims persistentvolumes"),
            on(READ, "", "nodes"),
            on("patch update", "", "nodes/status"),
            on("list watch", "", "pods"),
            EVENTS,
            on("create delete get list watch", "storage.k8s.io", "volumeattachments"),
            on(READ, "storage.k8s.io", "csidrivers"),
            on(READ, "storage.k8s.io", "csinodes"),
        ],
    ),
    role(
        "certificate-controller",
        &[
            on("delete get list watch", "certificates.k8s.io", "certificatesigningrequests"),
            on(
                "update",
                "certificates.k8s.io",
                "certificatesigningrequests/approval certificatesigningrequests/status",
            ),
            named(
                "approve",
                "certificates.k8s.io",
                "signers",
                "kubernetes.io/kube-apiserver-client-kubelet",
            ),
            named(
                "sign",
                "certificates.k8s.io",
                "signers",
                "kubernetes.io/kube-apiserver-client \
                 kubernetes.io/kube-apiserver-client-kubelet \
                 kubernetes.io/kubelet-serving kubernetes.io/legacy-unknown",
            ),
            on("create", "authorization.k8s.io", "subjectaccessreviews"),
            EVENTS,
        ],
    ),
    role(
        "clusterrole-aggregation-controller",
        &[on("escalate get list patch update watch", "rbac.authorization.k8s.io", "clusterroles")],
    ),
    role(
        "cronjob-controller",
        &[
            on("get list update watch", "batch", "cronjobs"),
            on("create delete get list patch update watch", "batch", "jobs"),
            on("update", "batch", "cronjobs/status"),
            on("update", "batch", "cronjobs/finalizers"),
            on("delete list watch", "", "pods"),
            EVENTS,
        ],
    ),
    role(
        "daemon-set-controller",
        &[
            on(READ, "apps extensions", "daemonsets"),
            on("update", "apps extensions", "daemonsets/status"),
            on("update", "apps extensions", "daemonsets/finalizers"),
            on("list watch", "", "nodes"),
            on("create delete list patch watch", "", "pods"),
            on("create", "", "pods/binding"),
            on("create delete get list patch update watch", "apps", "controllerrevisions"),
            EVENTS,
        ],
    ),
    role(
        "deployment-controller",
        &[
            on("get list update watch", "apps extensions", "deployments"),
            on("update", "apps extensions", "deployments/status"),
            on("update", "apps extensions", "deployments/finalizers"),
            on("create delete get list patch update watch", "apps extensions", "replicasets"),
            on("get list update watch", "", "pods"),
            EVENTS,
        ],
    ),
    role(
        "device-taint-eviction-controller",
        &[
            on("delete get list watch", "", "pods"),
            on("patch update", "", "pods/status"),
            on(READ, "resource.k8s.io", "resourceclaims"),
            on(READ, "resource.k8s.io", "resourceslices"),
            on(READ, "resource.k8s.io", "deviceclasses"),
            EVENTS,
            on("patch update", "resource.k8s.io", "devicetaintrules/status"),
            on(READ, "resource.k8s.io", "devicetaintrules"),
        ],
    ),
    role(
        "disruption-controller",
        &[
            on(READ, "apps extensions", "deployments"),
            on(READ, "apps extensions", "replicasets"),
            on(READ, "", "replicationcontrollers"),
            on(READ, "policy", "poddisruptionbudgets"),
            on(READ, "apps", "statefulsets"),
            on("update", "policy", "poddisruptionbudgets/status"),
            on("patch update", "", "pods/status"),
            on("get", "*", "*/scale"),
            EVENTS,
        ],
    ),
    role(
        "endpoint-controller",
        &[
            on(READ, "", "pods services"),
            on("create delete get list update watch", "", "endpoints"),
            on("create", "", "endpoints/restricted"),
            EVENTS,
        ],
    ),
    role(
        "endpointslice-controller",
        &[
            on(READ, "", "nodes pods services"),
            on("update", "", "services/finalizers"),
            on("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
            EVENTS,
        ],
    ),
    role(
        "endpointslicemirroring-controller",
        &[
            on(READ, "", "endpoints services"),
            on("update", "", "services/finalizers"),
            on("update", "", "endpoints/finalizers"),
            on("create delete get list update watch", "discovery.k8s.io", "endpointslices"),
            EVENTS,
        ],
    ),
    role(
        "ephemeral-volume-controller",
        &[
            on(READ, "", "pods"),
            on("update", "", "pods/finalizers"),
            on("create get list watch", "", "persistentvolumeclaims"),
            EVENTS,
        ],
    ),
    role(
        "expand-controller",
        &[
            on("get list patch update watch", "", "persistentvolumes"),
            on("patch update", "", "persistentvolumeclaims/status"),
            on(READ, "", "persistentvolumeclaims"),
            EVENTS,
        ],
    ),
    role(
        "generic-garbage-collector",
        &[on("delete get list patch update watch", "*", "*"), EVENTS],
    ),
    role(
        "horizontal-pod-autoscaler",
        &[
            on(READ, "autoscaling", "horizontalpodautoscalers"),
            on("update", "autoscaling", "horizontalpodautoscalers/status"),
            on("get update", "*", "*/scale"),
            on("list watch", "", "pods"),
            on("list watch", "metrics.k8s.io", "pods"),
            on(READ, "custom.metrics.k8s.io", "*"),
            on(READ, "external.metrics.k8s.io", "*"),
            EVENTS,
        ],
    ),
    role(
        "job-controller",
        &[
            on("get list patch update watch", "batch", "jobs"),
            on("update", "batch", "jobs/status"),
            on("update", "batch", "jobs/finalizers"),
            on("create delete list patch watch", "", "pods"),
            EVENTS,
        ],
    ),
    role(
        "kube-apiserver-serving-clustertrustbundle-publisher",
        &[
            named(
                "attest",
                "certificates.k8s.io",
                "signers",
                "kubernetes.io/kube-apiserver-serving",
            ),
            on("create delete list update watch", "certificates.k8s.io", "clustertrustbundles"),
            EVENTS,
        ],
    ),
    role(
        "legacy-service-account-token-cleaner",
        &[
            named("get", "", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
            on("delete patch", "", "secrets"),
        ],
    ),
    role(
        "namespace-controller",
        &[
            on("delete get list watch", "", "namespaces"),
            on("update", "", "namespaces/finalize namespaces/status"),
            on("delete deletecollection get list watch", "*", "*"),
        ],
    ),
    role(
        "node-controller",
        &[
            on("delete get list patch update watch", "", "nodes"),
            on("patch update", "", "nodes/status"),
            on("patch update", "", "pods/status"),
            on("delete get list watch", "", "pods"),
            on(READ, "coordination.k8s.io", "leases"),
            EVENTS,
        ],
    ),
    role(
        "persistent-volume-binder",
        &[
            on("create delete get list update watch", "", "persistentvolumes"),
            on("update", "", "persistentvolumes/status"),
            on("get list update watch", "", "persistentvolumeclaims"),
            on("update", "", "persistentvolumeclaims/status"),
            on("create delete get list watch", "", "pods"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("list watch", "", "nodes"),
            EVENTS,
            on("watch", "", "events"),
        ],
    ),
    role(
        "pod-garbage-collector",
        &[
            on("delete list watch", "", "pods"),
            on(READ, "", "nodes"),
            on("patch", "", "pods/status"),
        ],
    ),
    role(
        "podcertificaterequestcleaner",
        &[on("delete get list watch", "certificates.k8s.io", "podcertificaterequests")],
    ),
    role(
        "pv-protection-controller",
        &[on("get list update watch", "", "persistentvolumes"), EVENTS],
    ),
    role(
        "pvc-protection-controller",
        &[
            on("get list update watch", "", "persistentvolumeclaims"),
            on("update", "", "persistentvolumeclaims/status"),
            on(READ, "", "pods"),
            EVENTS,
        ],
    ),
    role(
        "replicaset-controller",
        &[
            on("get list update watch", "apps extensions", "replicasets"),
            on("update", "apps extensions", "replicasets/status"),
            on("update", "apps extensions", "replicasets/finalizers"),
            on("create delete list patch watch", "", "pods"),
            EVENTS,
        ],
    ),
    role(
        "replication-controller",
        &[
            on("get list update watch", "", "replicationcontrollers"),
            on("update", "", "replicationcontrollers/status"),
            on("update", "", "replicationcontrollers/finalizers"),
            on("create delete list patch watch", "", "pods"),
            EVENTS,
        ],
    ),
    role(
        "resource-claim-controller",
        &[
            on(READ, "", "pods"),
            on("update", "", "pods/finalizers"),
            on("create delete get list watch", "resource.k8s.io", "resourceclaims"),
            on("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status"),
            on("patch update", "", "pods/status"),
            EVENTS,
            on("patch update", "resource.k8s.io", "resourceclaims/binding"),
        ],
    ),
    role(
        "resourcequota-controller",
        &[on("list watch", "*", "*"), on("update", "", "resourcequotas/status"), EVENTS],
    ),
    role("root-ca-cert-publisher", &[on("create update", "", "configmaps"), EVENTS]),
    role(
        "route-controller",
        &[on("list watch", "", "nodes"), on("patch", "", "nodes/status"), EVENTS],
    ),
    role(
        "selinux-warning-controller",
        &[
            EVENTS,
            on(READ, "", "persistentvolumes"),
            on(READ, "", "persistentvolumeclaims"),
            on(READ, "", "pods"),
            on(READ, "storage.k8s.io", "csidrivers"),
        ],
    ),
    role("service-account-controller", &[on("create", "", "serviceaccounts"), EVENTS]),
    role(
        "service-cidrs-controller",
        &[
            on("get list patch update watch", "networking.k8s.io", "servicecidrs"),
            on("patch update", "networking.k8s.io", "servicecidrs/finalizers"),
            on("patch update", "networking.k8s.io", "servicecidrs/status"),
            on(READ, "networking.k8s.io", "ipaddresses"),
            EVENTS,
        ],
    ),
    role(
        "service-controller",
        &[
            on(READ, "", "services"),
            on("patch update", "", "services/status"),
            on("list watch", "", "nodes"),
            EVENTS,
        ],
    ),
    role(
        "statefulset-controller",
        &[
            on("list watch", "", "pods"),
            on(READ, "apps", "statefulsets"),
            on("update", "apps", "statefulsets/status"),
            on("update", "apps", "statefulsets/finalizers"),
            on("create delete get patch update", "", "pods"),
            on("create delete get list patch update watch", "apps", "controllerrevisions"),
            on("create get list watch", "", "persistentvolumeclaims"),
            on("delete update", "", "persistentvolumeclaims"),
            on("update", "", "pods/finalizers"),
            EVENTS,
        ],
    ),
    role(
        "storage-version-migrator-controller",
        &[
            on("list patch", "*", "*"),
            on("get", "apiextensions.k8s.io", "customresourcedefinitions"),
            on("patch", "apiextensions.k8s.io", "customresourcedefinitions/status"),
            on("update", "storagemigration.k8s.io", "storageversionmigrations/status"),
        ],
    ),
    role("ttl-after-finished-controller", &[on("delete get list watch", "batch", "jobs"), EVENTS]),
    role("ttl-controller", &[on("list patch update watch", "", "nodes"), EVENTS]),
    role(
        "validatingadmissionpolicy-status-controller",
        &[
            on(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
            on(
                "get patch update",
                "admissionregistration.k8s.io",
                "validatingadmissionpolicies/status",
            ),
            EVENTS,
        ],
    ),
    role(
        "volumeattributesclass-protection-controller",
        &[
            on(READ, "", "persistentvolumeclaims"),
            on(READ, "", "persistentvolumes"),
            on("get list update watch", "storage.k8s.io", "volumeattributesclasses"),
            EVENTS,
        ],
    ),
];
