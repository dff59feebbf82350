//! HTTPS to servers that a cluster names: webhooks, authorizers, aggregated API servers.
//!
//! ```text
//!   request ──► HttpsClient ──► connection of the pool ──► answer, within a time and a size
//!                 │  none is free
//!                 └─► Connect: a stream to host and port ──► TLS by TlsSettings
//! ```
//!
//! Redirects are answers like any other: nobody is sent elsewhere. What is asked, and what an answer means,
//! never lives here.

mod certificate_verifier;
mod client;
mod connect;
mod error;
mod tls;

pub use certificate_verifier::{ServerCertificate, certificate_verifier};
pub use client::{HttpsClient, RequestBody, full};
pub use connect::{Connect, Connecting, Direct, Stream};
pub use error::{CallError, SettingsError};
pub use tls::{CertifiedKey, TlsSettings};
