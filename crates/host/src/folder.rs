//! The data folder: made, locked, and written to without half files. What is inside is the
//! business of others.
//!
//! ```text
//!   DIR/lock         held while a process uses the folder; holds its process id, and what it does if it serves nobody
//!   DIR/kubeconfig   how to reach the server, with the administrator's key
//!   DIR/run.json     what `tenure status` says of the server that uses the folder, or used it last
//!   DIR/log          what a server in the background says
//!   DIR/pki/         certificates and keys
//!   DIR/store/       the objects
//! ```

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::error::HostStartError;

/// How long a start waits for somebody who only looks whether the folder is used.
const LOOKED_AT: Duration = Duration::from_millis(10);
/// How often it does.
const LOOKED_AT_TIMES: u32 = 10;

/// Who uses a folder, as it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The process.
    pub process: u32,
    /// The command that it runs, such as `storage compact`; none for a server.
    pub chore: Option<String>,
}

impl LockHolder {
    /// What a lock says: the number, then the command.
    pub(crate) fn read(text: &str) -> Option<LockHolder> {
        let mut lines = text.lines().map(str::trim);
        let process = lines.next()?.parse().ok()?;
        let chore = lines.next().filter(|chore| !chore.is_empty()).map(str::to_owned);
        Some(LockHolder { process, chore })
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.chore {
            Some(chore) => write!(out, "`tenure {chore}`, process {}", self.process),
            None => write!(out, "process {}", self.process),
        }
    }
}

/// More than a lock says.
pub(crate) const HOLDER_BYTES_MAX: u64 = 256;

/// A data folder that this process alone may use until the value is dropped.
#[derive(Debug)]
pub struct LockedDataFolder {
    path: PathBuf,
    // The lock lives as long as the open file.
    _lock: File,
}

impl LockedDataFolder {
    /// Makes the folder if need be and locks it for a server.
    pub fn open(path: &Path) -> Result<LockedDataFolder, HostStartError> {
        LockedDataFolder::open_to(path, None)
    }

    /// The same for a command that serves nobody.
    pub fn open_for(path: &Path, chore: &str) -> Result<LockedDataFolder, HostStartError> {
        LockedDataFolder::open_to(path, Some(chore))
    }

    fn open_to(path: &Path, chore: Option<&str>) -> Result<LockedDataFolder, HostStartError> {
        let made = make(path).and_then(|()| close_if_empty(path));
        made.map_err(|source| unusable(path, source))?;
        LockedDataFolder::lock(path, chore)
    }

    /// Locks a folder that must exist already, for a command that serves nobody.
    pub fn open_existing(path: &Path, chore: &str) -> Result<LockedDataFolder, HostStartError> {
        if !path.is_dir() {
            return Err(HostStartError::FolderAbsent { path: path.to_owned() });
        }
        LockedDataFolder::lock(path, Some(chore))
    }

    fn lock(path: &Path, chore: Option<&str>) -> Result<LockedDataFolder, HostStartError> {
        // By one name from here on, whatever links lead here and wherever this process goes.
        let path = &fs::canonicalize(path).map_err(|source| unusable(path, source))?;
        // Who may write there could put keys of their own in it, or take ours away.
        let mut file = tenure_files::refuse_shared_folder(path)
            .and_then(|()| tenure_files::open_or_create(&path.join("lock")))
            .map_err(|source| unusable(path, source))?;
        let mut times = 0;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                // Somebody may only be looking, which takes no time.
                Err(TryLockError::WouldBlock) if times < LOOKED_AT_TIMES => {
                    times += 1;
                    clock::block_for(LOOKED_AT);
                }
                Err(TryLockError::WouldBlock) => {
                    let holder = read_holder(&mut file);
                    return Err(HostStartError::FolderLocked { path: path.to_owned(), holder });
                }
                Err(TryLockError::Error(source)) => return Err(unusable(path, source)),
            }
        }
        write_holder(&mut file, chore).map_err(|source| unusable(path, source))?;
        Ok(LockedDataFolder { path: path.to_owned(), _lock: file })
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

fn unusable(path: &Path, source: io::Error) -> HostStartError {
    HostStartError::FolderUnusable { path: path.to_owned(), source }
}

/// For the error message only, so anything unreadable counts as unknown.
fn read_holder(file: &mut File) -> Option<LockHolder> {
    let mut text = String::new();
    file.take(HOLDER_BYTES_MAX).read_to_string(&mut text).ok()?;
    LockHolder::read(&text)
}

fn write_holder(file: &mut File, chore: Option<&str>) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{}\n{}", std::process::id(), chore.unwrap_or_default()).as_bytes())
}

/// Removes what servers of this user that were killed left among temporary files, beside whatever comes next.
pub fn sweep_left() {
    let owner = rustix::process::geteuid().as_raw();
    let sweeping = std::thread::Builder::new().name("sweep".to_owned());
    // What is not removed today is removed by the next start.
    let _ = sweeping.spawn(move || {
        // By the name that the kernel has for it, which lists mounts by that.
        if let Ok(parent) = fs::canonicalize(temporary_folder()) {
            sweep(&parent, owner);
        }
    });
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

/// The system's place for temporary files.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that reads the environment"
)]
fn temporary_folder() -> PathBuf {
    std::env::temp_dir()
}

/// What temporary folders are called, before a dot and a name of their own.
const TEMPORARY: &str = "tenure";

/// A new, private, empty folder for what an ephemeral server must write. It is locked while its value
/// lives, so that one whose server was killed can be told from others (R146c).
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    _lock: File,
}

impl TemporaryFolder {
    /// Makes it in the system's place for temporary files, and removes there what killed servers of this
    /// user left, beside whatever comes next.
    pub fn new() -> io::Result<TemporaryFolder> {
        // By the name that the kernel has for it, which lists mounts by that.
        let parent = fs::canonicalize(temporary_folder())?;
        let folder = TemporaryFolder::new_in(&parent)?;
        sweep_left();
        Ok(folder)
    }

    fn new_in(parent: &Path) -> io::Result<TemporaryFolder> {
        loop {
            let path = tenure_files::make_new_folder(parent, TEMPORARY)?;
            let mut lock = tenure_files::open_or_create(&path.join("lock"))?;
            match lock.try_lock() {
                Ok(()) => {
                    write_holder(&mut lock, None)?;
                    return Ok(TemporaryFolder { path, _lock: lock });
                }
                // Somebody who looks for what was left saw it before it was locked, and removes it.
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            let path = self.path.display();
            tracing::warn!(%error, %path, "a temporary folder was left behind");
        }
    }
}

/// Removes the temporary folders of servers of a user that were killed: what they ran, what they mounted,
/// what they wrote.
fn sweep(parent: &Path, owner: u32) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let named = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(&format!("{TEMPORARY}.")))
    };
    for path in entries.flatten().filter(named).map(|entry| entry.path()) {
        if let Err(error) = remove_if_left(&path, owner) {
            tracing::debug!(%error, path = %path.display(), "a left temporary folder stays");
        }
    }
}

fn remove_if_left(path: &Path, owner: u32) -> io::Result<()> {
    let seen = fs::symlink_metadata(path)?;
    if !seen.is_dir() || seen.uid() != owner || seen.mode() & 0o7777 != 0o700 {
        return Ok(());
    }
    let lock = path.join("lock");
    // One without a lock is just being made, or was made by somebody else.
    let held = File::open(&lock)?;
    if held.try_lock().is_err() {
        return Ok(());
    }
    tracing::info!(path = %path.display(), "what a killed server left is removed");
    #[cfg(target_os = "linux")]
    tenure_node::runtime::process::clear_left(&path.join("nodes"), |_| false);
    // The lock last: whatever is in the way, the next one can take this up again.
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.path() == lock {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    fs::remove_dir_all(path)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.

    use super::*;

    #[test]
    fn one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = LockedDataFolder::open(dir.path()).unwrap();
        let second = LockedDataFolder::open(dir.path()).unwrap_err();
        let HostStartError::FolderLocked { holder, .. } = second else { panic!("{second:?}") };
        assert_eq!(holder, Some(LockHolder { process: std::process::id(), chore: None }));
        drop(first);
        let chore = LockedDataFolder::open_for(dir.path(), "storage compact").unwrap();
        let second = LockedDataFolder::open(dir.path()).unwrap_err();
        let said = format!("is in use by `tenure storage compact`, process {}", std::process::id());
        assert!(second.to_string().ends_with(&said), "{second}");
        drop(chore);
        // Whoever only looks keeps nobody from starting.
        let looking = File::open(dir.path().join("lock")).unwrap();
        looking.lock_shared().unwrap();
        let looked = std::thread::spawn(move || {
            std::thread::sleep(LOOKED_AT);
            drop(looking);
        });
        LockedDataFolder::open(dir.path()).unwrap();
        looked.join().unwrap();
    }

    #[test]
    fn a_folder_where_others_write_is_closed_if_empty_and_else_refused() {
        let dir = tempfile::tempdir().unwrap();
        let shared = || fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        shared();
        drop(LockedDataFolder::open(dir.path()).unwrap());
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
        shared();
        for open in [LockedDataFolder::open, |path: &Path| {
            LockedDataFolder::open_existing(path, "keys list")
        }] {
            let error = open(dir.path()).unwrap_err();
            assert!(matches!(error, HostStartError::FolderUnusable { .. }), "{error:?}");
        }
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o777);
    }

    #[test]
    fn r146c_what_a_killed_server_left_is_removed_and_what_lives_stays() {
        let dir = tempfile::tempdir().unwrap();
        let living = TemporaryFolder::new_in(dir.path()).unwrap();
        let left = TemporaryFolder::new_in(dir.path()).unwrap();
        let path = left.path().to_owned();
        fs::create_dir_all(path.join("nodes/node-1/logs")).unwrap();
        fs::write(path.join("kubeconfig"), "x").unwrap();
        // As a kill does: the lock goes, the files stay.
        let copy = dir.path().join("tenure.left");
        fs::rename(&path, &copy).unwrap();
        drop(left);
        let unlocked = dir.path().join("tenure.made-by-another");
        tenure_files::make_folder(&unlocked).unwrap();
        let shared = dir.path().join("tenure.shared");
        tenure_files::make_folder(&shared).unwrap();
        fs::write(shared.join("lock"), "").unwrap();
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o755)).unwrap();
        let link = dir.path().join("tenure.link");
        std::os::unix::fs::symlink(&shared, &link).unwrap();
        let owner = fs::metadata(dir.path()).unwrap().uid();
        sweep(dir.path(), owner + 1);
        assert!(copy.exists(), "somebody else's");
        sweep(dir.path(), owner);
        assert!(!copy.exists(), "what was left");
        for stays in [living.path(), &unlocked, &shared, &link] {
            assert!(stays.exists(), "{}", stays.display());
        }
        assert!(living.path().join("lock").exists());
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
