//! The unused report as a table.

use std::fmt::Write as _;

use crate::finding::{age, count};
use crate::render::Paint;
use crate::render::text::unread;
use crate::unused::{UnusedReport, Usage, UsageHolder, UsageState};

/// How many users stand in one line.
const USERS_MAX: usize = 3;

/// Every subject with its verdict and what holds it, and a line that counts them.
#[must_use]
pub fn unused(report: &UnusedReport, paint: Paint) -> String {
    let titles = ["NAMESPACE", "OBJECT", "VERDICT", "ENTRIES", "AGE", "HELD BY"].map(str::to_owned);
    let mut lines = vec![titles];
    lines.extend(report.subjects.iter().map(|usage| cells(usage, report)));
    let mut widths = [0; 6];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate().filter(|_| !report.subjects.is_empty()) {
        let mut out = String::new();
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let space = " ".repeat(width - cell.chars().count() + 2);
            let painted = match (at, column, cell.as_str()) {
                (0, ..) => paint.bold(cell),
                (_, 2, "unused") => paint.yellow(cell),
                (_, 2, "unknown") => paint.cyan(cell),
                (_, 2, _) => paint.green(cell),
                _ => cell.clone(),
            };
            out += &painted;
            out += &space;
        }
        text += out.trim_end();
        text.push('\n');
    }
    summary(report, paint, &mut text);
    unread(&report.unread, paint, &mut text);
    text
}

fn cells(usage: &Usage, report: &UnusedReport) -> [String; 6] {
    [
        usage.namespace.clone(),
        format!("{}/{}", usage.kind.to_lowercase(), usage.name),
        usage.verdict.text().to_owned(),
        usage.entries.map(|entries| entries.to_string()).unwrap_or_default(),
        usage.created.map(|created| age(created, report.now)).unwrap_or_default(),
        held_by(usage),
    ]
}

/// Who holds it, or why it may be held, in a few words.
fn held_by(usage: &Usage) -> String {
    let named = |user: &UsageHolder| match user.namespace.as_str() {
        "" => format!("{}/{}", user.kind.to_lowercase(), user.name),
        place => format!("{}/{place}/{}", user.kind.to_lowercase(), user.name),
    };
    let mut said: Vec<String> = usage.users.iter().take(USERS_MAX).map(named).collect();
    if usage.users_total > said.len() {
        said.push(format!("and {} more", usage.users_total - said.len()));
    }
    if said.is_empty() {
        said.extend(usage.reasons.first().cloned());
    }
    said.join(", ")
}

fn summary(report: &UnusedReport, paint: Paint, text: &mut String) {
    let place = match &report.namespace {
        Some(namespace) => format!(" in namespace `{namespace}`"),
        None => String::new(),
    };
    let found = match report.unused {
        0 if report.objects == 0 && !report.unread.is_empty() => {
            paint.yellow("nothing could be read")
        }
        0 if !report.unread.is_empty() => paint.yellow("nothing unused in what could be read"),
        0 => paint.green("nothing unused"),
        number => paint.yellow(&format!("{number} unused")),
    };
    let objects = count(report.objects, "object");
    let (unknown, used) = (report.unknown, report.used);
    let _ =
        writeln!(text, "{found}, {unknown} unknown, {used} used: looked through {objects}{place}");
    if report.subjects.iter().any(|usage| usage.verdict == UsageState::Unused) {
        let _ = writeln!(
            text,
            "`unused` says that no object mentions it; a program may still read it by its name. \
             Nothing was changed."
        );
    }
}
