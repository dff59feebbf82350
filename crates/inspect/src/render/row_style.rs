//! The words and looks of one row of a tree, the same for text and for drawings.

use crate::finding::age;
use crate::health::Health;
use crate::ownership_analysis::LifecycleState;
use crate::tree::{Tree, TreeRow};

/// The class of a row: how it stands, and if it lives how it fares.
pub(super) fn class(state: LifecycleState, health: Option<Health>) -> &'static str {
    match (state, health) {
        (LifecycleState::Alive, None) => "plain",
        (LifecycleState::Alive, Some(Health::Good)) => "good",
        (LifecycleState::Alive, Some(Health::Waiting)) => "waiting",
        (LifecycleState::Alive, Some(Health::Failing)) => "failing",
        (LifecycleState::Terminating | LifecycleState::Waiting | LifecycleState::Orphaning, _) => {
            "terminating"
        }
        (LifecycleState::Absent, _) => "absent",
        (LifecycleState::Unread, _) => "unread",
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
pub(super) fn said(row: &TreeRow, tree: &Tree) -> String {
    // Of many that end, each has its own time.
    let since = row.deleted.filter(|_| row.folded.is_none());
    let since = since.map(|deleted| format!(" {}", age(deleted, tree.now))).unwrap_or_default();
    match row.state {
        LifecycleState::Alive => row.status.clone().unwrap_or_default(),
        LifecycleState::Terminating => format!("Terminating{since}"),
        LifecycleState::Waiting => format!("Terminating{since}, waits for dependents"),
        LifecycleState::Orphaning => format!("Terminating{since}, leaves dependents"),
        LifecycleState::Absent => "absent".to_owned(),
        LifecycleState::Unread => "unread".to_owned(),
    }
}

/// How old an object is, or the youngest and the oldest of several.
pub(super) fn aged(row: &TreeRow, tree: &Tree) -> String {
    let Some(created) = row.created else { return String::new() };
    let youngest = age(created, tree.now);
    let oldest = row.folded.and_then(|folded| folded.oldest).map(|oldest| age(oldest, tree.now));
    match oldest {
        Some(oldest) if oldest != youngest => format!("{youngest}–{oldest}"),
        _ => youngest,
    }
}

/// What the reference between a row and the one above it is.
pub(super) fn referred(row: &TreeRow) -> String {
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
