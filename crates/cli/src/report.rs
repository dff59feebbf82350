//! How errors read on a terminal: what happened, the cause, a hint that can be run.

use std::fmt;

use tenure_host::HostStartError;
use tenure_host::keys::KeysError;
use tenure_inspect::ReadError;

/// Something that ended the command.
#[derive(Debug)]
pub(crate) struct CommandError {
    what: String,
    causes: Vec<String>,
    hint: Option<String>,
    code: Option<u8>,
}

/// What was asked for could not be done, or the answer is no.
pub(crate) const NO: u8 = 1;
/// Nothing can be said: wrong flags, or what should be looked at cannot be read.
pub(crate) const COULD_NOT_LOOK: u8 = 2;

impl CommandError {
    pub(crate) fn new(what: impl Into<String>) -> CommandError {
        CommandError { what: what.into(), causes: Vec::new(), hint: None, code: None }
    }

    /// A mistake in what was asked for, as clap reports others.
    pub(crate) fn usage(mut self) -> CommandError {
        self.code = Some(COULD_NOT_LOOK);
        self
    }

    /// The cluster does not answer.
    pub(crate) fn unanswered(mut self) -> CommandError {
        self.code = Some(COULD_NOT_LOOK);
        self
    }

    /// Everything was read, and what was asked about is not there.
    pub(crate) fn absent(mut self) -> CommandError {
        self.code = Some(NO);
        self
    }

    /// Whether it is that, and nothing else.
    pub(crate) fn is_absence(&self) -> bool {
        self.code == Some(NO)
    }

    /// The exit code, if the cause alone decides it.
    pub(crate) fn code(&self) -> Option<u8> {
        self.code
    }

    pub(crate) fn cause(mut self, cause: &dyn fmt::Display) -> CommandError {
        self.causes.push(cause.to_string());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> CommandError {
        self.hint = Some(hint.into());
        self
    }
}

impl From<HostStartError> for CommandError {
    fn from(error: HostStartError) -> CommandError {
        let code = matches!(error, HostStartError::Controller(_)).then_some(COULD_NOT_LOOK);
        CommandError { what: error.to_string(), causes: error.causes(), hint: error.hint(), code }
    }
}

impl From<KeysError> for CommandError {
    fn from(error: KeysError) -> CommandError {
        CommandError::from(HostStartError::from(error))
    }
}

impl From<ReadError> for CommandError {
    fn from(error: ReadError) -> CommandError {
        let hint = Some(error.hint().to_owned());
        CommandError {
            what: error.to_string(),
            causes: error.causes(),
            hint,
            code: Some(COULD_NOT_LOOK),
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "error: {}", self.what)?;
        for cause in &self.causes {
            writeln!(out, "  cause: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            writeln!(out, "  hint: {hint}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_like_this() {
        let problem = CommandError::new("the sky is `green`").cause(&"a filter").hint("look again");
        let expected = "error: the sky is `green`\n  cause: a filter\n  hint: look again\n";
        assert_eq!(problem.to_string(), expected);
    }
}
