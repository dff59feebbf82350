//! `cargo xtask fuzz`: random input for every parser, for a while. Needs the nightly toolchain, or lets the one
//! that is there pass for it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::{tools, workspace};

const SECONDS: &str = "60";
const USAGE: &str = "usage: cargo xtask fuzz [--seconds N] [TARGET]…";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let (seconds, wanted) = match arguments {
        [flag, number, rest @ ..] if flag == "--seconds" => (number.as_str(), rest),
        rest => (SECONDS, rest),
    };
    if wanted.iter().any(|name| name.starts_with('-')) {
        bail!(USAGE);
    }
    let mut targets = targets()?;
    if let Some(unknown) = wanted.iter().find(|name| !targets.contains(name)) {
        bail!("no target is called `{unknown}`: there are {}", targets.join(", "));
    }
    targets.retain(|target| wanted.is_empty() || wanted.contains(target));
    if !tools::FUZZ.is_there()? {
        println!("installing {}", tools::FUZZ.name);
    }
    let status = tools::FUZZ.installed()?.status()?;
    ensure!(status.success(), "{} could not be installed", tools::FUZZ.name);
    let root = workspace::root()?;
    for (number, target) in targets.iter().enumerate() {
        println!("[{}/{}] {target} for {seconds} s", number + 1, targets.len());
        // What was found before, which stays on this machine, and a few seeds, which are committed.
        let corpus = root.join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus)?;
        let seeds = root.join("fuzz/seeds").join(target);
        let status = cargo()?
            .args(["fuzz", "run", target])
            .arg(corpus)
            .args(seeds.is_dir().then_some(seeds))
            .arg("--")
            .args([format!("-max_total_time={seconds}"), "-rss_limit_mb=2048".into()])
            .args(["-max_len=65536", "-timeout=10", "-verbosity=0", "-print_final_stats=1"])
            .status()
            .context("cargo fuzz")?;
        ensure!(status.success(), "{target} found something: see fuzz/artifacts/{target}");
    }
    Ok(())
}

/// A cargo whose compiler takes the flags of sanitizers.
fn cargo() -> Result<Command> {
    let mut command = Command::new("cargo");
    let nightly = Command::new("rustc").args(["+nightly", "--version"]).output();
    if nightly.is_ok_and(|output| output.status.success()) {
        command.arg("+nightly");
        // The toolchain of the repository is not the one that fuzzes.
        command.env_remove("RUSTUP_TOOLCHAIN");
    } else {
        command.env("RUSTC_BOOTSTRAP", "1");
    }
    command.env_remove("CARGO").env("PATH", tools::path()?).current_dir(workspace::root()?);
    Ok(command)
}

/// Compiles every target as far as the toolchain of the repository can: without the fuzzer, which is written in C++.
pub(crate) fn check() -> Result<Command> {
    let arguments =
        ["check", "--quiet", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target-dir"];
    let mut command = workspace::cargo(&arguments)?;
    command.arg(workspace::target()?).env("CUSTOM_LIBFUZZER_PATH", "/dev/null");
    Ok(command)
}

/// One target per file.
fn targets() -> Result<Vec<String>> {
    let folder = workspace::root()?.join("fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let paths = files.into_iter().map(|file| file.path());
    let rust = paths.filter(|path: &PathBuf| path.extension().is_some_and(|end| end == "rs"));
    let mut names: Vec<String> =
        rust.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/dependencies.md.
    use super::*;

    #[test]
    fn r51_every_target_is_built_and_has_seeds() {
        let root = workspace::root().unwrap();
        let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        for target in targets().unwrap() {
            assert!(manifest.contains(&format!("name = \"{target}\"")), "{target}");
            // Changes and stored bytes are found faster without an example.
            let free = matches!(target.as_str(), "reference_events" | "stored");
            assert_eq!(root.join("fuzz/seeds").join(&target).is_dir(), !free, "{target}");
        }
    }
}
