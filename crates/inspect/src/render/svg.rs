//! A tree of ownership as a picture: which box and which arm each object has.

use crate::finding::age;
use crate::look::Standing;
use crate::render::picture::{Boxed, Picture};
use crate::tree::{Row, Tree};

/// A tree as SVG.
#[must_use]
pub fn svg(tree: &Tree) -> String {
    let title = tree.objects.first().map(|row| row.object.to_string()).unwrap_or_default();
    let what = if tree.up { "owners of" } else { "ownership of" };
    let boxes = tree.objects.iter().map(|row| boxed(row, tree)).collect();
    Picture { title: format!("{what} {title}"), boxes }.svg()
}

fn boxed(row: &Row, tree: &Tree) -> Boxed {
    let loose = row.reference.filter(|link| !link.verdict.ties());
    let arm = match row.reference {
        Some(link) if !link.verdict.ties() => "loose",
        Some(link) if link.blocking => "blocks",
        _ => "",
    };
    let class = match row.standing {
        Standing::Alive => "alive",
        Standing::Terminating | Standing::Waiting | Standing::Orphaning => "terminating",
        Standing::Absent => "absent",
        Standing::Unread => "unread",
    };
    Boxed {
        depth: row.depth,
        class,
        arm,
        about: format!("uid {}", row.object.uid),
        kind: row.object.kind.clone(),
        name: row.object.place(),
        side: side(row, tree),
        bad: loose.map(|link| link.verdict.text().to_owned()).unwrap_or_default(),
    }
}

fn side(row: &Row, tree: &Tree) -> String {
    let mut parts: Vec<String> = Vec::new();
    match row.standing {
        Standing::Alive => parts.extend(row.status.clone()),
        Standing::Terminating => parts.push("Terminating".to_owned()),
        Standing::Waiting => parts.push("Terminating, waits for dependents".to_owned()),
        Standing::Orphaning => parts.push("Terminating, leaves dependents".to_owned()),
        Standing::Absent => parts.push("absent".to_owned()),
        Standing::Unread => parts.push("unread".to_owned()),
    }
    parts.extend(row.created.map(|created| age(created, tree.now)));
    if row.repeated {
        parts.push("see above".to_owned());
    }
    parts.join(" · ")
}
