//! The file that tells clients where the server is and who they are. It may be shared: three entries in it are
//! ours, and what others wrote stays (api-server R179a). What the entries say lives in `entries`.
//!
//! ```text
//!   read ──► put our entries in ──► the same? done : lock FILE.lock ──► read again ──► replace whole
//! ```

mod entries;

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use entries::{CONTEXT, KubeconfigEntries, render};
use entries::{EntryRemoval, NotAKubeconfig};

use crate::clock;
use crate::folder;

/// How long another program may take to write the file; kubectl needs a moment.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_LOOK: Duration = Duration::from_millis(20);
/// More than any kubeconfig has.
const BYTES_MAX: u64 = 3 << 20;

/// Why a kubeconfig was not written.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigWriteError {
    /// What is there is something else, and stays as it is.
    #[error("`{}` is no kubeconfig, so nothing was written there", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        #[source]
        why: NotAKubeconfig,
    },
    /// An entry of somebody else's has the name of one of ours.
    #[error("`{}` has {entry} of somebody else's, so nothing was written there", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
        /// Which entry.
        entry: String,
    },
    /// The file could not be read or written.
    #[error("the kubeconfig `{}` cannot be written", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What became of our entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// They are gone, and what others wrote is there.
    Entries,
    /// There was nothing else in the file, so it is gone.
    File,
    /// There were none.
    Nothing,
    /// They lead to another server and stay.
    AnotherServer,
}

/// Puts our entries into the file at `path`, which is made if it is not there.
pub fn write(path: &Path, access: KubeconfigEntries<'_>) -> Result<(), KubeconfigWriteError> {
    change(path, |text| entries::put(text, access).map(Some)).map(|_| ())
}

/// Takes our entries out again; with `server`, only those that lead there.
pub fn remove(path: &Path, server: Option<&str>) -> Result<Removed, KubeconfigWriteError> {
    let mut removed = Removed::Nothing;
    change(path, |text| {
        let (left, what) = match entries::take(text, server)? {
            EntryRemoval::Left(left) => (Some(left), Removed::Entries),
            EntryRemoval::NothingLeft => (None, Removed::File),
            EntryRemoval::NotThere => (Some(text.to_owned()), Removed::Nothing),
            EntryRemoval::AnotherServer => (Some(text.to_owned()), Removed::AnotherServer),
        };
        removed = what;
        Ok(left)
    })?;
    Ok(removed)
}

/// Fails if `path` holds something that must not be changed; cheap, so that a start can ask first.
pub fn check(path: &Path) -> Result<(), KubeconfigWriteError> {
    let text = read(path)?;
    let foreign = |why| KubeconfigWriteError::Foreign { path: path.to_owned(), why };
    entries::check(text.as_deref().unwrap_or_default()).map_err(foreign)
}

/// Reads, changes and replaces the file. A change to nothing removes it.
fn change(
    path: &Path,
    mut changed: impl FnMut(&str) -> Result<Option<String>, NotAKubeconfig>,
) -> Result<(), KubeconfigWriteError> {
    let failed = |source| KubeconfigWriteError::Io { path: path.to_owned(), source };
    let mut apply = |text: &Option<String>| {
        let foreign = |why| match why {
            NotAKubeconfig::Taken(entry) => {
                KubeconfigWriteError::Taken { path: path.to_owned(), entry }
            }
            why => KubeconfigWriteError::Foreign { path: path.to_owned(), why },
        };
        changed(text.as_deref().unwrap_or_default()).map_err(foreign)
    };
    let before = read(path)?;
    // A file that says it all already is not touched, so its comments and its time stay.
    if apply(&before)? == before {
        return Ok(());
    }
    // A link stays a link: what it points to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(parent) = target.parent() {
        folder::make(parent).map_err(failed)?;
    }
    // A name that is new is nobody's to wait for.
    let lock = before.as_ref().map(|_| Lock::take(&target)).transpose().map_err(failed)?;
    let before = read(path)?;
    match apply(&before)? {
        Some(text) => replace(&target, &text).map_err(failed)?,
        None => match fs::remove_file(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        },
    }
    drop(lock);
    Ok(())
}

/// The text of the file, if there is one.
fn read(path: &Path) -> Result<Option<String>, KubeconfigWriteError> {
    let unusable = |source| KubeconfigWriteError::Io { path: path.to_owned(), source };
    let foreign = |why| Err(KubeconfigWriteError::Foreign { path: path.to_owned(), why });
    // A link is followed, so it must be ours; a pipe would be waited for.
    tenure_files::refuse_foreign_link(path).map_err(unusable)?;
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => return foreign(NotAKubeconfig::NoFile),
        Ok(found) if found.len() > BYTES_MAX => return foreign(NotAKubeconfig::TooLong),
        // Whoever could write it could have us keep what they say beside our key.
        Ok(found) if found.len() > 0 && is_foreign(found.uid()) => {
            return foreign(NotAKubeconfig::AnotherUsers);
        }
        _ => {}
    }
    match fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => foreign(NotAKubeconfig::NoText),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unusable(source)),
    }
}

/// Whether neither this user nor root has it.
fn is_foreign(owner: u32) -> bool {
    owner != 0 && owner != rustix::process::geteuid().as_raw()
}

/// Replaces a file whole. One that was there keeps who may read it; a new one is the owner's alone.
fn replace(target: &Path, text: &str) -> io::Result<()> {
    let mode =
        fs::metadata(target).ok().filter(|found| !is_foreign(found.uid()) && found.len() > 0);
    let Some(mode) = mode.map(|found| found.permissions()) else {
        return tenure_files::replace(target, text.as_bytes());
    };
    let (part, mut file) = tenure_files::create_sibling(target)?;
    let done = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(mode))
        .and_then(|()| tenure_files::publish(&part, target));
    if done.is_err() {
        // It is of no use to anybody; its removal is a courtesy.
        let _ = fs::remove_file(&part);
    }
    done
}

/// The file beside a kubeconfig that kubectl and its kin make while they write it.
struct Lock(PathBuf);

impl Lock {
    /// Waits for whoever writes. A lock that stays is of somebody who was killed: a kubeconfig is written in
    /// a moment, and it is replaced whole, so nothing half is seen.
    fn take(target: &Path) -> io::Result<Lock> {
        let mut name = target.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let begin = clock::instant();
        loop {
            match tenure_files::create_new(&path) {
                Ok(mut file) => {
                    // So that the next start knows at once whether we still live.
                    let _ = writeln!(file, "{}", std::process::id());
                    return Ok(Lock(path));
                }
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) if begin.elapsed() < LOCK_WAIT && !is_left_behind(&path) => {
                    clock::block_for(LOCK_LOOK);
                }
                Err(_) => {
                    tracing::warn!(path = %path.display(), "a lock that nobody holds is removed");
                    fs::remove_file(&path)?;
                }
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever finds it later waits and then removes it.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether a lock is one of ours whose process is gone.
fn is_left_behind(path: &Path) -> bool {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(32).read_to_string(&mut text));
    let holder = text.trim().parse().ok().and_then(rustix::process::Pid::from_raw);
    read.is_ok() && holder.is_some_and(|id| rustix::process::test_kill_process(id).is_err())
}

#[cfg(test)]
mod tests {
    //! Rules of spec/api-server.md.

    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    use super::*;

    fn access(server: &str) -> KubeconfigEntries<'_> {
        KubeconfigEntries {
            user: "tenure-admin",
            server,
            authority_pem: "CA",
            certificate_pem: "CRT",
            key_pem: "KEY",
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn absent_empty_and_own_files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/kubeconfig");
        write(&path, access("https://a")).unwrap();
        write(&path, access("https://b")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), render(access("https://b")));
        assert_eq!(mode(&path), 0o600);
        fs::write(&path, "\n").unwrap();
        write(&path, access("https://c")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), render(access("https://c")));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_kubeconfig_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        for text in ["apiVersion: v1\n", "hello", "kind: Pod\nusers: []\n", "{", "- a\n"] {
            fs::write(&path, text).unwrap();
            for error in [check(&path), write(&path, access("https://a"))] {
                let error = error.unwrap_err();
                assert!(matches!(error, KubeconfigWriteError::Foreign { .. }), "{error:?}");
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(matches!(check(dir.path()), Err(KubeconfigWriteError::Foreign { .. })));
    }

    #[test]
    fn r179a_a_link_stays_a_link_and_a_mode_stays_a_mode() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "kind: Config\ncontexts: null\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write(&link, access("https://a")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("https://a"));
        assert_eq!(mode(&real), 0o640);
        assert_eq!(remove(&link, None).unwrap(), Removed::File);
        assert!(!real.exists());
        assert_eq!(remove(&link, None).unwrap(), Removed::Nothing);
    }

    #[test]
    fn r179a_what_says_it_already_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        write(&path, access("https://a")).unwrap();
        let text = format!("# mine\n{}", fs::read_to_string(&path).unwrap());
        fs::write(&path, &text).unwrap();
        write(&path, access("https://a")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(remove(&path, Some("https://b")).unwrap(), Removed::AnotherServer);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn r179a_a_lock_is_waited_for_and_one_left_behind_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, lock) = (dir.path().join("config"), dir.path().join("config.lock"));
        write(&path, access("https://a")).unwrap();
        // A process that is gone: its number was given to a child that has ended.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        fs::write(&lock, format!("{}\n", child.id())).unwrap();
        let begin = Instant::now();
        write(&path, access("https://b")).unwrap();
        assert!(begin.elapsed() < LOCK_WAIT, "{:?}", begin.elapsed());
        // kubectl's says nothing, and goes when it has written.
        fs::write(&lock, "").unwrap();
        let held = lock.clone();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            fs::remove_file(held).unwrap();
        });
        let begin = Instant::now();
        write(&path, access("https://c")).unwrap();
        other.join().unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(150), "{:?}", begin.elapsed());
        assert_eq!(fs::read_to_string(&path).unwrap(), render(access("https://c")));
        assert!(!lock.exists());
    }
}
