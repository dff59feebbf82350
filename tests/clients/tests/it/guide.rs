//! What a guide tells its reader to type, word for word, against a server as `tenure up` starts it.
//! Rules of spec/referential-authorization.md.

use std::process::Command;

use tenure_client_tests::server::{self, Server};

/// One line after a prompt, and what the guide says it prints.
#[derive(Debug)]
struct Line {
    command: String,
    printed: String,
}

/// The lines for kubectl and tenure of every console of a page, in order.
fn lines(page: &str) -> Vec<Line> {
    let text = std::fs::read_to_string(server::root().unwrap().join(page)).unwrap();
    let mut lines: Vec<Line> = Vec::new();
    for console in text.split("```console\n").skip(1) {
        for text in console.split("```").next().unwrap().lines() {
            match text.strip_prefix("$ ") {
                Some(command) => {
                    lines.push(Line { command: command.to_owned(), printed: String::new() });
                }
                None => lines.last_mut().unwrap().printed += &format!("{text}\n"),
            }
        }
    }
    lines.retain(|line| ["kubectl ", "tenure "].iter().any(|it| line.command.starts_with(it)));
    lines
}

/// A line without the age at its end.
fn ageless(line: &str) -> &str {
    let line = line.trim_end();
    let rest = line.strip_suffix('s').unwrap_or(line);
    let digits = rest.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if digits.len() < rest.len() && rest.len() < line.len() { digits } else { line }
}

#[test]
fn r50_r51_r55_r96_r120_the_guide_shows_what_happens() {
    let server = Server::ephemeral().unwrap();
    let kubectl = std::env::var("KUBECTL").unwrap_or("kubectl".to_owned());
    let tenure = server::binary().unwrap().display().to_string();
    let lines = lines("docs/guide/secret-access.md");
    for Line { command, printed } in &lines {
        let (program, words) = command.split_once(' ').unwrap();
        let program = if program == "kubectl" { &kubectl } else { &tenure };
        let output = Command::new("sh")
            .args(["-c", &format!("exec {program} {words}")])
            .current_dir(server::root().unwrap())
            .env("KUBECONFIG", server.kubeconfig())
            .env("HOME", server.folder())
            .env("NO_COLOR", "1")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        // What is refused is said so on the page.
        let no = printed == "no\n"
            || printed.starts_with("Error from server")
            || printed.contains(": no\n")
            || printed.contains("verdict: not shown to be safe\n");
        assert_eq!(output.status.success(), !no, "{command}\n{said}{told}");
        let all = format!("{said}{told}");
        let mut seen = all.lines();
        for wanted in printed.lines() {
            let line = seen.next().unwrap_or_default();
            assert!(ageless(line).starts_with(ageless(wanted)), "{command}\n{all}");
        }
    }
    assert_eq!(lines.len(), 41);
}
