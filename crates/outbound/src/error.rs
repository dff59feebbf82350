//! Why a client cannot be made, or a call failed.

use std::error::Error;
use std::fmt::Write as _;

/// Why nobody can be called with these settings.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The authorities are not certificates in PEM form.
    #[error("the authorities are not certificates in PEM form: {0}")]
    Authorities(String),
    /// There are no authorities to trust.
    #[error("this machine has no authorities to trust, and none are given")]
    NoAuthorities,
    /// The client's own certificate or key cannot be used.
    #[error("the client certificate cannot be used: {0}")]
    Identity(String),
    /// The name that the server must prove is no host name.
    #[error("{0:?} is not a host name")]
    ServerName(String),
}

/// Why a call brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// It took longer than it may. Clients look for these words.
    #[error("context deadline exceeded (no answer within {seconds} s)")]
    Timeout {
        /// How long it could have taken, rounded up.
        seconds: u64,
    },
    /// The answer is longer than it may be.
    #[error("the answer is longer than {bytes_max} bytes")]
    TooLarge {
        /// How long it could have been.
        bytes_max: usize,
    },
    /// The server cannot be reached, or broke the connection.
    #[error("{0}")]
    Broken(String),
}

impl CallError {
    /// From an error of a library, with what caused it.
    pub(crate) fn broken(error: &(dyn Error + 'static)) -> CallError {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let said = error.to_string();
            // Many libraries repeat their cause in their own words.
            if !text.contains(&said) {
                let _ = write!(text, ": {said}");
            }
            cause = error.source();
        }
        CallError::Broken(text)
    }
}
