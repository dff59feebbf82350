//! Commands on a data folder: snapshots and compaction. Its server must be stopped, but for a snapshot that is
//! only saved.

use std::path::Path;

use tenure_host::HostStartError;
use tenure_host::kubeconfig::CONTEXT;
use tenure_host::storage::{self, Saved};

use crate::flags::{Compact, SnapshotRestore, SnapshotSave};
use crate::live;
use crate::progress::{ProgressLine, Unit, WaitIndicator, size};
use crate::report::CommandError;
use crate::say;
use crate::up::data_dir;

pub(crate) fn save(flags: &SnapshotSave) -> Result<(), CommandError> {
    let saved = match &flags.kubeconfig {
        Some(kubeconfig) => live::save(kubeconfig, None, &flags.file)?,
        None => save_folder(&data_dir(flags.data_dir.clone())?, &flags.file)?,
    };
    let (file, size) = (flags.file.display(), size(saved.bytes));
    say(match saved.revision {
        Some(revision) => format!("saved `{file}` ({size}) as of revision {revision}\n"),
        None => format!("saved `{file}` ({size})\n"),
    }
    .as_bytes());
    Ok(())
}

/// From the folder itself, or from the server that uses it.
fn save_folder(dir: &Path, file: &Path) -> Result<Saved, CommandError> {
    let mut progress = ProgressLine::new("saving", Unit::Objects);
    match storage::save(dir, file, &mut |done, all| {
        progress.tell(done, all);
    }) {
        Err(error @ HostStartError::FolderLocked { .. }) => {
            let kubeconfig = dir.join("kubeconfig");
            if kubeconfig.exists() {
                return live::save(&kubeconfig, Some(CONTEXT), file);
            }
            let hint = "name the kubeconfig of the server that uses it with `--kubeconfig FILE`";
            Err(CommandError::from(error).hint(hint))
        }
        done => done.map_err(CommandError::from),
    }
}

pub(crate) fn restore(flags: &SnapshotRestore) -> Result<(), CommandError> {
    let dir = data_dir(flags.data_dir.clone())?;
    let mut progress = ProgressLine::new("restoring", Unit::Bytes);
    let before = storage::restore(&dir, &flags.file, &mut |done, all| {
        progress.tell(done, all);
    })
    .map_err(|error| offline(error, &dir))?;
    let mut said = format!("restored `{}` into `{}`\n", flags.file.display(), dir.display());
    if let Some(before) = before {
        said += &format!(
            "what was there before is in `{}`; remove it when you need it no more\n",
            before.display()
        );
    }
    say(said.as_bytes());
    Ok(())
}

pub(crate) fn compact(flags: &Compact) -> Result<(), CommandError> {
    let dir = data_dir(flags.data_dir.clone())?;
    let mut progress = Some(ProgressLine::new("compacting", Unit::Revisions));
    let mut shrinking = None;
    let done = storage::compact(&dir, &mut |done, all| {
        progress.as_mut().map(|progress| progress.tell(done, all));
        if done >= all {
            // What follows is one step of the storage, which says nothing.
            progress = None;
            shrinking.get_or_insert_with(|| WaitIndicator::new("giving space back"));
        }
    })
    .map_err(|error| offline(error, &dir))?;
    drop((progress, shrinking));
    let (before, after) = (size(done.bytes_before), size(done.bytes_after));
    say(format!("forgot {} old revisions: {before} became {after}\n", done.removed).as_bytes());
    Ok(())
}

/// A folder in use is no surprise here, so the hint says what these commands need.
fn offline(error: HostStartError, dir: &Path) -> CommandError {
    let locked = matches!(error, HostStartError::FolderLocked { .. });
    let problem = CommandError::from(error);
    if locked {
        let folder = dir.display();
        return problem.hint(format!("stop the server that uses `{folder}` first"));
    }
    problem
}
