//! Service-account tokens: what they say, who signed them, and when one is granted.
//!
//! ```text
//!   TokenRequest ── grant ──► Claims ── issue ──► token
//!   token ── verify ──► Verified ── stands ──► still meant   (the host looks the objects up)
//! ```
//!
//! Keys, time and ids are handed in; nothing here reads a file, a clock or the log.
//! The one exception is the nonce of an ECDSA signature, which ring draws from the system (`random`).
//!
//! Tokens are framed here over ring rather than by `jsonwebtoken`: its line 9 stands under
//! CVE-2026-25537 (a time of the wrong JSON type counts as absent) and reads the clock itself,
//! and its later lines do not build on ring.

mod claims;
mod der;
mod discovery;
mod json;
mod key;
mod legacy;
mod random;
mod request;
mod token;
mod verified;

pub use claims::{BoundKind, BoundObject, Claims, NodeClaim, TokenSubject};
pub use discovery::openid_configuration;
pub use key::{KeyError, KeySet};
pub use legacy::LegacyClaims;
pub use request::{Issuing, TokenGrant, grant, requested_bound_object};
pub use token::{IssueError, TokenError, TokenErrorReason, issue, issue_legacy, verify};
pub use verified::{ObjectLiveness, Verified};

/// How far clocks may differ, and how long a deleted object's tokens may outlive it.
pub const LEEWAY_SECONDS: i64 = 60;

/// No token longer than this is issued or looked at.
pub const TOKEN_BYTES_MAX: usize = 64 * 1024;
