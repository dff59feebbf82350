//! Builds what a container sees as `/`, in a mount namespace of its own, and moves there. Users,
//! privileges and commands are not here.
//!
//! Every path of the container is resolved below the new root, never through a link of the node:
//! the place of a mount is a descriptor, not a name.

mod base;
mod kernel;

pub(super) use base::shown_folders;

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use super::raw::{self, Restrict};
use super::wire::{LaunchSpec, Root};
use crate::runtime::Mount;

/// A link that leads to a link that leads to a link: more than this and it is a circle.
const LINKS_MAX: usize = 16;

/// What went wrong, and where.
type RootResult<T> = Result<T, String>;

fn at<T>(what: impl std::fmt::Display, done: Result<T, impl std::fmt::Display>) -> RootResult<T> {
    done.map_err(|error| format!("{what}: {error}"))
}

/// Builds the root of a container and moves this process there. `users` are those it will be entered
/// with.
pub(super) fn enter(order: &LaunchSpec, users: Option<&OwnedFd>) -> RootResult<Entered> {
    let slave = order.mounts.iter().any(|mount| mount.propagation.as_deref() != Some("None"));
    let slave = slave && order.mounts.iter().any(|mount| mount.propagation.is_some());
    let kind =
        if slave { MountPropagationFlags::DOWNSTREAM } else { MountPropagationFlags::PRIVATE };
    at("make mounts private", rustix::mount::mount_change("/", kind | MountPropagationFlags::REC))?;
    let mut stage = RootBuilder::begin(order, users)?;
    stage.base(order)?;
    stage.kernel(order)?;
    stage.files(order)?;
    let mut mounts: Vec<&Mount> = order.mounts.iter().collect();
    mounts.sort_by_key(|mount| Path::new(&mount.at).components().count());
    for mount in mounts {
        stage.volume(mount)?;
    }
    stage.finish(order)?;
    stage.pivot()
}

/// Lets go of the node's files after [`enter`]: no command may run before. The kernel takes its time
/// for this, and the agent need not wait for it.
pub(super) fn let_go(entered: Entered) -> RootResult<()> {
    if entered == Entered::Stacked {
        at("leave the node", rustix::mount::unmount(".", UnmountFlags::DETACH))?;
    }
    at("enter the root", rustix::process::chdir("/"))
}

/// How the new root was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// The node's root lies on top of it and must go.
    Stacked,
    /// The node's root lies below and cannot be reached.
    Moved,
}

/// Without mounts of its own a container finds its volumes as links below a private folder.
pub(super) fn link_all(order: &LaunchSpec) -> RootResult<()> {
    let base = order.folder.join("root");
    at(base.display(), std::fs::create_dir_all(&base))?;
    for mount in &order.mounts {
        let place =
            normal(Path::new(&mount.at))?.iter().fold(base.clone(), |path, name| path.join(name));
        if let Some(parent) = place.parent() {
            at(parent.display(), std::fs::create_dir_all(parent))?;
        }
        at(place.display(), std::os::unix::fs::symlink(&mount.from, &place))?;
    }
    Ok(())
}

/// A root in the making.
struct RootBuilder {
    /// Where it is mounted until it is the root.
    path: PathBuf,
    /// The same, held.
    root: OwnedFd,
    /// A file system in memory that the container never sees as such.
    scratch: OwnedFd,
    /// Layers that were put over folders of the node to make mount points; read-only in the end.
    covers: Vec<OwnedFd>,
    /// Whether the root is the image's folder itself; read-only in the end, whatever the container asks for.
    bound: bool,
    /// Whether this is a user namespace of our own.
    user: bool,
    /// The node's id of the container's user 0, if whoever builds the root is somebody else.
    owner: Option<u32>,
    /// The container may use devices and programs that change the user.
    privileged: bool,
}

impl RootBuilder {
    fn begin(order: &LaunchSpec, users: Option<&OwnedFd>) -> RootResult<RootBuilder> {
        let path = order.folder.join("root");
        let scratch = order.folder.join("scratch");
        for folder in [&path, &scratch] {
            at(folder.display(), std::fs::create_dir_all(folder))?;
        }
        let owner = order.walls.first_id();
        let mut bound = false;
        at("mount scratch", tmpfs(&scratch, "mode=0755", None))?;
        let scratch = at("open scratch", open_folder(&scratch))?;
        match &order.root {
            Root::Host => at("mount root", tmpfs(&path, "mode=0755,size=4m", owner))?,
            Root::Folder { path: lower, .. } => {
                let held = at(lower.display(), open_folder(lower))?;
                // Where the file system cannot, its files belong to nobody and can be read all the same.
                let mapped = users.map(|users| mapped(&held, users, &scratch));
                let held = mapped.and_then(Result::ok).unwrap_or(held);
                let target = at(path.display(), open_folder(&path))?;
                let upper = at("make a layer", layer(&scratch, "root", &held))?;
                let layered = overlay(&held, &target, &scratch, &upper, order.walls.single);
                if layered.is_err() {
                    // No layers here: the folder itself, read-only at the end.
                    at(lower.display(), rustix::mount::mount_bind_recursive(lower, &path))?;
                    bound = true;
                }
            }
        }
        let root = at(path.display(), open_folder(&path))?;
        Ok(RootBuilder {
            path,
            root,
            scratch,
            covers: Vec::new(),
            bound,
            user: order.walls.single,
            owner,
            privileged: order.walls.privileged,
        })
    }

    fn volume(&mut self, mount: &Mount) -> RootResult<()> {
        let name = &mount.at;
        // A name that was resolved when the volume was looked at must not have become a link since.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let from = rustix::fs::openat2(
            CWD,
            &mount.from,
            flags,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
        );
        let from = match from {
            Err(Errno::LOOP) => {
                return Err(format!("{name}: {} leads through a link", mount.from.display()));
            }
            other => at(format_args!("{name}: {}", mount.from.display()), other)?,
        };
        let folder = at(name, rustix::fs::fstat(&from))?.st_mode & 0o170_000 == 0o040_000;
        let place = self.place(Path::new(name), folder)?;
        at(name, rustix::mount::mount_bind_recursive(link(&from), link(&place)))?;
        let restrict = Restrict {
            read_only: mount.read_only,
            no_devices: !self.privileged,
            no_set_uid: !self.privileged,
        };
        at(name, self.restrict(Path::new(name), restrict))
    }

    /// Closes what was open only while mounts found their places.
    fn finish(&mut self, order: &LaunchSpec) -> RootResult<()> {
        for cover in &self.covers {
            let path = at("a path", CString::new(link(cover)))?;
            at("close a layer", raw::restrict_recursive(&path, Restrict::CLOSED))?;
        }
        let open = matches!(order.root, Root::Folder { read_only: false, .. }) && !self.bound;
        if !open {
            let mut flags = MountFlags::BIND | MountFlags::RDONLY;
            // The folder is that of every pod with this image.
            flags.set(MountFlags::NODEV | MountFlags::NOSUID, self.bound);
            at("close the root", rustix::mount::mount_remount(&self.path, flags, ""))?;
        }
        Ok(())
    }

    fn pivot(self) -> RootResult<Entered> {
        at("enter the root", rustix::process::fchdir(&self.root))?;
        if rustix::process::pivot_root(".", ".").is_ok() {
            return Ok(Entered::Stacked);
        }
        // The first root of a machine cannot be pivoted away; it can be covered.
        at("move the root", rustix::mount::mount_move(&self.path, "/"))?;
        at("enter the root", rustix::process::chroot("."))?;
        Ok(Entered::Moved)
    }

    /// Opens a path as the container will see it.
    fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve)?)
    }

    /// The place of a mount, made if it is not there.
    fn place(&mut self, path: &Path, folder: bool) -> RootResult<OwnedFd> {
        self.place_within(path, folder, 0)
    }

    fn place_within(&mut self, path: &Path, folder: bool, depth: usize) -> RootResult<OwnedFd> {
        if depth > LINKS_MAX {
            return Err(format!("{}: too many links", path.display()));
        }
        let names: Vec<&OsStr> = normal(path)?;
        let mut walked = PathBuf::from("/");
        let mut here = at(path.display(), self.open(&walked))?;
        for (index, name) in names.iter().enumerate() {
            let parent = walked.clone();
            walked.push(name);
            match self.open(&walked) {
                Ok(next) => {
                    here = next;
                    continue;
                }
                Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {}
                Err(error) => return Err(format!("{}: {error}", walked.display())),
            }
            let rest = names.get(index + 1..).unwrap_or_default();
            let as_folder = folder || !rest.is_empty();
            if let Ok(target) = rustix::fs::readlinkat(&here, *name, Vec::new()) {
                let target = Path::new(OsStr::from_bytes(target.as_bytes())).to_owned();
                let whole = rest.iter().fold(parent.join(target), |path, name| path.join(name));
                return self.place_within(&tidy(&whole), folder, depth + 1);
            }
            here = self.make(&parent, &here, name, as_folder)?;
        }
        Ok(here)
    }

    /// Makes one folder or file; where the node's files are, in a layer above them.
    fn make(
        &mut self,
        parent: &Path,
        held: &OwnedFd,
        name: &OsStr,
        folder: bool,
    ) -> RootResult<OwnedFd> {
        let owner = self.owner;
        let make = |held: &OwnedFd| {
            let made = if folder { folder_in(held, name) } else { file_in(held, name) }?;
            if owner.is_some() {
                std::os::unix::fs::chown(link(&made), owner, owner)?;
            }
            Ok::<_, io::Error>(made)
        };
        match make(held) {
            Ok(made) => Ok(made),
            Err(_) => {
                at(parent.display(), self.cover(parent, held))?;
                let covered = at(parent.display(), self.open(parent))?;
                let made = at(parent.join(name).display(), make(&covered))?;
                self.covers.push(covered);
                Ok(made)
            }
        }
    }

    /// Puts a layer that can be written over a folder that cannot.
    fn cover(&mut self, path: &Path, held: &OwnedFd) -> io::Result<()> {
        let number = self.covers.len().to_string();
        let upper = layer(&self.scratch, &number, held)?;
        if overlay(held, held, &self.scratch, &upper, self.user).is_ok() {
            return Ok(());
        }
        // No layers here: a folder in memory that shows each entry of the covered one.
        let from = PathBuf::from(link(held));
        let staging = folder_in(&self.scratch, format!("copy-{number}").as_ref())?;
        tmpfs(Path::new(&link(&staging)), "mode=0755,size=4m", self.owner)?;
        let staging = PathBuf::from(format!("{}/copy-{number}", link(&self.scratch)));
        populate(&from, &staging, &[])?;
        let place = self.open(path)?;
        Ok(rustix::mount::mount_bind_recursive(&staging, link(&place))?)
    }

    /// An empty file system in memory, of the container's user 0.
    fn fresh(&self, place: &OwnedFd, options: &str) -> io::Result<()> {
        tmpfs(Path::new(&link(place)), options, self.owner)
    }

    /// Takes abilities from what is mounted at a path and below it.
    fn restrict(&self, path: &Path, restrict: Restrict) -> io::Result<()> {
        let place = self.open(path)?;
        let name = CString::new(link(&place)).map_err(io::Error::other)?;
        raw::restrict_recursive(&name, restrict)
    }
}

/// A name for what is held, that works for as long as it is held.
fn link(held: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", held.as_raw_fd())
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn folder_in(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}

fn file_in(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o644))?)
}

fn tmpfs(path: &Path, options: &str, owner: Option<u32>) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let owner = owner.map_or_else(String::new, |id| format!(",uid={id},gid={id}"));
    let options = format!("{options}{owner}");
    let options = CString::new(options).map_err(io::Error::other)?;
    Ok(rustix::mount::mount("tmpfs", path, "tmpfs", flags, options.as_c_str())?)
}

/// The same files, belonging to the users of a pod as they belong to users of the node.
fn mapped(folder: &OwnedFd, users: &OwnedFd, scratch: &OwnedFd) -> io::Result<OwnedFd> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let flags = clone | OpenTreeFlags::AT_EMPTY_PATH | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(folder, c"", flags)?;
    raw::map_users(&tree, users)?;
    let place = folder_in(scratch, "image".as_ref())?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(&tree, c"", &place, c"", flags)?;
    open_folder(Path::new(&format!("{}/image", link(scratch))))
}

/// An empty layer that looks like the folder it will cover.
fn layer(scratch: &OwnedFd, name: &str, like: &OwnedFd) -> io::Result<String> {
    let upper = format!("upper-{name}");
    let held = folder_in(scratch, upper.as_ref())?;
    folder_in(scratch, format!("work-{upper}").as_ref())?;
    let seen = rustix::fs::fstat(like)?;
    let mode = PermissionsExt::from_mode(seen.st_mode & 0o7777);
    std::fs::set_permissions(link(&held), mode)?;
    let (uid, gid) = (seen.st_uid, seen.st_gid);
    // An owner that does not exist in our user namespace cannot be given.
    let _ = std::os::unix::fs::chown(link(&held), Some(uid), Some(gid));
    Ok(upper)
}

fn overlay(
    lower: &OwnedFd,
    target: &OwnedFd,
    scratch: &OwnedFd,
    upper: &str,
    user: bool,
) -> io::Result<()> {
    let scratch = link(scratch);
    let lower = link(lower);
    let extra = if user { ",userxattr" } else { "" };
    let options = format!(
        "lowerdir={lower},upperdir={scratch}/{upper},workdir={scratch}/work-{upper}{extra}"
    );
    let options = CString::new(options).map_err(io::Error::other)?;
    let flags = MountFlags::empty();
    Ok(rustix::mount::mount("overlay", link(target), "overlay", flags, options.as_c_str())?)
}

/// Shows every entry of one folder in another: links as links, all else as it is.
fn populate(from: &Path, to: &Path, except: &[&str]) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if except.iter().any(|own| OsStr::new(own) == name) {
            continue;
        }
        let (source, target) = (entry.path(), to.join(&name));
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&source)?, &target)?;
            continue;
        }
        if kind.is_dir() {
            std::fs::create_dir(&target)?;
        } else {
            std::fs::File::create(&target)?;
        }
        rustix::mount::mount_bind_recursive(&source, &target)?;
    }
    Ok(())
}

/// The names of a path; a path that climbs is refused.
fn normal(path: &Path) -> RootResult<Vec<&OsStr>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::RootDir | Component::CurDir => {}
            _ => return Err(format!("{}: must not contain '..'", path.display())),
        }
    }
    Ok(names)
}

/// The path a link leads to, with each `..` taken; it cannot climb above the root.
fn tidy(path: &Path) -> PathBuf {
    let mut whole = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => whole.push(name),
            Component::ParentDir => {
                whole.pop();
            }
            _ => {}
        }
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_climbs_has_no_place_in_a_root() {
        assert!(normal(Path::new("/a/../b")).is_err());
        assert_eq!(normal(Path::new("a//b/./c")).unwrap(), ["a", "b", "c"]);
        assert_eq!(tidy(Path::new("/a/../../b/./c")), Path::new("/b/c"));
    }
}
