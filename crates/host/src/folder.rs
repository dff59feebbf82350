//! The data folder: made, locked, and written to without half files. What is inside is the
//! business of others.
//!
//! ```text
//!   DIR/lock         held while a process uses the folder; holds its process id
//!   DIR/kubeconfig   how to reach the server, with the administrator's key
//!   DIR/pki/         certificates and keys
//!   DIR/store/       the objects
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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
        make(path).map_err(|source| unusable(path, source))?;
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
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))
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
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A new, private, empty folder for what an ephemeral server must write.
#[derive(Debug)]
pub struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    /// Makes it in the system's place for temporary files.
    pub fn new() -> io::Result<TemporaryFolder> {
        // Tests have many servers in one process, so each looks for a name where the last one
        // found its own; an older process of the same id may have left some behind.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let parent = std::env::temp_dir();
        for _ in 0..100 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("tenure-{}-{number}", std::process::id()));
            // Not recursive: an existing folder, perhaps another user's, is never taken over.
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(TemporaryFolder(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
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

/// Writes a file whole or not at all, readable by the owner only.
///
/// The bytes are not forced to disk: what is written this way can be made again.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let result = write_new(&part, bytes).and_then(|()| fs::rename(&part, path));
    if result.is_err() {
        let _ = fs::remove_file(&part);
    }
    result
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
    fn private_files_are_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        write_private(&path, b"a longer text").unwrap();
        write_private(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
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
