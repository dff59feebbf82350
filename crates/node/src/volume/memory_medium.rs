//! Where volumes in memory are: one file system of the node's memory, mounted while there are any and
//! found again by the next agent, or a folder where the agent may not mount.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The folder beside those of pods where the agent keeps Secrets.
pub(super) const KEPT: &str = ".kept";

/// The folder of all volumes in memory.
pub(super) struct MemoryMedium {
    place: PathBuf,
    /// Nothing: not needed so far. Else whether it is memory, or why it is a folder.
    state: RwLock<Option<Result<(), String>>>,
}

impl MemoryMedium {
    /// Looks whether an earlier agent left one.
    pub(super) fn find(root: &Path) -> MemoryMedium {
        let place = root.join("memory");
        let state = if is_memory(&place) {
            Some(Ok(()))
        } else if !super::names(&place).is_empty() {
            Some(Err("volumes in memory are in a folder, as an earlier agent left them".to_owned()))
        } else {
            None
        };
        MemoryMedium { place, state: RwLock::new(state) }
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    /// Makes it ready, and keeps it so for as long as the guard lives.
    pub(super) fn hold(&self) -> io::Result<RwLockReadGuard<'_, Option<Result<(), String>>>> {
        loop {
            let held = self.state.read().unwrap_or_else(PoisonError::into_inner);
            if held.is_some() {
                return Ok(held);
            }
            drop(held);
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            if state.is_none() {
                super::make_private(&self.place)?;
                *state = Some(mount_shared(&self.place));
            }
        }
    }

    /// Gives the memory back when nobody needs it any more.
    pub(super) fn release(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let kept = self.place.join(KEPT);
        let unused = |name: &String| name == KEPT && super::names(&kept).is_empty();
        if *state == Some(Ok(())) && super::names(&self.place).iter().all(unused) {
            unmount(&self.place);
            let _ = std::fs::remove_dir(&self.place);
            *state = None;
        }
    }

    /// Gives it back with all that is in it.
    pub(super) fn drop_all(&self) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if *state == Some(Ok(())) {
            unmount(&self.place);
            *state = None;
        }
    }

    /// Whether it is memory (R67).
    pub(super) fn holds(&self) -> Result<(), String> {
        match &*self.state.read().unwrap_or_else(PoisonError::into_inner) {
            Some(known) => known.clone(),
            None => may_mount(),
        }
    }
}

#[cfg(target_os = "linux")]
fn may_mount() -> Result<(), String> {
    let may = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
    if may { Ok(()) } else { Err(in_folders("the agent may not mount")) }
}

#[cfg(not(target_os = "linux"))]
fn may_mount() -> Result<(), String> {
    Err(in_folders("this system has none to mount"))
}

fn in_folders(why: &str) -> String {
    format!("memory cannot be mounted ({why}): Secrets are in folders only the agent may read")
}

#[cfg(target_os = "linux")]
fn is_memory(place: &Path) -> bool {
    /// What `statfs` says of a file system in memory.
    const TMPFS: i64 = 0x0102_1994;
    is_mounted(place) && rustix::fs::statfs(place).is_ok_and(|seen| seen.f_type == TMPFS)
}

#[cfg(not(target_os = "linux"))]
fn is_memory(_: &Path) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn mount_shared(place: &Path) -> Result<(), String> {
    use rustix::mount::MountFlags;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let mut problem = None;
    // Swap would put a Secret on a disk; kernels before 6.4 cannot promise otherwise.
    for options in [c"mode=0700,noswap", c"mode=0700"] {
        match rustix::mount::mount("tmpfs", place, "tmpfs", flags, options) {
            Ok(()) => return Ok(()),
            Err(error) => problem = Some(io::Error::from(error)),
        }
    }
    Err(in_folders(&problem.map_or_else(String::new, |error| error.to_string())))
}

#[cfg(not(target_os = "linux"))]
fn mount_shared(_: &Path) -> Result<(), String> {
    may_mount()
}

fn device(path: &Path) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::symlink_metadata(path).ok().map(|seen| seen.dev())
}

/// Mounts memory of at most this size for one volume.
#[cfg(target_os = "linux")]
pub(super) fn mount_memory(place: &Path, limit: Option<u64>) -> io::Result<()> {
    use rustix::mount::MountFlags;
    let size = limit.map_or_else(String::new, |limit| format!(",size={limit}"));
    let options = std::ffi::CString::new(format!("mode=1777{size}")).map_err(io::Error::other)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount("tmpfs", place, "tmpfs", flags, options.as_c_str())?)
}

/// Where nothing can be mounted.
#[cfg(not(target_os = "linux"))]
pub(super) fn mount_memory(_: &Path, _: Option<u64>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether something is mounted at a folder.
pub(super) fn is_mounted(place: &Path) -> bool {
    let parent = place.parent().and_then(device);
    device(place).is_some_and(|own| Some(own) != parent)
}

/// Takes away every mount directly in a folder or in a folder of it.
pub(super) fn unmount_below(folder: &Path) -> io::Result<()> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if !path.is_symlink() && path.is_dir() {
            if is_mounted(&path) {
                unmount(&path);
            } else if folder.file_name().is_some_and(|name| name != "volumes") {
                unmount_below(&path)?;
            }
        }
    }
    Ok(())
}

/// Takes a mount away, at once for everybody who looks anew.
#[cfg(target_os = "linux")]
pub(super) fn unmount(place: &Path) {
    use rustix::mount::UnmountFlags;
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    if let Err(error) = rustix::mount::unmount(place, flags) {
        tracing::debug!(
            place = %place.display(), %error, "not unmounted"
        );
    }
}

/// Where nothing is mounted.
#[cfg(not(target_os = "linux"))]
pub(super) fn unmount(_: &Path) {}
