//! Runs kubectl against a server of its own, with nothing of the developer's settings.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tenure_client_tests::Server;

/// A namespace on a fresh server, with kubectl in front.
pub(crate) struct Kubectl {
    server: Server,
}

impl Kubectl {
    /// Starts a server and makes the namespace `shop`, where everything else happens.
    pub(crate) fn start() -> Kubectl {
        Kubectl::start_with(&["--ephemeral"])
    }

    /// The same with these flags of `tenure up`.
    pub(crate) fn start_with(flags: &[&str]) -> Kubectl {
        let kubectl = Kubectl { server: Server::start(flags).unwrap() };
        let shop = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
        assert_eq!(kubectl.feed(&["create", "--filename", "-"], shop), "namespace/shop created\n");
        kubectl
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("KUBECTL").unwrap_or("kubectl".into()));
        // First, because what follows `--` belongs to somebody else.
        command.args(["--namespace", "shop", "--request-timeout", "60s"]).args(arguments);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("KUBECONFIG", self.server.kubeconfig()).env("HOME", self.server.folder());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What the server wrote to its log so far.
    pub(crate) fn server_said(&self) -> String {
        self.server.said()
    }

    /// The file with the rights of the administrator.
    pub(crate) fn kubeconfig(&self) -> &std::path::Path {
        self.server.kubeconfig()
    }

    /// Runs it, expects success, and gives what it printed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        self.finish(self.command(arguments).spawn().unwrap(), arguments, Some(0)).0
    }

    /// Runs it with text on stdin, expects success, and gives what it printed.
    pub(crate) fn feed(&self, arguments: &[&str], text: &str) -> String {
        self.feed_until(arguments, text, 0).0
    }

    /// Runs it with text on stdin, expects this exit code; stdout and stderr.
    pub(crate) fn feed_until(&self, arguments: &[&str], text: &str, code: i32) -> (String, String) {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        self.finish(child, arguments, Some(code))
    }

    /// Runs it, expects failure, and gives what it said on stderr.
    pub(crate) fn fails(&self, arguments: &[&str]) -> String {
        let (_, said) = self.finish(self.command(arguments).spawn().unwrap(), arguments, Some(1));
        said
    }

    /// The same command as whoever holds a token, with nothing of the administrator's.
    pub(crate) fn bearer_command(&self, token: &str, arguments: &[&str]) -> Command {
        let authority = self.server.folder().join("ca.crt");
        let path = "jsonpath={.clusters[0].cluster.certificate-authority-data}";
        let text = self.ok(&["config", "view", "--raw", "--output", path]);
        std::fs::write(&authority, STANDARD.decode(text).unwrap()).unwrap();
        let mut command = self.command(arguments);
        command.args([
            "--kubeconfig",
            "/dev/null",
            "--server",
            self.server.url(),
            "--token",
            token,
        ]);
        command.arg("--certificate-authority").arg(authority);
        command
    }

    /// Runs it as whoever holds a token, expects this exit code; stdout and stderr.
    pub(crate) fn bearer(&self, token: &str, arguments: &[&str], code: i32) -> (String, String) {
        let child = self.bearer_command(token, arguments).spawn().unwrap();
        self.finish(child, arguments, Some(code))
    }

    /// Waits for a process and checks how it ended.
    pub(crate) fn finish(
        &self,
        child: Child,
        arguments: &[&str],
        code: Option<i32>,
    ) -> (String, String) {
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), code, "kubectl {arguments:?}\n{stdout}{stderr}");
        (stdout, stderr)
    }

    /// Writes a file that lives as long as the server, and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.server.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// One value of an object, by JSONPath.
    pub(crate) fn value(&self, object: &str, path: &str) -> String {
        self.ok(&["get", object, "--output", &format!("jsonpath={{{path}}}")])
    }

    /// The revision of an object once no controller has written it for a while.
    pub(crate) fn settled(&self, object: &str) -> String {
        let read = || self.value(object, ".metadata.resourceVersion");
        let mut revision = read();
        for _ in 0..50 {
            std::thread::sleep(Duration::from_millis(300));
            let now = read();
            if now == revision {
                return now;
            }
            revision = now;
        }
        panic!("{object} never settles");
    }

    /// Edits an object with a stream editor, and gives what kubectl printed.
    pub(crate) fn edit(&self, object: &str, script: &str) -> String {
        let editor = self.server.folder().join("editor.sh");
        std::fs::write(&editor, format!("#!/bin/sh\nsed -i '{script}' \"$1\"\n")).unwrap();
        let arguments = ["edit", object];
        let mut command = self.command(&arguments);
        let child = command.env("EDITOR", format!("sh {}", editor.display())).spawn().unwrap();
        self.finish(child, &arguments, Some(0)).0
    }
}

/// The words of each line, so that column widths do not matter.
pub(crate) fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}
