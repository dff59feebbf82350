//! Rows of the groups about who may do what: authentication, authorization, RBAC, references.

use tenure_machinery::kind::{Kind, NameRule, NoRules, Verbs};

use super::row::{KindBuilder, row};
use crate::rbac::{BindingRules, ClusterBindingRules, ClusterRoleRules, RoleRules};

const AUTHENTICATION: (&str, &str) = ("authentication.k8s.io", "v1");
const AUTHORIZATION: (&str, &str) = ("authorization.k8s.io", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const REFERENCE: (&str, &str) = (crate::reference::GROUP, "v1alpha1");
const REFERENCE_REVIEWS: (&str, &str) = (crate::reference::REVIEW_GROUP, "v1alpha1");

/// `authentication.k8s.io`.
pub(super) fn authentication() -> Vec<Kind> {
    let rows = [
        row(
            AUTHENTICATION,
            "SelfSubjectReview",
            "selfsubjectreviews",
            "api.authentication.v1.SelfSubjectReview",
            NoRules,
        )
        .acted_on_by("the server, which answers"),
        row(
            AUTHENTICATION,
            "TokenReview",
            "tokenreviews",
            "api.authentication.v1.TokenReview",
            NoRules,
        )
        .acted_on_by("the server, which answers"),
    ];
    rows.into_iter().map(|row| row.cluster().verbs(Verbs::CreateOnly).done()).collect()
}

/// `authorization.k8s.io`.
pub(super) fn authorization() -> Vec<Kind> {
    let rows = [
        row(
            AUTHORIZATION,
            "LocalSubjectAccessReview",
            "localsubjectaccessreviews",
            "api.authorization.v1.LocalSubjectAccessReview",
            NoRules,
        )
        .acted_on_by("the server, which answers"),
        row(
            AUTHORIZATION,
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            "api.authorization.v1.SelfSubjectAccessReview",
            NoRules,
        )
        .acted_on_by("the server, which answers")
        .cluster(),
        row(
            AUTHORIZATION,
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            "api.authorization.v1.SelfSubjectRulesReview",
            NoRules,
        )
        .acted_on_by("the server, which answers")
        .cluster(),
        row(
            AUTHORIZATION,
            "SubjectAccessReview",
            "subjectaccessreviews",
            "api.authorization.v1.SubjectAccessReview",
            NoRules,
        )
        .acted_on_by("the server, which answers")
        .cluster(),
    ];
    rows.into_iter().map(|row| row.verbs(Verbs::CreateOnly).done()).collect()
}

/// `rbac.authorization.k8s.io`.
pub(super) fn rbac() -> Vec<Kind> {
    let rows = [
        row(
            RBAC,
            "ClusterRoleBinding",
            "clusterrolebindings",
            "api.rbac.v1.ClusterRoleBinding",
            ClusterBindingRules,
        )
        .acted_on_by("authorization")
        .cluster(),
        row(RBAC, "ClusterRole", "clusterroles", "api.rbac.v1.ClusterRole", ClusterRoleRules)
            .acted_on_by("authorization")
            .cluster(),
        row(RBAC, "RoleBinding", "rolebindings", "api.rbac.v1.RoleBinding", BindingRules)
            .acted_on_by("authorization"),
        row(RBAC, "Role", "roles", "api.rbac.v1.Role", RoleRules).acted_on_by("authorization"),
    ];
    let named = |row: KindBuilder| row.named(NameRule::PathSegment).put_creates().done();
    rows.into_iter().map(named).collect()
}

/// `reference.authorization.k8s.io`; what is wrong with its objects depends on what is served, so the server asks
/// the module `reference` for it.
pub(super) fn reference() -> Vec<Kind> {
    let rows = [
        row(
            REFERENCE,
            "ClusterReferenceConsumer",
            "clusterreferenceconsumers",
            "dev.tenure.api.reference.v1alpha1.ClusterReferenceConsumer",
            NoRules,
        )
        .acted_on_by("referential authorization")
        .cluster()
        .short(&["crc"]),
        row(
            REFERENCE,
            "ReferenceGrant",
            "referencegrants",
            "dev.tenure.api.reference.v1alpha1.ReferenceGrant",
            NoRules,
        )
        .acted_on_by("referential authorization")
        .short(&["rg"]),
        row(
            REFERENCE,
            "ReferenceStrategy",
            "referencestrategies",
            "dev.tenure.api.reference.v1alpha1.ReferenceStrategy",
            NoRules,
        )
        .acted_on_by("referential authorization")
        .cluster()
        .short(&["refstrat"]),
    ];
    rows.into_iter().map(|row| row.counted().done()).collect()
}

/// `reference.tenure.dev`: questions about references, answered and not stored.
pub(super) fn reference_reviews() -> Vec<Kind> {
    let review = row(
        REFERENCE_REVIEWS,
        "ReferenceReview",
        "referencereviews",
        "dev.tenure.api.reference.v1alpha1.ReferenceReview",
        NoRules,
    )
    .acted_on_by("the server, which answers");
    vec![review.cluster().verbs(Verbs::CreateOnly).done()]
}
