//! Rows of the group storage.

use tenure_machinery::kind::{Kind, StatusMeta};

use super::row::{Row, row};
use crate::storage::{
    CsiDriverRules, CsiNodeRules, CsiStorageCapacityRules, StorageClassRules,
    VolumeAttachmentRules, VolumeAttributesClassRules,
};

const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");

/// `storage.k8s.io`.
pub(super) fn rows() -> Vec<Kind> {
    let rows = [
        row(STORAGE, "CSIDriver", "csidrivers", "api.storage.v1.CSIDriver", CsiDriverRules)
            .cluster()
            .needs_version()
            .returned(),
        row(STORAGE, "CSINode", "csinodes", "api.storage.v1.CSINode", CsiNodeRules)
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
        .needs_version(),
        row(
            STORAGE,
            "StorageClass",
            "storageclasses",
            "api.storage.v1.StorageClass",
            StorageClassRules,
        )
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
        .cluster()
        .short(&["vac"])
        .returned(),
    ];
    rows.into_iter().map(Row::done).collect()
}
