//! How a command ended, as the Status that clients read on the error channel (R128). Exit codes of
//! containers never come here.

use serde_json::{Value, json};

/// How a command or an attachment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    /// As it should.
    Success,
    /// With an exit code other than zero.
    Code(i32),
    /// Not at all: it could not be run, or its streams broke.
    Failed(String),
}

impl CommandOutcome {
    /// The outcome of a command that ended with this code.
    #[must_use]
    pub fn of_code(code: i32) -> CommandOutcome {
        if code == 0 { CommandOutcome::Success } else { CommandOutcome::Code(code) }
    }

    /// The Status as JSON, for protocols from version 4 on.
    #[must_use]
    pub fn status(&self) -> Vec<u8> {
        let status = match self {
            CommandOutcome::Success => json!({ "metadata": {}, "status": "Success" }),
            CommandOutcome::Code(code) => json!({
                "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                "message": self.sentence(),
                "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
            }),
            CommandOutcome::Failed(why) => json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError",
                "message": self.sentence(), "code": 500,
                "details": { "causes": [{ "message": why }] },
            }),
        };
        serde_json::to_vec(&status).unwrap_or_default()
    }

    /// What people read; empty on success, for protocols before version 4.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            CommandOutcome::Success => String::new(),
            CommandOutcome::Code(code) => {
                format!("command terminated with non-zero exit code: exit status {code}")
            }
            CommandOutcome::Failed(why) => format!("Internal error occurred: {why}"),
        }
    }

    /// Reads a Status, or a sentence of a server before version 4; nothing at all is success.
    #[must_use]
    pub fn read(bytes: &[u8]) -> CommandOutcome {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return CommandOutcome::Success;
        }
        let plain = || CommandOutcome::Failed(String::from_utf8_lossy(bytes).into_owned());
        let Ok(status) = serde_json::from_slice::<Value>(bytes) else { return plain() };
        let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("status") == "Success" {
            return CommandOutcome::Success;
        }
        let causes = status.pointer("/details/causes").and_then(Value::as_array);
        let code = causes.into_iter().flatten().find_map(|cause| {
            let exit = cause.get("reason").and_then(Value::as_str) == Some("ExitCode");
            let message = cause.get("message").and_then(Value::as_str)?;
            exit.then(|| message.parse().ok()).flatten()
        });
        match (text("reason"), code) {
            ("NonZeroExitCode", Some(code)) => CommandOutcome::of_code(code),
            _ if text("message").is_empty() => plain(),
            _ => CommandOutcome::Failed(text("message").to_owned()),
        }
    }
}
