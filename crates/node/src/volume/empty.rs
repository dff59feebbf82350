//! Empty folders that live as long as their pod.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::CWD;

use super::medium;
use super::owner::Owner;

/// Makes an empty folder, or leaves the one that is there with all that is in it.
pub(super) fn set_up(
    place: &Path,
    memory: bool,
    limit: Option<u64>,
    owner: Owner,
) -> io::Result<()> {
    if place.exists() {
        return Ok(());
    }
    let group = owner.group()?;
    std::fs::create_dir_all(place)?;
    if memory && let Err(error) = medium::mount_memory(place, limit) {
        tracing::debug!(place = %place.display(), %error, "in a folder instead of memory");
    }
    owner.take(CWD, place)?;
    let mut mode = 0o777;
    if let Some(group) = group {
        match std::os::unix::fs::chown(place, None, Some(group)) {
            // New files belong to the group of the folder.
            Ok(()) => mode |= 0o2000,
            Err(error) => {
                tracing::warn!(place = %place.display(), %error, "fsGroup could not be given");
            }
        }
    }
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode))
}
