//! `tenure access`: who may read what because something points at it. Each command has a file of its own;
//! no rule is decided here.

mod conformance;
mod strategies;

use std::process::ExitCode;

use crate::flags::Access;
use crate::report::Problem;

pub(crate) use strategies::bundled;

pub(crate) fn run(command: &Access) -> Result<ExitCode, Problem> {
    match command {
        Access::Strategies(command) => strategies::run(command),
        Access::Conformance(flags) => conformance::run(flags),
    }
}
