//! Runs a suite written in another language and believes its last line.

use std::process::{Command, Stdio};

use tenure_client_tests::Server;

/// Runs `command` with the kubeconfig of a fresh server and checks `N passed, M failed`.
pub(crate) fn run(command: &mut Command, least: u32) {
    let server = Server::ephemeral().unwrap();
    let output = command
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", server.folder())
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or_default();
    let passed =
        last.strip_suffix(" passed, 0 failed").and_then(|number| number.parse::<u32>().ok());
    assert!(output.status.success() && passed >= Some(least), "{text}{said}");
    println!("{last}");
}
