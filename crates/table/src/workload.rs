//! Controllers of pods, their revisions, and disruption budgets.

use serde_json::{Value, json};
use tenure_machinery::object::ObjectExt;

use crate::column::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, integer, text};
use crate::row::{RowInput, quantity};
use crate::{Column, Printer, selector};

const TEMPLATE_CONTAINERS: &[&str] = &["spec", "template", "spec", "containers"];

/// Replication controllers.
pub(crate) static REPLICATION_CONTROLLER: Printer =
    Printer { columns: REPLICAS_COLUMNS, cells: |row| replicas_cells(row, true) };

/// Replica sets.
pub(crate) static REPLICA_SET: Printer =
    Printer { columns: REPLICAS_COLUMNS, cells: |row| replicas_cells(row, false) };

static REPLICAS_COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "Pods wanted"),
    integer("Current", "Pods that exist"),
    integer("Ready", "Pods that are ready"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// A replication controller selects by plain labels, a replica set by a label selector.
fn replicas_cells(row: &RowInput<'_>, plain: bool) -> Vec<Value> {
    let [names, images] = row.containers(TEMPLATE_CONTAINERS);
    let wanted = row.object.map_at(&["spec", "selector"]);
    vec![
        json!(row.name()),
        json!(row.int(&["spec", "replicas"])),
        json!(row.int(&["status", "replicas"])),
        json!(row.int(&["status", "readyReplicas"])),
        json!(row.age()),
        names,
        images,
        json!(if plain { selector::labels(wanted) } else { selector::selector(wanted) }),
    ]
}

/// Deployments.
pub(crate) static DEPLOYMENT: Printer =
    Printer { columns: DEPLOYMENT_COLUMNS, cells: deployment_cells };

static DEPLOYMENT_COLUMNS: &[Column] = &[
    NAME,
    text("Ready", "Pods that are ready, of those wanted"),
    text("Up-to-date", "Pods of the newest template"),
    text("Available", "Pods that have been ready long enough"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn deployment_cells(row: &RowInput<'_>) -> Vec<Value> {
    let [names, images] = row.containers(TEMPLATE_CONTAINERS);
    let wanted = row.object.map_at(&["spec", "selector"]).map(selector::requirements);
    vec![
        json!(row.name()),
        json!(ready_of_wanted(row)),
        json!(row.int(&["status", "updatedReplicas"])),
        json!(row.int(&["status", "availableReplicas"])),
        json!(row.age()),
        names,
        images,
        json!(wanted.map_or_else(String::new, |text| text.unwrap_or("<invalid>".to_owned()))),
    ]
}

fn ready_of_wanted(row: &RowInput<'_>) -> String {
    format!("{}/{}", row.int(&["status", "readyReplicas"]), row.int(&["spec", "replicas"]))
}

/// Stateful sets.
pub(crate) static STATEFUL_SET: Printer =
    Printer { columns: STATEFUL_SET_COLUMNS, cells: stateful_set_cells };

static STATEFUL_SET_COLUMNS: &[Column] =
    &[NAME, text("Ready", "Pods that are ready, of those wanted"), AGE, CONTAINERS, IMAGES];

fn stateful_set_cells(row: &RowInput<'_>) -> Vec<Value> {
    let [names, images] = row.containers(TEMPLATE_CONTAINERS);
    vec![json!(row.name()), json!(ready_of_wanted(row)), json!(row.age()), names, images]
}

/// Daemon sets.
pub(crate) static DAEMON_SET: Printer =
    Printer { columns: DAEMON_SET_COLUMNS, cells: daemon_set_cells };

static DAEMON_SET_COLUMNS: &[Column] = &[
    NAME,
    integer("Desired", "Nodes that should run the pod"),
    integer("Current", "Nodes that should and do run the pod"),
    integer("Ready", "Nodes where the pod is ready"),
    integer("Up-to-date", "Nodes with a pod of the newest template"),
    integer("Available", "Nodes where the pod has been ready long enough"),
    text("Node Selector", "Labels that nodes need"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn daemon_set_cells(row: &RowInput<'_>) -> Vec<Value> {
    let [names, images] = row.containers(TEMPLATE_CONTAINERS);
    vec![
        json!(row.name()),
        json!(row.int(&["status", "desiredNumberScheduled"])),
        json!(row.int(&["status", "currentNumberScheduled"])),
        json!(row.int(&["status", "numberReady"])),
        json!(row.int(&["status", "updatedNumberScheduled"])),
        json!(row.int(&["status", "numberAvailable"])),
        json!(selector::labels(row.object.map_at(&["spec", "template", "spec", "nodeSelector"]))),
        json!(row.age()),
        names,
        images,
        json!(selector::selector(row.object.map_at(&["spec", "selector"]))),
    ]
}

/// Controller revisions.
pub(crate) static REVISION: Printer = Printer { columns: REVISION_COLUMNS, cells: revision_cells };

static REVISION_COLUMNS: &[Column] = &[
    NAME,
    text("Controller", "Object that controls the revision"),
    text("Revision", "Number of the revision"),
    AGE,
];

fn revision_cells(row: &RowInput<'_>) -> Vec<Value> {
    let controller = row
        .items(&["metadata", "ownerReferences"])
        .find(|owner| owner.bool_at(&["controller"]) == Some(true))
        .map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let kind = owner.str_at(&["kind"]).unwrap_or_default().to_lowercase();
                let name = owner.str_at(&["name"]).unwrap_or_default();
                match owner.str_at(&["apiVersion"]).and_then(|version| version.split_once('/')) {
                    Some((group, _)) => format!("{kind}.{}/{name}", group.to_lowercase()),
                    None => format!("{kind}/{name}"),
                }
            },
        );
    vec![json!(row.name()), json!(controller), json!(row.int(&["revision"])), json!(row.age())]
}

/// Pod disruption budgets.
pub(crate) static DISRUPTION_BUDGET: Printer =
    Printer { columns: DISRUPTION_BUDGET_COLUMNS, cells: disruption_budget_cells };

static DISRUPTION_BUDGET_COLUMNS: &[Column] = &[
    NAME,
    text("Min Available", "Pods that must stay available"),
    text("Max Unavailable", "Pods that may be unavailable"),
    integer("Allowed Disruptions", "Pods that may be evicted now"),
    AGE,
];

fn disruption_budget_cells(row: &RowInput<'_>) -> Vec<Value> {
    let bound = |member: &str| match row.object.at(&["spec", member]) {
        None | Some(Value::Null) => "N/A".to_owned(),
        some => quantity(some),
    };
    vec![
        json!(row.name()),
        json!(bound("minAvailable")),
        json!(bound("maxUnavailable")),
        json!(row.int(&["status", "disruptionsAllowed"])),
        json!(row.age()),
    ]
}
