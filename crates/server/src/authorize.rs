//! Which authorizers there are, in which order they are asked, and the webhooks among them (R154, R154a–R154f).
//!
//! ```text
//!   configuration ──► order ──► AuthorizerChain::judge ──► allow, deny, no opinion; the first two end it
//!                                      │  a webhook is next, and its answer is not known
//!                                      └─► Consultation ──► webhook: cache, call ──► judge once more
//! ```
//!
//! Decisions are made without waiting: where one needs an answer of a webhook, it is broken off, the webhook is asked,
//! and the decision is made again. What roles and references allow is decided elsewhere; so is what YAML looks like.

mod cache;
mod conditions;
pub mod configuration;
mod consultation;
mod metrics;
mod order;
mod question;
mod room;
mod webhook;

pub use tenure_outbound::{CertifiedKey, TlsSettings};
pub use webhook::WebhookEndpoint;

pub(crate) use consultation::Consultation;
pub(crate) use metrics::AuthorizationMetrics;
pub(crate) use order::{Authorizer, AuthorizerOrder};
pub(crate) use question::AccessQuestion;
pub(crate) use webhook::WebhookVerdict;
