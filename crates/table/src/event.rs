//! Events of both groups; they hold the same facts under different names.

use serde_json::{Value, json};
use tenure_machinery::object::ObjectExt;

use crate::column::{NAME, text, wide};
use crate::row::RowInput;
use crate::{Column, Printer, age};

/// Events.
pub(crate) static EVENT: Printer = Printer { columns: EVENT_COLUMNS, cells: event_cells };

static EVENT_COLUMNS: &[Column] = &[
    text("Last Seen", "Time since it happened last"),
    text("Type", "Normal or Warning"),
    text("Reason", "Why, in one word"),
    text("Object", "What it happened to"),
    wide("Subobject", "Part of the object it happened to"),
    wide("Source", "Who says so"),
    text("Message", "What happened"),
    wide("First Seen", "Time since it happened first"),
    wide("Count", "How often it happened"),
    WIDE_NAME,
];

const WIDE_NAME: Column = {
    let mut column = NAME;
    column.priority = 1;
    column
};

/// Where an event keeps what is shown.
struct EventFields {
    object: &'static str,
    message: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    source: &'static str,
    controller: &'static str,
}

const CORE: EventFields = EventFields {
    object: "involvedObject",
    message: "message",
    first: "firstTimestamp",
    last: "lastTimestamp",
    count: "count",
    source: "source",
    controller: "reportingComponent",
};

const EVENTS: EventFields = EventFields {
    object: "regarding",
    message: "note",
    first: "deprecatedFirstTimestamp",
    last: "deprecatedLastTimestamp",
    count: "deprecatedCount",
    source: "deprecatedSource",
    controller: "reportingController",
};

fn event_cells(row: &RowInput<'_>) -> Vec<Value> {
    let names = if row.events_group { EVENTS } else { CORE };
    let event_time = row.object.str_at(&["eventTime"]);
    let first = row.object.str_at(&[names.first]).or(event_time);
    let series = row.object.map_at(&["series"]);
    let last = match series {
        Some(series) => series.str_at(&["lastObservedTime"]),
        None => row.object.str_at(&[names.last]).or(first),
    };
    // An event outside a series may leave the count out; it happened once all the same.
    let count = match series {
        Some(series) => series.int_at(&["count"]).unwrap_or_default(),
        None => row.object.int_at(&[names.count]).filter(|count| *count != 0).unwrap_or(1),
    };
    let kind = row.text(&[names.object, "kind"]).to_lowercase();
    let target = match row.text(&[names.object, "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        json!(age::since(last, row.now)),
        json!(row.text(&["type"])),
        json!(row.text(&["reason"])),
        json!(target),
        json!(row.text(&[names.object, "fieldPath"])),
        json!(source(row, &names)),
        json!(row.text(&[names.message]).trim()),
        json!(age::since(first, row.now)),
        json!(count),
        json!(row.name()),
    ]
}

fn source(row: &RowInput<'_>, names: &EventFields) -> String {
    let component = row.filled(&[names.source, "component"], row.text(&[names.controller]));
    match row.filled(&[names.source, "host"], row.text(&["reportingInstance"])) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}
