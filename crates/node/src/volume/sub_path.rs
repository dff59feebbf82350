//! Sub-paths for a runtime that opens paths by itself (R69c): what was resolved is held at a place that
//! no container can change, so that the path cannot lead elsewhere when the runtime follows it.
//!
//! ```text
//!   volume + subPath ──► resolved beneath the volume, held ──► bound at <pod's folder>/subpaths/<name>
//! ```
//!
//! What is bound is never removed from here: places are unmounted, and then removed only when empty.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The folder of the places, beside the volumes of a pod.
pub(super) const FOLDER: &str = "subpaths";

/// Binds what is held at a place of this name; what an earlier container had there goes.
pub(super) fn bind(pod: &Path, name: &str, held: &OwnedFd) -> io::Result<PathBuf> {
    let folder = pod.join(FOLDER);
    super::make_private(&folder)?;
    let place = folder.join(name);
    release(&place)?;
    let seen = rustix::fs::fstat(held)?;
    if rustix::fs::FileType::from_raw_mode(seen.st_mode).is_dir() {
        std::fs::create_dir(&place)?;
    } else {
        std::fs::OpenOptions::new().write(true).create_new(true).open(&place)?;
    }
    match mount(held, &place) {
        Ok(()) => Ok(place),
        Err(error) => {
            release(&place)?;
            Err(error)
        }
    }
}

/// Takes all places of a pod away.
pub(super) fn release_all(pod: &Path) -> io::Result<()> {
    let folder = pod.join(FOLDER);
    for name in super::names(&folder) {
        release(&folder.join(name))?;
    }
    match std::fs::remove_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Takes a place away; nothing there is success. Never looks into it: what is behind a mount that
/// stayed is somebody's data.
fn release(place: &Path) -> io::Result<()> {
    let Ok(seen) = std::fs::symlink_metadata(place) else { return Ok(()) };
    while unmounted(place) {}
    if seen.is_dir() { std::fs::remove_dir(place) } else { std::fs::remove_file(place) }
}

#[cfg(target_os = "linux")]
fn mount(held: &OwnedFd, place: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let from = format!("/proc/self/fd/{}", held.as_raw_fd());
    Ok(rustix::mount::mount_bind(from.as_str(), place)?)
}

#[cfg(target_os = "linux")]
fn unmounted(place: &Path) -> bool {
    use rustix::mount::UnmountFlags;
    rustix::mount::unmount(place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_ok()
}

/// Where nothing can be mounted.
#[cfg(not(target_os = "linux"))]
fn mount(_: &OwnedFd, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Where nothing is mounted.
#[cfg(not(target_os = "linux"))]
fn unmounted(_: &Path) -> bool {
    false
}
