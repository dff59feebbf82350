//! `tenure access`: who may read what because something points at it. Each command has a file of its own;
//! no rule is decided here.

mod ask;
mod conformance;
mod map;
mod narrow;
mod strategies;

use std::process::ExitCode;

use crate::flags::Access;
use crate::report::Problem;

pub(crate) use strategies::{bundled, bundled_objects};

pub(crate) fn run(command: &Access, program: &str) -> Result<ExitCode, Problem> {
    match command {
        Access::Can(flags) => ask::can(flags, program),
        Access::WhoCan(flags) => ask::who_can(flags, program),
        Access::Explain(flags) => ask::explain(flags, program),
        Access::Map(flags) => map::map(flags),
        Access::Diff(flags) => map::diff(flags),
        Access::Doctor(flags) => map::doctor(flags, program),
        Access::Unused(flags) => map::unused(flags),
        Access::Narrow(flags) => narrow::run(flags, program),
        Access::Strategies(command) => strategies::run(command),
        Access::Conformance(flags) => conformance::run(flags),
    }
}
