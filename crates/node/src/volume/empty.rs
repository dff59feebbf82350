//! Empty folders that live as long as their pod.
//!
//! An agent that comes back knows them by a mark that no container can write: their own content may look
//! like that of a volume of files.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::CWD;

use super::memory_medium;
use super::owner::VolumeOwner;

/// The folder of the marks, beside the volumes of a pod.
const MARKS: &str = "empty";

/// Notes that a volume is an empty folder, before there is one.
pub(super) fn mark(pod: &Path, name: &str) -> io::Result<()> {
    if is_marked(pod, name) {
        return Ok(());
    }
    let marks = pod.join(MARKS);
    super::make_private(&marks)?;
    tenure_files::open_or_create(&marks.join(name)).map(drop)
}

/// Whether a volume is an empty folder by what this agent or an earlier one noted.
pub(super) fn is_marked(pod: &Path, name: &str) -> bool {
    pod.join(MARKS).join(name).symlink_metadata().is_ok()
}

/// Makes an empty folder, or leaves the one that is there with all that is in it.
pub(super) fn set_up(
    place: &Path,
    memory: bool,
    limit: Option<u64>,
    owner: VolumeOwner,
) -> io::Result<()> {
    let group = owner.group()?;
    if place.exists() {
        // The place of memory that went with its agent or its machine. What has something in it is a folder
        // that stands in for memory, or memory.
        let is_bare = memory && !memory_medium::is_mounted(place) && is_empty(place);
        if !is_bare || memory_medium::mount_memory(place, limit).is_err() {
            return Ok(());
        }
    } else {
        std::fs::create_dir_all(place)?;
        if memory && let Err(error) = memory_medium::mount_memory(place, limit) {
            tracing::debug!(
                place = %place.display(), %error,
                "in a folder instead of memory"
            );
        }
    }
    owner.take(CWD, place)?;
    let mut mode = 0o777;
    if let Some(group) = group {
        match std::os::unix::fs::chown(place, None, Some(group)) {
            // New files belong to the group of the folder.
            Ok(()) => mode |= 0o2000,
            Err(error) => {
                tracing::warn!(
                    place = %place.display(), %error,
                    "fsGroup could not be given"
                );
            }
        }
    }
    std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode))
}

fn is_empty(place: &Path) -> bool {
    std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_none())
}
