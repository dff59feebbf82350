//! Commands on the data folder of a stopped server: snapshots and compaction.

use std::path::Path;

use tenure_host::StartError;
use tenure_host::storage;

use crate::flags::{Compact, SnapshotFile};
use crate::report::Problem;
use crate::say;
use crate::up::data_dir;

pub(crate) fn save(flags: &SnapshotFile) -> Result<(), Problem> {
    let dir = data_dir(flags.data_dir.clone())?;
    let bytes = storage::save(&dir, &flags.file).map_err(|error| offline(error, &dir))?;
    say(format!("saved `{}` ({})\n", flags.file.display(), size(bytes)).as_bytes());
    Ok(())
}

pub(crate) fn restore(flags: &SnapshotFile) -> Result<(), Problem> {
    let dir = data_dir(flags.data_dir.clone())?;
    let before = storage::restore(&dir, &flags.file).map_err(|error| offline(error, &dir))?;
    let mut said = format!("restored `{}` into `{}`\n", flags.file.display(), dir.display());
    if let Some(before) = before {
        said += &format!("what was there before is in `{}`\n", before.display());
    }
    say(said.as_bytes());
    Ok(())
}

pub(crate) fn compact(flags: &Compact) -> Result<(), Problem> {
    let dir = data_dir(flags.data_dir.clone())?;
    let done = storage::compact(&dir).map_err(|error| offline(error, &dir))?;
    let (before, after) = (size(done.bytes_before), size(done.bytes_after));
    say(format!("forgot {} old revisions: {before} became {after}\n", done.removed).as_bytes());
    Ok(())
}

/// A folder in use is no surprise here, so the hint says what these commands need.
fn offline(error: StartError, dir: &Path) -> Problem {
    let locked = matches!(error, StartError::FolderLocked { .. });
    let problem = Problem::from(error);
    if locked {
        let folder = dir.display();
        return problem.hint(format!("stop the server that uses `{folder}` first"));
    }
    problem
}

/// A size as people say it.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
