//! `tenure access`: who may read what because something points at it. Each command has a file of its own;
//! no rule is decided here.

mod conformance;
mod map;
mod narrow;
mod review;
mod strategies;

use std::process::ExitCode;

use crate::flags::AccessCommand;
use crate::report::CommandError;

pub(crate) use strategies::{bundled, bundled_objects, bundled_origins};

pub(crate) fn run(command: &AccessCommand, program: &str) -> Result<ExitCode, CommandError> {
    match command {
        AccessCommand::Can(flags) => review::can(flags, program),
        AccessCommand::WhoCan(flags) => review::who_can(flags, program),
        AccessCommand::Explain(flags) => review::explain(flags, program),
        AccessCommand::Map(flags) => map::map(flags),
        AccessCommand::Diff(flags) => map::diff(flags),
        AccessCommand::Doctor(flags) => map::doctor(flags, program),
        AccessCommand::Unused(flags) => map::unused(flags),
        AccessCommand::Narrow(flags) => narrow::run(flags, program),
        AccessCommand::Strategies(command) => strategies::run(command),
        AccessCommand::Conformance(flags) => conformance::run(flags),
    }
}
