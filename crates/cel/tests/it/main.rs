//! The crate from outside: verdicts, refusals, costs and hostile rules.
//!
//! Numbers `r125` follow spec/api-server.md; `r18` to `r20` follow spec/dependencies.md.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test may end loudly")]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod estimates;
mod hostile;
mod oracle;
mod patches;
mod refusals;
mod support;
mod verdicts;
