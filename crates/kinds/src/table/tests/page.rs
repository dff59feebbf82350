//! The tables of kinds and of members in docs/compatibility.md, written from the rows and compared with
//! them: a rule of spec/api-server.md.

use std::fmt::Write as _;
use std::path::Path;

use tenure_machinery::kind::{ActedOn, Kind};

use super::super::builtin;
use crate::IGNORED;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
const BEGIN: &str = "<!-- The table of kinds: `cargo xtask docs` writes it. -->\n";
const END: &str = "<!-- The end of the table of kinds. -->\n";
const MEMBERS_BEGIN: &str = "<!-- The table of members: `cargo xtask docs` writes it. -->\n";
const MEMBERS_END: &str = "<!-- The end of the table of members. -->\n";

/// One line for each kind; its versions, the preferred one first, share it.
fn table(rows: &[Kind]) -> String {
    let mut text = String::from(
        "| Group | Kind | Versions | Subresources | Who acts on it |\n|---|---|---|---|---|\n",
    );
    let mut group = None;
    for (number, row) in rows.iter().enumerate() {
        let same = |other: &&Kind| other.group == row.group && other.kind == row.kind;
        if rows.iter().take(number).any(|other| same(&other)) {
            continue;
        }
        let versions: Vec<&str> =
            rows.iter().filter(same).map(|row| row.version.as_ref()).collect();
        let shown = if group == Some(&row.group) { String::new() } else { group_cell(&row.group) };
        group = Some(&row.group);
        let parts: Vec<&str> = row.subresources.iter().map(|part| part.name).collect();
        let (versions, parts, acted) = (versions.join(", "), parts.join(", "), acted(row.acted_on));
        let _ = writeln!(text, "| {shown} | {} | {versions} | {parts} | {acted} |", row.kind);
    }
    text
}

/// One line for each member that is stored only.
fn members() -> String {
    let mut text = String::from("| Type | Member | What does not happen |\n|---|---|---|\n");
    for ignored in IGNORED {
        let shown = ignored.type_name.rsplit('.').next().unwrap_or_default();
        let harmless: Vec<String> = ignored.harmless.iter().map(|t| format!("`{t}`")).collect();
        let but = match harmless.is_empty() {
            true => String::new(),
            false => format!(", but {}", harmless.join(" and ")),
        };
        let _ = writeln!(text, "| {shown} | `{}`{but} | {} |", ignored.member, ignored.why);
    }
    text
}

fn group_cell(group: &str) -> String {
    if group.is_empty() { "core".to_owned() } else { format!("`{group}`") }
}

fn acted(by: ActedOn) -> String {
    match by {
        ActedOn::By(who) => who.to_owned(),
        ActedOn::Nobody(why) => format!("**nobody**: {why}"),
    }
}

#[test]
fn r255_the_page_on_compatibility_has_every_kind_and_member_and_who_acts_on_it() {
    let page = Path::new(PAGE);
    let kept = std::fs::read_to_string(page).unwrap();
    let wanted = replaced(&kept, (BEGIN, END), &table(&builtin()));
    let wanted = replaced(&wanted, (MEMBERS_BEGIN, MEMBERS_END), &members());
    if std::env::var_os("TENURE_WRITE_DOCS").is_some() {
        std::fs::write(page, wanted).unwrap();
        return;
    }
    assert!(kept == wanted, "docs/compatibility.md is stale: run `cargo xtask docs`");
}

/// A page with another table between two lines.
fn replaced(page: &str, (begin, end): (&str, &str), table: &str) -> String {
    let (before, rest) = page.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    format!("{before}{begin}\n{table}\n{end}{after}")
}

#[test]
fn r255_versions_share_a_line_and_what_nobody_acts_on_says_why() {
    let table = table(&builtin());
    let line = |kind: &str| {
        let cell = format!("| {kind} |");
        let mut lines = table.lines().filter(|line| line.contains(&cell));
        (lines.next().unwrap_or_default().to_owned(), lines.count())
    };
    let (scaled, more) = line("HorizontalPodAutoscaler");
    assert!(scaled.contains("| v2, v1 | status | its controller, where "), "{scaled}");
    assert_eq!(more, 0);
    assert!(line("NetworkPolicy").0.contains("| **nobody**: "), "{table}");
    assert!(line("Deployment").0.ends_with("| scale, status | its controller |"), "{table}");
}
