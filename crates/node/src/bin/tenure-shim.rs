//! Holds one container and nothing else: what `tenure` does when it is started with the hidden
//! argument, for tests of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = tenure_node::runtime::process::take_over() {
        return code;
    }
    ExitCode::FAILURE
}
