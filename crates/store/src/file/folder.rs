//! The data folder: private, locked, and changed so that a crash leaves it whole.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::LogOpenError;

/// The file whose lock means that the folder is in use.
pub(super) const LOCK_NAME: &str = "lock";

/// The right to use a folder; given up when dropped, also by a crash.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

/// Makes the folder if needed and takes it for this process alone.
pub(super) fn prepare(dir: &Path) -> Result<FolderLock, LogOpenError> {
    let unusable = |error: io::Error| LogOpenError::Folder {
        path: dir.display().to_string(),
        cause: in_words(&error),
    };
    tenure_files::make_folder(dir).map_err(unusable)?;
    let path = dir.join(LOCK_NAME);
    let mut file = tenure_files::open_or_create(&path).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let (path, holder) = (path.display().to_string(), holder(&mut file));
            return Err(LogOpenError::InUse { path, holder });
        }
        Err(TryLockError::Error(error)) => return Err(unusable(error)),
    }
    // The number is for people; the lock itself is what counts.
    file.set_len(0).map_err(unusable)?;
    writeln!(file, "{}", std::process::id()).map_err(unusable)?;
    Ok(FolderLock { _file: file })
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let pid = match file.read_to_string(&mut text) {
        Ok(_) => text.trim().parse::<u32>().ok(),
        Err(_) => None,
    };
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What the system said, without its numbers.
pub(super) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::StorageFull => "no space is left on the disk".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file is where a folder is needed".to_owned()
        }
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
        _ => error.to_string(),
    }
}
