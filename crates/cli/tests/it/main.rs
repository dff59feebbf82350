//! The command as its user meets it: real processes, exit codes, every line that is printed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may end loudly")]
#![expect(clippy::disallowed_methods, reason = "a test may read the clock and the environment")]

mod access;
mod keys;
mod offline;
mod process;
mod up;
mod words;
