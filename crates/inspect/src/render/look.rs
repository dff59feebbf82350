//! The words and looks of one row of a tree, the same for text and for drawings.

use crate::finding::age;
use crate::health::Health;
use crate::look::Standing;
use crate::tree::{Row, Tree};

/// The class of a row: how it stands, and if it lives how it fares.
pub(super) fn class(standing: Standing, health: Option<Health>) -> &'static str {
    match (standing, health) {
        (Standing::Alive, None) => "plain",
        (Standing::Alive, Some(Health::Good)) => "good",
        (Standing::Alive, Some(Health::Waiting)) => "waiting",
        (Standing::Alive, Some(Health::Failing)) => "failing",
        (Standing::Terminating | Standing::Waiting | Standing::Orphaning, _) => "terminating",
        (Standing::Absent, _) => "absent",
        (Standing::Unread, _) => "unread",
    }
}

/// The color of a class where there is no style sheet.
pub(super) fn color(class: &str) -> &'static str {
    match class {
        "good" => "#1a7f37",
        "waiting" => "#9a6700",
        "failing" | "absent" => "#cf222e",
        "terminating" => "#8250df",
        "unread" => "#6e7781",
        _ => "#8c959f",
    }
}

/// How an object is, in words.
pub(super) fn said(row: &Row, tree: &Tree) -> String {
    // Of many that end, each has its own time.
    let since = row.deleted.filter(|_| row.folded.is_none());
    let since = since.map(|deleted| format!(" {}", age(deleted, tree.now))).unwrap_or_default();
    match row.standing {
        Standing::Alive => row.status.clone().unwrap_or_default(),
        Standing::Terminating => format!("Terminating{since}"),
        Standing::Waiting => format!("Terminating{since}, waits for dependents"),
        Standing::Orphaning => format!("Terminating{since}, leaves dependents"),
        Standing::Absent => "absent".to_owned(),
        Standing::Unread => "unread".to_owned(),
    }
}

/// How old an object is, or the youngest and the oldest of several.
pub(super) fn aged(row: &Row, tree: &Tree) -> String {
    let Some(created) = row.created else { return String::new() };
    let youngest = age(created, tree.now);
    let oldest = row.folded.and_then(|folded| folded.oldest).map(|oldest| age(oldest, tree.now));
    match oldest {
        Some(oldest) if oldest != youngest => format!("{youngest}–{oldest}"),
        _ => youngest,
    }
}

/// What the reference between a row and the one above it is.
pub(super) fn referred(row: &Row) -> String {
    let Some(link) = row.reference else { return String::new() };
    let mut text = link.verdict.text().to_owned();
    if link.controller {
        text.push_str(", controller");
    }
    if link.blocking {
        text.push_str(", blocks");
    }
    text
}
