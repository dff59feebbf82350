//! The command `tenure`: reads flags, calls the host, prints for people. No rule is decided here.

mod access;
mod descriptors;
mod flags;
mod inspect;
mod keys;
mod logging;
mod memory;
mod migrate;
mod node;
mod offline;
mod report;
mod retention;
mod up;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory, FromArgMatches};

use crate::flags::{
    Access, Command, Flags, Keys, Migrate, Plan, Policy, Retention, Snapshot, Storage,
};
use crate::report::Problem;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Holding a container takes a process with one thread: this comes before everything else.
    #[cfg(target_os = "linux")]
    if let Some(code) = tenure_node::runtime::process::take_over() {
        return code;
    }
    let begin = Instant::now();
    let program = program();
    let matches = Flags::command().bin_name(program).get_matches();
    let flags = Flags::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    // An audit that could not look must not be taken for one that found something.
    let failure = match flags.command {
        Command::Audit(_) | Command::Unused(_) => ExitCode::from(inspect::COULD_NOT_LOOK),
        Command::Access(Access::Strategies(_)) => ExitCode::FAILURE,
        Command::Migrate(_) | Command::Access(_) => ExitCode::from(migrate::COULD_NOT_READ),
        _ => ExitCode::FAILURE,
    };
    match run(flags.command, program, begin) {
        Ok(code) => code,
        Err(problem) => {
            // A closed stderr leaves nobody to tell.
            let _ = write!(std::io::stderr().lock(), "{problem}");
            failure
        }
    }
}

/// The name that usage and hints show: as a plugin, the program is called through kubectl.
fn program() -> &'static str {
    let called = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = called.as_ref().and_then(|path| path.file_stem()).and_then(|name| name.to_str());
    if name == Some("kubectl-tenure") { "kubectl tenure" } else { "tenure" }
}

fn run(command: Command, program: &'static str, begin: Instant) -> Result<ExitCode, Problem> {
    let done = match command {
        Command::Tree(flags) => return inspect::tree(&flags, program),
        Command::Why(flags) => return inspect::why(&flags, program),
        Command::Plan(Plan::Delete(flags)) => return inspect::plan(&flags, program),
        Command::Audit(flags) => return inspect::audit(&flags, program),
        Command::Unused(flags) => return retention::unused(&flags),
        Command::Retention(Retention::Drain(flags)) => return retention::drain(&flags),
        Command::Access(command) => return access::run(&command, program),
        Command::Migrate(Migrate::ReferenceGrants(flags)) => {
            return migrate::reference_grants(&flags);
        }
        Command::Up(flags) => up::run(*flags, begin),
        Command::Node(flags) => node::run(*flags),
        Command::Snapshot(Snapshot::Save(flags)) => offline::save(&flags),
        Command::Snapshot(Snapshot::Restore(flags)) => offline::restore(&flags),
        Command::Storage(Storage::Compact(flags)) => offline::compact(&flags),
        Command::Keys(Keys::Rotate(flags)) => keys::rotate(&flags),
        Command::Keys(Keys::List(flags)) => keys::list(&flags),
        Command::Keys(Keys::Remove(flags)) => keys::remove(&flags),
        Command::Policy(Policy::OwnerReferences(flags)) => {
            say(tenure_downward::policy::owner_references(flags.strict).as_bytes());
            Ok(())
        }
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
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Writes to stdout; a reader that went away, such as `head`, is no failure.
fn say(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}
