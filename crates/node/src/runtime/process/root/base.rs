//! What a container sees of the node where the node's own programs stand in for an image: an
//! allow-list of system folders and settings, read-only, and empty folders for everything else.
//! Home folders, data and other people's files are not in the list, so there is nothing to hide.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use super::super::raw::{self, Restrict};
use super::super::wire::{LaunchSpec, Root};
use super::{RootBuilder, RootResult, at, file_in, link};

/// Folders with programs and libraries, and what those read.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// Settings that programs need and that say nothing about anybody: how libraries are found, which
/// authorities sign, how time and text look.
const SETTINGS: [&str; 35] = [
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "ethertypes",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "magic",
    "mime.types",
    "netconfig",
    "nsswitch.conf",
    "os-release",
    "pki/ca-trust/extracted",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "protocols",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// Folders that programs expect to be there; nothing is in them.
const EMPTY: [&str; 9] =
    ["/home", "/media", "/mnt", "/opt", "/srv", "/var/cache", "/var/lib", "/var/log", "/var/spool"];

/// Folders to write that nobody else sees.
const OWN: [(&str, &str); 4] = [
    ("/tmp", "mode=1777"),
    ("/run", "mode=0755"),
    ("/var/tmp", "mode=1777"),
    ("/root", "mode=0700"),
];

/// The users every image has; whoever else is on this machine is its own affair.
const USERS: &str = "root:x:0:0:root:/root:/bin/sh\n\
    daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
    bin:x:2:2:bin:/bin:/usr/sbin/nologin\n\
    nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUPS: &str = "root:x:0:\ndaemon:x:1:\nbin:x:2:\ntty:x:5:\nnogroup:x:65534:\n";

/// What containers see of the node, as it is on this machine: absolute, without links.
pub(in super::super) fn shown_folders() -> Vec<PathBuf> {
    let settings = SETTINGS.iter().map(|name| Path::new("/etc").join(name));
    let all = SYSTEM.iter().map(PathBuf::from).chain(settings);
    all.filter_map(|path| std::fs::canonicalize(path).ok()).collect()
}

impl RootBuilder {
    /// The node's programs and their settings.
    pub(super) fn base(&mut self, order: &LaunchSpec) -> RootResult<()> {
        if order.root != Root::Host {
            return Ok(());
        }
        let system = system_folders();
        let settings = SETTINGS.iter().map(|name| Path::new("/etc").join(name));
        for path in SYSTEM.iter().map(PathBuf::from).chain(settings) {
            self.show(&path, &system)?;
        }
        let stage = at("a path", std::ffi::CString::new(self.path.as_os_str().as_encoded_bytes()))?;
        at("make the node's files read-only", raw::restrict_recursive(&stage, Restrict::CLOSED))?;
        // The root itself stays open until every mount has its place.
        let flags = MountFlags::BIND | MountFlags::NODEV | MountFlags::NOSUID;
        at("open the root", rustix::mount::mount_remount(&self.path, flags, ""))?;
        for path in EMPTY {
            self.place(Path::new(path), true)?;
        }
        for (name, options) in OWN {
            let place = self.place(Path::new(name), true)?;
            at(name, self.fresh(&place, options))?;
            if order.walls.read_only {
                at(name, self.restrict(Path::new(name), Restrict::READ_ONLY))?;
            }
        }
        for (path, target) in
            [("/var/run", "/run"), ("/var/lock", "/run/lock"), ("/etc/mtab", "/proc/mounts")]
        {
            self.link_to(Path::new(path), Path::new(target))?;
        }
        let name = format!("{}\n", order.hostname);
        for (path, text) in
            [("/etc/passwd", USERS), ("/etc/group", GROUPS), ("/etc/hostname", &name)]
        {
            let file = self.place(Path::new(path), false)?;
            at(path, std::fs::write(link(&file), text))?;
        }
        Ok(())
    }

    /// Shows one path of the node at its place: a link into a system folder as a link, all else as
    /// it is. What is not on this machine is not shown.
    fn show(&mut self, path: &Path, system: &[PathBuf]) -> RootResult<()> {
        let Ok(real) = std::fs::canonicalize(path) else { return Ok(()) };
        if path.is_symlink() && system.iter().any(|folder| real.starts_with(folder)) {
            return self.link_to(path, &real);
        }
        let place = self.place(path, real.is_dir())?;
        at(path.display(), rustix::mount::mount_bind_recursive(&real, link(&place)))
    }

    /// Makes a link as the container will see it.
    fn link_to(&mut self, path: &Path, target: &Path) -> RootResult<()> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let parent = self.place(parent, true)?;
        at(path.display(), rustix::fs::symlinkat(target, &parent, name))
    }

    /// `/etc/hosts` and `/etc/resolv.conf`, unless the pod brings its own.
    pub(super) fn files(&mut self, order: &LaunchSpec) -> RootResult<()> {
        for (name, text) in [("/etc/hosts", &order.hosts), ("/etc/resolv.conf", &order.resolver)] {
            let brought = order.mounts.iter().any(|mount| Path::new(&mount.at) == Path::new(name));
            if brought || text.is_empty() {
                continue;
            }
            let base = Path::new(name).file_name().unwrap_or_default();
            let file = at(name, file_in(&self.scratch, base))?;
            at(name, std::fs::write(link(&file), text))?;
            at(name, std::fs::set_permissions(link(&file), PermissionsExt::from_mode(0o644)))?;
            let place = self.place(Path::new(name), false)?;
            at(name, rustix::mount::mount_bind(link(&file), link(&place)))?;
        }
        Ok(())
    }
}

/// The system folders of this machine that are no links to others.
fn system_folders() -> Vec<PathBuf> {
    let real = SYSTEM.iter().map(Path::new).filter(|path| !path.is_symlink());
    real.filter_map(|path| std::fs::canonicalize(path).ok()).collect()
}
