//! `tenure status`, `logs`, `down` and `delete`: a server that runs is looked at, listened to and ended.

mod delete;
mod logs;
mod status;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use delete::delete;
pub(crate) use logs::logs;
use rustix::process::{Pid, Signal, kill_process};
pub(crate) use status::status;
use tenure_host::kubeconfig::{self, Removed};
use tenure_host::server_record::{self, ServerRecord, ServerState};

use crate::flags::{Down, KubeconfigCommand, KubeconfigFolder};
use crate::progress::WaitIndicator;
use crate::report::CommandError;
use crate::up::data_dir;
use crate::{clock, environment};
use crate::{say, servers};

/// How often it is looked whether a server has ended.
const LOOK: Duration = Duration::from_millis(50);
/// How long a server may take to end what it was told to end by force.
const FORCE_LIMIT: Duration = Duration::from_secs(10);

/// Ends the server of a folder; one that does not run is as it should be.
pub(crate) fn down(flags: &Down) -> Result<(), CommandError> {
    let dir = data_dir(flags.data_dir.clone())?;
    let last = ServerRecord::read(&dir);
    match server_record::state(&dir) {
        ServerState::Stopped => {
            say(format!("no server uses `{}`\n{}", dir.display(), others(&dir, "down")).as_bytes());
        }
        ServerState::Busy(holder) if holder.chore.is_some() => {
            return Err(CommandError::new(format!(
                "{holder}, uses `{}`, and no server",
                dir.display()
            ))
            .hint("wait until it has ended"));
        }
        ServerState::Busy(holder) => end(&dir, holder.process, flags.timeout)?,
        ServerState::Running(record) => end(&dir, record.process, flags.timeout)?,
        ServerState::Hidden => return Err(hidden(&dir)),
    }
    // Also after a server that ended in another way, so that clients are not led to where nobody is.
    if let Some(record) = last.or_else(|| ServerRecord::read(&dir)) {
        take_entries(&record)?;
    }
    Ok(())
}

/// Somebody uses a folder who can be neither named nor ended from here.
fn hidden(dir: &Path) -> CommandError {
    CommandError::new(format!("a process that cannot be seen from here uses `{}`", dir.display()))
        .cause(&"it runs in a container, or on another machine")
        .hint("end it where it was started")
}

/// How other servers of this user are named to a command.
fn others(dir: &Path, command: &str) -> String {
    let all = servers::running();
    let all = all.iter().filter(|other| other.folder != dir);
    let line = |other: &ServerRecord| {
        let folder = crate::up::quoted(&other.folder.display().to_string());
        format!("another runs: tenure {command} --data-dir {folder}\n")
    };
    all.map(line).collect()
}

fn end(dir: &Path, process: u32, limit: Duration) -> Result<(), CommandError> {
    let begin = clock::instant();
    let ended = |within: Duration| {
        let begin = clock::instant();
        loop {
            match server_record::state(dir) {
                ServerState::Running(record) if record.process == process => {}
                ServerState::Busy(now) if now.process == process => {}
                _ => return true,
            }
            if begin.elapsed() >= within {
                return false;
            }
            clock::block_for(LOOK);
        }
    };
    let told = |signal| {
        let id = i32::try_from(process).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| CommandError::new(format!("`{process}` is no process")))?;
        match kill_process(id, signal) {
            // It ended meanwhile.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => {
                Err(CommandError::new(format!("the server, process {process}, cannot be ended"))
                    .cause(&error)
                    .hint("end it as the user who started it"))
            }
        }
    };
    told(Signal::TERM)?;
    let waiting = WaitIndicator::new("waiting for pods and requests to end");
    let ended_in_time = ended(limit);
    drop(waiting);
    if !ended_in_time {
        say(format!("not ended after {} s; by force\n", limit.as_secs()).as_bytes());
        // A second signal tells it not to wait for pods any more.
        told(Signal::TERM)?;
        if !ended(FORCE_LIMIT) {
            told(Signal::KILL)?;
            if !ended(FORCE_LIMIT) {
                return Err(CommandError::new(format!(
                    "the server, process {process}, does not end"
                )));
            }
        }
    }
    let took = begin.elapsed().as_secs_f32();
    let kept = match dir.exists() {
        true => format!("; data stay in `{}`", dir.display()),
        false => String::new(),
    };
    say(format!("stopped process {process} in {took:.1} s{kept}\n").as_bytes());
    Ok(())
}

/// Takes the entries of a server out of a kubeconfig that is not only its own.
fn take_entries(record: &ServerRecord) -> Result<(), CommandError> {
    if record.kubeconfig.starts_with(&record.folder) {
        return Ok(());
    }
    let removed = kubeconfig::remove(&record.kubeconfig, Some(&record.url)).map_err(unwritten)?;
    let path = record.kubeconfig.display();
    match removed {
        Removed::Entries => say(format!("took the context `tenure` out of `{path}`\n").as_bytes()),
        Removed::File => say(format!("removed `{path}`, which held nothing else\n").as_bytes()),
        Removed::Nothing | Removed::AnotherServer => {}
    }
    Ok(())
}

fn unwritten(error: kubeconfig::KubeconfigWriteError) -> CommandError {
    let problem = CommandError::new(error.to_string());
    match std::error::Error::source(&error) {
        Some(cause) => problem.cause(&cause.to_string()),
        None => problem,
    }
}

/// `tenure kubeconfig`: where it is, what it says, and how its entries go.
pub(crate) fn kubeconfig(command: &KubeconfigCommand) -> Result<(), CommandError> {
    match command {
        KubeconfigCommand::Path(flags) => {
            say(format!("{}\n", kubeconfig_of(flags)?.display()).as_bytes());
        }
        KubeconfigCommand::Print(flags) => {
            let path = kubeconfig_of(flags)?;
            let text = std::fs::read(&path).map_err(|error| {
                CommandError::new(format!("`{}` cannot be read", path.display())).cause(&error)
            })?;
            say(&text);
        }
        KubeconfigCommand::Remove(flags) => {
            let path = match &flags.kubeconfig {
                Some(path) => path.clone(),
                None => clients_kubeconfig()?,
            };
            if let Some(folder) = folder_of_own(&path) {
                return Err(CommandError::new(format!(
                    "`{}` is the kubeconfig of the data folder itself",
                    path.display()
                ))
                .cause(&"the server and the commands of its folder need it")
                .hint(format!(
                    "name yours with `--kubeconfig FILE`; that one goes with `tenure delete --data-dir {}`",
                    crate::up::quoted(&folder.display().to_string())
                )));
            }
            let removed = kubeconfig::remove(&path, None).map_err(unwritten)?;
            let path = path.display();
            say(match removed {
                Removed::Entries => format!("took the context `tenure` out of `{path}`\n"),
                Removed::File => format!("removed `{path}`, which held nothing else\n"),
                Removed::Nothing | Removed::AnotherServer => {
                    format!("no context `tenure` is in `{path}`\n")
                }
            }
            .as_bytes());
        }
    }
    Ok(())
}

/// The data folder whose own kubeconfig a file is.
fn folder_of_own(path: &Path) -> Option<PathBuf> {
    let path = std::fs::canonicalize(path).ok()?;
    let folder = path.parent()?;
    let is_ours = path.ends_with("kubeconfig") && folder.join("lock").exists();
    is_ours.then(|| folder.to_owned())
}

fn kubeconfig_of(flags: &KubeconfigFolder) -> Result<PathBuf, CommandError> {
    let dir = data_dir(flags.data_dir.clone())?;
    let path = dir.join("kubeconfig");
    if path.exists() {
        return Ok(path);
    }
    Err(CommandError::new(format!("there is no kubeconfig in `{}`", dir.display()))
        .hint("start a server with `tenure up`, or name its folder with `--data-dir DIR`"))
}

/// The file that kubectl would change.
fn clients_kubeconfig() -> Result<PathBuf, CommandError> {
    let set = environment::variable("KUBECONFIG").filter(|value| !value.is_empty());
    let first =
        set.and_then(|set| std::env::split_paths(&set).find(|path| !path.as_os_str().is_empty()));
    first.or_else(servers::usual_kubeconfig).ok_or_else(|| {
        CommandError::new("there is no kubeconfig to take anything out of")
            .hint("name one with `--kubeconfig FILE`")
    })
}
