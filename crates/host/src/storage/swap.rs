//! A restored store takes the place of the one that is there, so that a crash at any moment leaves one or the
//! other, and nothing that was there is lost (api-server R198).
//!
//! ```text
//!   store.restoring   half a copy: removed at the next use of the folder
//!   store.restored    with MARK: a whole copy, not in place yet
//!                     without MARK: what was in place before, not yet at its name
//!   store.before-restore.TIME   what was in place before; never touched again
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the copy is made.
const HALF: &str = "store.restoring";
/// Where it waits when it is whole, and where the other one is for a moment afterwards.
const WHOLE: &str = "store.restored";
/// Where a restore leaves what was there before; the time follows.
const BEFORE: &str = "store.before-restore";
/// A file in a restored store until it is in place.
const MARK: &str = "restored";

/// The place of a store in its data folder.
pub(super) struct Swap<'a> {
    folder: &'a Path,
    place: PathBuf,
    /// The time, as names of folders say it.
    now: String,
}

impl<'a> Swap<'a> {
    pub(super) fn new(folder: &'a Path, place: PathBuf, now: String) -> Swap<'a> {
        Swap { folder, place, now }
    }

    /// Where the copy is to be made; there is nothing yet.
    pub(super) fn half(&self) -> PathBuf {
        self.folder.join(HALF)
    }

    /// Puts what a restore that was cut short left behind in order.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.settle_former()?;
        remove_if_there(&self.half())?;
        let whole = self.folder.join(WHOLE);
        match (whole.is_dir(), whole.join(MARK).exists(), self.place.is_dir()) {
            (false, ..) => {}
            // The restore never said that it was done, so what is in place goes on.
            (true, true, true) => remove_if_there(&whole)?,
            (true, true, false) => self.rename(&whole, &self.place)?,
            (true, false, _) => self.keep(&whole).map(drop)?,
        }
        self.unmark()
    }

    /// The same for releases that moved the old store away and then the finished copy to its place: a crash
    /// between the two left a folder without a store. The copy was whole by then; without one, what was there
    /// before is put back.
    fn settle_former(&self) -> io::Result<()> {
        let before = self.folder.join(BEFORE);
        let is_cut_short = !self.place.exists()
            && !self.folder.join(WHOLE).exists()
            && !self.half().join(MARK).exists();
        if is_cut_short && before.is_dir() {
            let copy = self.half();
            self.rename(if copy.is_dir() { &copy } else { &before }, &self.place)?;
        }
        Ok(())
    }

    /// Puts the finished copy in place; says where that is which was there before.
    pub(super) fn put_in_place(&self) -> io::Result<Option<PathBuf>> {
        let (half, whole) = (self.half(), self.folder.join(WHOLE));
        tenure_files::replace(&half.join(MARK), b"")?;
        self.rename(&half, &whole)?;
        let before = self.exchange(&whole)?;
        self.unmark()?;
        Ok(before)
    }

    /// The step in which the new one replaces the old one.
    fn exchange(&self, whole: &Path) -> io::Result<Option<PathBuf>> {
        if !self.place.is_dir() {
            self.rename(whole, &self.place)?;
            return Ok(None);
        }
        match tenure_files::exchange(whole, &self.place) {
            Ok(()) => {}
            // Some file systems cannot. A crash between the two is put in order at the next use.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let before = self.keep(&self.place)?;
                self.rename(whole, &self.place)?;
                return Ok(Some(before));
            }
            Err(error) => return Err(error),
        }
        self.keep(whole).map(Some)
    }

    /// Gives a store that is out of place the name that it keeps.
    fn keep(&self, store: &Path) -> io::Result<PathBuf> {
        let name = |number: u32| match number {
            1 => format!("{BEFORE}.{}", self.now),
            _ => format!("{BEFORE}.{}.{number}", self.now),
        };
        let places = (1..=u32::MAX).map(|number| self.folder.join(name(number)));
        let free = |place: &PathBuf| place.symlink_metadata().is_err();
        let place = places.into_iter().find(free).ok_or(io::ErrorKind::AlreadyExists)?;
        self.rename(store, &place)?;
        Ok(place)
    }

    fn unmark(&self) -> io::Result<()> {
        match fs::remove_file(self.place.join(MARK)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        fs::File::open(self.folder)?.sync_all()
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in which these stores are; what each holds is its text.
    fn folder(stores: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in stores {
            fs::create_dir(dir.path().join(name)).unwrap();
            let (text, mark) = match text.strip_suffix('*') {
                Some(text) => (text, true),
                None => (*text, false),
            };
            fs::write(dir.path().join(name).join("log"), text).unwrap();
            if mark {
                fs::write(dir.path().join(name).join(MARK), "").unwrap();
            }
        }
        dir
    }

    /// What is in a folder, in the form of [`folder`].
    fn found(dir: &Path) -> Vec<(String, String)> {
        let mut found: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|item| {
                let path = item.unwrap().path();
                let mut text = fs::read_to_string(path.join("log")).unwrap();
                text.extend(path.join(MARK).exists().then_some('*'));
                (path.file_name().unwrap().to_str().unwrap().to_owned(), text)
            })
            .collect();
        found.sort();
        found
    }

    fn swap(dir: &tempfile::TempDir) -> Swap<'_> {
        Swap::new(dir.path(), dir.path().join("store"), "now".to_owned())
    }

    #[track_caller]
    fn check(before: &[(&str, &str)], after: &[(&str, &str)]) {
        let dir = folder(before);
        swap(&dir).settle().unwrap();
        let after: Vec<_> = after.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        assert_eq!(found(dir.path()), after, "{before:?}");
        swap(&dir).settle().unwrap();
        assert_eq!(found(dir.path()), after, "{before:?}, once more");
    }

    #[test]
    fn r198_a_crash_at_any_moment_of_a_restore_leaves_the_old_or_the_new_store() {
        let kept = "store.before-restore.now";
        check(&[("store", "old")], &[("store", "old")]);
        check(&[("store", "old"), (HALF, "ne")], &[("store", "old")]);
        check(&[("store", "old"), (HALF, "new*")], &[("store", "old")]);
        check(&[("store", "old"), (WHOLE, "new*")], &[("store", "old")]);
        check(&[("store", "new*"), (WHOLE, "old")], &[("store", "new"), (kept, "old")]);
        check(&[("store", "new"), (WHOLE, "old")], &[("store", "new"), (kept, "old")]);
        check(&[("store", "new*"), (kept, "old")], &[("store", "new"), (kept, "old")]);
        // As a former release left it: the old one is away, the new one not in place.
        check(&[(BEFORE, "old"), (HALF, "new")], &[("store", "new"), (BEFORE, "old")]);
        check(&[(BEFORE, "old")], &[("store", "old")]);
        check(&[(BEFORE, "old"), (WHOLE, "new*")], &[("store", "new"), (BEFORE, "old")]);
        // Into a folder without a store, and between the two steps where none can be exchanged.
        check(&[(WHOLE, "new*")], &[("store", "new")]);
        check(&[(WHOLE, "new*"), (kept, "old")], &[("store", "new"), (kept, "old")]);
    }

    #[test]
    fn r198_every_restore_keeps_what_was_there_and_touches_nothing_kept() {
        let dir = folder(&[("store", "first"), ("store.before-restore", "by an older release")]);
        for (text, kept) in [("second", "now"), ("third", "now.2"), ("fourth", "now.3")] {
            let half = swap(&dir).half();
            fs::create_dir(&half).unwrap();
            fs::write(half.join("log"), text).unwrap();
            let before = swap(&dir).put_in_place().unwrap();
            assert_eq!(before, Some(dir.path().join(format!("store.before-restore.{kept}"))));
        }
        let found = found(dir.path());
        let found: Vec<_> =
            found.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let expected = [
            ("store", "fourth"),
            ("store.before-restore", "by an older release"),
            ("store.before-restore.now", "first"),
            ("store.before-restore.now.2", "second"),
            ("store.before-restore.now.3", "third"),
        ];
        assert_eq!(found, expected);
    }
}
