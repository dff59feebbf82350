//! Which server uses a data folder: what it wrote down about itself, and whether it still lives. Signals and
//! words for people never live here.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// A log that is longer is put aside at the next start.
const LOG_BYTES_MAX: u64 = 10 << 20;

/// More than a record has.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// What a server writes into its folder once it is ready. It stays there after the end, so that what the server
/// left elsewhere can be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
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
pub enum State {
    /// No process uses the folder.
    Stopped,
    /// This process uses the folder and is not ready yet, or does something else there.
    Busy(u32),
    /// A server that was ready.
    Running(Record),
}

impl Record {
    /// Writes it into its folder.
    pub fn write(&self) -> io::Result<()> {
        tenure_files::replace_unsynced(
            &place(&self.folder),
            format!("{:#}\n", self.to_json()).as_bytes(),
        )
    }

    /// What the folder says, whether or not the server still lives.
    #[must_use]
    pub fn read(folder: &Path) -> Option<Record> {
        Record::read_file(&place(folder))
    }

    /// The same of any file.
    #[must_use]
    pub fn read_file(path: &Path) -> Option<Record> {
        let file = fs::File::open(path).ok()?;
        let mut text = String::new();
        file.take(RECORD_BYTES_MAX).read_to_string(&mut text).ok()?;
        Record::from_json(&serde_json::from_str(&text).ok()?)
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

    fn from_json(value: &Value) -> Option<Record> {
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        Some(Record {
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

/// What there is to say of a folder. Nothing is locked, so a server that starts meanwhile is not disturbed.
#[must_use]
pub fn state(folder: &Path) -> State {
    let Some(holder) = holder(folder) else { return State::Stopped };
    match Record::read(folder) {
        Some(record) if holder == record.process => State::Running(record),
        _ => State::Busy(holder),
    }
}

/// Whether the process of a server still uses its folder.
#[must_use]
pub fn lives(record: &Record) -> bool {
    matches!(state(&record.folder), State::Running(now) if now.process == record.process)
}

/// Opens the log of a server in the background, to append to it. A long one is put aside first.
pub fn open_log(folder: &Path) -> io::Result<(PathBuf, fs::File)> {
    let path = folder.join("log");
    if fs::symlink_metadata(&path).is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
        fs::rename(&path, folder.join("log.1"))?;
    }
    let file = tenure_files::append(&path)?;
    Ok((path, file))
}

/// Writes down in a folder of the user's which servers run, so that other commands find them. What servers wrote
/// that are gone is removed.
pub fn remember(all: &Path, record: &Record) -> io::Result<()> {
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
pub fn forget(all: &Path, record: &Record) {
    forget_file(&all.join(format!("{}.json", record.process)));
}

/// The servers that were written down and live.
#[must_use]
pub fn living(all: &Path) -> Vec<Record> {
    remembered(all).into_iter().map(|(_, record)| record).filter(lives).collect()
}

fn forget_file(path: &Path) {
    // Whoever finds it later sees that the server is gone.
    let _ = fs::remove_file(path);
}

fn remembered(all: &Path) -> Vec<(PathBuf, Record)> {
    let entries = fs::read_dir(all).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    files.filter_map(|path| Record::read_file(&path).map(|record| (path, record))).collect()
}

fn place(folder: &Path) -> PathBuf {
    folder.join("run.json")
}

/// The process that holds the lock of a folder: the one that the file names, if it has the lock now.
fn holder(folder: &Path) -> Option<u32> {
    let lock = folder.join("lock");
    let said: u32 = fs::read_to_string(&lock).ok()?.trim().parse().ok()?;
    let process = i32::try_from(said).ok().and_then(rustix::process::Pid::from_raw)?;
    // One that may not be asked lives too.
    let lives = rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH);
    (lives && has_locked(said, &lock)).then_some(said)
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
    use crate::folder::Folder;

    #[test]
    fn a_folder_says_who_uses_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(state(dir.path()), State::Stopped);
        let folder = Folder::open(dir.path()).unwrap();
        let me = std::process::id();
        assert_eq!(state(dir.path()), State::Busy(me));
        let record = Record {
            process: me,
            since: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            url: "https://127.0.0.1:1".to_owned(),
            kubeconfig: "/a b/config".into(),
            folder: folder.path().to_owned(),
            log: None,
            version: "1.2.3".to_owned(),
        };
        record.write().unwrap();
        assert_eq!(state(dir.path()), State::Running(record.clone()));
        assert!(lives(&record));
        // Whoever comes after a server that is gone has not said anything yet.
        Record { process: me + 1, ..record.clone() }.write().unwrap();
        assert_eq!(state(dir.path()), State::Busy(me));
        record.write().unwrap();
        let all = dir.path().join("all");
        remember(&all, &record).unwrap();
        assert_eq!(living(&all), std::slice::from_ref(&record));
        drop(folder);
        assert_eq!(living(&all), []);
        assert_eq!(state(dir.path()), State::Stopped);
        assert_eq!(Record::read(dir.path()).unwrap().url, record.url);
    }
}
