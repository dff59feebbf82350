//! `cargo xtask bench`: builds a release and measures it. The load itself is a program of
//! tests/clients, so that this one starts fast.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::workspace;

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    println!("building a release");
    let build = [
        "build",
        "--release",
        "--locked",
        "--package",
        "tenure",
        "--package",
        "tenure-client-tests",
    ];
    let status = workspace::cargo(&build)?.status()?;
    ensure!(status.success(), "the release does not build");
    let folder = workspace::target()?.join("release");
    let mut load = Command::new(folder.join("tenure-load"));
    load.args(arguments).env("TENURE_BIN", folder.join("tenure")).stdin(Stdio::null());
    let status = load.status().context("tenure-load")?;
    ensure!(status.success(), "a measure could not be taken");
    Ok(())
}
