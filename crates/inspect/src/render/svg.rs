//! A tree as a picture: one row per object, boxes indented by depth, arms to the owner. Readable on
//! light and dark ground, in any browser, without a script.

use std::fmt::Write as _;

use crate::finding::age;
use crate::look::Standing;
use crate::tree::{Row, Tree};

const ROW_HEIGHT: usize = 54;
const BOX_HEIGHT: usize = 42;
const INDENT: usize = 36;
const MARGIN: usize = 16;
/// The width of one letter in a box; names are set in a fixed pitch.
const LETTER: usize = 8;
/// Deeper boxes are drawn at this depth, so that a long chain stays a picture.
const DEPTH_MAX: usize = 60;

const STYLE: &str = "\
text{font:13px ui-monospace,monospace;fill:#1b1b1b}\
.kind{font-size:11px;fill:#5f5f5f}\
.note{font-size:11px;fill:#5f5f5f}\
rect{fill:#ffffff;stroke-width:1.5}\
path{fill:none;stroke:#8a8a8a;stroke-width:1.2}\
.blocks{stroke-width:2.4}\
.loose{stroke:#c62828;stroke-dasharray:4 3}\
.bad{fill:#c62828}\
.alive{stroke:#2e7d32}.terminating{stroke:#b26a00;fill:#fff6e5}\
.absent{stroke:#c62828;stroke-dasharray:4 3}.unread{stroke:#757575;stroke-dasharray:4 3}\
@media(prefers-color-scheme:dark){\
text{fill:#e8e8e8}.kind,.note{fill:#a8a8a8}rect{fill:#1e1e1e}path{stroke:#8a8a8a}\
.alive{stroke:#66bb6a}.terminating{stroke:#ffb74d;fill:#3a2c12}.bad{fill:#ef9a9a}\
.loose,.absent{stroke:#ef9a9a}}";

/// A tree as SVG.
#[must_use]
pub fn svg(tree: &Tree) -> String {
    let mut body = String::new();
    let mut width = 0;
    // The middle of the last row at each depth: where arms begin.
    let mut rows: Vec<usize> = Vec::new();
    for (index, row) in tree.objects.iter().enumerate() {
        let depth = row.depth.min(DEPTH_MAX);
        let (x, y) = (MARGIN + depth * INDENT, MARGIN + index * ROW_HEIGHT);
        rows.truncate(depth);
        if let (Some(above), true) = (rows.last(), depth > 0) {
            arm(&mut body, row, x, y, *above);
        }
        rows.push(y);
        width = width.max(boxed(&mut body, row, tree, x, y));
    }
    let height = MARGIN * 2 + tree.objects.len() * ROW_HEIGHT;
    let title = tree.objects.first().map(|row| escaped(&row.object.to_string()));
    let what = if tree.up { "owners of" } else { "ownership of" };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{height}\" \
         viewBox=\"0 0 {w} {height}\" role=\"img\">\n<title>{what} {}</title>\n<style>{STYLE}</style>",
        title.unwrap_or_default(),
        w = width + MARGIN,
    );
    text.push_str(&body);
    text.push_str("</svg>\n");
    text
}

fn arm(body: &mut String, row: &Row, x: usize, y: usize, above: usize) {
    let class = match row.reference {
        Some(link) if !link.verdict.ties() => "loose",
        Some(link) if link.blocking => "blocks",
        _ => "",
    };
    let (from, bottom, middle) = (x - INDENT / 2, above + BOX_HEIGHT, y + BOX_HEIGHT / 2);
    let _ = writeln!(body, "<path class=\"{class}\" d=\"M{from} {bottom}V{middle}H{x}\"/>");
}

/// Draws one object and gives the place where its drawing ends.
fn boxed(body: &mut String, row: &Row, tree: &Tree, x: usize, y: usize) -> usize {
    let name = row.object.place();
    let letters = name.chars().count().max(row.object.kind.chars().count());
    let width = letters * LETTER + 24;
    let class = match row.standing {
        Standing::Alive => "alive",
        Standing::Terminating | Standing::Waiting | Standing::Orphaning => "terminating",
        Standing::Absent => "absent",
        Standing::Unread => "unread",
    };
    let side = side(row, tree);
    let loose = row.reference.filter(|link| !link.verdict.ties());
    let bad = loose.map(|link| link.verdict.text()).unwrap_or_default();
    let _ = writeln!(
        body,
        "<g><title>uid {}</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
         height=\"{BOX_HEIGHT}\" rx=\"6\"/><text class=\"kind\" x=\"{tx}\" y=\"{ky}\">{}</text>\
         <text x=\"{tx}\" y=\"{ny}\">{}</text><text class=\"note\" x=\"{sx}\" y=\"{ky}\">{}</text>\
         <text class=\"note bad\" x=\"{sx}\" y=\"{ny}\">{bad}</text></g>",
        escaped(&row.object.uid),
        escaped(&row.object.kind),
        escaped(&name),
        escaped(&side),
        tx = x + 12,
        sx = x + width + 10,
        ky = y + 16,
        ny = y + 33,
    );
    x + width + 10 + side.chars().count().max(bad.len()) * 7
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
