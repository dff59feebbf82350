//! Long work in visible steps: each has a number, a limit and a log, and shows that it lives.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::workspace;

const HEARTBEAT: Duration = Duration::from_secs(15);
/// How much of the log a failed step shows.
const LINES_SHOWN: usize = 120;

/// A run of numbered steps.
pub(crate) struct Steps {
    all: usize,
    done: usize,
    begin: Instant,
    logs: PathBuf,
}

impl Steps {
    pub(crate) fn new(all: usize) -> Result<Steps> {
        let logs = workspace::target()?.join("xtask");
        fs::create_dir_all(&logs)?;
        Ok(Steps { all, done: 0, begin: Instant::now(), logs })
    }

    /// Does work inside this process.
    pub(crate) fn own(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        self.announce(name);
        let begin = Instant::now();
        work().with_context(|| name.to_owned())?;
        println!("      done in {} s", begin.elapsed().as_secs());
        Ok(())
    }

    /// Runs a command within a time limit and gives what it printed.
    pub(crate) fn command(
        &mut self,
        name: &str,
        command: &mut Command,
        limit_minutes: u64,
    ) -> Result<String> {
        self.announce(name);
        let path =
            self.logs.join(format!("{:02}-{}.log", self.done, name.replace([' ', '/'], "-")));
        let log = File::create(&path)?;
        let begin = Instant::now();
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("{command:?}"))?;
        let limit = Duration::from_secs(limit_minutes * 60);
        let status = watch(child, limit, || last_line(&path))?;
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        match status {
            Some(status) if status.success() => {
                println!("      done in {} s", begin.elapsed().as_secs());
                Ok(text)
            }
            ended => {
                // Of a test run only what went wrong is worth reading.
                let passed = |line: &&str| crate::gate::passed(line).is_none();
                let lines: Vec<&str> = text.lines().filter(passed).collect();
                let from = lines.len().saturating_sub(LINES_SHOWN);
                println!("{}", lines.get(from..).unwrap_or_default().join("\n"));
                match ended {
                    Some(status) => bail!("{name}: {status}"),
                    None => bail!("{name}: ended after {limit_minutes} minutes, its limit"),
                }
            }
        }
    }

    fn announce(&mut self, name: &str) {
        self.done += 1;
        let seconds = self.begin.elapsed().as_secs();
        println!("[{}/{}] {name} ({}:{:02})", self.done, self.all, seconds / 60, seconds % 60);
    }

    /// How long it all took so far.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// Waits for a process, telling now and then what it last said; none when it passed its limit.
fn watch(
    mut child: Child,
    limit: Duration,
    said: impl Fn() -> String,
) -> Result<Option<ExitStatus>> {
    let begin = Instant::now();
    let mut told = begin;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begin.elapsed() > limit {
            end_tree(&mut child)?;
            return Ok(None);
        }
        if told.elapsed() > HEARTBEAT {
            told = Instant::now();
            println!("      {} s: {}", begin.elapsed().as_secs(), said());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn last_line(path: &std::path::Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    line.trim().chars().take(100).collect()
}

/// Kills a process that we started and everything that it started.
fn end_tree(child: &mut Child) -> Result<()> {
    let mut tree = vec![child.id()];
    let parents = parents();
    let mut at = 0;
    while let Some(parent) = tree.get(at).copied() {
        tree.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| *process));
        at += 1;
    }
    let tree: Vec<String> = tree.iter().map(u32::to_string).collect();
    Command::new("kill").arg("-9").args(tree).status()?;
    child.wait()?;
    Ok(())
}

/// Each process with the one that started it.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let parent = |process: u32| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|process| Some((process, parent(process)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_over_its_limit_ends_with_its_children() {
        let mut command = Command::new("sh");
        let child = command.args(["-c", "sleep 77 & sleep 77"]).spawn().unwrap();
        let process = child.id();
        let ended = watch(child, Duration::from_millis(200), String::new).unwrap();
        assert!(ended.is_none());
        assert!(!parents().iter().any(|(_, parent)| *parent == process));
    }
}
