//! Who may read what is referenced: strategies, consumers, grants (spec/referential-authorization.md, section 1.6).

use serde_json::{Value, json};
use tenure_machinery::object::{Object, ObjectExt};

use crate::column::{AGE, NAME, integer, text};
use crate::row::RowInput;
use crate::{Column, Printer, selector};

const NONE: &str = "<none>";
/// Where the versions of a strategy stand.
const VERSIONS_AT: usize = 2;

/// Reference strategies.
pub(crate) static STRATEGY: Printer = Printer { columns: STRATEGY_COLUMNS, cells: strategy_cells };

static STRATEGY_COLUMNS: &[Column] = &[
    NAME,
    text("Origin", "Resource whose objects hold the references"),
    text("Versions", "Versions with paths; the one that is read is marked"),
    integer("Refs", "Number of paths, in all versions"),
    AGE,
];

fn strategy_cells(row: &RowInput<'_>) -> Vec<Value> {
    let versions: Vec<&str> = row
        .items(&["versions"])
        .map(|versioned| versioned.str_at(&["version"]).unwrap_or_default())
        .collect();
    let references: usize =
        row.items(&["versions"]).map(|versioned| versioned.list_at(&["references"]).len()).sum();
    vec![
        json!(row.name()),
        json!(resource(row.object, "origin")),
        json!(versions.join(",")),
        json!(references),
        json!(row.age()),
    ]
}

/// Marks the version of a strategy that is read, in a row of cells.
pub fn mark_active_version(cells: &mut [Value], active: &str) {
    let Some(Value::String(versions)) = cells.get_mut(VERSIONS_AT) else { return };
    let marked: Vec<String> = versions
        .split(',')
        .map(|version| if version == active { format!("{version}*") } else { version.to_owned() })
        .collect();
    *versions = marked.join(",");
}

/// Consumers of references.
pub(crate) static CONSUMER: Printer = Printer { columns: CONSUMER_COLUMNS, cells: consumer_cells };

static CONSUMER_COLUMNS: &[Column] = &[
    NAME,
    text("Subject", "Who serves the references"),
    text("Classes", "Classes it serves, or their controller; \"\" is the unset one"),
    integer("Refs", "Number of origins, targets and purposes"),
    AGE,
];

fn consumer_cells(row: &RowInput<'_>) -> Vec<Value> {
    let [kind, namespace, name] =
        ["kind", "namespace", "name"].map(|member| row.text(&["subject", member]));
    let subject: Vec<&str> =
        [kind, namespace, name].into_iter().filter(|part| !part.is_empty()).collect();
    let classes: Vec<&str> = row
        .texts(&["classNames"])
        .into_iter()
        .map(|class| if class.is_empty() { "\"\"" } else { class })
        .chain(row.object.str_at(&["classSelector", "controllerName"]))
        .collect();
    vec![
        json!(row.name()),
        json!(subject.join("/")),
        json!(joined(&classes)),
        json!(row.count(&["references"])),
        json!(row.age()),
    ]
}

/// Grants of references that leave their namespace.
pub(crate) static GRANT: Printer = Printer { columns: GRANT_COLUMNS, cells: grant_cells };

static GRANT_COLUMNS: &[Column] = &[
    NAME,
    text("Origin", "Resource whose objects may point here"),
    text("From-Namespace", "Namespace of those objects, or the labels it must have"),
    text("Target", "Resource they may point at"),
    text("Names", "Names they may point at"),
    text("Purpose", "What for"),
    AGE,
];

fn grant_cells(row: &RowInput<'_>) -> Vec<Value> {
    vec![
        json!(row.name()),
        json!(resource(row.object, "origin")),
        json!(from_namespace(row)),
        json!(resource(row.object, "target")),
        json!(joined(&row.texts(&["target", "names"]))),
        json!(row.text(&["purpose"])),
        json!(row.age()),
    ]
}

/// The namespace of origins, or the labels by which a grant selects it.
fn from_namespace(row: &RowInput<'_>) -> String {
    let selector = row.object.map_at(&["origin", "namespaceSelector"]);
    match selector.map(selector::requirements) {
        None => row.filled(&["origin", "namespace"], NONE).to_owned(),
        Some(Some(text)) if text.is_empty() => "<all>".to_owned(),
        Some(Some(text)) => text,
        Some(None) => "<error>".to_owned(),
    }
}

/// `gateways.gateway.networking.k8s.io`, or `secrets` of the core group.
fn resource(object: &Object, member: &str) -> String {
    let part = |name| object.str_at(&[member, name]).unwrap_or_default();
    match part("group") {
        "" => part("resource").to_owned(),
        group => format!("{}.{group}", part("resource")),
    }
}

fn joined(texts: &[&str]) -> String {
    if texts.is_empty() { NONE.to_owned() } else { texts.join(",") }
}
