//! The map of who reaches what: as a tree of text, as a picture, and for Graphviz.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::access::{NamespacedName, ReachMap, ReferenceState};
use crate::finding::count;
use crate::render::Paint;
use crate::render::draw::{graph, quoted};
use crate::render::picture::{Boxed, Picture};
use crate::render::text::{branch, unread};

const GREY: &str = "#757575";
const BLUE: &str = "#1565c0";
const GREEN: &str = "#2e7d32";
const AMBER: &str = "#b26a00";

/// One row of a map.
struct MapRow {
    depth: usize,
    last: bool,
    kind: &'static str,
    name: String,
    note: String,
    waiting: bool,
}

/// The map as rows: subject, consumer, origin, grant, target. What stands above is not repeated.
fn rows(map: &ReachMap) -> Vec<MapRow> {
    // Subject, consumer, origin and grants are the way; notes of a target are joined.
    type AccessPath = Vec<(&'static str, String, String)>;
    let mut ways: Vec<(AccessPath, bool)> = Vec::new();
    for chain in &map.chains {
        let via = &chain.via;
        let class = match via.class.as_deref() {
            None => String::new(),
            Some("") => "no class".to_owned(),
            Some(class) => format!("class {class}"),
        };
        let mut way: AccessPath = vec![
            ("subject", chain.subject.to_string(), String::new()),
            ("consumer", format!("consumer {}", via.consumer), String::new()),
            ("origin", via.origin.to_string(), class),
        ];
        let waiting = chain.state == ReferenceState::Waiting;
        if !via.grants.is_empty() {
            let names: Vec<String> = via.grants.iter().map(NamespacedName::to_string).collect();
            way.push(("grant", format!("grant {}", names.join(", ")), String::new()));
        }
        let note = match waiting {
            true => format!("{}, waits for a ReferenceGrant", via.purpose),
            false => format!("{}, strategy {}@{}", via.purpose, via.strategy, via.version),
        };
        way.push(("target", via.target.to_string(), note));
        ways.push((way, waiting));
    }
    for idle in &map.idle {
        let consumer = format!("consumer {}", idle.consumer);
        let way = vec![
            ("subject", idle.subject.to_string(), String::new()),
            ("consumer", consumer, "reaches nothing".to_owned()),
        ];
        ways.push((way, false));
    }
    ways.sort_by(|(one, _), (two, _)| {
        let names =
            |way: &AccessPath| way.iter().map(|(_, name, _)| name.clone()).collect::<Vec<_>>();
        names(one).cmp(&names(two))
    });
    let mut rows: Vec<MapRow> = Vec::new();
    let mut above: Vec<String> = Vec::new();
    for (way, waiting) in ways {
        let names: Vec<String> = way.iter().map(|(_, name, _)| name.clone()).collect();
        let shared = names.iter().zip(&above).take_while(|(one, two)| one == two).count();
        for (depth, (kind, name, note)) in way.into_iter().enumerate() {
            if depth >= shared {
                rows.push(MapRow { depth, last: true, kind, name, note, waiting });
            } else if kind == "target"
                && let Some(row) = rows.last_mut()
            {
                // The same target for another purpose.
                row.note = format!("{}; {note}", row.note);
            }
        }
        above = names;
    }
    mark_last(&mut rows);
    rows
}

/// A row is not the last one where another of its depth follows before a row above.
fn mark_last(rows: &mut [MapRow]) {
    let mut follows: Vec<bool> = Vec::new();
    for row in rows.iter_mut().rev() {
        follows.resize(follows.len().max(row.depth + 1), false);
        follows.truncate(row.depth + 1);
        if let Some(follows) = follows.last_mut() {
            row.last = !*follows;
            *follows = true;
        }
    }
}

/// The map as a tree with branches. That nobody is on it is said only where everything was read.
#[must_use]
pub fn map(map: &ReachMap, paint: Paint) -> String {
    let rows = rows(map);
    let mut text = String::new();
    if rows.is_empty() {
        text += match map.unread.is_empty() {
            true => "nobody reaches anything by reference\n",
            false => "who reaches what cannot be said: what would say so could not be read\n",
        };
    }
    let mut open = Vec::new();
    let branches: Vec<String> =
        rows.iter().map(|row| branch(row.depth, row.last, &mut open)).collect();
    let length =
        |(row, branch): (&MapRow, &String)| row.name.chars().count() + branch.chars().count();
    let width = rows.iter().zip(&branches).map(length).max().unwrap_or(0);
    for (row, branch) in rows.iter().zip(&branches) {
        let space = " ".repeat(width - length((row, branch)) + 2);
        let name = match row.kind {
            "subject" => paint.bold(&row.name),
            "target" if row.waiting => paint.yellow(&row.name),
            "target" => paint.green(&row.name),
            _ => row.name.clone(),
        };
        let note = if row.waiting { paint.yellow(&row.note) } else { paint.faint(&row.note) };
        let line = format!("{}{name}{space}{note}", paint.faint(branch));
        let _ = writeln!(text, "{}", line.trim_end());
    }
    unread(&map.unread, paint, &mut text);
    text
}

/// The map as a picture.
#[must_use]
pub fn map_svg(map: &ReachMap) -> String {
    let boxes = rows(map).into_iter().map(|row| {
        let name = row.name.strip_prefix(row.kind).map_or(row.name.as_str(), str::trim_start);
        let waits = row.waiting && row.kind == "target";
        let class = match row.kind {
            "target" if row.waiting => "waiting",
            "target" => "good",
            "origin" | "grant" => "origin",
            _ => "plain",
        };
        Boxed {
            depth: row.depth,
            class,
            arm: if waits { "loose" } else { "" },
            about: row.name.clone(),
            kind: row.kind.to_owned(),
            name: name.to_owned(),
            cells: vec![(row.note, if waits { "waiting" } else { "" })],
        }
    });
    let unread = match map.unread.len() {
        0 => String::new(),
        number => format!(" · {} could not be read, so there may be more", count(number, "kind")),
    };
    let live = map.chains.iter().filter(|chain| chain.state == ReferenceState::Live).count();
    let waiting = map.chains.len() - live;
    Picture {
        title: "who reaches what by reference".to_owned(),
        about: format!("{} open, {waiting} waiting for a grant{unread}", count(live, "way")),
        columns: vec!["WHAT FOR"],
        boxes: boxes.collect(),
        boxes_mean: vec![
            ("plain", "who asks"),
            ("origin", "points, or grants"),
            ("good", "may be read"),
            ("waiting", "may not be read yet"),
        ],
        arms_mean: vec![("", "leads to"), ("loose", "waits for a ReferenceGrant")],
    }
    .svg()
}

/// The map for Graphviz: every object once.
#[must_use]
pub fn map_dot(map: &ReachMap) -> String {
    let mut nodes: BTreeMap<String, usize> = BTreeMap::new();
    let (mut lines, mut edges) = (String::new(), Vec::new());
    let mut node = |name: String, color: &str| {
        let next = nodes.len();
        let number = *nodes.entry(name.clone()).or_insert(next);
        if number == next {
            let (kind, called) = name.rsplit_once(' ').unwrap_or(("", &name));
            let label = quoted(&format!("{kind}\n{called}"));
            let _ = writeln!(lines, "  n{number} [label=\"{label}\", color=\"{color}\"];");
        }
        number
    };
    for chain in &map.chains {
        let via = &chain.via;
        let subject = node(chain.subject.to_string(), GREY);
        let consumer = node(format!("consumer {}", via.consumer), GREY);
        let origin = node(via.origin.to_string(), BLUE);
        let color = if chain.state == ReferenceState::Live { GREEN } else { AMBER };
        let target = node(via.target.to_string(), color);
        edges.push((subject, consumer, String::new(), true));
        edges.push((consumer, origin, String::new(), true));
        let purpose = via.purpose.clone();
        if via.grants.is_empty() {
            edges.push((origin, target, purpose, chain.state == ReferenceState::Live));
            continue;
        }
        for grant in &via.grants {
            let grant = node(format!("grant {grant}"), BLUE);
            edges.push((origin, grant, purpose.clone(), true));
            edges.push((grant, target, String::new(), true));
        }
    }
    for idle in &map.idle {
        let subject = node(idle.subject.to_string(), GREY);
        let consumer = node(format!("consumer {}", idle.consumer), GREY);
        edges.push((subject, consumer, String::new(), true));
    }
    edges.sort();
    edges.dedup();
    let mut text = graph("access", "LR") + &lines;
    for (from, to, label, live) in edges {
        let style = if live { "solid" } else { "dashed" };
        let label = quoted(&label);
        let _ = writeln!(text, "  n{from} -> n{to} [style={style}, label=\"{label}\"];");
    }
    text.push_str("}\n");
    text
}
