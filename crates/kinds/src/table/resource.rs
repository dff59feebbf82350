//! Rows of the group resource; of what nobody acts on, schema-driven storage only.
//!
//! Device taint rules are served as v1; the facts of that version are those of v1alpha3.

use tenure_machinery::kind::{Kind, NoRules, StatusMeta};

use super::row::{KindBuilder, row};
use crate::resource_claim::{ResourceClaimRules, ResourceClaimTemplateRules};
use crate::resource_slice::ResourceSliceRules;

const RESOURCE: (&str, &str) = ("resource.k8s.io", "v1");

/// `resource.k8s.io`.
pub(super) fn resource() -> Vec<Kind> {
    let rows = [
        row(RESOURCE, "DeviceClass", "deviceclasses", "api.resource.v1.DeviceClass", NoRules)
            .ignored("devices are not allocated")
            .cluster()
            .counted(),
        row(
            RESOURCE,
            "DeviceTaintRule",
            "devicetaintrules",
            "api.resource.v1alpha3.DeviceTaintRule",
            NoRules,
        )
        .ignored("devices are not allocated")
        .cluster()
        .counted()
        .needs_version()
        .status("DeviceTaintRule", StatusMeta::Frozen),
        row(
            RESOURCE,
            "ResourceClaim",
            "resourceclaims",
            "api.resource.v1.ResourceClaim",
            ResourceClaimRules,
        )
        .acted_on_by("the authorization of nodes")
        .status("ResourceClaim", StatusMeta::Frozen),
        row(
            RESOURCE,
            "ResourceClaimTemplate",
            "resourceclaimtemplates",
            "api.resource.v1.ResourceClaimTemplate",
            ResourceClaimTemplateRules,
        )
        .ignored("no claims are made of it"),
        row(
            RESOURCE,
            "ResourceSlice",
            "resourceslices",
            "api.resource.v1.ResourceSlice",
            ResourceSliceRules,
        )
        .acted_on_by("the authorization of nodes")
        .cluster()
        .counted()
        .field("spec.nodeName", "")
        .field("spec.driver", "")
        .field("spec.pool.name", ""),
    ];
    rows.into_iter().map(|row| KindBuilder::returned(row).done()).collect()
}
