//! Jobs and cron jobs.

use jiff::Timestamp;
use serde_json::{Value, json};
use tenure_machinery::object::ObjectExt;

use crate::column::{AGE, CONTAINERS, IMAGES, NAME, SELECTOR, boolean, integer, text};
use crate::row::RowInput;
use crate::{Column, Printer, age, selector};

/// Jobs.
pub(crate) static JOB: Printer = Printer { columns: JOB_COLUMNS, cells: job_cells };

static JOB_COLUMNS: &[Column] = &[
    NAME,
    text("Status", "What the job is doing"),
    text("Completions", "Pods that succeeded, of those wanted"),
    text("Duration", "Time from start to end, or until now"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn job_cells(row: &RowInput<'_>) -> Vec<Value> {
    let [names, images] = row.containers(&["spec", "template", "spec", "containers"]);
    vec![
        json!(row.name()),
        json!(job_status(row)),
        json!(completions(row)),
        json!(job_duration(row)),
        json!(row.age()),
        names,
        images,
        json!(selector::selector(row.object.map_at(&["spec", "selector"]))),
    ]
}

fn job_status(row: &RowInput<'_>) -> &'static str {
    if row.is_true("Complete") {
        "Complete"
    } else if row.is_true("Failed") {
        "Failed"
    } else if row.deleted() {
        "Terminating"
    } else if row.is_true("Suspended") {
        "Suspended"
    } else if row.is_true("FailureTarget") {
        "FailureTarget"
    } else if row.is_true("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(row: &RowInput<'_>) -> String {
    let succeeded = row.int(&["status", "succeeded"]);
    let parallelism = row.int(&["spec", "parallelism"]);
    match row.object.int_at(&["spec", "completions"]) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn job_duration(row: &RowInput<'_>) -> String {
    let time = |member: &str| row.object.str_at(&["status", member])?.parse::<Timestamp>().ok();
    time("startTime").map_or_else(String::new, |start| {
        let end = time("completionTime").unwrap_or(row.now);
        age::duration(age::whole_seconds(start, end))
    })
}

/// Cron jobs.
pub(crate) static CRON_JOB: Printer = Printer { columns: CRON_JOB_COLUMNS, cells: cron_job_cells };

static CRON_JOB_COLUMNS: &[Column] = &[
    NAME,
    text("Schedule", "When jobs start, in cron form"),
    text("Timezone", "Time zone of the schedule"),
    boolean("Suspend", "Whether no further jobs start"),
    integer("Active", "Jobs running now"),
    text("Last Schedule", "Time since a job was last due"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn cron_job_cells(row: &RowInput<'_>) -> Vec<Value> {
    let template = ["spec", "jobTemplate", "spec", "template", "spec", "containers"];
    let [names, images] = row.containers(&template);
    let suspend = match row.object.bool_at(&["spec", "suspend"]) {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = row.object.str_at(&["status", "lastScheduleTime"]);
    vec![
        json!(row.name()),
        json!(row.text(&["spec", "schedule"])),
        json!(row.text_or(&["spec", "timeZone"], "<none>")),
        json!(suspend),
        json!(row.count(&["status", "active"])),
        json!(last.map_or("<none>".to_owned(), |last| age::since(Some(last), row.now))),
        json!(row.age()),
        names,
        images,
        json!(selector::selector(row.object.map_at(&["spec", "jobTemplate", "spec", "selector"]))),
    ]
}
