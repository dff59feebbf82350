//! What goes wrong: while an expression is compiled, and while it runs. Who is told never lives here.

use core::fmt;

/// Why an expression was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileError {
    /// One finding after another, each with its place in the text.
    pub message: String,
}

impl CompileError {
    /// An error at a character of the text, shown with the line it is on.
    pub(crate) fn at(text: &str, at: usize, message: &str) -> CompileError {
        let before: String = text.chars().take(at).collect();
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let shown: String =
            text.split('\n').nth(line).unwrap_or_default().chars().take(400).collect();
        let dots = ".".repeat(column.min(400));
        let line = line + 1;
        CompileError {
            message: format!(
                "ERROR: <input>:{line}:{}: {message}\n | {shown}\n | {dots}^",
                column + 1
            ),
        }
    }

    /// Several errors as one.
    pub(crate) fn join(errors: Vec<CompileError>) -> CompileError {
        let message = errors.into_iter().map(|e| e.message).collect::<Vec<_>>().join("\n");
        CompileError { message }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CompileError {}

/// Whether a run was stopped for its cost or failed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvalErrorKind {
    /// The cost of the call or of the whole budget was spent.
    Overspent,
    /// The expression itself failed: a missing key, an overflow, a malformed argument.
    Failed,
}

/// Why a run gave no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError {
    /// What happened.
    pub message: String,
    /// Of which sort it is.
    pub kind: EvalErrorKind,
}

impl EvalError {
    pub(crate) fn failed(message: impl Into<String>) -> EvalError {
        EvalError { message: message.into(), kind: EvalErrorKind::Failed }
    }

    pub(crate) fn overspent() -> EvalError {
        EvalError {
            message: "operation cancelled: actual cost limit exceeded".to_owned(),
            kind: EvalErrorKind::Overspent,
        }
    }

    pub(crate) fn no_such_overload() -> EvalError {
        EvalError::failed("no such overload")
    }

    pub(crate) fn no_such_key(key: &str) -> EvalError {
        EvalError::failed(format!("no such key: {key}"))
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvalError {}
