//! Which server uses a data folder: what it wrote down about itself, and whether it still lives. Signals and
//! words for people never live here.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::folder::{HOLDER_BYTES_MAX, LockHolder};

/// A log that is longer is put aside at the next start.
const LOG_BYTES_MAX: u64 = 10 << 20;

/// More than a record has.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// What a server writes into its folder once it is ready. It stays there after the end, so that what the server
/// left elsewhere can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRecord {
    /// The process.
    pub process: u32,
    /// When it was ready.
    pub since: SystemTime,
    /// Its address, as a URL.
    pub url: String,
    /// The kubeconfig that it keeps up to date.
    pub kubeconfig: PathBuf,
    /// The data folder.
    pub folder: PathBuf,
    /// The file that it writes its log to, if it runs in the background.
    pub log: Option<PathBuf>,
    /// Its version.
    pub version: String,
}

/// What is known of the server of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// No process uses the folder.
    Stopped,
    /// This process uses the folder: a server that is not ready yet, or a command.
    Busy(LockHolder),
    /// A server that was ready.
    Running(ServerRecord),
    /// Somebody uses the folder who cannot be seen from here, such as a server in a container.
    Hidden,
}

impl ServerRecord {
    /// Writes it into its folder.
    pub fn write(&self) -> io::Result<()> {
        tenure_files::replace_unsynced(
            &place(&self.folder),
            format!("{:#}\n", self.to_json()).as_bytes(),
        )
    }

    /// What the folder says, whether or not the server still lives.
    #[must_use]
    pub fn read(folder: &Path) -> Option<ServerRecord> {
        ServerRecord::read_file(&place(folder))
    }

    /// The same of any file.
    #[must_use]
    pub fn read_file(path: &Path) -> Option<ServerRecord> {
        let file = fs::File::open(path).ok()?;
        let mut text = String::new();
        file.take(RECORD_BYTES_MAX).read_to_string(&mut text).ok()?;
        ServerRecord::from_json(&serde_json::from_str(&text).ok()?)
    }

    /// The record as a value, for files and programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let since = self.since.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        json!({
            "process": self.process, "since": since, "url": self.url, "version": self.version,
            "kubeconfig": self.kubeconfig.display().to_string(),
            "folder": self.folder.display().to_string(),
            "log": self.log.as_ref().map(|path| path.display().to_string()),
        })
    }

    fn from_json(value: &Value) -> Option<ServerRecord> {
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        Some(ServerRecord {
            process: u32::try_from(value.get("process")?.as_u64()?).ok()?,
            since: UNIX_EPOCH.checked_add(Duration::from_secs(value.get("since")?.as_u64()?))?,
            url: text("url")?,
            kubeconfig: text("kubeconfig")?.into(),
            folder: text("folder")?.into(),
            log: text("log").map(PathBuf::from),
            version: text("version")?,
        })
    }
}

/// What there is to say of a folder. That nobody uses it is said when its lock was had for a moment, which a server
/// that starts meanwhile waits for.
#[must_use]
pub fn state(folder: &Path) -> ServerState {
    let Some(holder) = holder(folder) else {
        return if is_locked(&folder.join("lock")) {
            ServerState::Hidden
        } else {
            ServerState::Stopped
        };
    };
    match ServerRecord::read(folder) {
        Some(record) if holder.process == record.process && holder.chore.is_none() => {
            ServerState::Running(record)
        }
        _ => ServerState::Busy(holder),
    }
}

/// Whether the process of a server still uses its folder.
#[must_use]
pub fn lives(record: &ServerRecord) -> bool {
    matches!(state(&record.folder), ServerState::Running(now) if now.process == record.process)
}

/// Opens the log of a server in the background, to append to it. A long one is put aside first.
pub fn open_log(folder: &Path) -> io::Result<(PathBuf, fs::File)> {
    let path = folder.join("log");
    rotate_if_long(&path)?;
    let file = tenure_files::append(&path)?;
    Ok((path, file))
}

/// Puts a log aside that became too long while it was written, and opens the next one.
pub fn next_log(path: &Path) -> io::Result<Option<fs::File>> {
    if rotate_if_long(path)? { tenure_files::append(path).map(Some) } else { Ok(None) }
}

fn rotate_if_long(path: &Path) -> io::Result<bool> {
    let is_long = fs::symlink_metadata(path).is_ok_and(|found| found.len() > LOG_BYTES_MAX);
    if is_long {
        fs::rename(path, path.with_extension("1"))?;
    }
    Ok(is_long)
}

/// Writes down in a folder of the user's which servers run, so that other commands find them. What servers wrote
/// that are gone is removed.
pub fn remember(all: &Path, record: &ServerRecord) -> io::Result<()> {
    tenure_files::make_folder(all)?;
    for (path, record) in remembered(all) {
        if !lives(&record) {
            forget_file(&path);
        }
    }
    let path = all.join(format!("{}.json", record.process));
    tenure_files::replace_unsynced(&path, format!("{:#}\n", record.to_json()).as_bytes())
}

/// The opposite of [`remember`].
pub fn forget(all: &Path, record: &ServerRecord) {
    forget_file(&all.join(format!("{}.json", record.process)));
}

/// The servers that were written down and live.
#[must_use]
pub fn living(all: &Path) -> Vec<ServerRecord> {
    remembered(all).into_iter().map(|(_, record)| record).filter(lives).collect()
}

fn forget_file(path: &Path) {
    // Whoever finds it later sees that the server is gone.
    let _ = fs::remove_file(path);
}

fn remembered(all: &Path) -> Vec<(PathBuf, ServerRecord)> {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    files.filter_map(|path| ServerRecord::read_file(&path).map(|record| (path, record))).collect()
}

fn place(folder: &Path) -> PathBuf {
    folder.join("run.json")
}

/// The process that holds the lock of a folder: the one that the file names, if it has the lock now.
fn holder(folder: &Path) -> Option<LockHolder> {
    let lock = folder.join("lock");
    let mut said = String::new();
    open(&lock)?.take(HOLDER_BYTES_MAX).read_to_string(&mut said).ok()?;
    let said = LockHolder::read(&said)?;
    let process = i32::try_from(said.process).ok().and_then(rustix::process::Pid::from_raw)?;
    // One that may not be asked lives too.
    let lives = rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH);
    (lives && has_locked(said.process, &lock)).then_some(said)
}

/// Whether anybody has the lock, seen from here or not.
fn is_locked(lock: &Path) -> bool {
    let tried = open(lock).map(|file| file.try_lock_shared());
    matches!(tried, Some(Err(fs::TryLockError::WouldBlock)))
}

/// A lock to be read. What is no file is no lock, and a pipe would be waited for.
fn open(lock: &Path) -> Option<fs::File> {
    fs::symlink_metadata(lock).ok().filter(fs::Metadata::is_file)?;
    fs::File::open(lock).ok()
}

/// Whether a process has a lock on a file; where the system does not say, a process that lives has it.
fn has_locked(process: u32, lock: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(lock), Ok(locks)) = (fs::metadata(lock), fs::read_to_string("/proc/locks")) else {
        return true;
    };
    // `1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF`: the device is not that of stat on every file system.
    let (process, number) = (process.to_string(), format!(":{}", lock.ino()));
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words.as_slice(), [_, "FLOCK", _, _, by, place, ..]
            if *by == process && place.ends_with(&number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::LockedDataFolder;

    #[test]
    fn a_folder_says_who_uses_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(state(dir.path()), ServerState::Stopped);
        let folder = LockedDataFolder::open(dir.path()).unwrap();
        let me = std::process::id();
        let busy = |chore: Option<&str>| {
            ServerState::Busy(LockHolder { process: me, chore: chore.map(str::to_owned) })
        };
        assert_eq!(state(dir.path()), busy(None));
        let record = ServerRecord {
            process: me,
            since: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            url: "https://127.0.0.1:1".to_owned(),
            kubeconfig: "/a b/config".into(),
            folder: folder.path().to_owned(),
            log: None,
            version: "1.2.3".to_owned(),
        };
        record.write().unwrap();
        assert_eq!(state(dir.path()), ServerState::Running(record.clone()));
        assert!(lives(&record));
        // Whoever comes after a server that is gone has not said anything yet.
        ServerRecord { process: me + 1, ..record.clone() }.write().unwrap();
        assert_eq!(state(dir.path()), busy(None));
        record.write().unwrap();
        let all = dir.path().join("all");
        remember(&all, &record).unwrap();
        assert_eq!(living(&all), std::slice::from_ref(&record));
        drop(folder);
        assert_eq!(living(&all), []);
        assert_eq!(state(dir.path()), ServerState::Stopped);
        assert_eq!(ServerRecord::read(dir.path()).unwrap().url, record.url);
        // A command is no server, whatever the last one wrote.
        let compacting = LockedDataFolder::open_for(dir.path(), "storage compact").unwrap();
        assert_eq!(state(dir.path()), busy(Some("storage compact")));
        drop(compacting);
        assert_eq!(state(dir.path()), ServerState::Stopped);
    }

    #[test]
    fn r179c_a_log_that_is_too_long_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let (path, file) = open_log(dir.path()).unwrap();
        assert!(next_log(&path).unwrap().is_none());
        file.set_len(LOG_BYTES_MAX + 1).unwrap();
        let next = next_log(&path).unwrap().unwrap();
        assert_eq!(next.metadata().unwrap().len(), 0);
        assert_eq!(fs::metadata(dir.path().join("log.1")).unwrap().len(), LOG_BYTES_MAX + 1);
        assert!(next_log(&path).unwrap().is_none());
    }

    #[test]
    fn r179c_a_folder_whose_user_cannot_be_seen_is_not_free() {
        let dir = tempfile::tempdir().unwrap();
        let folder = LockedDataFolder::open(dir.path()).unwrap();
        // As a server in a container says it, whose number is another's here or nobody's.
        for number in [1, u32::MAX >> 1] {
            fs::write(dir.path().join("lock"), format!("{number}\n")).unwrap();
            assert_eq!(state(dir.path()), ServerState::Hidden, "{number}");
        }
        drop(folder);
        assert_eq!(state(dir.path()), ServerState::Stopped);
    }
}
