//! `tenure delete`: the server of a folder is ended, and what it kept there goes. What somebody else put there
//! stays.

use std::fs;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use tenure_host::folder::LockedDataFolder;

use crate::flags::Delete;
use crate::report::CommandError;
use crate::say;
use crate::up::data_dir;

/// What tenure makes in a data folder; a name with a dot at its end is the beginning of names.
const OURS: [&str; 13] = [
    "lock",
    "run.json",
    "log",
    "log.1",
    "kubeconfig",
    "kubeconfig.lock",
    "pki",
    "store",
    "store.restoring",
    "store.restored",
    "store.before-restore",
    "store.before-restore.",
    "nodes",
];

pub(crate) fn delete(flags: &Delete) -> Result<(), CommandError> {
    let dir = data_dir(flags.down.data_dir.clone())?;
    if !dir.is_dir() {
        say(format!("there is no data folder `{}`\n", dir.display()).as_bytes());
        return Ok(());
    }
    // Whatever has neither was never a data folder, however its files are called.
    if !dir.join("pki").is_dir() && !dir.join("store").is_dir() {
        return Err(CommandError::new(format!("`{}` is no data folder of tenure", dir.display()))
            .cause(&"it holds neither `pki` nor `store`")
            .hint("name the folder that `tenure up` uses with `--data-dir DIR`"));
    }
    if !flags.yes && !confirmed(&dir)? {
        say(b"nothing was touched\n");
        return Ok(());
    }
    super::down(&flags.down)?;
    // Whoever uses the folder although they were not seen keeps it; whoever starts meanwhile has to wait.
    let folder = LockedDataFolder::open_existing(&dir, "delete")?;
    #[cfg(target_os = "linux")]
    tenure_node::runtime::process::clear_left(&folder.path().join("nodes"), |_| false);
    remove(&dir)
}

fn confirmed(dir: &Path) -> Result<bool, CommandError> {
    if !std::io::stdin().is_terminal() {
        return Err(CommandError::new("nobody can be asked whether all objects may be removed")
            .usage()
            .hint("say so with `--yes`"));
    }
    let question = format!("remove all objects and keys in `{}`? [y/N] ", dir.display());
    let _ = std::io::stderr().lock().write_all(question.as_bytes());
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| CommandError::new("the answer cannot be read").cause(&error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn remove(dir: &Path) -> Result<(), CommandError> {
    let failed = |path: &Path, error: std::io::Error| {
        let problem =
            CommandError::new(format!("`{}` cannot be removed", path.display())).cause(&error);
        match error.kind() {
            std::io::ErrorKind::ResourceBusy => problem.hint(format!(
                "something is mounted there; start the server once more and end it: \
                 `tenure up --detach --data-dir {0}; tenure delete --data-dir {0}`",
                crate::up::quoted(&dir.display().to_string())
            )),
            _ => problem,
        }
    };
    let mut others = Vec::new();
    let entries: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(|error| failed(dir, error))?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    for path in last_the_lock(entries) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !is_ours(&name) {
            others.push(name);
            continue;
        }
        let removed = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            _ => fs::remove_file(&path),
        };
        removed.map_err(|error| failed(&path, error))?;
    }
    if !others.is_empty() {
        others.sort();
        say(format!(
            "removed what was tenure's in `{}`; left: {}{}\n",
            dir.display(),
            others.join(", "),
            // Whether one of them runs is not known here.
            if others.iter().any(|name| name == "node") {
                "; in `node` are the nodes of `tenure node`, which joined other servers"
            } else {
                ""
            }
        )
        .as_bytes());
        return Ok(());
    }
    // A link stays, and what it leads to goes.
    let real = fs::canonicalize(dir).map_err(|error| failed(dir, error))?;
    match fs::remove_dir(&real) {
        Ok(()) => say(format!("removed `{}`\n", dir.display()).as_bytes()),
        // A folder in which others decide, such as a volume's: empty is all that can be had.
        Err(_) => say(format!("emptied `{}`\n", dir.display()).as_bytes()),
    }
    Ok(())
}

/// The lock goes last: as long as it is there, nobody starts in a folder that is half removed.
fn last_the_lock(mut entries: Vec<PathBuf>) -> Vec<PathBuf> {
    entries.sort_by_key(|path| path.file_name().is_some_and(|name| name == "lock"));
    entries
}

fn is_ours(name: &str) -> bool {
    OURS.iter().any(|ours| match ours.strip_suffix('.') {
        Some(_) => name.starts_with(ours),
        None => name == *ours,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_put_there_stays() {
        for ours in [
            "lock",
            "store",
            "store.before-restore",
            "store.before-restore.2026-11-18T22-52-35Z.2",
            "store.restoring",
            "log.1",
            "kubeconfig",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
        let others = ["store2", "notes.txt", "logs", "log.txt", "store.tar", "kubeconfig.bak"];
        for others in others.into_iter().chain(["pki.tar", "store.before-restored"]) {
            assert!(!is_ours(others), "{others}");
        }
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir_all(data.join("pki/deep")).unwrap();
        fs::write(data.join("lock"), "").unwrap();
        fs::write(data.join("mine"), "x").unwrap();
        remove(&data).unwrap();
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
        fs::remove_file(data.join("mine")).unwrap();
        remove(&data).unwrap();
        assert!(!data.exists());
    }
}
