//! Why a patch was refused. Which HTTP code that becomes is the server's business.

use std::fmt;

/// The class of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchErrorKind {
    /// The patch itself cannot be understood.
    BadRequest,
    /// The patch is well formed but does not apply to this object.
    Unprocessable,
    /// A `test` of the patch does not hold for this object.
    TestFailed,
    /// The patch asks for more than the server is willing to do.
    TooLarge,
    /// The patch met a state that should not exist.
    Internal,
}

/// A refused patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchError {
    /// The class of the refusal.
    pub kind: PatchErrorKind,
    /// The sentence for the client.
    pub message: String,
}

impl PatchError {
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self { kind: PatchErrorKind::BadRequest, message: message.into() }
    }

    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self { kind: PatchErrorKind::Unprocessable, message: message.into() }
    }

    pub(crate) fn test_failed(message: impl Into<String>) -> Self {
        Self { kind: PatchErrorKind::TestFailed, message: message.into() }
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self { kind: PatchErrorKind::TooLarge, message: message.into() }
    }
}

impl fmt::Display for PatchError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for PatchError {}
