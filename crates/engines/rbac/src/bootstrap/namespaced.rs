//! The roles that live in `kube-system` and `kube-public`, and who is bound to them there.

use super::facts::BootstrapSubject::{Account, User};
use super::facts::{BoundFacts, EVENTS, READ, RoleFacts, local, local_bound, named, on};

pub(super) const ROLES: &[RoleFacts] = &[
    local(
        "kube-public",
        "system:controller:bootstrap-signer",
        &[on(READ, "", "configmaps"), named("update", "", "configmaps", "cluster-info"), EVENTS],
    ),
    local(
        "kube-system",
        "extension-apiserver-authentication-reader",
        &[named(READ, "", "configmaps", "extension-apiserver-authentication")],
    ),
    local(
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        &[
            on("create get list update watch", "coordination.k8s.io", "leases"),
            on("create get list update watch", "coordination.k8s.io", "leasecandidates"),
        ],
    ),
    local(
        "kube-system",
        "system::leader-locking-kube-scheduler",
        &[
            on("create get list update watch", "coordination.k8s.io", "leases"),
            on("create get list update watch", "coordination.k8s.io", "leasecandidates"),
        ],
    ),
    local("kube-system", "system:controller:bootstrap-signer", &[on(READ, "", "secrets")]),
    local(
        "kube-system",
        "system:controller:cloud-provider",
        &[on("create get list watch", "", "configmaps")],
    ),
    local(
        "kube-system",
        "system:controller:token-cleaner",
        &[on("delete get list watch", "", "secrets"), EVENTS],
    ),
];

pub(super) const BINDINGS: &[BoundFacts] = &[
    local_bound(
        "kube-public",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &[Account("bootstrap-signer")],
    ),
    local_bound(
        "kube-system",
        "system::extension-apiserver-authentication-reader",
        "extension-apiserver-authentication-reader",
        &[User("system:kube-controller-manager"), User("system:kube-scheduler")],
    ),
    local_bound(
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        &[
            User("system:kube-controller-manager"),
            Account("kube-controller-manager"),
            Account("leader-election-controller"),
        ],
    ),
    local_bound(
        "kube-system",
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        &[User("system:kube-scheduler"), Account("kube-scheduler")],
    ),
    local_bound(
        "kube-system",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &[Account("bootstrap-signer")],
    ),
    local_bound(
        "kube-system",
        "system:controller:cloud-provider",
        "system:controller:cloud-provider",
        &[Account("cloud-provider")],
    ),
    local_bound(
        "kube-system",
        "system:controller:token-cleaner",
        "system:controller:token-cleaner",
        &[Account("token-cleaner")],
    ),
];
