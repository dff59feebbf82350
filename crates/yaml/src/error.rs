//! Why a YAML body was refused, in words for the person who sent it.

use serde_saphyr::Error;

/// Why a YAML body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The body is longer than the limit.
    #[error("the YAML body has {bytes} bytes; at most {bytes_max} are read")]
    TooLarge {
        /// How long the body is.
        bytes: usize,
        /// How long it may be.
        bytes_max: usize,
    },
    /// The body is nested too deeply, has too many nodes, or aliases repeat too much of it.
    #[error("the YAML body is too complex: {detail}")]
    TooComplex {
        /// Which bound was passed, and where.
        detail: String,
    },
    /// The body is not UTF-8.
    #[error("the YAML body is not UTF-8 at byte {offset}")]
    Encoding {
        /// The first byte that is not part of a character.
        offset: usize,
    },
    /// A key occurs twice in one mapping.
    #[error("the YAML body repeats a key: {detail}")]
    Duplicate {
        /// Which key, and where.
        detail: String,
        /// The line on which it stands again, where that is known.
        line: Option<u64>,
    },
    /// The body is not YAML, or holds something that JSON cannot hold.
    #[error("the YAML body cannot be read: {detail}")]
    Syntax {
        /// What is wrong, and where.
        detail: String,
    },
}

impl YamlError {
    pub(crate) fn from_library(error: &Error) -> YamlError {
        let detail = error.to_string();
        match innermost(error) {
            Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. } => YamlError::TooComplex { detail },
            Error::DuplicateMappingKey { key, location } => {
                let key = key.as_deref().unwrap_or("a key that is not a scalar");
                let line = location.line();
                YamlError::Duplicate { detail: format!("`{key}` at line {line}"), line: Some(line) }
            }
            _ => YamlError::Syntax { detail },
        }
    }
}

/// The error itself, without the aliases and snippets that the library wraps around it.
pub(crate) fn innermost(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } =
        error
    {
        error = inner;
    }
    error
}
