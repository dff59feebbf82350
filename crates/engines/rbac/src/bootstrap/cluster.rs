//! The cluster roles every cluster starts with, and who is bound to them.
//!
//! One line a rule: verbs, groups, resources, each separated by spaces; the core group is empty.
//! What the controllers hold is in `controllers`.

use super::facts::BootstrapSubject::{Account, Group, User};
use super::facts::{
    BoundFacts, EVENTS, READ, READ_WRITE, RoleFacts, WRITE, aggregated, bound, named, on, part,
    role, urls,
};

pub(super) const ROLES: &[RoleFacts] = &[
    aggregated("admin", "", "admin"),
    role("cluster-admin", &[on("*", "*", "*"), urls("*", "*")]),
    aggregated("edit", "admin", "edit"),
    // Tenure's own group has parts of its own, so that those of Kubernetes stay as they are.
    part(
        "system:aggregate-references-to-admin",
        "admin",
        &[on(READ_WRITE, "reference.authorization.k8s.io", "referencegrants")],
    ),
    part(
        "system:aggregate-references-to-view",
        "view",
        &[on(READ, "reference.authorization.k8s.io", "referencegrants")],
    ),
    part(
        "system:aggregate-to-admin",
        "admin",
        &[
            on("create", "authorization.k8s.io", "localsubjectaccessreviews"),
            on(READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
        ],
    ),
    part(
        "system:aggregate-to-edit",
        "edit",
        &[
            on(
                READ,
                "",
                "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy",
            ),
            on("impersonate", "", "serviceaccounts"),
            on(WRITE, "", "pods pods/attach pods/exec pods/portforward pods/proxy"),
            on("create", "", "pods/eviction"),
            on(
                WRITE,
                "",
                "configmaps persistentvolumeclaims replicationcontrollers \
                 replicationcontrollers/scale secrets serviceaccounts services \
                 services/proxy",
            ),
            on("create", "", "serviceaccounts/token"),
            on(WRITE, " events.k8s.io", "events"),
            on(
                WRITE,
                "apps",
                "daemonsets deployments deployments/rollback deployments/scale \
                 replicasets replicasets/scale statefulsets statefulsets/scale",
            ),
            on(WRITE, "autoscaling", "horizontalpodautoscalers"),
            on(WRITE, "batch", "cronjobs jobs"),
            on(
                WRITE,
                "extensions",
                "daemonsets deployments deployments/rollback deployments/scale ingresses \
                 networkpolicies replicasets replicasets/scale \
                 replicationcontrollers/scale",
            ),
            on(WRITE, "policy", "poddisruptionbudgets"),
            on(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
            on(READ_WRITE, "coordination.k8s.io", "leases"),
            on(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
        ],
    ),
    part(
        "system:aggregate-to-view",
        "view",
        &[
            on(
                READ,
                "",
                "configmaps endpoints persistentvolumeclaims \
                 persistentvolumeclaims/status pods replicationcontrollers \
                 replicationcontrollers/scale serviceaccounts services services/status",
            ),
            on(
                READ,
                "",
                "bindings limitranges namespaces/status pods/log pods/status \
                 replicationcontrollers/status resourcequotas resourcequotas/status",
            ),
            on(READ, "", "namespaces"),
            on(READ, " events.k8s.io", "events"),
            on(READ, "discovery.k8s.io", "endpointslices"),
            on(
                READ,
                "apps",
                "controllerrevisions daemonsets daemonsets/status deployments \
                 deployments/scale deployments/status replicasets replicasets/scale \
                 replicasets/status statefulsets statefulsets/scale statefulsets/status",
            ),
            on(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            on(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
            on(
                READ,
                "extensions",
                "daemonsets daemonsets/status deployments deployments/scale \
                 deployments/status ingresses ingresses/status networkpolicies \
                 replicasets replicasets/scale replicasets/status \
                 replicationcontrollers/scale",
            ),
            on(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            on(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
            on(
                READ,
                "resource.k8s.io",
                "resourceclaims resourceclaims/status resourceclaimtemplates",
            ),
        ],
    ),
    role(
        "system:auth-delegator",
        &[
            on("create", "authentication.k8s.io", "tokenreviews"),
            on("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    ),
    role(
        "system:basic-user",
        &[
            on(
                "create",
                "authorization.k8s.io",
                "selfsubjectaccessreviews selfsubjectrulesreviews",
            ),
            on("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[on("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient")],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[on("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[named(
            "approve",
            "certificates.k8s.io",
            "signers",
            "kubernetes.io/kube-apiserver-client",
        )],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[named(
            "approve",
            "certificates.k8s.io",
            "signers",
            "kubernetes.io/kube-apiserver-client-kubelet",
        )],
    ),
    role(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kubelet-serving")],
    ),
    role(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[named("approve", "certificates.k8s.io", "signers", "kubernetes.io/legacy-unknown")],
    ),
    role(
        "system:cluster-trust-bundle-discovery",
        &[on(READ, "certificates.k8s.io", "clustertrustbundles")],
    ),
    role(
        "system:discovery",
        &[urls(
            "get",
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz \
                 /version /version/",
        )],
    ),
    role(
        "system:heapster",
        &[on(READ, "", "events namespaces nodes pods"), on(READ, "extensions", "deployments")],
    ),
    role("system:kube-aggregator", &[on(READ, "", "endpoints services")]),
    role(
        "system:kube-controller-manager",
        &[
            EVENTS,
            on("create", "coordination.k8s.io", "leases"),
            named("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
            on("create", "", "secrets serviceaccounts"),
            on("delete", "", "secrets"),
            on("get", "", "configmaps namespaces secrets serviceaccounts"),
            on("update", "", "secrets serviceaccounts"),
            on("create", "authentication.k8s.io", "tokenreviews"),
            on("create", "authorization.k8s.io", "subjectaccessreviews"),
            on("list watch", "*", "*"),
            on("create", "", "serviceaccounts/token"),
        ],
    ),
    role("system:kube-dns", &[on("list watch", "", "endpoints services")]),
    role(
        "system:kube-scheduler",
        &[
            EVENTS,
            on("create", "coordination.k8s.io", "leases"),
            named("get list update watch", "coordination.k8s.io", "leases", "kube-scheduler"),
            on(READ_WRITE, "coordination.k8s.io", "leasecandidates"),
            on(READ, "", "nodes"),
            on("delete get list watch", "", "pods"),
            on("create", "", "bindings pods/binding"),
            on("patch update", "", "pods/status"),
            on(READ, "", "replicationcontrollers services"),
            on(READ, "apps extensions", "replicasets"),
            on(READ, "apps", "statefulsets"),
            on(READ, "policy", "poddisruptionbudgets"),
            on(READ, "", "persistentvolumeclaims persistentvolumes"),
            on("create", "authentication.k8s.io", "tokenreviews"),
            on("create", "authorization.k8s.io", "subjectaccessreviews"),
            on(READ, "storage.k8s.io", "csinodes"),
            on(READ, "storage.k8s.io", "volumeattachments"),
            on(READ, "", "namespaces"),
            on(READ, "storage.k8s.io", "csidrivers"),
            on(READ, "storage.k8s.io", "csistoragecapacities"),
            on(READ, "resource.k8s.io", "deviceclasses"),
            on("get list patch update watch", "resource.k8s.io", "resourceclaims"),
            on("get list patch update watch", "resource.k8s.io", "resourceclaims/status"),
            on("update", "", "pods/finalizers"),
            on(READ, "resource.k8s.io", "resourceslices"),
            on("create delete", "resource.k8s.io", "resourceclaims"),
            on(READ, "resource.k8s.io", "devicetaintrules"),
            on("patch update", "resource.k8s.io", "resourceclaims/binding"),
        ],
    ),
    role(
        "system:kubelet-api-admin",
        &[
            on(READ, "", "nodes"),
            on("proxy", "", "nodes"),
            on("*", "", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
            on("*", "", "nodes/configz nodes/healthz nodes/pods"),
        ],
    ),
    role(
        "system:monitoring",
        &[
            urls(
                "get",
                "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis \
                 /readyz /readyz/* /statusz",
            ),
            on("get", "", "nodes/metrics"),
        ],
    ),
    role(
        "system:node",
        &[
            on("create", "authentication.k8s.io", "tokenreviews"),
            on("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
            on(READ, "", "services"),
            on("create get list watch", "", "nodes"),
            on("patch update", "", "nodes/status"),
            on("patch update", "", "nodes"),
            EVENTS,
            on(READ, "", "pods"),
            on("create delete", "", "pods"),
            on("patch update", "", "pods/status"),
            on("create", "", "pods/eviction"),
            on(READ, "", "configmaps secrets"),
            on("get", "", "persistentvolumeclaims persistentvolumes"),
            on("get", "", "endpoints"),
            on("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
            on("create delete get patch update", "coordination.k8s.io", "leases"),
            on("get", "storage.k8s.io", "volumeattachments"),
            on("create", "", "serviceaccounts/token"),
            on("get patch update", "", "persistentvolumeclaims/status"),
            on(READ, "storage.k8s.io", "csidrivers"),
            on("create delete get patch update", "storage.k8s.io", "csinodes"),
            on(READ, "node.k8s.io", "runtimeclasses"),
            on("get", "resource.k8s.io", "resourceclaims"),
            on("deletecollection", "resource.k8s.io", "resourceslices"),
            on(READ, "certificates.k8s.io", "clustertrustbundles"),
            on("get", "", "serviceaccounts"),
            on("create get list watch", "certificates.k8s.io", "podcertificaterequests"),
        ],
    ),
    role(
        "system:node-bootstrapper",
        &[on("create get list watch", "certificates.k8s.io", "certificatesigningrequests")],
    ),
    role(
        "system:node-problem-detector",
        &[on("get", "", "nodes"), on("patch", "", "nodes/status"), EVENTS],
    ),
    role(
        "system:node-proxier",
        &[
            on("list watch", "", "endpoints services"),
            on(READ, "", "nodes"),
            EVENTS,
            on("list watch", "networking.k8s.io", "servicecidrs"),
            on("list watch", "discovery.k8s.io", "endpointslices"),
        ],
    ),
    role(
        "system:persistent-volume-provisioner",
        &[
            on("create delete get list watch", "", "persistentvolumes"),
            on("get list update watch", "", "persistentvolumeclaims"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("watch", "", "events"),
            EVENTS,
        ],
    ),
    role("system:public-info-viewer", &[urls("get", "/healthz /livez /readyz /version /version/")]),
    role(
        "system:service-account-issuer-discovery",
        &[urls(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ \
                 /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
    role(
        "system:volume-scheduler",
        &[
            on("get list patch update watch", "", "persistentvolumes"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("get list patch update watch", "", "persistentvolumeclaims"),
        ],
    ),
    aggregated("view", "edit", "view"),
];

pub(super) const BINDINGS: &[BoundFacts] = &[
    bound("cluster-admin", &[Group("system:masters")]),
    bound("system:basic-user", &[Group("system:authenticated")]),
    bound("system:cluster-trust-bundle-discovery", &[Group("system:serviceaccounts")]),
    bound("system:discovery", &[Group("system:authenticated")]),
    bound("system:kube-controller-manager", &[User("system:kube-controller-manager")]),
    bound("system:kube-dns", &[Account("kube-dns")]),
    bound("system:kube-scheduler", &[User("system:kube-scheduler")]),
    // The server itself, as nodes know it; it takes no such caller (downward-api R133b).
    bound("system:kubelet-api-admin", &[User("kube-apiserver-kubelet-client")]),
    bound("system:monitoring", &[Group("system:monitoring")]),
    bound("system:node", &[]),
    bound("system:node-proxier", &[User("system:kube-proxy")]),
    bound(
        "system:public-info-viewer",
        &[Group("system:authenticated"), Group("system:unauthenticated")],
    ),
    bound("system:service-account-issuer-discovery", &[Group("system:serviceaccounts")]),
    bound("system:volume-scheduler", &[User("system:kube-scheduler")]),
];
