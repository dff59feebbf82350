//! Volumes, claims, classes and drivers.

use serde_json::{Value, json};
use tenure_machinery::object::{Object, ObjectExt};

use crate::column::{AGE, NAME, boolean, integer, named, text, wide};
use crate::row::{RowInput, quantity};
use crate::{Column, Printer};

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_ANNOTATIONS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Persistent volumes.
pub(crate) static VOLUME: Printer = Printer { columns: VOLUME_COLUMNS, cells: volume_cells };

static VOLUME_COLUMNS: &[Column] = &[
    NAME,
    text("Capacity", "Size of the volume"),
    text("Access Modes", "How the volume may be mounted"),
    text("Reclaim Policy", "What becomes of the volume after its claim"),
    text("Status", "Whether the volume is free, bound or released"),
    text("Claim", "Claim the volume is bound to"),
    text("StorageClass", "Class of the volume"),
    text("VolumeAttributesClass", "Class of the volume's attributes"),
    text("Reason", "Why the volume is in this status"),
    AGE,
    wide("VolumeMode", "File system or block device"),
];

fn volume_cells(row: &RowInput<'_>) -> Vec<Value> {
    let claim = row.object.map_at(&["spec", "claimRef"]).map_or_else(String::new, |claim| {
        let member = |name| claim.str_at(&[name]).unwrap_or_default();
        format!("{}/{}", member("namespace"), member("name"))
    });
    vec![
        json!(row.name()),
        json!(quantity(row.object.at(&["spec", "capacity", "storage"]))),
        json!(access_modes(&row.texts(&["spec", "accessModes"]))),
        json!(row.text(&["spec", "persistentVolumeReclaimPolicy"])),
        json!(phase(row)),
        json!(claim),
        json!(class(row)),
        json!(row.text_or(&["spec", "volumeAttributesClassName"], "<unset>")),
        json!(row.text(&["status", "reason"])),
        json!(row.age()),
        json!(row.text_or(&["spec", "volumeMode"], "<unset>")),
    ]
}

/// Persistent volume claims.
pub(crate) static CLAIM: Printer = Printer { columns: CLAIM_COLUMNS, cells: claim_cells };

static CLAIM_COLUMNS: &[Column] = &[
    NAME,
    text("Status", "Whether the claim is bound"),
    text("Volume", "Volume the claim is bound to"),
    text("Capacity", "Size of the bound volume"),
    text("Access Modes", "How the bound volume may be mounted"),
    text("StorageClass", "Class the claim asks for"),
    text("VolumeAttributesClass", "Class of attributes the claim asks for"),
    AGE,
    wide("VolumeMode", "File system or block device"),
];

fn claim_cells(row: &RowInput<'_>) -> Vec<Value> {
    let volume = row.text(&["spec", "volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        (
            quantity(row.object.at(&["status", "capacity", "storage"])),
            access_modes(&row.texts(&["status", "accessModes"])),
        )
    };
    vec![
        json!(row.name()),
        json!(phase(row)),
        json!(volume),
        json!(capacity),
        json!(modes),
        json!(class(row)),
        json!(row.text_or(&["spec", "volumeAttributesClassName"], "<unset>")),
        json!(row.age()),
        json!(row.text_or(&["spec", "volumeMode"], "<unset>")),
    ]
}

fn phase<'a>(row: &RowInput<'a>) -> &'a str {
    if row.deleted() { "Terminating" } else { row.text(&["status", "phase"]) }
}

/// An old annotation takes precedence over the member that followed it.
fn class<'a>(row: &RowInput<'a>) -> &'a str {
    row.annotation(CLASS_ANNOTATION).unwrap_or_else(|| row.text(&["spec", "storageClassName"]))
}

/// Access modes in short form and a fixed order, each once.
fn access_modes(modes: &[&str]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let shown: Vec<_> =
        short.iter().filter(|(mode, _)| modes.contains(mode)).map(|(_, short)| *short).collect();
    shown.join(",")
}

/// Storage classes.
pub(crate) static CLASS: Printer = Printer { columns: CLASS_COLUMNS, cells: class_cells };

static CLASS_COLUMNS: &[Column] = &[
    NAME,
    text("Provisioner", "Who makes the volumes"),
    text("ReclaimPolicy", "What becomes of volumes after their claims"),
    text("VolumeBindingMode", "When volumes are bound"),
    text("AllowVolumeExpansion", "Whether volumes may grow"),
    AGE,
];

fn class_cells(row: &RowInput<'_>) -> Vec<Value> {
    vec![
        json!(row.name()),
        json!(row.text(&["provisioner"])),
        json!(row.text_or(&["reclaimPolicy"], "Delete")),
        json!(row.text_or(&["volumeBindingMode"], "Immediate")),
        json!(row.truth(&["allowVolumeExpansion"], false)),
        json!(row.age()),
    ]
}

/// Marks the class that claims without one get: the newest of those that say so.
pub(crate) fn mark_default_class(objects: &[&Object], rows: &mut [Vec<Value>]) {
    let is_default = |object: &Object| {
        DEFAULT_ANNOTATIONS
            .iter()
            .any(|key| object.str_at(&["metadata", "annotations", key]) == Some("true"))
    };
    let created = |object: &Object| {
        object.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default().to_owned()
    };
    let default =
        objects.iter().enumerate().filter(|(_, object)| is_default(object)).max_by(
            |(_, a), (_, b)| created(a).cmp(&created(b)).then_with(|| b.name().cmp(a.name())),
        );
    if let Some((index, object)) = default
        && let Some(cell) = rows.get_mut(index).and_then(|row| row.first_mut())
    {
        *cell = json!(format!("{} (default)", object.name()));
    }
}

/// Volume attributes classes.
pub(crate) static ATTRIBUTES_CLASS: Printer = Printer {
    columns: ATTRIBUTES_CLASS_COLUMNS,
    cells: |row| vec![json!(row.name()), json!(row.text(&["driverName"])), json!(row.age())],
};

static ATTRIBUTES_CLASS_COLUMNS: &[Column] =
    &[NAME, text("DriverName", "Driver that knows the attributes"), AGE];

/// Volume attachments.
pub(crate) static ATTACHMENT: Printer =
    Printer { columns: ATTACHMENT_COLUMNS, cells: attachment_cells };

static ATTACHMENT_COLUMNS: &[Column] = &[
    NAME,
    named(text("Attacher", "Driver that attaches the volume")),
    text("PV", "Volume to attach"),
    text("Node", "Node to attach it to"),
    boolean("Attached", "Whether it is attached"),
    AGE,
];

fn attachment_cells(row: &RowInput<'_>) -> Vec<Value> {
    vec![
        json!(row.name()),
        json!(row.text(&["spec", "attacher"])),
        json!(row.text(&["spec", "source", "persistentVolumeName"])),
        json!(row.text(&["spec", "nodeName"])),
        json!(row.truth(&["status", "attached"], false)),
        json!(row.age()),
    ]
}

/// Nodes as storage drivers see them.
pub(crate) static CSI_NODE: Printer = Printer {
    columns: CSI_NODE_COLUMNS,
    cells: |row| vec![json!(row.name()), json!(row.count(&["spec", "drivers"])), json!(row.age())],
};

static CSI_NODE_COLUMNS: &[Column] = &[NAME, integer("Drivers", "Number of drivers"), AGE];

/// Storage drivers.
pub(crate) static CSI_DRIVER: Printer = Printer { columns: DRIVER_COLUMNS, cells: driver_cells };

static DRIVER_COLUMNS: &[Column] = &[
    NAME,
    boolean("AttachRequired", "Whether volumes are attached before use"),
    boolean("PodInfoOnMount", "Whether the driver learns about the pod"),
    boolean("StorageCapacity", "Whether capacity is taken into account"),
    text("TokenRequests", "Audiences of the tokens the driver gets"),
    boolean("RequiresRepublish", "Whether volumes are published again and again"),
    text("Modes", "Life cycles of volumes the driver knows"),
    AGE,
];

fn driver_cells(row: &RowInput<'_>) -> Vec<Value> {
    let modes = row.texts(&["spec", "volumeLifecycleModes"]).join(",");
    let audiences: Vec<_> = row
        .items(&["spec", "tokenRequests"])
        .map(|request| request.str_at(&["audience"]).unwrap_or_default())
        .collect();
    let tokens = match row.object.at(&["spec", "tokenRequests"]) {
        None | Some(Value::Null) => "<unset>".to_owned(),
        Some(_) => audiences.join(","),
    };
    vec![
        json!(row.name()),
        json!(row.truth(&["spec", "attachRequired"], true)),
        json!(row.truth(&["spec", "podInfoOnMount"], false)),
        json!(row.truth(&["spec", "storageCapacity"], false)),
        json!(tokens),
        json!(row.truth(&["spec", "requiresRepublish"], false)),
        json!(if modes.is_empty() { "<none>".to_owned() } else { modes }),
        json!(row.age()),
    ]
}

/// Storage capacities.
pub(crate) static CSI_CAPACITY: Printer =
    Printer { columns: CAPACITY_COLUMNS, cells: capacity_cells };

static CAPACITY_COLUMNS: &[Column] = &[
    NAME,
    text("StorageClassName", "Class the capacity is for"),
    text("Capacity", "How much is left"),
];

fn capacity_cells(row: &RowInput<'_>) -> Vec<Value> {
    let capacity = match row.object.at(&["capacity"]) {
        None | Some(Value::Null) => "<unset>".to_owned(),
        some => quantity(some),
    };
    vec![json!(row.name()), json!(row.text(&["storageClassName"])), json!(capacity)]
}

/// Storage version migrations.
pub(crate) static MIGRATION: Printer =
    Printer { columns: MIGRATION_COLUMNS, cells: migration_cells };

static MIGRATION_COLUMNS: &[Column] = &[
    text("Name", "Name of the object"),
    text("Resource", "Resource that is migrated"),
    text("Status", "How far the migration has come"),
];

fn migration_cells(row: &RowInput<'_>) -> Vec<Value> {
    let resource = row.text(&["spec", "resource", "resource"]);
    let resource = match row.text(&["spec", "resource", "group"]) {
        "" => resource.to_owned(),
        group => format!("{resource}.{group}"),
    };
    let status = row
        .items(&["status", "conditions"])
        .filter(|c| c.str_at(&["status"]) == Some("True"))
        .filter_map(|c| c.str_at(&["type"]))
        .rfind(|kind| matches!(*kind, "Running" | "Failed" | "Succeeded"));
    vec![json!(row.name()), json!(resource), json!(status.unwrap_or("Unknown"))]
}
