//! Calls to a server with a certificate of its own authority.

#![allow(clippy::unwrap_used, reason = "a test fails loudly")]

mod calls;
