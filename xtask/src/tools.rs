//! Programs for cargo that are no part of the toolchain: installed below the build folder, each at the version
//! that is named here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::workspace;

/// A program for cargo, as crates.io has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool {
    /// Of the package and of the program.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
}

/// Checks licences, bans and sources; building it takes two to three minutes on two cores, once.
pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
/// Builds and runs fuzz targets.
pub(crate) const FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2" };

impl Tool {
    /// Where the program is, once it is installed.
    pub(crate) fn path(self) -> Result<PathBuf> {
        Ok(folder()?.join("bin").join(self.name))
    }

    /// Whether this very version is there.
    pub(crate) fn is_there(self) -> Result<bool> {
        let mut command = Command::new(self.path()?);
        // Every program answers to its name, or to the word that cargo would call it by.
        let answer = command.arg("--version").stdin(Stdio::null()).output();
        let text = answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned());
        Ok(text.is_ok_and(|text| text.split_whitespace().any(|word| word == self.version)))
    }

    /// A command that leaves the program installed; does nothing if it is there.
    pub(crate) fn installed(self) -> Result<Command> {
        if self.is_there()? {
            let mut command = Command::new(self.path()?);
            command.arg("--version");
            return Ok(command);
        }
        let version = format!("={}", self.version);
        let mut command = workspace::cargo(&["install", "--locked", self.name, "--version"])?;
        command.arg(version).arg("--root").arg(folder()?);
        Ok(command)
    }
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("tools"))
}

/// The PATH with our tools first.
pub(crate) fn path() -> Result<OsString> {
    let mut path = vec![folder()?.join("bin")];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    Ok(std::env::join_paths(path)?)
}
