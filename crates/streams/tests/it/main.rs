//! Frames and channels as bytes. Rules of spec/downward-api.md.

#![expect(clippy::unwrap_used, reason = "a test may end loudly")]

mod channel;
mod outcome;
mod spdy;
