//! The folder of one volume, held by a descriptor: every operation of a plan happens beneath it and
//! follows no link, so whoever can write there cannot lead the agent elsewhere (R69b, R213).

use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use tenure_downward::writer::{DATA, GRACE_MS, generation_name};
use tenure_downward::{DirState, Manner, Payload, VolumeEntry, plan_recovery, plan_write};

use super::execute::PlanExecutor;
use super::owner::VolumeOwner;
use super::{Hook, VolumeWanted};

use crate::{clock, random};

/// A volume's folder.
pub(super) struct VolumeFolder {
    root: OwnedFd,
    hands: PlanExecutor,
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const FOLDER_PATH: OFlags = FOLDER.union(OFlags::PATH);

impl VolumeFolder {
    /// Makes the folder of a volume, if it is not there.
    pub(super) fn make(
        base: &Path,
        wanted: &VolumeWanted,
        hook: Option<&Hook>,
    ) -> io::Result<VolumeFolder> {
        let (name, owner) = (wanted.name.as_str(), VolumeOwner::root(wanted.first_id));
        std::fs::create_dir_all(base)?;
        let held = rustix::fs::open(base, FOLDER, Mode::empty())?;
        match rustix::fs::mkdirat(&held, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => {
                // Whatever the umask is: a container of any user reads here.
                let mode = Mode::from_raw_mode(0o777);
                rustix::fs::chmodat(&held, name, mode, AtFlags::empty())?;
                owner.take(&held, name)?;
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let mut folder = VolumeFolder::open(base, name, hook)?;
        folder.hands = PlanExecutor::new(hook.cloned(), owner);
        Ok(folder)
    }

    /// Opens the folder of a volume that is there.
    pub(super) fn open(base: &Path, name: &str, hook: Option<&Hook>) -> io::Result<VolumeFolder> {
        let base = rustix::fs::open(base, FOLDER, Mode::empty())?;
        let root = rustix::fs::openat(&base, name, FOLDER, Mode::empty())?;
        Ok(VolumeFolder { root, hands: PlanExecutor::new(hook.cloned(), VolumeOwner::default()) })
    }

    /// Opens any folder.
    pub(super) fn at(path: &Path) -> io::Result<VolumeFolder> {
        let root = rustix::fs::open(path, FOLDER, Mode::empty())?;
        Ok(VolumeFolder { root, hands: PlanExecutor::new(None, VolumeOwner::default()) })
    }

    /// Makes the mount points of other volumes (R69).
    pub(super) fn make_nested(&self, wanted: &VolumeWanted) -> io::Result<()> {
        for path in &wanted.nested {
            let mut held = rustix::io::fcntl_dupfd_cloexec(&self.root, 3)?;
            for name in inside(Path::new(path))? {
                match rustix::fs::mkdirat(&held, name, Mode::from_raw_mode(0o755)) {
                    Ok(()) => VolumeOwner::root(wanted.first_id).take(&held, name)?,
                    Err(Errno::EXIST) => {}
                    Err(error) => return Err(named(path, error)),
                }
                let next = rustix::fs::openat(&held, name, FOLDER, Mode::empty());
                held = next.map_err(|error| named(path, error))?;
            }
        }
        Ok(())
    }

    /// Makes the volume hold this payload; says which generation is no longer current.
    pub(super) fn write(
        &self,
        payload: &Payload,
        wanted: &VolumeWanted,
        durable: bool,
        retired: &HashMap<String, i64>,
    ) -> io::Result<Option<String>> {
        let entries = self.tidy_entries(retired)?;
        let state = self.state(entries)?;
        let generation = fresh_generation()?;
        let nested: Vec<&str> = wanted
            .nested
            .iter()
            .filter_map(|path| path.split('/').find(|name| !name.is_empty()))
            .collect();
        let manner =
            Manner { generation: &generation, group: wanted.fs_group, durable, nested: &nested };
        let plan = plan_write(&state, payload, &manner).map_err(io::Error::other)?;
        for (number, op) in plan.ops.iter().enumerate() {
            if let Err(error) = self.hands.run(&self.root, op) {
                if op.may_fail() {
                    tracing::debug!(?op, %error, "left undone");
                    continue;
                }
                if number < plan.unseen {
                    for op in &plan.undo {
                        let _ = self.hands.run(&self.root, op);
                    }
                }
                return Err(error);
            }
        }
        Ok(plan.retired)
    }

    /// Puts in order what a writer left that was cut off (R64). `None`: this is no volume of files.
    /// Else the generations that are still in their grace.
    pub(super) fn recover(
        &self,
        retired: &HashMap<String, i64>,
    ) -> io::Result<Option<Vec<String>>> {
        let entries = self.tidy_entries(retired)?;
        if !entries.keys().any(|name| name.starts_with("..")) {
            return Ok(None);
        }
        let current = match entries.get(DATA) {
            Some(VolumeEntry::Link(target)) => Some(target.clone()),
            _ => None,
        };
        let left = entries.into_iter().filter(|(name, entry)| {
            let generation = matches!(entry, VolumeEntry::Folder { .. }) && name.starts_with("..");
            generation && current.as_ref() != Some(name)
        });
        Ok(Some(left.map(|(name, _)| name).collect()))
    }

    /// The entries, after the recovery they call for.
    fn tidy_entries(
        &self,
        retired: &HashMap<String, i64>,
    ) -> io::Result<BTreeMap<String, VolumeEntry>> {
        let entries = self.entries(retired)?;
        let leads = match entries.get(DATA) {
            Some(VolumeEntry::Link(target)) => self.generation(target).is_ok(),
            _ => false,
        };
        let state = DirState { entries, current: leads.then(BTreeMap::new) };
        let ops = plan_recovery(&state, super::now(), GRACE_MS);
        for op in &ops {
            self.hands.run(&self.root, op)?;
        }
        if ops.is_empty() { Ok(state.entries) } else { self.entries(retired) }
    }

    /// Removes a generation whose grace is over, unless it is current.
    pub(super) fn forget(&self, generation: &str) -> io::Result<()> {
        let current = rustix::fs::readlinkat(&self.root, DATA, Vec::new());
        if current.is_ok_and(|target| target.as_bytes() == generation.as_bytes()) {
            return Ok(());
        }
        remove_tree(self.root.as_fd(), generation)
    }

    fn state(&self, entries: BTreeMap<String, VolumeEntry>) -> io::Result<DirState> {
        let mut current = None;
        if let Some(VolumeEntry::Link(target)) = entries.get(DATA)
            && let Ok(generation) = self.generation(target)
        {
            let mut files = BTreeMap::new();
            read_files(generation.as_fd(), "", &mut files)?;
            current = Some(files);
        }
        Ok(DirState { entries, current })
    }

    /// The generation that the switch names: a folder right here, never elsewhere.
    fn generation(&self, target: &str) -> io::Result<OwnedFd> {
        if target.contains('/') {
            return Err(io::Error::other("the switch leads out of the volume"));
        }
        Ok(rustix::fs::openat(&self.root, target, FOLDER, Mode::empty())?)
    }

    fn entries(&self, retired: &HashMap<String, i64>) -> io::Result<BTreeMap<String, VolumeEntry>> {
        let switched = rustix::fs::statat(&self.root, DATA, AtFlags::SYMLINK_NOFOLLOW)
            .map_or(i64::MIN, |seen| milliseconds(&seen));
        let mut entries = BTreeMap::new();
        each(self.root.as_fd(), |name, kind| {
            let Ok(text) = name.to_str() else { return Ok(()) };
            let entry = match kind {
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(&self.root, name, Vec::new())?;
                    VolumeEntry::Link(target.to_string_lossy().into_owned())
                }
                FileType::Directory => {
                    let since = match retired.get(text) {
                        Some(since) => *since,
                        // Nothing was retired after the last switch: a generation that this agent
                        // did not retire itself is as old as that at least.
                        None => {
                            let flags = AtFlags::SYMLINK_NOFOLLOW;
                            let seen = rustix::fs::statat(&self.root, name, flags)?;
                            milliseconds(&seen).max(switched)
                        }
                    };
                    VolumeEntry::Folder { since }
                }
                _ => VolumeEntry::Other,
            };
            entries.insert(text.to_owned(), entry);
            Ok(())
        })?;
        Ok(entries)
    }
}

fn milliseconds(seen: &rustix::fs::Stat) -> i64 {
    let nanoseconds = i64::try_from(seen.st_mtime_nsec).unwrap_or_default();
    seen.st_mtime.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)
}

fn fresh_generation() -> io::Result<String> {
    let random = random::bytes()?;
    let at = clock::timestamp().to_zoned(jiff::tz::TimeZone::UTC);
    let small = |number: i8| u16::try_from(number).unwrap_or_default();
    let year = u16::try_from(at.year()).unwrap_or_default();
    let date = [
        year,
        small(at.month()),
        small(at.day()),
        small(at.hour()),
        small(at.minute()),
        small(at.second()),
    ];
    Ok(generation_name(date, u32::from_le_bytes(random)))
}

/// Calls with each entry of a folder and its kind.
pub(super) fn each(
    folder: BorrowedFd<'_>,
    mut call: impl FnMut(&CStr, FileType) -> io::Result<()>,
) -> io::Result<()> {
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let seen = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(seen.st_mode)
            }
            known => known,
        };
        call(name, kind)?;
    }
    Ok(())
}

/// All files below a folder; what is neither file nor folder makes the set another one.
fn read_files(
    folder: BorrowedFd<'_>,
    prefix: &str,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> io::Result<()> {
    each(folder, |name, kind| {
        let path = format!("{prefix}{}", name.to_string_lossy());
        match kind {
            FileType::Directory => {
                let inner = rustix::fs::openat(folder, name, FOLDER, Mode::empty())?;
                read_files(inner.as_fd(), &format!("{path}/"), files)
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
                let mut bytes = Vec::new();
                io::Read::read_to_end(&mut std::fs::File::from(file), &mut bytes)?;
                files.insert(path, bytes);
                Ok(())
            }
            _ => {
                files.insert(format!("{path}\0"), Vec::new());
                Ok(())
            }
        }
    })
}

/// Removes a folder below another and all in it; nothing there is success.
pub(super) fn remove(base: &Path, name: &str) -> io::Result<()> {
    match rustix::fs::open(base, FOLDER, Mode::empty()) {
        Ok(base) => remove_tree(base.as_fd(), name),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes an entry and all below it, without following any link.
pub(super) fn remove_tree(base: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let name = std::ffi::CString::new(name).map_err(io::Error::other)?;
    remove_entry(base, &name)
}

/// Folders below folders are moved up before they are emptied, so that no depth needs more than three
/// descriptors: a container may have made thousands of folders, one in another.
fn remove_entry(base: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let Some(top) = unlink_or_open(base, name)? else { return Ok(()) };
    let mut moved = 0_u64;
    loop {
        let names = names_in(top.as_fd())?;
        if names.is_empty() {
            return remove_empty(base, name);
        }
        for name in names {
            let Some(inner) = unlink_or_open(top.as_fd(), &name)? else { continue };
            for below in names_in(inner.as_fd())? {
                if unlink_or_open(inner.as_fd(), &below)?.is_some() {
                    move_up(inner.as_fd(), &below, top.as_fd(), &mut moved)?;
                }
            }
            remove_empty(top.as_fd(), &name)?;
        }
    }
}

fn names_in(folder: BorrowedFd<'_>) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    each(folder, |name, _| {
        names.push(name.to_owned());
        Ok(())
    })?;
    Ok(names)
}

/// Removes what is no folder; a folder is opened, so that what is in it can be removed.
fn unlink_or_open(base: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<OwnedFd>> {
    let open = || rustix::fs::openat(base, name, FOLDER, Mode::empty());
    let opened = match open() {
        Err(Errno::ACCESS) => {
            let held = rustix::fs::openat(base, name, FOLDER_PATH, Mode::empty())?;
            // Its owner closed it to everybody, and we are its owner.
            rustix::fs::chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), Mode::RWXU)?;
            open()
        }
        other => other,
    };
    match opened {
        Ok(inner) => {
            // What cannot be written cannot be emptied; what is not ours to change, the next call tells.
            let _ = rustix::fs::fchmod(&inner, Mode::RWXU);
            Ok(Some(inner))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP | Errno::MLINK) => {
            match rustix::fs::unlinkat(base, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => Ok(None),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn remove_empty(base: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    match rustix::fs::unlinkat(base, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Moves a folder to another one, under a name that nothing has there.
fn move_up(
    from: BorrowedFd<'_>,
    name: &CStr,
    to: BorrowedFd<'_>,
    moved: &mut u64,
) -> io::Result<()> {
    loop {
        let free = format!("..removed-{moved}");
        *moved += 1;
        match rustix::fs::renameat(from, name, to, free.as_str()) {
            // Something has that name; an empty folder would have been replaced, which is as well.
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
            other => return Ok(other?),
        }
    }
}

/// The names of a path that stays inside.
fn inside(path: &Path) -> io::Result<Vec<&std::ffi::OsStr>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                return Err(io::Error::other(format!("must not contain '..': {}", path.display())));
            }
            _ => {
                return Err(io::Error::other(format!(
                    "must be a relative path: {}",
                    path.display()
                )));
            }
        }
    }
    Ok(names)
}

fn named(path: &str, error: Errno) -> io::Error {
    io::Error::other(format!("{path}: {}", io::Error::from(error)))
}

/// Where something that is held is now, as a path without links.
pub(super) fn path_of(held: &OwnedFd) -> io::Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", held.as_raw_fd());
    let found = rustix::fs::readlinkat(CWD, link, Vec::new())?;
    Ok(PathBuf::from(std::ffi::OsString::from(found.to_string_lossy().into_owned())))
}

/// Resolves a path inside a volume, through links that stay inside, and holds what is there (R69a). What
/// is missing is made for this owner, if there is one.
pub(super) fn sub_path(
    place: &Path,
    path: &str,
    owner: Option<VolumeOwner>,
) -> io::Result<OwnedFd> {
    let names = inside(Path::new(path))?;
    let root = rustix::fs::open(place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let open = |path: &Path| rustix::fs::openat2(&root, path, flags, Mode::empty(), resolve);
    let mut walked = PathBuf::from(".");
    for name in names {
        let parent = walked.clone();
        walked.push(name);
        match open(&walked) {
            Err(Errno::NOENT) if owner.is_some() => {
                let parent = open(&parent)?;
                rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o750))?;
                owner.unwrap_or_default().take(&parent, name)?;
            }
            Err(Errno::XDEV | Errno::LOOP) => {
                return Err(io::Error::other("it leads out of the volume"));
            }
            other => drop(other?),
        }
    }
    Ok(open(&walked)?)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r85_folders_of_any_depth_and_closed_ones_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let top = base.path().join("volume");
        std::fs::create_dir_all(top.join("closed/inner/deeper")).unwrap();
        std::fs::write(top.join("closed/inner/file"), "x").unwrap();
        std::fs::write(top.join("..removed-0"), "a name that is used here").unwrap();
        std::os::unix::fs::symlink("/", top.join("closed/link")).unwrap();
        let mut held = rustix::fs::open(&top, FOLDER, Mode::empty()).unwrap();
        for _ in 0..30_000 {
            rustix::fs::mkdirat(&held, "d", Mode::RWXU).unwrap();
            held = rustix::fs::openat(&held, "d", FOLDER, Mode::empty()).unwrap();
        }
        drop(held);
        for (name, mode) in
            [("closed/inner/deeper", 0o000), ("closed/inner", 0o000), ("closed", 0o500)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(top.join(name), mode).unwrap();
        }
        remove(base.path(), "volume").unwrap();
        assert!(!top.exists());
        assert!(Path::new("/").join("etc").exists());
    }
}
