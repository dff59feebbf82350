//! Rows of the group storage.

use tenure_machinery::kind::{Kind, StatusMeta};

use super::row::{KindBuilder, row};
use crate::storage::{
    CsiDriverRules, CsiNodeRules, CsiStorageCapacityRules, StorageClassRules,
    VolumeAttachmentRules, VolumeAttributesClassRules,
};

const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");

/// `storage.k8s.io`.
pub(super) fn rows() -> Vec<Kind> {
    let rows = [
        row(STORAGE, "CSIDriver", "csidrivers", "api.storage.v1.CSIDriver", CsiDriverRules)
            .ignored("no CSI driver is called for volumes")
            .cluster()
            .needs_version()
            .returned(),
        row(STORAGE, "CSINode", "csinodes", "api.storage.v1.CSINode", CsiNodeRules)
            .acted_on_by("the authorization of nodes")
            .cluster()
            .needs_version()
            .returned(),
        row(
            STORAGE,
            "CSIStorageCapacity",
            "csistoragecapacities",
            "api.storage.v1.CSIStorageCapacity",
            CsiStorageCapacityRules,
        )
        .ignored("the scheduler does not look at the capacity of storage")
        .needs_version(),
        row(
            STORAGE,
            "StorageClass",
            "storageclasses",
            "api.storage.v1.StorageClass",
            StorageClassRules,
        )
        .acted_on_by("admission and the volume binder")
        .cluster()
        .short(&["sc"])
        .returned(),
        row(
            STORAGE,
            "VolumeAttachment",
            "volumeattachments",
            "api.storage.v1.VolumeAttachment",
            VolumeAttachmentRules,
        )
        .acted_on_by("the authorization of nodes")
        .cluster()
        .needs_version()
        .returned()
        .status("VolumeAttachment", StatusMeta::Frozen),
        row(
            STORAGE,
            "VolumeAttributesClass",
            "volumeattributesclasses",
            "api.storage.v1.VolumeAttributesClass",
            VolumeAttributesClassRules,
        )
        .ignored("volumes are not modified by it")
        .cluster()
        .short(&["vac"])
        .returned(),
    ];
    rows.into_iter().map(KindBuilder::done).collect()
}
