//! Whose files are: users of a pod as the node numbers them.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Gid, Uid};

use super::VolumeWanted;

/// How many users a pod has that has a range of them.
const USERS: u32 = 65_536;

/// The users of a pod.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct VolumeOwner {
    /// The node's id of the pod's user 0; zero where the pod's users are the node's.
    first: u32,
    /// The group that new things belong to, if not that of user 0.
    group: Option<u32>,
}

impl VolumeOwner {
    pub(super) fn of(wanted: &VolumeWanted) -> VolumeOwner {
        VolumeOwner { first: wanted.first_id, group: wanted.fs_group }
    }

    /// User and group 0.
    pub(super) fn root(first: u32) -> VolumeOwner {
        VolumeOwner { first, group: None }
    }

    /// The group, as the node numbers it.
    pub(super) fn group(self) -> io::Result<Option<u32>> {
        self.group.map(|group| self.on_node(group)).transpose()
    }

    /// A user or group of the pod, as the node numbers it.
    pub(super) fn on_node(self, id: u32) -> io::Result<u32> {
        if self.first == 0 {
            return Ok(id);
        }
        if id >= USERS {
            return Err(io::Error::other(format!(
                "user or group {id} is not one of the {USERS} that a pod has on this node"
            )));
        }
        Ok(self.first + id)
    }

    /// Gives something new to the pod's user 0, if that is nobody of the node's.
    pub(super) fn take(self, folder: impl AsFd, name: impl rustix::path::Arg) -> io::Result<()> {
        if self.first == 0 {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(self.first), Gid::from_raw(self.first));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chownat(folder, name, Some(uid), Some(gid), flags)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_with_a_range_of_users_has_no_others() {
        let owner = VolumeOwner { first: 1000 << 16, group: Some(7) };
        assert_eq!(owner.on_node(65_535).unwrap(), (1000 << 16) + 65_535);
        assert_eq!(owner.group().unwrap(), Some((1000 << 16) + 7));
        assert!(owner.on_node(65_536).is_err());
        assert_eq!(VolumeOwner::root(0).on_node(100_000).unwrap(), 100_000);
    }
}
