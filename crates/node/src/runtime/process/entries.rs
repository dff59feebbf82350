//! A folder of things that are made once and then used by many: whole or absent, also after a crash.
//! What is in them is known elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::inventory;

use crate::clock;

/// The mark of an entry that was made to its end. It lies beside its files, not among them.
const COMPLETE: &str = "complete";

/// What files it has, beside the mark; entries of older agents get one when they are first used here.
const INVENTORY: &str = "files";
/// How long an entry that was seen to be whole is believed to be so.
const BELIEVE: Duration = Duration::from_secs(10);

/// When entries were last seen to be whole.
static SEEN: Mutex<BTreeMap<PathBuf, Instant>> = Mutex::new(BTreeMap::new());
/// What is being made at this moment.
static MAKING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static MADE: Condvar = Condvar::new();

/// The files of an entry, made if they are not there yet, and mended if some are no longer there. Whoever
/// asks meanwhile waits.
pub(super) fn get(
    cache: &Path,
    digest: &str,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let entry = cache.join(digest.replace(':', "-"));
    let root = entry.join("root");
    let _turn = EntryGuard::take(&entry);
    let complete = is_complete(&entry, digest);
    let damaged = if complete { damage(&entry) } else { None };
    if complete && damaged.is_none() {
        return Ok(root);
    }
    std::fs::create_dir_all(cache)?;
    let fresh = Fresh(cache.join(format!(".{:.16}", super::state::fresh_id()?)));
    std::fs::create_dir(&fresh.0)?;
    std::fs::create_dir(fresh.0.join("root"))?;
    make(&fresh.0.join("root"))?;
    if let Some(inventory) = damaged {
        // In place: containers that run on what is left of it go on.
        inventory::mend(&root, &inventory, &fresh.0.join("root"))?;
        rustix::fs::syncfs(std::fs::File::open(&entry)?)?;
        return Ok(root);
    }
    let files = inventory::take(&fresh.0.join("root"))?;
    tenure_files::replace_unsynced(&fresh.0.join(INVENTORY), &files)?;
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

/// The inventory of an entry that was whole and is no longer.
fn damage(entry: &Path) -> Option<Vec<u8>> {
    let seen = |of: &BTreeMap<PathBuf, Instant>| of.get(entry).copied();
    let last = seen(&SEEN.lock().unwrap_or_else(PoisonError::into_inner));
    if last.is_some_and(|last| last.elapsed() < BELIEVE) {
        return None;
    }
    let Ok(inventory) = std::fs::read(entry.join(INVENTORY)) else {
        // Believed to be whole as it is, so that what is lost from now on is noticed.
        if let Ok(found) = inventory::take(&entry.join("root")) {
            let _ = tenure_files::replace_unsynced(&entry.join(INVENTORY), &found);
        }
        return None;
    };
    if inventory::is_whole(&entry.join("root"), &inventory) {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(entry.to_owned(), clock::instant());
        return None;
    }
    Some(inventory)
}

/// Forgets that an entry was seen to be whole: something in it could not be run.
pub(super) fn doubt(root: &Path) {
    if let Some(entry) = root.parent() {
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).remove(entry);
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
struct EntryGuard(PathBuf);

impl EntryGuard {
    fn take(entry: &Path) -> EntryGuard {
        let mut making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        while making.contains(entry) {
            making = MADE.wait(making).unwrap_or_else(PoisonError::into_inner);
        }
        making.insert(entry.to_owned());
        EntryGuard(entry.to_owned())
    }
}

impl Drop for EntryGuard {
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

    #[test]
    fn r140a_a_complete_entry_that_was_damaged_later_is_mended() {
        let cache = tempfile::tempdir().unwrap();
        let make = |root: &Path| {
            std::fs::write(root.join("tool"), "one")?;
            std::fs::write(root.join("other"), "two")
        };
        let root = get(cache.path(), "sha256:aa", make).unwrap();
        let again = || get(cache.path(), "sha256:aa", make).unwrap();
        std::fs::write(root.join("mark of this very folder"), "").unwrap();
        std::fs::remove_file(root.join("tool")).unwrap();
        assert_eq!(std::fs::read(again().join("tool")).unwrap(), b"one", "never seen so far");
        assert!(root.join("mark of this very folder").exists(), "the rest stays in use");
        again();
        std::fs::remove_file(root.join("tool")).unwrap();
        assert!(!again().join("tool").exists(), "seen to be whole a moment ago");
        doubt(&root);
        assert_eq!(std::fs::read(again().join("tool")).unwrap(), b"one");
        // Of an older agent.
        std::fs::remove_file(root.with_file_name(INVENTORY)).unwrap();
        std::fs::remove_file(root.join("tool")).unwrap();
        doubt(&root);
        assert!(!again().join("tool").exists());
        std::fs::remove_file(root.join("other")).unwrap();
        doubt(&root);
        assert!(again().join("other").exists(), "it was there when it was first seen");
    }
}
