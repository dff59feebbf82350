//! The command `tenure`: reads flags, calls the host, prints for people. No rule is decided here.

mod flags;
mod logging;
mod offline;
mod report;
mod up;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory, Parser};

use crate::flags::{Command, Flags, Snapshot, Storage};
use crate::report::Problem;

fn main() -> ExitCode {
    let begin = Instant::now();
    let flags = Flags::parse();
    match run(flags.command, begin) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // A closed stderr leaves nobody to tell.
            let _ = write!(std::io::stderr().lock(), "{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command, begin: Instant) -> Result<(), Problem> {
    match command {
        Command::Up(flags) => up::run(flags, begin),
        Command::Snapshot(Snapshot::Save(flags)) => offline::save(&flags),
        Command::Snapshot(Snapshot::Restore(flags)) => offline::restore(&flags),
        Command::Storage(Storage::Compact(flags)) => offline::compact(&flags),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Flags::command(), "tenure", &mut script);
            say(&script);
            Ok(())
        }
        Command::Version => {
            say(concat!("tenure ", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
            Ok(())
        }
    }
}

/// Writes to stdout; a reader that went away, such as `head`, is no failure.
fn say(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
