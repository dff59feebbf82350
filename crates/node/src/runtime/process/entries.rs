//! A folder of things that are made once and then used by many: whole or absent, also after a crash.
//! What is in them is known elsewhere.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};

/// The mark of an entry that was made to its end. It lies beside its files, not among them.
const COMPLETE: &str = "complete";

/// What is being made at this moment.
static MAKING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static MADE: Condvar = Condvar::new();

/// The files of an entry, made if they are not there yet. Whoever asks meanwhile waits.
pub(super) fn get(
    cache: &Path,
    digest: &str,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let entry = cache.join(digest.replace(':', "-"));
    let root = entry.join("root");
    let _turn = Turn::take(&entry);
    if is_complete(&entry, digest) {
        return Ok(root);
    }
    std::fs::create_dir_all(cache)?;
    let fresh = Fresh(cache.join(format!(".{:.16}", super::state::fresh_id()?)));
    std::fs::create_dir(&fresh.0)?;
    std::fs::create_dir(fresh.0.join("root"))?;
    make(&fresh.0.join("root"))?;
    tenure_files::replace_unsynced(&fresh.0.join(COMPLETE), digest.as_bytes())?;
    // A name that outlives a power cut must not outlive its files.
    rustix::fs::syncfs(std::fs::File::open(&fresh.0)?)?;
    if entry.symlink_metadata().is_ok() {
        // Without its mark it is nobody knows what. It is moved first: its removal may be cut short.
        let broken = Fresh(cache.join(format!(".{:.16}", super::state::fresh_id()?)));
        std::fs::rename(&entry, &broken.0)?;
    }
    match std::fs::rename(&fresh.0, &entry) {
        // Another process was as fast.
        Err(_) if is_complete(&entry, digest) => {}
        other => other?,
    }
    Ok(root)
}

/// Removes what agents left that were stopped in the middle.
pub(super) fn clear_unfinished(cache: &Path) {
    for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn is_complete(entry: &Path, digest: &str) -> bool {
    std::fs::read(entry.join(COMPLETE)).is_ok_and(|mark| mark == digest.as_bytes())
        && entry.join("root").is_dir()
}

/// A folder that nobody else knows; gone when this is dropped, unless it was given another name.
struct Fresh(PathBuf);

impl Drop for Fresh {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The right to make an entry, until this is dropped.
struct Turn(PathBuf);

impl Turn {
    fn take(entry: &Path) -> Turn {
        let mut making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        while making.contains(entry) {
            making = MADE.wait(making).unwrap_or_else(PoisonError::into_inner);
        }
        making.insert(entry.to_owned());
        Turn(entry.to_owned())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        MAKING.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        MADE.notify_all();
    }
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r140a_what_was_cut_short_leaves_no_name() {
        let cache = tempfile::tempdir().unwrap();
        let made = get(cache.path(), "sha256:aa", |root| {
            std::fs::write(root.join("half"), "x")?;
            Err(io::Error::other("cut short"))
        });
        assert!(made.is_err());
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0);
        let root = get(cache.path(), "sha256:aa", |_| Ok(())).unwrap();
        assert!(root.is_dir() && !root.join("half").exists());
        std::fs::create_dir_all(cache.path().join(".0123/root")).unwrap();
        clear_unfinished(cache.path());
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
    }
}
