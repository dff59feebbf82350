//! `cargo xtask sim`: random histories and hosts with faults, against a model. The simulation itself
//! is the program `tenure-sim` of crates/testing/sim.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::workspace;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let status = command(arguments)?.stdin(Stdio::null()).status().context("tenure-sim")?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => bail!("the simulation found a violation"),
        Some(2) => bail!("the simulation was called with words it does not know"),
        _ => bail!("the simulation did not come to its end: {status}"),
    }
}

/// Builds the simulation and gives the command that runs it.
pub(crate) fn command(arguments: &[String]) -> Result<Command> {
    let build = ["build", "--profile", "sim", "--locked", "--package", "tenure-sim"];
    let status = workspace::cargo(&build)?.status()?;
    ensure!(status.success(), "the simulation does not build");
    let mut command = Command::new(workspace::target()?.join("sim").join("tenure-sim"));
    command.args(arguments);
    Ok(command)
}
