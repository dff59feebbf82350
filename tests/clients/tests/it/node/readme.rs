//! What the README tells a newcomer to type, word for word, against a server as `tenure up` starts it.

use std::process::{Command, Stdio};
use std::time::Duration;

use tenure_client_tests::server;

use super::house::{House, On};

/// One line after a prompt, and what the README says it prints.
#[derive(Debug)]
struct Line {
    command: String,
    printed: String,
}

/// The lines for kubectl of every console in a section, in order; nothing else is typed there.
fn lines(heading: &str) -> Vec<Line> {
    let readme = std::fs::read_to_string(server::root().unwrap().join("README.md")).unwrap();
    let section = readme.split_once(&format!("\n## {heading}\n")).unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let mut lines: Vec<Line> = Vec::new();
    for console in section.split("```console\n").skip(1) {
        for text in console.split("```").next().unwrap().lines() {
            match text.strip_prefix("$ ") {
                Some(command) => {
                    lines.push(Line { command: command.to_owned(), printed: String::new() });
                }
                None => lines.last_mut().unwrap().printed += &format!("{text}\n"),
            }
        }
    }
    lines.retain(|line| line.command.starts_with("kubectl "));
    lines
}

/// Types a line in a shell, in the folder of the README.
fn typed(house: &House, line: &str) -> Command {
    let mut command = Command::new("sh");
    // The tests may have a kubectl of their own, which a shell finds by this name.
    let kubectl = std::env::var("KUBECTL").unwrap_or("kubectl".to_owned());
    command.args(["-c", &format!("exec {}", line.replacen("kubectl", &kubectl, 1))]);
    command.current_dir(server::root().unwrap()).env("KUBECONFIG", house.kubectl.kubeconfig());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Types all lines of a section, one after the other.
fn tour(house: &House, heading: &str) -> usize {
    let lines = lines(heading);
    for Line { command, printed } in &lines {
        if command.ends_with("--watch") {
            // Left running, as the README says, and ended like everything else at a prompt.
            let mut child = typed(house, command).spawn().unwrap();
            std::thread::sleep(Duration::from_secs(1));
            assert!(child.try_wait().unwrap().is_none(), "{command} has ended");
            child.kill().unwrap();
            child.wait().unwrap();
            continue;
        }
        let look = || {
            let output = typed(house, command).output().unwrap();
            assert!(output.status.success(), "{command}\n{output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        // What pods print comes a moment later; a loop prints it again and again.
        let wanted = printed.trim_end();
        house.until(command, look, |said| said.trim_start().starts_with(wanted));
    }
    lines.len()
}

#[test]
fn r48_the_readme_shows_what_happens() {
    let house = House::open(On::Process, &["--nodes", "1"]).unwrap();
    assert_eq!(tour(&house, "Five minutes"), 13);
    assert_eq!(tour(&house, "A pod that knows its owners"), 8);
    let left = house.kubectl.ok(&["get", "pods", "--namespace", "default", "--output", "name"]);
    assert_eq!(left, "");
}

/// The examples are the proposal's, but for what the README says.
#[test]
fn r48_the_examples_beside_the_readme_are_those_of_the_proposal() {
    for (file, test) in [
        ("env", "[ -n \"${OWNER_REFERENCES}\" ]"),
        ("volume", "[ -e /etc/podinfo/ownerReferences ]"),
    ] {
        let path =
            server::root().unwrap().join(format!("docs/examples/owner-references-{file}.yaml"));
        let text = std::fs::read_to_string(path).unwrap();
        let own: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let own = own.join("\n") + "\n";
        let proposed = own.replace(test, &format!("[{test}]")).replace("printf", "echo -en");
        let example = super::owners::example(file);
        assert_eq!(proposed, example);
    }
}
