//! Pods: how ready, in which state, how often restarted.
//!
//! ```text
//!   phase ◄─ status.reason ◄─ gate ◄─ first unfinished init container ◄─ containers ◄─ deletion
//! ```
//!
//! Each step to the right overrides what is left of it.

use serde_json::{Value, json};
use tenure_machinery::object::{Object, ObjectExt};

use crate::column::{AGE, NAME, text, wide};
use crate::row::RowInput;
use crate::{Column, Printer, age, selector};

/// Pods.
pub(crate) static POD: Printer = Printer { columns: POD_COLUMNS, cells: pod_cells };

static POD_COLUMNS: &[Column] = &[
    NAME,
    text("Ready", "Containers that are ready, of all"),
    text("Status", "What the pod as a whole is doing"),
    text("Restarts", "How often containers restarted, and when last"),
    AGE,
    wide("IP", "First address of the pod"),
    wide("Node", "Node that runs the pod"),
    wide("Nominated Node", "Node kept free for the pod"),
    wide("Readiness Gates", "Readiness gates that are true, of all"),
];

/// Pod templates.
pub(crate) static TEMPLATE: Printer = Printer { columns: TEMPLATE_COLUMNS, cells: template_cells };

static TEMPLATE_COLUMNS: &[Column] = &[
    NAME,
    text("Containers", "Names of the containers"),
    text("Images", "Images of the containers"),
    text("Pod Labels", "Labels of pods made from the template"),
];

fn template_cells(row: &RowInput<'_>) -> Vec<Value> {
    let [names, images] = row.containers(&["template", "spec", "containers"]);
    let labels = selector::labels(row.object.map_at(&["template", "metadata", "labels"]));
    vec![json!(row.name()), names, images, json!(labels)]
}

/// The row condition of a finished pod.
pub(crate) fn conditions(object: &Object) -> Option<Value> {
    let (reason, message) = match object.str_at(&["status", "phase"])? {
        "Succeeded" => ("Succeeded", "the pod has finished its work"),
        "Failed" => ("Failed", "the pod has failed"),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

fn pod_cells(row: &RowInput<'_>) -> Vec<Value> {
    let state = PodSummary::of(row);
    let address = row
        .items(&["status", "podIPs"])
        .next()
        .and_then(|ip| ip.str_at(&["ip"]))
        .unwrap_or_default();
    vec![
        json!(row.name()),
        json!(format!("{}/{}", state.ready, state.total)),
        json!(state.reason),
        json!(state.restarts.show(row)),
        json!(row.age()),
        json!(if address.is_empty() { "<none>" } else { address }),
        json!(row.filled(&["spec", "nodeName"], "<none>")),
        json!(row.filled(&["status", "nominatedNodeName"], "<none>")),
        json!(readiness_gates(row)),
    ]
}

fn readiness_gates(row: &RowInput<'_>) -> String {
    let total = row.count(&["spec", "readinessGates"]);
    if total == 0 {
        return "<none>".to_owned();
    }
    let is_true = |gate: &&Object| gate.str_at(&["conditionType"]).is_some_and(|c| row.is_true(c));
    format!("{}/{total}", row.items(&["spec", "readinessGates"]).filter(is_true).count())
}

/// What the first four cells are made of.
struct PodSummary<'a> {
    total: usize,
    ready: usize,
    reason: String,
    restarts: Restarts<'a>,
    /// Restarts of init containers that keep running.
    sidecar_restarts: Restarts<'a>,
}

/// How many restarts, and the end of the run before the last one.
#[derive(Default)]
struct Restarts<'a> {
    count: i64,
    last: Option<&'a str>,
}

impl<'a> Restarts<'a> {
    fn add(&mut self, status: &'a Object) {
        self.count += status.int_at(&["restartCount"]).unwrap_or_default();
        // Times of one precision in UTC compare as text.
        self.last = self.last.max(status.str_at(&["lastState", "terminated", "finishedAt"]));
    }

    fn show(&self, row: &RowInput<'_>) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, age::since(Some(last), row.now))
            }
            _ => self.count.to_string(),
        }
    }
}

impl<'a> PodSummary<'a> {
    fn of(row: &RowInput<'a>) -> Self {
        let sidecars = row.items(&["spec", "initContainers"]).filter(|c| is_sidecar(c)).count();
        let mut state = Self {
            total: row.count(&["spec", "containers"]) + sidecars,
            ready: 0,
            reason: row.filled(&["status", "reason"], row.text(&["status", "phase"])).to_owned(),
            restarts: Restarts::default(),
            sidecar_restarts: Restarts::default(),
        };
        let gated = |c: &Object| {
            c.str_at(&["type"]) == Some("PodScheduled")
                && c.str_at(&["reason"]) == Some("SchedulingGated")
        };
        if row.items(&["status", "conditions"]).any(gated) {
            "SchedulingGated".clone_into(&mut state.reason);
        }
        let initializing = state.init_containers(row);
        if !initializing || row.is_true("Initialized") {
            state.containers(row);
        }
        state.deletion(row);
        state
    }

    /// Walks init containers up to the first that holds the pod up; says whether there is one.
    fn init_containers(&mut self, row: &RowInput<'a>) -> bool {
        for (index, status) in row.items(&["status", "initContainerStatuses"]).enumerate() {
            let name = status.str_at(&["name"]);
            let sidecar = row
                .items(&["spec", "initContainers"])
                .any(|c| c.str_at(&["name"]) == name && is_sidecar(c));
            self.restarts.add(status);
            if sidecar {
                self.sidecar_restarts.add(status);
            }
            let terminated = status.map_at(&["state", "terminated"]);
            if terminated.is_some_and(|t| exit_code(t) == 0) {
                continue;
            }
            if sidecar && status.bool_at(&["started"]) == Some(true) {
                self.ready += usize::from(status.bool_at(&["ready"]) == Some(true));
                continue;
            }
            let waiting = status.str_at(&["state", "waiting", "reason"]).unwrap_or_default();
            self.reason = match terminated {
                Some(terminated) => format!("Init:{}", end_reason(terminated)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{index}/{}", row.count(&["spec", "initContainers"])),
            };
            return true;
        }
        false
    }

    /// Walks containers from the last to the first, so that the first has the last word.
    fn containers(&mut self, row: &RowInput<'a>) {
        self.restarts = std::mem::take(&mut self.sidecar_restarts);
        let mut running = false;
        let mut error = None;
        for status in row.items(&["status", "containerStatuses"]).rev() {
            self.restarts.add(status);
            let waiting = status.str_at(&["state", "waiting", "reason"]).unwrap_or_default();
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = status.map_at(&["state", "terminated"]) {
                self.reason = end_reason(terminated);
                if exit_code(terminated) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if status.bool_at(&["ready"]) == Some(true)
                && status.map_at(&["state", "running"]).is_some()
            {
                running = true;
                self.ready += 1;
            }
        }
        // A finished container beside running ones does not make the pod complete.
        if self.reason == "Completed" {
            if running && row.is_true("Ready") {
                "Running".clone_into(&mut self.reason);
            } else if let Some(error) = error {
                self.reason = error;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }

    fn deletion(&mut self, row: &RowInput<'_>) {
        if !row.deleted() {
            return;
        }
        if row.text(&["status", "reason"]) == "NodeLost" {
            "Unknown".clone_into(&mut self.reason);
        } else if !matches!(row.text(&["status", "phase"]), "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut self.reason);
        }
    }
}

fn is_sidecar(container: &Object) -> bool {
    container.str_at(&["restartPolicy"]) == Some("Always")
}

fn exit_code(terminated: &Object) -> i64 {
    terminated.int_at(&["exitCode"]).unwrap_or_default()
}

fn end_reason(terminated: &Object) -> String {
    let reason = terminated.str_at(&["reason"]).unwrap_or_default();
    match terminated.int_at(&["signal"]).unwrap_or_default() {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", exit_code(terminated)),
        signal => format!("Signal:{signal}"),
    }
}
