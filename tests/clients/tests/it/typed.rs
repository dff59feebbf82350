//! `tenure` as a person types it beside a running server, and the same server asked by hand.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tenure_client_tests::Server;
use tenure_client_tests::server::binary;

/// What a command said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A command, not yet run, that looks at this server.
pub(crate) fn command(server: &Server, words: &str) -> Command {
    let mut command = Command::new(binary().unwrap());
    command
        .args(words.split(' '))
        .env("KUBECONFIG", server.kubeconfig())
        .env("HOME", server.folder())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(server: &Server, words: &str) -> Said {
    command(server, words).output().unwrap().into()
}

/// Sends a request as the administrator, which must succeed, and gives the answer.
#[track_caller]
pub(crate) fn send(server: &Server, method: &str, path: &str, body: Option<&Value>) -> Value {
    let access = server.access().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let body = body.map(Value::to_string);
    let answer = access.once(method, path, body.as_ref().map(String::as_bytes));
    let answer = runtime.block_on(answer).unwrap();
    assert!(answer.code < 300, "{method} {path}: {}", String::from_utf8_lossy(&answer.body));
    serde_json::from_slice(&answer.body).unwrap_or_default()
}
