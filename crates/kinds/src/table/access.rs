//! Rows of the groups about who may do what: authentication, authorization, RBAC, references.

use tenure_machinery::kind::{Kind, NameRule, NoRules, Verbs};

use super::row::{Row, row};
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
        ),
        row(
            AUTHENTICATION,
            "TokenReview",
            "tokenreviews",
            "api.authentication.v1.TokenReview",
            NoRules,
        ),
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
        ),
        row(
            AUTHORIZATION,
            "SelfSubjectAccessReview",
            "selfsubjectaccessreviews",
            "api.authorization.v1.SelfSubjectAccessReview",
            NoRules,
        )
        .cluster(),
        row(
            AUTHORIZATION,
            "SelfSubjectRulesReview",
            "selfsubjectrulesreviews",
            "api.authorization.v1.SelfSubjectRulesReview",
            NoRules,
        )
        .cluster(),
        row(
            AUTHORIZATION,
            "SubjectAccessReview",
            "subjectaccessreviews",
            "api.authorization.v1.SubjectAccessReview",
            NoRules,
        )
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
        .cluster(),
        row(RBAC, "ClusterRole", "clusterroles", "api.rbac.v1.ClusterRole", ClusterRoleRules)
            .cluster(),
        row(RBAC, "RoleBinding", "rolebindings", "api.rbac.v1.RoleBinding", BindingRules),
        row(RBAC, "Role", "roles", "api.rbac.v1.Role", RoleRules),
    ];
    let named = |row: Row| row.named(NameRule::PathSegment).put_creates().done();
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
        .cluster()
        .short(&["crc"]),
        row(
            REFERENCE,
            "ReferenceGrant",
            "referencegrants",
            "dev.tenure.api.reference.v1alpha1.ReferenceGrant",
            NoRules,
        )
        .short(&["rg"]),
        row(
            REFERENCE,
            "ReferenceStrategy",
            "referencestrategies",
            "dev.tenure.api.reference.v1alpha1.ReferenceStrategy",
            NoRules,
        )
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
    );
    vec![review.cluster().verbs(Verbs::CreateOnly).done()]
}
