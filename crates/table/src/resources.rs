//! Device claims, slices and taints.

use serde_json::{Value, json};
use tenure_machinery::object::ObjectExt;

use crate::column::{AGE, NAME, text};
use crate::row::RowInput;
use crate::{Column, Printer, age};

/// Resource claims.
pub(crate) static CLAIM: Printer = Printer { columns: CLAIM_COLUMNS, cells: claim_cells };

static CLAIM_COLUMNS: &[Column] = &[NAME, text("State", "How far the claim has come"), AGE];

fn claim_cells(row: &RowInput<'_>) -> Vec<Value> {
    let mut states = Vec::new();
    if row.deleted() {
        states.push("deleted");
    }
    if row.object.map_at(&["status", "allocation"]).is_some() {
        states.push("allocated");
        if row.count(&["status", "reservedFor"]) > 0 {
            states.push("reserved");
        }
    } else if !row.deleted() {
        states.push("pending");
    }
    vec![json!(row.name()), json!(states.join(",")), json!(row.age())]
}

/// Resource slices.
pub(crate) static SLICE: Printer = Printer { columns: SLICE_COLUMNS, cells: slice_cells };

static SLICE_COLUMNS: &[Column] = &[
    NAME,
    text("Node", "Node that has the devices"),
    text("Driver", "Driver of the devices"),
    text("Pool", "Pool the slice belongs to"),
    AGE,
];

fn slice_cells(row: &RowInput<'_>) -> Vec<Value> {
    vec![
        json!(row.name()),
        json!(row.text(&["spec", "nodeName"])),
        json!(row.text(&["spec", "driver"])),
        json!(row.text(&["spec", "pool", "name"])),
        json!(row.age()),
    ]
}

/// Device taint rules.
pub(crate) static TAINT_RULE: Printer = Printer { columns: TAINT_COLUMNS, cells: taint_cells };

static TAINT_COLUMNS: &[Column] = &[
    NAME,
    text("Key", "Key of the taint"),
    text("Value", "Value of the taint"),
    text("Effect", "What the taint does"),
    text("TimeAdded", "Time since the taint was added"),
    AGE,
];

fn taint_cells(row: &RowInput<'_>) -> Vec<Value> {
    let taint = |member: &str| json!(row.text(&["spec", "taint", member]));
    let added = row.object.str_at(&["spec", "taint", "timeAdded"]);
    vec![
        json!(row.name()),
        taint("key"),
        taint("value"),
        taint("effect"),
        json!(added.map_or_else(String::new, |added| age::since(Some(added), row.now))),
        json!(row.age()),
    ]
}
