//! Autoscalers and the scale of anything that has replicas.

use serde_json::{Value, json};
use tenure_machinery::object::{Object, ObjectExt};

use crate::column::{AGE, NAME, integer, text};
use crate::row::{RowInput, quantity};
use crate::{Column, Printer};

/// Scales, the bodies of `scale` subresources.
pub(crate) static SCALE: Printer = Printer { columns: SCALE_COLUMNS, cells: scale_cells };

static SCALE_COLUMNS: &[Column] = &[
    text("Name", "Name of the object"),
    integer("Desired", "Pods wanted"),
    integer("Available", "Pods that exist"),
    AGE,
];

fn scale_cells(row: &RowInput<'_>) -> Vec<Value> {
    vec![
        json!(row.name()),
        json!(row.int(&["spec", "replicas"])),
        json!(row.int(&["status", "replicas"])),
        json!(row.age()),
    ]
}

/// Horizontal pod autoscalers.
pub(crate) static AUTOSCALER: Printer =
    Printer { columns: AUTOSCALER_COLUMNS, cells: autoscaler_cells };

static AUTOSCALER_COLUMNS: &[Column] = &[
    NAME,
    text("Reference", "Object that is scaled"),
    text("Targets", "Each metric as it is, and as it should be"),
    text("MinPods", "Fewest pods"),
    text("MaxPods", "Most pods"),
    text("Replicas", "Pods that exist"),
    AGE,
];

fn autoscaler_cells(row: &RowInput<'_>) -> Vec<Value> {
    let target = |member: &str| row.text(&["spec", "scaleTargetRef", member]);
    let least = row.object.int_at(&["spec", "minReplicas"]);
    vec![
        json!(row.name()),
        json!(format!("{}/{}", target("kind"), target("name"))),
        json!(targets(row)),
        json!(least.map_or("<unset>".to_owned(), |least| least.to_string())),
        json!(row.int(&["spec", "maxReplicas"])),
        json!(row.int(&["status", "currentReplicas"])),
        json!(row.age()),
    ]
}

fn targets(row: &RowInput<'_>) -> String {
    // Version 1 knows one metric only and keeps it in members of its own.
    if let Some(target) = row.object.int_at(&["spec", "targetCPUUtilizationPercentage"]) {
        let current = row.object.int_at(&["status", "currentCPUUtilizationPercentage"]);
        return format!("cpu: {}/{target}%", percent(current, "<unknown>"));
    }
    let statuses: Vec<_> = row.items(&["status", "currentMetrics"]).collect();
    let metrics: Vec<_> = row
        .items(&["spec", "metrics"])
        .enumerate()
        .map(|(index, spec)| metric(spec, statuses.get(index).copied()))
        .collect();
    match metrics.get(..2) {
        None if metrics.is_empty() => "<none>".to_owned(),
        Some(shown) if metrics.len() > 2 => {
            format!("{} + {} more...", shown.join(", "), metrics.len() - 2)
        }
        _ => metrics.join(", "),
    }
}

/// One metric, as `name: current/target`.
fn metric(spec: &Object, status: Option<&Object>) -> String {
    let (source, per_pod_mark) = match spec.str_at(&["type"]).unwrap_or_default() {
        "External" => ("external", " (avg)"),
        "Object" => ("object", " (avg)"),
        "Pods" => ("pods", ""),
        "Resource" => ("resource", ""),
        "ContainerResource" => ("containerResource", ""),
        _ => return "<unknown type>".to_owned(),
    };
    let resource = matches!(source, "resource" | "containerResource");
    let target = |member: &str| set(spec.at(&[source, "target", member]));
    let status = status.and_then(|status| status.map_at(&[source]));
    // Sums are always known once there is a status; averages may be missing from it.
    let current = |member: &str, always: bool| {
        let value = status.and_then(|status| set(status.at(&["current", member])));
        if value.is_some() || (always && status.is_some()) {
            quantity(value)
        } else {
            "<unknown>".to_owned()
        }
    };
    let prefix = if resource {
        format!("{}: ", spec.str_at(&[source, "name"]).unwrap_or_default())
    } else {
        String::new()
    };
    if let Some(average) = target("averageValue") {
        let current = current("averageValue", resource || source == "pods");
        format!("{prefix}{current}/{}{per_pod_mark}", quantity(Some(average)))
    } else if resource {
        let now = status.and_then(|status| status.int_at(&["current", "averageUtilization"]));
        let wanted = spec.int_at(&[source, "target", "averageUtilization"]);
        format!("{prefix}{}/{}", percent(now, "<unknown>"), percent(wanted, "<auto>"))
    } else {
        let member = if source == "pods" { "averageValue" } else { "value" };
        format!("{}/{}", current(member, true), quantity(target(member)))
    }
}

fn set(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn percent(value: Option<i64>, absent: &str) -> String {
    value.map_or_else(|| absent.to_owned(), |value| format!("{value}%"))
}
