//! A tree of ownership as a picture: which box and which arm each object has, and what they mean.

use crate::finding::count;
use crate::ownership_analysis::{LifecycleState, OwnerStatus};
use crate::render::picture::{Boxed, Picture};
use crate::render::row_style::{aged, class, referred, said};
use crate::tree::{Tree, TreeRow};

/// A tree as SVG.
#[must_use]
pub fn svg(tree: &Tree) -> String {
    let roots: Vec<&TreeRow> = tree.objects.iter().filter(|row| row.depth == 0).collect();
    let title = match roots.as_slice() {
        [root] => format!("{} {}", root.object.kind, root.object.place()),
        roots => count(roots.len(), "object"),
    };
    let what = match (tree.up, roots.len()) {
        (true, _) => "who owns",
        (false, 1) if tree.objects.iter().any(|row| row.depth > 0 && row.reference.is_none()) => {
            "what is inside"
        }
        (false, 1) => "what is owned by",
        (false, _) => "what is owned by each of",
    };
    let first_seen = tree.objects.iter().filter(|row| !row.repeated);
    let number = first_seen.map(|row| row.folded.map_or(1, |folded| folded.count)).sum();
    let unread = match tree.unread.iter().filter(|unread| unread.within.is_none()).count() {
        0 => String::new(),
        number => format!(" · {} could not be read", count(number, "kind")),
    };
    let about = format!("{} · read {:.0}{unread}", count(number, "object"), tree.now);
    Picture {
        title: format!("{what} {title}"),
        about,
        columns: vec!["STATUS", "AGE", "REFERENCE"],
        boxes: tree.objects.iter().map(|row| boxed(row, tree)).collect(),
        boxes_mean: vec![
            ("good", "ready, or done"),
            ("waiting", "not ready"),
            ("failing", "fails"),
            ("terminating", "is being deleted"),
            ("absent", "absent"),
            ("unread", "could not be read"),
            ("plain", "has no state"),
        ],
        arms_mean: vec![
            ("", if tree.up { "is owned by" } else { "owns" }),
            (
                "blocks",
                match tree.up {
                    true => "is owned by, and holds back its foreground deletion",
                    false => "owns, and waits for it when deleted in the foreground",
                },
            ),
            ("loose", "reference that means nobody"),
            ("inside", "is inside"),
        ],
    }
    .svg()
}

fn boxed(row: &TreeRow, tree: &Tree) -> Boxed {
    let arm = match row.reference {
        Some(link) if !link.verdict.ties() => "loose",
        Some(link) if link.blocking => "blocks",
        Some(_) => "",
        None => "inside",
    };
    let class = class(row.state, row.health);
    let status =
        if row.state == LifecycleState::Alive && row.health.is_none() { "" } else { class };
    let worth = match row.reference.map(|link| link.verdict) {
        Some(OwnerStatus::Waiting) => "terminating",
        Some(worth) if !worth.ties() => "loose",
        _ => "",
    };
    let again = if row.repeated { " (see above)" } else { "" };
    Boxed {
        depth: row.depth,
        class,
        arm,
        about: format!("uid {}", row.object.uid),
        kind: row.object.kind.clone(),
        name: match row.folded {
            Some(_) => row.object.name.clone(),
            None => format!("{}{again}", row.object.place()),
        },
        cells: vec![(said(row, tree), status), (aged(row, tree), ""), (referred(row), worth)],
    }
}
