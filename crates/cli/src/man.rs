//! `tenure man`: what `--help` says, as manual pages. The words live with the flags.

use std::fs;
use std::path::Path;

use clap::{Arg, ArgAction, Command};

use crate::report::CommandError;
use crate::say;

/// Writes a page for every command into a folder, or prints the first one.
pub(crate) fn man(command: Command, folder: Option<&Path>) -> Result<(), CommandError> {
    let mut command = command;
    command.build();
    let mut pages = Vec::new();
    collect(&command, "tenure", "tenure", &mut pages);
    let Some(folder) = folder else {
        if let Some((_, page)) = pages.first() {
            say(page.as_bytes());
        }
        return Ok(());
    };
    let failed = |path: &Path, error: std::io::Error| {
        CommandError::new(format!("`{}` cannot be written", path.display())).cause(&error)
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (name, page) in &pages {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, page).map_err(|error| failed(&path, error))?;
    }
    say(format!(
        "wrote {} pages; read one with `man {}`\n",
        pages.len(),
        folder.join("tenure.1").display()
    )
    .as_bytes());
    Ok(())
}

/// The page of a command, which is called by these words, and those of the commands below it.
fn collect(command: &Command, name: &str, words: &str, pages: &mut Vec<(String, String)>) {
    pages.push((name.to_owned(), page(command, name, words)));
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        let (name, words) =
            (format!("{name}-{}", child.get_name()), format!("{words} {}", child.get_name()));
        collect(child, &name, &words, pages);
    }
}

fn page(command: &Command, name: &str, words: &str) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!(
        ".TH \"{}\" \"1\" \"\" \"tenure {}\" \"Tenure\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n\\fB{}\\fR",
        name.to_uppercase(),
        env!("CARGO_PKG_VERSION"),
        escaped(name),
        escaped(&about),
        escaped(words),
    );
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    if shown().any(|arg| !arg.is_positional()) {
        text += " [\\fIOPTIONS\\fR]";
    }
    for arg in shown().filter(|arg| arg.is_positional()) {
        text += &format!(" \\fI{}\\fR", escaped(&value_name(arg)));
    }
    if command.has_subcommands() {
        text += " \\fICOMMAND\\fR";
    }
    text.push('\n');
    if let Some(long) = command.get_long_about() {
        text += ".SH DESCRIPTION\n";
        text += &paragraphs(&long.to_string());
    }
    if command.has_subcommands() {
        text += ".SH COMMANDS\n";
        for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
            let about = child.get_about().map(ToString::to_string).unwrap_or_default();
            let page = format!("{name}-{}(1)", child.get_name());
            text += &format!(".TP\n\\fB{}\\fR\n{}\n", escaped(&page), escaped(&about));
        }
    }
    if shown().next().is_some() {
        text += ".SH OPTIONS\n";
        for arg in shown() {
            text += &option(arg);
        }
    }
    if let Some(after) = command.get_after_help() {
        text += &sections(&after.to_string());
    }
    text
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    match names.first() {
        Some(name) => name.to_string(),
        None => arg.get_id().to_string().to_uppercase(),
    }
}

fn option(arg: &Arg) -> String {
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let mut names = Vec::new();
    names.extend(arg.get_short().map(|short| format!("\\fB\\-{short}\\fR")));
    names.extend(arg.get_long().map(|long| format!("\\fB\\-\\-{}\\fR", escaped(long))));
    let mut head = names.join(", ");
    if takes {
        let value = format!("\\fI{}\\fR", escaped(&value_name(arg)));
        head = if head.is_empty() { value } else { format!("{head} {value}") };
    }
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string);
    let mut text = format!(".TP\n{head}\n{}", paragraphs(&help.unwrap_or_default()));
    let shown: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if takes && !shown.is_empty() {
        text += &format!(".br\nPossible values: {}\n", escaped(&shown.join(", ")));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes && !defaults.is_empty() {
        text += &format!(".br\nDefault: {}\n", escaped(&defaults.join(", ")));
    }
    text
}

/// Text whose lines belong together; an empty one begins a paragraph.
fn paragraphs(text: &str) -> String {
    let lines = text.lines().map(|line| match line.trim() {
        "" => ".sp".to_owned(),
        line => escaped(line),
    });
    lines.map(|line| line + "\n").collect()
}

/// What follows the flags: a line that ends with a colon heads a section, and lines stay as they are.
fn sections(text: &str) -> String {
    let mut page = String::new();
    let mut open = false;
    for line in text.lines() {
        let head = line.strip_suffix(':').filter(|head| {
            !head.starts_with(' ') && head.split(' ').count() <= 2 && !head.is_empty()
        });
        if let Some(head) = head {
            page += if open { ".fi\n" } else { "" };
            page += &format!(".SH {}\n.nf\n", escaped(&head.to_uppercase()));
            open = true;
            continue;
        }
        if !open {
            page += ".SH NOTES\n.nf\n";
            open = true;
        }
        page += &escaped(line);
        page.push('\n');
    }
    page += if open { ".fi\n" } else { "" };
    page
}

/// A line as the formatter takes it for text.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::flags::Flags;

    #[test]
    fn every_command_has_a_page_with_its_flags_and_an_example() {
        let mut command = Flags::command();
        command.build();
        let mut pages = Vec::new();
        collect(&command, "tenure", "tenure", &mut pages);
        let named = |wanted: &str| &pages.iter().find(|(name, _)| name == wanted).unwrap().1;
        assert!(named("tenure").contains(".SH COMMANDS\n.TP\n\\fBtenure\\-up(1)\\fR\n"));
        let up = named("tenure-up");
        for part in [
            ".SH NAME\ntenure\\-up \\- Start a control plane",
            "\\fB\\-\\-data\\-dir\\fR \\fIDIR\\fR\n",
            "Possible values: file, memory\n",
            "Default: 127.0.0.1:6443\n",
            ".SH EXAMPLES\n.nf\n  tenure up\n",
        ] {
            assert!(up.contains(part), "no {part} in\n{up}");
        }
        assert!(!up.contains("\\-\\-background"), "a flag that nobody may use is shown");
        assert!(
            named("tenure-access-strategies-install")
                .contains("\\fBtenure access strategies install\\fR")
        );
        for (name, page) in &pages {
            let odd = page.lines().find(|line| line.starts_with("'"));
            assert_eq!(odd, None, "{name}");
        }
    }

    #[test]
    fn text_is_never_taken_for_a_request() {
        assert_eq!(escaped(".SH x"), "\\&.SH x");
        assert_eq!(escaped("a-b \\ c"), "a\\-b \\e c");
        assert_eq!(
            sections("Examples:\n  a\n\nb:\n"),
            ".SH EXAMPLES\n.nf\n  a\n\n.fi\n.SH B\n.nf\n.fi\n"
        );
    }
}
