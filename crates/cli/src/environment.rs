//! What the process was started in: its variables and the folder for temporary files. It is read here and
//! nowhere else; flags that take variables have clap read them.
#![expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that reads the environment"
)]

use std::ffi::OsString;
use std::path::PathBuf;

/// A variable, empty ones included.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The system's place for temporary files.
pub(crate) fn temporary_folder() -> PathBuf {
    std::env::temp_dir()
}
