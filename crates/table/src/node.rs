//! Nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tenure_machinery::object::ObjectExt;

use crate::column::{AGE, NAME, text, wide};
use crate::row::RowInput;
use crate::{Column, Printer};

/// Nodes.
pub(crate) static NODE: Printer = Printer { columns: NODE_COLUMNS, cells: node_cells };

static NODE_COLUMNS: &[Column] = &[
    NAME,
    text("Status", "Whether the node is ready and takes pods"),
    text("Roles", "Roles from the node's labels"),
    AGE,
    text("Version", "Version of the kubelet"),
    wide("Internal-IP", "First internal address"),
    wide("External-IP", "First external address"),
    wide("OS-Image", "Operating system"),
    wide("Kernel-Version", "Kernel and architecture"),
    wide("Container-Runtime", "Container runtime and its version"),
];

fn node_cells(row: &RowInput<'_>) -> Vec<Value> {
    let info = |member: &str| row.filled(&["status", "nodeInfo", member], "<unknown>");
    let architecture = row.text(&["status", "nodeInfo", "architecture"]);
    let kernel = match architecture {
        "" => info("kernelVersion").to_owned(),
        _ => format!("{} ({architecture})", info("kernelVersion")),
    };
    vec![
        json!(row.name()),
        json!(status(row)),
        json!(roles(row)),
        json!(row.age()),
        json!(row.text(&["status", "nodeInfo", "kubeletVersion"])),
        json!(address(row, "InternalIP")),
        json!(address(row, "ExternalIP")),
        json!(info("osImage")),
        json!(kernel),
        json!(info("containerRuntimeVersion")),
    ]
}

fn status(row: &RowInput<'_>) -> String {
    // Of several conditions of one type the last counts here.
    let ready = row
        .items(&["status", "conditions"])
        .rfind(|c| c.str_at(&["type"]) == Some("Ready"))
        .map(|c| c.str_at(&["status"]) == Some("True"));
    let mut status = match ready {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if row.truth(&["spec", "unschedulable"], false) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(row: &RowInput<'_>) -> String {
    let labels = row.object.map_at(&["metadata", "labels"]);
    let roles: BTreeSet<_> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.into_iter().collect::<Vec<_>>().join(",")
    }
}

fn address<'a>(row: &RowInput<'a>, kind: &str) -> &'a str {
    row.items(&["status", "addresses"])
        .find(|address| address.str_at(&["type"]) == Some(kind))
        .map_or("<none>", |address| address.str_at(&["address"]).unwrap_or_default())
}
