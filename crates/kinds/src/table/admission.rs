//! Rows of the groups that extend the server: admissionregistration, apiextensions.
//!
//! Mutating policies are served as v1; the facts of that version are those of v1beta1.

use tenure_machinery::kind::{Kind, NoRules, StatusMeta};

use super::row::{KindBuilder, row};
use crate::admission::{MutatingPolicyRules, PolicyBindingRules, ValidatingPolicyRules};
use crate::webhook::{MutatingWebhookRules, ValidatingWebhookRules};

const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");
const EXTENSIONS: (&str, &str) = ("apiextensions.k8s.io", "v1");

/// `admissionregistration.k8s.io`.
pub(super) fn admission() -> Vec<Kind> {
    let rows = [
        row(
            ADMISSION,
            "MutatingAdmissionPolicy",
            "mutatingadmissionpolicies",
            "api.admissionregistration.v1beta1.MutatingAdmissionPolicy",
            MutatingPolicyRules,
        )
        .acted_on_by("admission"),
        row(
            ADMISSION,
            "MutatingAdmissionPolicyBinding",
            "mutatingadmissionpolicybindings",
            "api.admissionregistration.v1beta1.MutatingAdmissionPolicyBinding",
            PolicyBindingRules { validating: false },
        )
        .acted_on_by("admission"),
        row(
            ADMISSION,
            "MutatingWebhookConfiguration",
            "mutatingwebhookconfigurations",
            "api.admissionregistration.v1.MutatingWebhookConfiguration",
            MutatingWebhookRules,
        )
        .acted_on_by("admission, which calls the webhooks"),
        row(
            ADMISSION,
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            "api.admissionregistration.v1.ValidatingAdmissionPolicy",
            ValidatingPolicyRules,
        )
        .acted_on_by("admission")
        .status("ValidatingAdmissionPolicy", StatusMeta::Frozen),
        row(
            ADMISSION,
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            "api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
            PolicyBindingRules { validating: true },
        )
        .acted_on_by("admission"),
        row(
            ADMISSION,
            "ValidatingWebhookConfiguration",
            "validatingwebhookconfigurations",
            "api.admissionregistration.v1.ValidatingWebhookConfiguration",
            ValidatingWebhookRules,
        )
        .acted_on_by("admission, which calls the webhooks"),
    ];
    let extends = |row: KindBuilder| {
        row.cluster().category("api-extensions").counted().needs_version().done()
    };
    rows.into_iter().map(extends).collect()
}

/// `apiextensions.k8s.io`; the rules of definitions are the server's, which also serves them.
pub(super) fn extensions() -> Vec<Kind> {
    vec![
        row(
            EXTENSIONS,
            "CustomResourceDefinition",
            "customresourcedefinitions",
            "apiextensions_apiserver.apiextensions.v1.CustomResourceDefinition",
            NoRules,
        )
        .acted_on_by("the server, which serves the kind")
        .cluster()
        .short(&["crd", "crds"])
        .category("api-extensions")
        .stored_at("apiextensions.k8s.io/customresourcedefinitions")
        .counted()
        .needs_version()
        .status("CustomResourceDefinition", StatusMeta::Open)
        .done(),
    ]
}
