//! APIServices: which versions of groups this server registers by itself, and whether others are available
//! (api-server R131e, R131g).
//!
//! ```text
//!   definitions ──► registration ──► APIServices of what they define
//!   Service, its endpoints, an answer ──► availability ──► condition Available
//! ```
//!
//! Asking another server is for the host.

pub mod availability;
mod registration;

pub use registration::ApiServiceRegistration;
