//! `cargo xtask fuzz`: random input for every parser, for a while. Needs the nightly toolchain.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::workspace;

const SECONDS: &str = "60";

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let seconds = match arguments {
        [] => SECONDS,
        [flag, number] if flag == "--seconds" => number,
        _ => bail!("usage: cargo xtask fuzz [--seconds N]"),
    };
    let tools = workspace::target()?.join("tools");
    let mut path = vec![tools.join("bin")];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(path)?;
    let found = Command::new("cargo-fuzz").arg("--version").env("PATH", &path).output();
    if !found.is_ok_and(|output| output.status.success()) {
        println!("installing cargo-fuzz");
        let status = workspace::cargo(&["install", "--locked", "--quiet", "cargo-fuzz", "--root"])?
            .arg(&tools)
            .status()?;
        ensure!(status.success(), "cargo-fuzz could not be installed");
    }
    let (root, targets) = (workspace::root()?, targets()?);
    for (number, target) in targets.iter().enumerate() {
        println!("[{}/{}] {target} for {seconds} s", number + 1, targets.len());
        // What was found before, which stays on this machine, and a few seeds, which are committed.
        let corpus = root.join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus)?;
        let seeds = root.join("fuzz/seeds").join(target);
        let status = Command::new("cargo")
            .args(["+nightly", "fuzz", "run", target])
            .arg(corpus)
            .args(seeds.is_dir().then_some(seeds))
            .arg("--")
            .args([format!("-max_total_time={seconds}"), "-rss_limit_mb=2048".into()])
            .args(["-max_len=65536", "-timeout=10", "-verbosity=0", "-print_final_stats=1"])
            .current_dir(&root)
            .env("PATH", &path)
            // The toolchain of the repository is not the one that fuzzes.
            .env_remove("RUSTUP_TOOLCHAIN")
            .env_remove("CARGO")
            .status()
            .context("cargo +nightly fuzz")?;
        ensure!(status.success(), "{target} found something: see fuzz/artifacts/{target}");
    }
    Ok(())
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
