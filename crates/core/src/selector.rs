//! Label and field selectors: how clients say which objects they mean.
//!
//! Parsing, printing and matching live here.
//! Which fields a kind offers, and where labels are stored, is somebody else's business.

mod field;
mod label;
mod object;

use alloc::string::String;
use core::fmt;

pub use field::{FieldRequirement, FieldSelector};
pub use label::{LabelRequirement, LabelRule, LabelSelector};

/// Why a selector could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectorError {
    /// Something else was expected at this point of a label selector.
    Unexpected {
        /// What the text holds; empty at its end.
        found: String,
        /// What would have been understood.
        expected: &'static str,
    },
    /// The key of a requirement is not a qualified name.
    Key {
        /// The key as written.
        key: String,
    },
    /// A value of a requirement is not a label value.
    Value {
        /// The key of the requirement.
        key: String,
        /// The value as written.
        value: String,
    },
    /// `<` and `>` compare integers only.
    NotAnInteger {
        /// The key of the requirement.
        key: String,
        /// The value as written.
        value: String,
    },
    /// A term of a field selector has no operator.
    NoOperator {
        /// The term as written.
        term: String,
    },
    /// A backslash in a field selector is followed by a character that needs no escape.
    Escape {
        /// The term as written.
        term: String,
    },
    /// A value in a field selector holds `,` or `=` without a backslash.
    Unescaped {
        /// The term as written.
        term: String,
    },
}

impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected { found, expected } if found.is_empty() => {
                write!(f, "the label selector ends where {expected} is expected")
            }
            Self::Unexpected { found, expected } => {
                write!(f, "the label selector has `{found}` where {expected} is expected")
            }
            Self::Key { key } => write!(
                f,
                "`{key}` is no label key: a key is a name of at most 63 letters, digits, `-`, `_` \
                 and `.`, starting and ending with a letter or digit, with an optional DNS \
                 subdomain and `/` before it"
            ),
            Self::Value { key, value } => write!(
                f,
                "`{value}` is no value for the label `{key}`: a value is empty or at most 63 \
                 letters, digits, `-`, `_` and `.`, starting and ending with a letter or digit"
            ),
            Self::NotAnInteger { key, value } => {
                write!(
                    f,
                    "`{value}` is no integer, so the label `{key}` cannot be compared with it"
                )
            }
            Self::NoOperator { term } => {
                write!(f, "the field selector term `{term}` has none of `=`, `==` and `!=`")
            }
            Self::Escape { term } => write!(
                f,
                "the field selector term `{term}` has a backslash that is not followed by `,`, \
                 `=` or a backslash"
            ),
            Self::Unescaped { term } => write!(
                f,
                "the field selector term `{term}` has `,` or `=` in its value without a backslash \
                 before it"
            ),
        }
    }
}

impl core::error::Error for SelectorError {}
