//! The command as its user meets it: real processes, exit codes, every line that is printed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may end loudly")]

mod access;
mod keys;
mod offline;
mod process;
mod up;
mod words;
