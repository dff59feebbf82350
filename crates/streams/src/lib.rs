//! Frames of exec, attach and port-forward as bytes in and out; no sockets.
//!
//! ```text
//!   WebSocket message ──► channel ──► stdin, stdout, stderr, error, resize
//!   bytes of a socket or of WebSocket messages ──► spdy ──► streams with headers
//!   the end of a command ◄──► outcome ──► the Status that clients read
//! ```
//!
//! Whatever bytes come in, nothing here panics and no buffer grows beyond a bound that is written
//! beside it. Who asks and which pod is meant never comes here.

pub mod channel;
pub mod outcome;
pub mod spdy;
