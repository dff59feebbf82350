//! Files that only their owner may read: keys, kubeconfigs, the store, what a node remembers. What they
//! say never lives here.
//!
//! ```text
//!   replace ──► new file, random name, O_EXCL, 0600 ──► write ──► sync ──► rename ──► sync the folder
//! ```
//!
//! The folder may be one where others write too: nothing that somebody put there first is opened,
//! followed or kept. `cargo xtask tidy` finds code elsewhere that makes files.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// How often a new name is tried; each is one of 2^64.
const ATTEMPTS_MAX: u32 = 16;

/// Makes a folder and those above it, for the owner only. One that is there stays as it is.
pub fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a folder with a new name in `parent`, for the owner only.
pub fn make_new_folder(parent: &Path, prefix: &str) -> io::Result<PathBuf> {
    // Not recursive: an existing folder, perhaps another user's, is never taken over.
    let make = |path: &Path| DirBuilder::new().mode(0o700).create(path);
    Ok(at_new_name(parent, prefix.as_ref(), make)?.0)
}

/// Replaces a file whole or not at all; when this returns, the bytes survive a power cut.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, bytes, true)
}

/// As [`replace`], for what can be made again: after a power cut it may be lost.
pub fn replace_unsynced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, bytes, false)
}

fn replace_with(path: &Path, bytes: &[u8], sync: bool) -> io::Result<()> {
    let (part, mut file) = create_sibling(path)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| if sync { file.sync_all() } else { Ok(()) })
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // It is of no use to anybody; its removal is a courtesy.
        let _ = fs::remove_file(&part);
    }
    written?;
    if sync { sync_folder_of(path) } else { Ok(()) }
}

/// A new, empty file in the folder of `path`, open for reading and writing, with a name that nobody
/// could guess. Whoever fills it moves it to `path` with [`publish`], or removes it.
pub fn create_sibling(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut prefix = OsString::from(".");
    prefix.push(name);
    at_new_name(folder_of(path), &prefix, create_new)
}

/// Moves a finished file to its place, so that it survives a power cut there.
pub fn publish(new: &Path, place: &Path) -> io::Result<()> {
    File::open(new)?.sync_all()?;
    fs::rename(new, place)?;
    sync_folder_of(place)
}

/// Has two things of one folder change places in one step, so that it survives a power cut.
///
/// # Errors
/// Of the kind `Unsupported` where the file system or the operating system cannot; nothing has changed then.
pub fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(
            |error| match error {
                Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP => io::ErrorKind::Unsupported.into(),
                error => io::Error::from(error),
            },
        )?;
        sync_folder_of(other)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (one, other);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Creates a file where there must be none, not even a link.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a file for reading and writing, and creates it if it is not there. A link is not followed, and
/// what another user put there is not opened.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    own(options.mode(0o600).custom_flags(NO_FOLLOW).open(path)?)
}

/// Opens a file to append to it, and creates it if it is not there. A link or a file that another user
/// put there is refused; a pipe or a device is taken as it is.
pub fn append(path: &Path) -> io::Result<File> {
    refuse_foreign_link(path)?;
    own(OpenOptions::new().append(true).create(true).mode(0o600).open(path)?)
}

/// Fails if `path` is a link that neither this user nor root made.
pub fn refuse_foreign_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(link) if link.is_symlink() && is_foreign(link.uid()) => Err(foreign("link")),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Fails if others than this user and root may change what is in a folder.
pub fn refuse_shared_folder(path: &Path) -> io::Result<()> {
    let folder = fs::metadata(path)?;
    if is_foreign(folder.uid()) {
        return Err(foreign("folder"));
    }
    if folder.mode() & 0o022 == 0 {
        return Ok(());
    }
    let sentence = "other users may write there: `chmod go-w` it, or name a folder inside it";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, sentence))
}

/// The flag of open(2) that refuses a link.
const NO_FOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

fn own(file: File) -> io::Result<File> {
    let found = file.metadata()?;
    if found.is_file() && is_foreign(found.uid()) { Err(foreign("file")) } else { Ok(file) }
}

/// Whether neither this user nor root has it.
fn is_foreign(owner: u32) -> bool {
    owner != 0 && owner != rustix::process::geteuid().as_raw()
}

fn foreign(what: &str) -> io::Error {
    let sentence = format!("the {what} belongs to another user");
    io::Error::new(io::ErrorKind::PermissionDenied, sentence)
}

/// The only randomness of this crate.
#[expect(clippy::disallowed_methods, reason = "a name that nobody else has")]
fn random_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Makes something under a new name, `prefix` with random letters.
fn at_new_name<T>(
    folder: &Path,
    prefix: &std::ffi::OsStr,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    for _ in 0..ATTEMPTS_MAX {
        let mut name = prefix.to_owned();
        name.push(format!(".{:016x}", random_number()?));
        let path = folder.join(name);
        match make(&path) {
            Ok(made) => return Ok((path, made)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_whole_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        replace(&path, b"a longer text").unwrap();
        replace_unsynced(&path, b"short").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"short");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let nowhere = folder.path().join("no/key");
        assert_eq!(replace(&nowhere, b"x").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_link_or_an_open_file_at_the_place_is_replaced_and_not_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (path, target) = (folder.path().join("key"), folder.path().join("target"));
        fs::write(&target, "old").unwrap();
        symlink(&target, &path).unwrap();
        replace(&path, b"secret").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        assert!(!path.is_symlink());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let mut held = File::open(&path).unwrap();
        replace(&path, b"newer").unwrap();
        assert_eq!(mode(&path), 0o600);
        let mut seen = String::new();
        io::Read::read_to_string(&mut held, &mut seen).unwrap();
        assert_eq!(seen, "secret");
    }

    #[test]
    fn two_folders_change_places() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        for path in [&one, &other] {
            make_folder(path).unwrap();
            fs::write(path.join("was"), path.file_name().unwrap().as_encoded_bytes()).unwrap();
        }
        match exchange(&one, &other) {
            Ok(()) => {
                assert_eq!(fs::read(one.join("was")).unwrap(), b"other");
                assert_eq!(fs::read(other.join("was")).unwrap(), b"one");
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported);
                assert_eq!(fs::read(one.join("was")).unwrap(), b"one");
            }
        }
    }

    #[test]
    fn new_means_new_and_names_differ() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        symlink("nowhere", &path).unwrap();
        assert_eq!(create_new(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(open_or_create(&path).is_err(), "a link is not followed");
        let (first, _) = create_sibling(&path).unwrap();
        let (second, _) = create_sibling(&path).unwrap();
        assert_ne!(first, second);
        let made = make_new_folder(folder.path(), "tenure").unwrap();
        assert_eq!(mode(&made), 0o700);
        assert_eq!(mode(&first), 0o600);
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("log"), folder.path().join("link"));
        append(&file).unwrap().write_all(b"a line").unwrap();
        symlink(&file, &link).unwrap();
        append(&link).unwrap();
        refuse_shared_folder(folder.path()).unwrap();
        let shared = fs::Permissions::from_mode(0o777);
        fs::set_permissions(folder.path(), shared).unwrap();
        let reported = refuse_shared_folder(folder.path()).unwrap_err().to_string();
        assert!(reported.contains("chmod go-w"), "{reported}");
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert!(append(&link).is_err());
        chown(&file, Some(65534), None).unwrap();
        for open in [append, open_or_create] {
            let reported = open(&file).unwrap_err().to_string();
            assert!(reported.contains("belongs to another user"), "{reported}");
        }
        chown(folder.path(), Some(65534), None).unwrap();
        assert!(refuse_shared_folder(folder.path()).is_err());
    }
}
