//! Carries out one operation of a plan beneath a folder that is held. What the operations are and
//! why is decided by the engine.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use tenure_downward::FsOp;

use super::Hook;
use super::owner::VolumeOwner;

/// Does what a plan says, and tells somebody of every step.
pub(super) struct PlanExecutor {
    hook: Option<Hook>,
    owner: VolumeOwner,
    steps: AtomicUsize,
}

impl PlanExecutor {
    pub(super) fn new(hook: Option<Hook>, owner: VolumeOwner) -> PlanExecutor {
        PlanExecutor { hook, owner, steps: AtomicUsize::new(0) }
    }

    fn step(&self) {
        if let Some(hook) = &self.hook {
            hook(self.steps.fetch_add(1, Ordering::Relaxed));
        }
    }

    /// Carries out one operation.
    pub(super) fn run(&self, root: &OwnedFd, op: &FsOp) -> io::Result<()> {
        let done = self.perform(root, op);
        self.step();
        done
    }

    fn perform(&self, root: &OwnedFd, op: &FsOp) -> io::Result<()> {
        match op {
            FsOp::MkDir { path } => {
                let (parent, name) = parent(root, path)?;
                rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755))?;
                self.owner.take(&parent, name)
            }
            FsOp::WriteFile { path, bytes } => {
                let (parent, name) = parent(root, path)?;
                let flags = OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::WRONLY
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o600))?;
                self.owner.take(&parent, name)?;
                self.step();
                std::fs::File::from(file).write_all(&bytes.0)
            }
            FsOp::Chmod { path, mode } => {
                let held = open(root, path)?;
                Ok(rustix::fs::fchmod(&held, Mode::from_raw_mode(*mode))?)
            }
            FsOp::Chown { path, owner, group } => {
                let (parent, name) = parent(root, path)?;
                let on_node = |id: Option<u32>| id.map(|id| self.owner.on_node(id)).transpose();
                let owner = on_node(*owner)?.map(Uid::from_raw);
                let group = on_node(*group)?.map(Gid::from_raw);
                Ok(rustix::fs::chownat(&parent, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?)
            }
            FsOp::Sync { path } => Ok(rustix::fs::fsync(open(root, path)?)?),
            FsOp::Symlink { path, target } => {
                let (parent, name) = parent(root, path)?;
                rustix::fs::symlinkat(target, &parent, name)?;
                self.owner.take(&parent, name)
            }
            FsOp::Rename { from, to } => Ok(rustix::fs::renameat(root, from, root, to)?),
            FsOp::Unlink { path } => {
                let (parent, name) = parent(root, path)?;
                Ok(rustix::fs::unlinkat(&parent, name, AtFlags::empty())?)
            }
            FsOp::RemoveTree { path } => super::folder::remove_tree(root.as_fd(), path),
        }
    }
}

/// The folder of a path, and the last name.
fn parent<'a>(root: &OwnedFd, path: &'a str) -> io::Result<(OwnedFd, &'a str)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    match path.rsplit_once('/') {
        Some((folder, name)) => Ok((beneath(root, folder, flags)?, name)),
        None => Ok((rustix::io::fcntl_dupfd_cloexec(root, 3)?, path)),
    }
}

fn open(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    beneath(root, path, OFlags::RDONLY | OFlags::NONBLOCK)
}

/// Opens a path beneath a folder; a link on the way is a refusal.
fn beneath(root: &OwnedFd, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS) => walk(root, path, flags),
        other => Ok(other?),
    }
}

/// The same for a kernel that cannot do it at once: name by name.
fn walk(root: &OwnedFd, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let mut held = rustix::io::fcntl_dupfd_cloexec(root, 3)?;
    let names: Vec<&str> =
        path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    for (index, name) in names.iter().enumerate() {
        if *name == ".." {
            return Err(Errno::XDEV.into());
        }
        let last = index + 1 == names.len();
        let flags = if last { flags } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
        held = rustix::fs::openat(&held, *name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r69b_no_operation_goes_through_a_link_either_way() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).unwrap();
        std::fs::create_dir(folder.path().join("real")).unwrap();
        let root = rustix::fs::open(folder.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        for path in ["link", "link/x", "..", "real/../.."] {
            assert!(beneath(&root, path, flags).is_err(), "{path}");
            assert!(walk(&root, path, flags | OFlags::CLOEXEC).is_err(), "{path}");
        }
        for path in ["real", "."] {
            assert!(beneath(&root, path, flags).is_ok() && walk(&root, path, flags).is_ok());
        }
        let bytes = tenure_downward::writer::RedactedBytes(b"x".to_vec());
        let write = FsOp::WriteFile { path: "link/x".to_owned(), bytes };
        assert!(PlanExecutor::new(None, VolumeOwner::default()).run(&root, &write).is_err());
        assert!(std::fs::read_dir(outside.path()).unwrap().next().is_none());
    }
}
