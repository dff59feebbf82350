//! The data folder: made, locked, and written to without half files. What is inside is the
//! business of others.
//!
//! ```text
//!   DIR/lock         held while a process uses the folder; holds its process id
//!   DIR/kubeconfig   how to reach the server, with the administrator's key
//!   DIR/pki/         certificates and keys
//!   DIR/store/       the objects
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::StartError;

/// A data folder that this process alone may use until the value is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    // The lock lives as long as the open file.
    _lock: File,
}

impl Folder {
    /// Makes the folder if need be and locks it.
    pub fn open(path: &Path) -> Result<Folder, StartError> {
        let made = make(path).and_then(|()| close_if_empty(path));
        made.map_err(|source| unusable(path, source))?;
        Folder::lock(path)
    }

    /// Locks a folder that must exist already.
    pub fn open_existing(path: &Path) -> Result<Folder, StartError> {
        if !path.is_dir() {
            return Err(StartError::FolderAbsent { path: path.to_owned() });
        }
        Folder::lock(path)
    }

    fn lock(path: &Path) -> Result<Folder, StartError> {
        // By one name from here on, whatever links lead here and wherever this process goes.
        let path = &fs::canonicalize(path).map_err(|source| unusable(path, source))?;
        // Who may write there could put keys of their own in it, or take ours away.
        let mut file = tenure_files::refuse_shared_folder(path)
            .and_then(|()| tenure_files::open_or_create(&path.join("lock")))
            .map_err(|source| unusable(path, source))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = read_process_id(&mut file);
                return Err(StartError::FolderLocked { path: path.to_owned(), holder });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(path, source)),
        }
        write_process_id(&mut file).map_err(|source| unusable(path, source))?;
        Ok(Folder { path: path.to_owned(), _lock: file })
    }

    /// Where the folder is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where certificates and keys are kept.
    #[must_use]
    pub fn pki(&self) -> PathBuf {
        self.path.join("pki")
    }

    /// Where the objects are kept.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Where the kubeconfig is written unless another place is asked for.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }
}

fn unusable(path: &Path, source: io::Error) -> StartError {
    StartError::FolderUnusable { path: path.to_owned(), source }
}

/// The id is for the error message only, so anything unreadable counts as unknown.
fn read_process_id(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_process_id(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Makes a folder and those above it, readable by the owner only.
pub fn make(path: &Path) -> io::Result<()> {
    tenure_files::make_folder(path)
}

/// A folder that somebody made for us with the usual mode becomes the owner's alone, as one that we make.
/// One with something in it is left alone: it may serve for other things.
fn close_if_empty(path: &Path) -> io::Result<()> {
    if tenure_files::refuse_shared_folder(path).is_ok() || fs::read_dir(path)?.next().is_some() {
        return Ok(());
    }
    match fs::set_permissions(path, fs::Permissions::from_mode(0o700)) {
        // Somebody else's, which is refused with a better sentence.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

/// A new, private, empty folder for what an ephemeral server must write.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes it in the system's place for temporary files.
    pub fn new() -> io::Result<TemporaryFolder> {
        tenure_files::make_new_folder(&std::env::temp_dir(), "tenure").map(TemporaryFolder)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "a temporary folder was left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = Folder::open(dir.path()).unwrap();
        let second = Folder::open(dir.path()).unwrap_err();
        let StartError::FolderLocked { holder, .. } = second else { panic!("{second:?}") };
        assert_eq!(holder, Some(std::process::id()));
        drop(first);
        Folder::open(dir.path()).unwrap();
    }

    #[test]
    fn a_folder_where_others_write_is_closed_if_empty_and_else_refused() {
        let dir = tempfile::tempdir().unwrap();
        let shared = || fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        shared();
        drop(Folder::open(dir.path()).unwrap());
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
        shared();
        for open in [Folder::open, Folder::open_existing] {
            let error = open(dir.path()).unwrap_err();
            assert!(matches!(error, StartError::FolderUnusable { .. }), "{error:?}");
        }
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o777);
    }

    #[test]
    fn a_temporary_folder_goes_with_its_value() {
        let folder = TemporaryFolder::new().unwrap();
        let path = folder.path().to_owned();
        fs::write(path.join("x"), "x").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists());
    }
}
