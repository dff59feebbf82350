//! The README and every guide, typed as they stand, by root and by somebody else.
//!
//! A page that starts no server is read beside one that `tenure up --ephemeral` started. `TENURE_PAGES`
//! chooses pages by a part of their path.

mod page;
mod shell;

use std::fs;
use std::time::{Duration, Instant};

use tenure_client_tests::{Operator, server};

use page::{Differences, Step, steps};
use shell::Shell;

/// Nothing of these is typed, and why.
const NOT_TYPED: [(&str, &str); 7] = [
    (
        "attach-access",
        "needs a cluster with its own kinds off; crates/attach/tests/it/access has one",
    ),
    ("attach-downward", "needs a cluster without the feature; kubectl::attaching has one"),
    (
        "attach-report",
        "needs a cluster that collects nothing; crates/attach/tests/it/report.rs has one",
    ),
    ("audit", "shows no commands"),
    (
        "authorization",
        "needs a server that answers reviews; crates/server/tests/it/authorization.rs has one",
    ),
    ("containerd", "needs a containerd of the machine; node::cri runs pods on one"),
    ("embedding", "shows Rust; crates/cluster/tests/it/embedding.rs runs it"),
];

/// What controllers and pods do is seen a moment after it was asked for.
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// The README and the guides, by their path.
fn pages() -> Vec<String> {
    let guides = fs::read_dir(server::root().unwrap().join("docs/guide")).unwrap();
    let mut pages: Vec<String> = guides
        .map(|guide| format!("docs/guide/{}", guide.unwrap().file_name().display()))
        .filter(|page| NOT_TYPED.iter().all(|(name, _)| !page.ends_with(&format!("/{name}.md"))))
        .collect();
    pages.push("README.md".to_owned());
    let chosen = std::env::var("TENURE_PAGES").unwrap_or_default();
    pages.retain(|page| page.contains(&chosen));
    pages.sort();
    pages
}

#[test]
fn the_readme_and_every_guide_show_what_happens() {
    for operator in Operator::all() {
        for page in pages() {
            println!("{page} by {operator:?}");
            read(&page, *operator);
        }
    }
}

/// Types everything of a page.
fn read(page: &str, operator: Operator) {
    let text = fs::read_to_string(server::root().unwrap().join(page)).unwrap();
    let steps = steps(&text);
    assert!(!steps.is_empty(), "{page} has nothing to type: say so in NOT_TYPED");
    let mut shell = Shell::open(operator);
    if !steps.iter().any(|step| has_server(&step.command)) {
        shell.leave_running("tenure up --ephemeral --kubeconfig ./kubeconfig", Some("ready "));
        shell.run("export KUBECONFIG=$PWD/kubeconfig");
    }
    let differences = Differences::new();
    for step in &steps {
        take(&mut shell, &differences, page, step);
    }
    shell.stop_what_runs();
}

fn take(shell: &mut Shell, differences: &Differences, page: &str, step: &Step) {
    let Step { command, printed } = step;
    if starts_server(command) {
        shell.stop_what_runs();
        return shell.leave_running(command.trim_end_matches('&').trim(), Some("ready "));
    }
    if command.ends_with("--watch") {
        return watch(shell, command);
    }
    let begin = Instant::now();
    loop {
        let said = shell.run(command);
        let agrees = if printed.is_empty() {
            said.succeeded
        } else {
            differences.agree(printed, &said.text)
        };
        if agrees {
            return;
        }
        assert!(
            !printed.is_empty() && begin.elapsed() < SEEN_WITHIN,
            "{page}\n$ {command}\n{}\nand not\n{}",
            said.text,
            printed.join("\n")
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Whether a line is about a server of its own.
fn has_server(command: &str) -> bool {
    ["tenure up", "cargo run --release -- up"].iter().any(|start| command.starts_with(start))
}

/// Whether a line starts a server, and goes on as long as that.
fn starts_server(command: &str) -> bool {
    has_server(command) && !["--detach", "--print-config"].iter().any(|flag| command.contains(flag))
}

/// Left running for a moment, as a page says, and ended like everything else at a prompt.
fn watch(shell: &mut Shell, command: &str) {
    let said = shell.run(&format!("timeout --signal INT 1 {command}; [ $? = 124 ]"));
    assert!(said.succeeded, "{command} has ended: {}", said.text);
}
