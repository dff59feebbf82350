//! Trees in the languages of Graphviz and Mermaid. Arrows go from dependent to owner, as references do.

use std::fmt::Write as _;

use crate::render::row_style::{class, color};
use crate::tree::{Tree, TreeRow};

/// The number of each row's node: rows that repeat share one.
pub(crate) fn numbers(tree: &Tree) -> Vec<usize> {
    let mut seen: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
    tree.objects
        .iter()
        .map(|row| {
            let next = seen.len();
            *seen.entry(&row.object.uid).or_insert(next)
        })
        .collect()
}

/// The edges of a tree: dependent, owner, and the row that says so.
fn edges(tree: &Tree) -> Vec<(usize, usize, &TreeRow)> {
    let numbers = numbers(tree);
    let by_uid: std::collections::HashMap<&str, usize> =
        tree.objects.iter().zip(&numbers).map(|(row, n)| (row.object.uid.as_str(), *n)).collect();
    let mut edges = Vec::new();
    for (row, number) in tree.objects.iter().zip(&numbers) {
        let under = row.under.as_ref().and_then(|uid| by_uid.get(uid.as_str()));
        if let Some(under) = under {
            let (dependent, owner) = if tree.up { (*under, *number) } else { (*number, *under) };
            edges.push((dependent, owner, row));
        }
    }
    edges
}

fn nodes(tree: &Tree) -> Vec<(usize, &TreeRow)> {
    let mut nodes: Vec<(usize, &TreeRow)> = numbers(tree).into_iter().zip(&tree.objects).collect();
    nodes.sort_by_key(|(number, row)| (*number, row.repeated));
    nodes.dedup_by_key(|(number, _)| *number);
    nodes
}

/// How a graph begins; arrows go in this direction.
pub(super) fn graph(name: &str, direction: &str) -> String {
    let node = "shape=box, style=rounded, fontname=\"sans-serif\"";
    format!("digraph {name} {{\n  rankdir={direction};\n  node [{node}];\n")
}

/// A tree for Graphviz.
#[must_use]
pub fn dot(tree: &Tree) -> String {
    let mut text = graph("ownership", "RL");
    for (number, row) in nodes(tree) {
        let name = format!("{}\n{}", row.object.kind, place(row));
        let _ = writeln!(
            text,
            "  n{number} [label=\"{}\", color=\"{}\", tooltip=\"uid {}\"];",
            quoted(&name),
            color(class(row.state, row.health)),
            quoted(&row.object.uid)
        );
    }
    for (dependent, owner, row) in edges(tree) {
        let Some(link) = row.reference else {
            let _ = writeln!(text, "  n{dependent} -> n{owner} [style=dotted, arrowhead=none];");
            continue;
        };
        let style = if link.verdict.ties() { "solid" } else { "dashed" };
        let width = if link.blocking { ", penwidth=2" } else { "" };
        let label = if link.verdict.ties() { "" } else { link.verdict.text() };
        let _ =
            writeln!(text, "  n{dependent} -> n{owner} [style={style}, label=\"{label}\"{width}];");
    }
    text.push_str("}\n");
    text
}

pub(super) fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A tree for Mermaid, which Markdown on many sites draws.
#[must_use]
pub fn mermaid(tree: &Tree) -> String {
    let mut text = String::from("flowchart RL\n");
    for (number, row) in nodes(tree) {
        let kind = plain(&row.object.kind);
        let place = plain(&place(row));
        let class = class(row.state, row.health);
        let _ = writeln!(text, "  n{number}[\"{kind}<br/>{place}\"]:::{class}");
    }
    for (dependent, owner, row) in edges(tree) {
        let Some(link) = row.reference else {
            let _ = writeln!(text, "  n{dependent} -.- n{owner}");
            continue;
        };
        let arrow = match (link.verdict.ties(), link.blocking) {
            (false, _) => format!("-. {} .->", link.verdict.text().replace(':', ",")),
            (true, true) => "==>".to_owned(),
            (true, false) => "-->".to_owned(),
        };
        let _ = writeln!(text, "  n{dependent} {arrow} n{owner}");
    }
    for class in ["good", "waiting", "failing", "terminating", "absent", "unread", "plain"] {
        let _ = writeln!(text, "  classDef {class} stroke:{}", color(class));
    }
    text
}

/// Where it is and how it is called, or how many a row stands for.
fn place(row: &TreeRow) -> String {
    if row.folded.is_some() { row.object.name.clone() } else { row.object.place() }
}

fn plain(text: &str) -> String {
    text.replace('"', "#quot;").replace('<', "#lt;")
}
