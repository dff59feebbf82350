//! docs/reference/flags.md and gates.md, written from the flags and the gates and compared with them.
//!
//! A few defaults depend on the system, so the pages are those of Linux.

#![cfg(target_os = "linux")]

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use tenure_host::FEATURES;

use crate::flags::Flags;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");

const FLAGS: &str = "\
# Commands and flags

What `tenure COMMAND --help` says, on one page; `tenure man DIR` writes the same as manual pages.
`cargo xtask docs` writes this page from the definitions of the flags.

`-v`, `--verbose` belongs to every command: `-v` logs what is done, `-vv` how, `-vvv` everything.
Every flag of `tenure up` can stand in a file too: [settings in a file](../guide/server.md#settings-in-a-file).
";

const GATES: &str = "\
# Feature gates

`tenure up --feature-gates NAME=true,NAME=false` turns features on and off; the flag may be repeated, and the last
word about a feature decides. In a file for `--config`, `feature-gates` is a mapping. An unknown name ends the start.
`cargo xtask docs` writes this page from the gates themselves.

| Gate | Default | When it is on |
|---|---|---|
";

/// Every command below this one, in the order of `--help`.
fn commands(command: &Command, words: &str, text: &mut String) {
    section(command, words, text);
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        commands(child, &format!("{words} {}", child.get_name()), text);
    }
}

fn section(command: &Command, words: &str, text: &mut String) {
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, "\n## `{words}`\n\n{}.\n", sentence(&about).trim_end_matches('.'));
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| is_shown(arg)).collect();
    if !shown.is_empty() {
        text.push_str("\n| Argument | Default | Meaning |\n|---|---|---|\n");
    }
    for arg in shown {
        let _ = writeln!(text, "| {} | {} | {} |", names(arg), default(arg), meaning(arg));
    }
    if let Some(after) = command.get_after_help() {
        let _ = write!(text, "\n```text\n{}\n```\n", after.to_string().trim_end());
    }
}

/// What stands above the page is not repeated for every command.
fn is_shown(arg: &Arg) -> bool {
    !arg.is_hide_set() && !["verbose", "help", "version"].contains(&arg.get_id().as_str())
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

fn names(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(|names| names.first().map(ToString::to_string));
    let value = value.unwrap_or_else(|| arg.get_id().to_string().to_uppercase());
    if arg.is_positional() {
        return format!("`{value}`");
    }
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let long = arg.get_long().unwrap_or_default();
    let value = if takes_value(arg) { format!(" {value}") } else { String::new() };
    cell(&format!("{short}`--{long}{value}`"))
}

fn default(arg: &Arg) -> String {
    let values: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if values.is_empty() || !takes_value(arg) {
        String::new()
    } else {
        cell(&format!("`{}`", values.join(",")))
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut help = help.map(ToString::to_string).unwrap_or_default();
    if arg.get_id() == "feature_gates" {
        help = help.split(':').next().unwrap_or_default().to_owned() + ": see [gates](gates.md)";
    }
    let mut text = sentence(&help);
    let values = arg.get_possible_values();
    let named: Vec<String> = values
        .iter()
        .filter(|value| takes_value(arg) && !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !named.is_empty() {
        let _ = write!(text, ". Values: {}", named.join(", "));
    }
    cell(&text)
}

/// Paragraphs of help as one: clap takes the last stop away from the first of them.
fn sentence(help: &str) -> String {
    let paragraphs = help.split("\n\n").map(|lines| lines.replace('\n', " ").trim().to_owned());
    let paragraphs: Vec<String> = paragraphs.filter(|text| !text.is_empty()).collect();
    let stopped = paragraphs.iter().map(|text| text.trim_end_matches('.'));
    stopped.collect::<Vec<_>>().join(". ")
}

/// Text that may stand in a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "\\<")
}

fn flags() -> String {
    let mut command = Flags::command();
    command.build();
    let mut text = FLAGS.to_owned();
    commands(&command, "tenure", &mut text);
    text
}

fn gates() -> String {
    let rows = FEATURES.iter().map(|feature| {
        let default = if feature.usual { "on" } else { "off" };
        format!("| `{}` | {default} | {} |\n", feature.name, cell(feature.about))
    });
    GATES.to_owned() + &rows.collect::<String>()
}

fn check(name: &str, wanted: &str) {
    let page = Path::new(FOLDER).join(name);
    if std::env::var_os("TENURE_WRITE_DOCS").is_some() {
        return std::fs::write(page, wanted).unwrap();
    }
    let kept = std::fs::read_to_string(page).unwrap_or_default();
    assert!(kept == wanted, "docs/reference/{name} is stale: run `cargo xtask docs`");
}

#[test]
fn the_page_of_flags_says_what_help_says() {
    check("flags.md", &flags());
}

#[test]
fn the_page_of_gates_says_what_can_be_switched() {
    check("gates.md", &gates());
}

#[test]
fn the_page_of_flags_has_commands_defaults_values_and_examples() {
    let text = flags();
    for part in [
        "\n## `tenure up`\n\nStart a control plane",
        "| `--listen ADDRESS:PORT` | `127.0.0.1:6443` | ",
        "| `-n`, `--namespace",
        ". Values: `file` (In the data folder), `memory` (",
        "## `tenure access strategies install`",
        "see [gates](gates.md)",
        "Exit code, of every command:",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(!text.contains("--verbose` |") && !text.contains("--background"), "{text}");
}
