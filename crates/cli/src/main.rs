//! The command `tenure`: reads flags, calls the host, prints for people. No rule is decided here.
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "a test may read the clock and the environment")
)]

mod access;
mod attach;
mod clock;
mod descriptors;
mod detach;
mod doctor;
mod environment;
mod envtest;
mod flags;
mod inspect;
mod keys;
mod lifecycle;
mod live;
mod logging;
mod man;
mod memory;
mod migrate;
mod node;
mod notify;
mod offline;
mod progress;
mod report;
mod retention;
mod servers;
mod settings;
mod up;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory, FromArgMatches};

use crate::flags::{
    AccessCommand, Command, Flags, KeysCommand, Migrate, PlanCommand, PolicyCommand,
    RetentionCommand, SnapshotCommand, Storage,
};
use crate::report::{COULD_NOT_LOOK, CommandError, NO};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Holding a container takes a process with one thread: this comes before everything else.
    #[cfg(target_os = "linux")]
    if let Some(code) = tenure_node::runtime::process::take_over() {
        return code;
    }
    let words: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if let Some(code) = envtest::take_over(&words) {
        return code;
    }
    let begin = clock::instant();
    let program = program();
    let command = Flags::command().bin_name(program);
    let matches = match settings::read(&command, words) {
        Ok(matches) => matches,
        Err(problem) => return failed(&problem, COULD_NOT_LOOK),
    };
    let flags = Flags::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if matches!(&flags.command, Command::Up(up) if up.print_config) {
        say(settings::print(&command, &matches).as_bytes());
        return ExitCode::SUCCESS;
    }
    let code = failure(&flags.command);
    match run(flags, program, begin) {
        Ok(code) => code,
        Err(problem) => failed(&problem, code),
    }
}

/// The exit code of a command that ends with a problem whose cause decides none: who asks a question and gets
/// no answer must not take that for an answer.
fn failure(command: &Command) -> u8 {
    match command {
        Command::Access(AccessCommand::Strategies(_)) => NO,
        Command::Tree(_)
        | Command::Why(_)
        | Command::Plan(_)
        | Command::Audit(_)
        | Command::Unused(_)
        | Command::Access(_)
        | Command::Doctor(_)
        | Command::Migrate(_) => COULD_NOT_LOOK,
        _ => NO,
    }
}

fn failed(problem: &CommandError, code: u8) -> ExitCode {
    // A closed stderr leaves nobody to tell.
    let _ = write!(std::io::stderr().lock(), "{problem}");
    ExitCode::from(problem.code().unwrap_or(code))
}

/// The name that usage and hints show: as a plugin, the program is called through kubectl.
fn program() -> &'static str {
    let called = std::env::args_os().next().map(std::path::PathBuf::from);
    let name = called.as_ref().and_then(|path| path.file_stem()).and_then(|name| name.to_str());
    if name == Some("kubectl-tenure") { "kubectl tenure" } else { "tenure" }
}

fn run(flags: Flags, program: &'static str, begin: Instant) -> Result<ExitCode, CommandError> {
    let Flags { command, verbose } = flags;
    if !matches!(command, Command::Up(_) | Command::Node(_) | Command::Attach(_)) {
        logging::start_if_requested(verbose)?;
    }
    let done = match command {
        Command::Tree(flags) => return inspect::tree(&flags, program),
        Command::Why(flags) => return inspect::why(&flags, program),
        Command::Plan(PlanCommand::Delete(flags)) => return inspect::plan(&flags, program),
        Command::Audit(flags) => return inspect::audit(&flags, program),
        Command::Unused(flags) => return retention::unused(&flags),
        Command::Retention(RetentionCommand::Drain(flags)) => return retention::drain(&flags),
        Command::Access(command) => return access::run(&command, program),
        Command::Migrate(Migrate::ReferenceGrants(flags)) => {
            return migrate::reference_grants(&flags);
        }
        Command::Doctor(flags) => return doctor::run(&flags),
        Command::Attach(flags) => attach::run(flags, verbose),
        Command::Install(command) => attach::install(&command),
        Command::Uninstall(command) => return attach::uninstall(&command),
        Command::Up(flags) => return up::run(*flags, verbose, begin),
        Command::Status(flags) => return lifecycle::status(&flags),
        Command::Logs(flags) => lifecycle::logs(&flags),
        Command::Down(flags) => lifecycle::down(&flags),
        Command::Delete(flags) => lifecycle::delete(&flags),
        Command::Kubeconfig(command) => lifecycle::kubeconfig(&command),
        Command::Node(flags) => node::run(*flags, verbose),
        Command::Envtest(flags) => envtest::install(&flags),
        Command::Snapshot(SnapshotCommand::Save(flags)) => offline::save(&flags),
        Command::Snapshot(SnapshotCommand::Restore(flags)) => offline::restore(&flags),
        Command::Storage(Storage::Compact(flags)) => offline::compact(&flags),
        Command::Keys(KeysCommand::Rotate(flags)) => keys::rotate(&flags),
        Command::Keys(KeysCommand::List(flags)) => keys::list(&flags),
        Command::Keys(KeysCommand::Remove(flags)) => keys::remove(&flags),
        Command::Policy(PolicyCommand::OwnerReferences(flags)) => {
            say(tenure_downward::policy::owner_references(flags.strict).as_bytes());
            Ok(())
        }
        Command::Man { folder } => man::man(Flags::command(), folder.as_deref()),
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
