//! The files of one log, in their order. A log is rotated by renaming, so a file is known by its inode.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// How often a folder is listed before its order is looked for another time.
const LOOKS_MAX: usize = 8;

/// Where the files of a log are.
pub(super) struct LogFiles {
    root: PathBuf,
    folder: PathBuf,
    name: OsString,
}

impl LogFiles {
    /// The files of a log below `root`.
    pub(super) fn new(root: &Path, log: &Path) -> io::Result<LogFiles> {
        let refused = || io::Error::new(io::ErrorKind::InvalidInput, "the log lies elsewhere");
        let below = log.strip_prefix(root).map_err(|_| refused())?;
        let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        let (Some(folder), Some(name), true) = (log.parent(), log.file_name(), plain) else {
            return Err(refused());
        };
        Ok(LogFiles { root: root.to_owned(), folder: folder.to_owned(), name: name.to_owned() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Every file, the oldest first; the one that is written to comes last.
    pub(super) fn all(&self) -> io::Result<Vec<PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let prefix = self.name.to_string_lossy();
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(prefix.as_ref()))
            else {
                continue;
            };
            if let Some(age) = age(rest) {
                found.push((age, entry.path()));
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, path)| path).collect())
    }

    /// The first file that may hold a line of this time or later.
    pub(super) fn oldest(&self, since: Option<Timestamp>) -> io::Result<Option<PathBuf>> {
        let mut all = self.all()?;
        let kept = all.iter().position(|path| {
            let Some(since) = since else { return true };
            let written = fs::metadata(path).and_then(|about| about.modified());
            written.map_or(true, |written| {
                Timestamp::try_from(written).map_or(true, |written| written >= since)
            })
        });
        let last = all.len().saturating_sub(1);
        Ok((!all.is_empty()).then(|| all.swap_remove(kept.unwrap_or(last))))
    }

    /// The file after this one, open; `None` if it is the last, or if it cannot be told now.
    pub(super) fn after(&self, file: Option<&File>) -> io::Result<Option<File>> {
        let Some(file) = file else {
            return self.oldest(None)?.map_or(Ok(None), |path| self.open(&path));
        };
        let own = file.metadata()?.ino();
        // The common case costs one look: the file is still the one that is written to.
        let current = self.folder.join(&self.name);
        if fs::metadata(&current).is_ok_and(|about| about.ino() == own) {
            return Ok(None);
        }
        let Some(all) = self.settled()? else { return Ok(None) };
        let own = all.iter().position(|(_, inode)| *inode == own);
        // A file that was removed meanwhile leaves a gap: the oldest that is left comes next.
        let next = all.get(own.map_or(0, |own| own + 1));
        let Some((path, inode)) = next else { return Ok(None) };
        // The name may have gone on to a younger file, which would pass this one over.
        let opened = self.open(path)?;
        Ok(opened.filter(|file| file.metadata().is_ok_and(|about| about.ino() == *inode)))
    }

    /// Every file with its inode, seen twice alike: a folder that is listed while files are renamed
    /// may show one of them under both names, or under none. `None` while it does not hold still.
    fn settled(&self) -> io::Result<Option<Vec<(PathBuf, u64)>>> {
        let mut before = self.inodes()?;
        for _ in 0..LOOKS_MAX {
            let now = self.inodes()?;
            if now == before {
                return Ok(Some(now));
            }
            before = now;
        }
        Ok(None)
    }

    fn inodes(&self) -> io::Result<Vec<(PathBuf, u64)>> {
        let inode = |path: PathBuf| fs::metadata(&path).ok().map(|about| (path, about.ino()));
        Ok(self.all()?.into_iter().filter_map(inode).collect())
    }

    /// Opens one of the files; `None` if it is gone. Links are not followed.
    pub(super) fn open(&self, path: &Path) -> io::Result<Option<File>> {
        let Ok(below) = path.strip_prefix(&self.root) else { return Ok(None) };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let root = rustix::fs::open(
            &self.root,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let opened = root.and_then(|root| {
            let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            match rustix::fs::openat2(&root, below, flags, Mode::empty(), within) {
                Err(Errno::NOSYS) => rustix::fs::openat(&root, below, flags, Mode::empty()),
                opened => opened,
            }
        });
        match opened {
            Ok(file) => Ok(Some(File::from(file))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// What comes after the name of a log tells how old a file is; smaller is older. `None` for files that
/// are no part of the log.
///
/// Runtimes append a time (`0.log.20260102-030405.123456789`), others count up from the youngest
/// (`0.log.1`).
fn age(rest: &str) -> Option<(u8, std::cmp::Reverse<u32>, String)> {
    let Some(suffix) = rest.strip_prefix('.') else {
        return rest.is_empty().then(|| (2, std::cmp::Reverse(0), String::new()));
    };
    if suffix.len() < 4 {
        let count = suffix.parse().ok()?;
        return Some((1, std::cmp::Reverse(count), String::new()));
    }
    let time = suffix.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
    time.then(|| (0, std::cmp::Reverse(0), suffix.to_owned()))
}
