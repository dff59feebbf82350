//! Kinds that need little: counts, phases, holders, classes.

use serde_json::{Value, json};
use tenure_machinery::object::ObjectExt;

use crate::column::{AGE, NAME, boolean, integer, text, wide};
use crate::row::{RowInput, quantity};
use crate::{Column, Printer};

/// Kinds that show nothing beyond their name and age.
pub(crate) static NAME_AND_AGE: Printer =
    Printer { columns: &[NAME, AGE], cells: |row| vec![json!(row.name()), json!(row.age())] };

/// Namespaces.
pub(crate) static NAMESPACE: Printer = Printer {
    columns: NAMESPACE_COLUMNS,
    cells: |row| vec![json!(row.name()), json!(row.text(&["status", "phase"])), json!(row.age())],
};

static NAMESPACE_COLUMNS: &[Column] =
    &[NAME, text("Status", "Whether the namespace is active or going away"), AGE];

/// Secrets.
pub(crate) static SECRET: Printer = Printer {
    columns: SECRET_COLUMNS,
    cells: |row| {
        let [retained, collected] = retention(row);
        vec![
            json!(row.name()),
            json!(row.text(&["type"])),
            json!(row.count(&["data"])),
            json!(row.age()),
            retained,
            collected,
        ]
    },
};

static SECRET_COLUMNS: &[Column] = &[
    NAME,
    text("Type", "What the secret is for"),
    text("Data", "Number of entries"),
    AGE,
    RETAINED_BY,
    COLLECTED,
];

/// Config maps.
pub(crate) static CONFIG_MAP: Printer = Printer {
    columns: CONFIG_MAP_COLUMNS,
    cells: |row| {
        let entries = row.count(&["data"]) + row.count(&["binaryData"]);
        let [retained, collected] = retention(row);
        vec![json!(row.name()), json!(entries), json!(row.age()), retained, collected]
    },
};

static CONFIG_MAP_COLUMNS: &[Column] =
    &[NAME, text("Data", "Number of entries"), AGE, RETAINED_BY, COLLECTED];

/// How many columns tell of retention; they are the last ones.
pub(crate) const RETENTION_COLUMNS: usize = 2;
/// How many owners keep a subject of retention (retention R9).
const RETAINED_BY: Column = wide("Retained-By", "Number of owners that keep the object");
/// Whether a subject goes when nothing needs it any more (retention R9).
const COLLECTED: Column = wide("GC", "Whether the object is collected when nothing needs it");

fn retention(row: &RowInput<'_>) -> [Value; 2] {
    let collected = if row.truth(&["controllersAsOwners"], false) { "auto" } else { "-" };
    [json!(row.count(&["metadata", "ownerReferences"])), json!(collected)]
}

/// Resource quotas.
pub(crate) static RESOURCE_QUOTA: Printer =
    Printer { columns: QUOTA_COLUMNS, cells: resource_quota_cells };

static QUOTA_COLUMNS: &[Column] = &[
    NAME,
    text("Request", "Used and allowed amounts"),
    text("Limit", "Used and allowed amounts of limits"),
    AGE,
];

fn resource_quota_cells(row: &RowInput<'_>) -> Vec<Value> {
    let used = row.object.map_at(&["status", "used"]);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in row.object.map_at(&["status", "hard"]).into_iter().flatten() {
        let used = quantity(used.and_then(|used| used.get(resource)));
        let line = format!("{resource}: {used}/{}", quantity(Some(hard)));
        if resource.starts_with("limits.") { limits.push(line) } else { requests.push(line) }
    }
    vec![json!(row.name()), json!(requests.join(", ")), json!(limits.join(", ")), json!(row.age())]
}

/// Component statuses.
pub(crate) static COMPONENT_STATUS: Printer =
    Printer { columns: COMPONENT_COLUMNS, cells: component_cells };

static COMPONENT_COLUMNS: &[Column] = &[
    NAME,
    text("Status", "Whether the component is healthy"),
    text("Message", "What the component says"),
    text("Error", "What went wrong"),
];

fn component_cells(row: &RowInput<'_>) -> Vec<Value> {
    let healthy = row.items(&["conditions"]).find(|c| c.str_at(&["type"]) == Some("Healthy"));
    let status = match healthy.map(|c| c.str_at(&["status"])) {
        None => "Unknown",
        Some(Some("True")) => "Healthy",
        Some(_) => "Unhealthy",
    };
    let member = |name| healthy.and_then(|c| c.str_at(&[name])).unwrap_or_default();
    vec![json!(row.name()), json!(status), json!(member("message")), json!(member("error"))]
}

/// Statuses, the answers to failed or finished requests.
pub(crate) static STATUS: Printer = Printer {
    columns: STATUS_COLUMNS,
    cells: |row| ["status", "reason", "message"].map(|member| json!(row.text(&[member]))).into(),
};

static STATUS_COLUMNS: &[Column] = &[
    text("Status", "Success or Failure"),
    text("Reason", "Why, in one word"),
    text("Message", "Why, in a sentence"),
];

/// Leases.
pub(crate) static LEASE: Printer = Printer {
    columns: LEASE_COLUMNS,
    cells: |row| {
        vec![json!(row.name()), json!(row.text(&["spec", "holderIdentity"])), json!(row.age())]
    },
};

static LEASE_COLUMNS: &[Column] = &[NAME, text("Holder", "Who holds the lease"), AGE];

/// Lease candidates.
pub(crate) static LEASE_CANDIDATE: Printer = Printer {
    columns: LEASE_CANDIDATE_COLUMNS,
    cells: |row| {
        let [lease, binary, emulation] = ["leaseName", "binaryVersion", "emulationVersion"]
            .map(|member| json!(row.text(&["spec", member])));
        vec![json!(row.name()), lease, binary, emulation, json!(row.age())]
    },
};

static LEASE_CANDIDATE_COLUMNS: &[Column] = &[
    NAME,
    text("LeaseName", "Lease the candidate wants"),
    text("BinaryVersion", "Version of the candidate"),
    text("EmulationVersion", "Version the candidate acts as"),
    AGE,
];

/// Priority classes.
pub(crate) static PRIORITY_CLASS: Printer = Printer {
    columns: PRIORITY_CLASS_COLUMNS,
    cells: |row| {
        vec![
            json!(row.name()),
            json!(row.int(&["value"])),
            json!(row.truth(&["globalDefault"], false)),
            json!(row.age()),
            json!(row.text(&["preemptionPolicy"])),
        ]
    },
};

static PRIORITY_CLASS_COLUMNS: &[Column] = &[
    NAME,
    integer("Value", "Priority of pods with this class"),
    boolean("Global-Default", "Whether pods without a class get this one"),
    AGE,
    text("PreemptionPolicy", "Whether pods may push others out"),
];

/// Runtime classes.
pub(crate) static RUNTIME_CLASS: Printer = Printer {
    columns: RUNTIME_CLASS_COLUMNS,
    cells: |row| vec![json!(row.name()), json!(row.text(&["handler"])), json!(row.age())],
};

static RUNTIME_CLASS_COLUMNS: &[Column] =
    &[NAME, text("Handler", "Configuration of the container runtime"), AGE];

/// Flow schemas.
pub(crate) static FLOW_SCHEMA: Printer =
    Printer { columns: FLOW_SCHEMA_COLUMNS, cells: flow_schema_cells };

static FLOW_SCHEMA_COLUMNS: &[Column] = &[
    NAME,
    text("PriorityLevel", "Priority level of matching requests"),
    text("MatchingPrecedence", "Order of matching, lowest first"),
    text("DistinguisherMethod", "How flows are told apart"),
    AGE,
    text("MissingPL", "Whether the priority level is missing"),
];

fn flow_schema_cells(row: &RowInput<'_>) -> Vec<Value> {
    let dangling = row.condition("Dangling").map(|c| c.str_at(&["status"]).unwrap_or_default());
    vec![
        json!(row.name()),
        json!(row.text(&["spec", "priorityLevelConfiguration", "name"])),
        json!(row.int(&["spec", "matchingPrecedence"])),
        json!(row.text_or(&["spec", "distinguisherMethod", "type"], "<none>")),
        json!(row.age()),
        json!(dangling.unwrap_or("?")),
    ]
}

/// Priority levels.
pub(crate) static PRIORITY_LEVEL: Printer =
    Printer { columns: PRIORITY_LEVEL_COLUMNS, cells: priority_level_cells };

static PRIORITY_LEVEL_COLUMNS: &[Column] = &[
    NAME,
    text("Type", "Whether the level is limited"),
    text("NominalConcurrencyShares", "Share of the server's seats"),
    text("Queues", "Number of queues"),
    text("HandSize", "Queues that one flow may use"),
    text("QueueLengthLimit", "Requests that one queue holds"),
    AGE,
];

fn priority_level_cells(row: &RowInput<'_>) -> Vec<Value> {
    let queuing = ["spec", "limited", "limitResponse", "queuing"];
    let number = |holder: &[&str], member: &str| match row.object.map_at(holder) {
        Some(holder) => json!(holder.int_at(&[member]).unwrap_or_default()),
        None => json!("<none>"),
    };
    vec![
        json!(row.name()),
        json!(row.text(&["spec", "type"])),
        number(&["spec", "limited"], "nominalConcurrencyShares"),
        number(&queuing, "queues"),
        number(&queuing, "handSize"),
        number(&queuing, "queueLengthLimit"),
        json!(row.age()),
    ]
}

#[cfg(test)]
mod tests {
    //! Rules of spec/retention.md.

    use super::*;

    #[test]
    fn r9_the_intent_is_seen_in_wide_tables() {
        let owners = json!([{ "uid": "a" }, { "uid": "b" }]);
        for (printer, kind) in [(&CONFIG_MAP, "ConfigMap"), (&SECRET, "Secret")] {
            let wide: Vec<&str> = printer
                .columns()
                .iter()
                .filter(|column| column.priority == 1)
                .map(|column| column.name.as_ref())
                .collect();
            assert_eq!(wide, ["Retained-By", "GC"], "{kind}");
            for (object, cells) in [
                (json!({"controllersAsOwners": true}), [json!(0), json!("auto")]),
                (json!({"metadata": {"ownerReferences": owners}}), [json!(2), json!("-")]),
                (json!({"controllersAsOwners": false}), [json!(0), json!("-")]),
            ] {
                let object = object.as_object().unwrap();
                let row = printer.cells(object, jiff::Timestamp::UNIX_EPOCH);
                assert!(row.ends_with(&cells), "{kind}: {row:?}");
            }
        }
    }
}
