//! What a container sees of the kernel: its own `/proc`, the node's `/sys` without what concerns the
//! machine, and the smallest `/dev`.

use std::path::Path;

use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::super::raw::Restrict;
use super::super::wire::{LaunchSpec, NetworkOf};
use super::{RootBuilder, RootResult, at, file_in, folder_in, link};

/// Devices that are safe to show.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Settings of the kernel that a container may read at most.
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What a container may not see: the lists of the OCI's default, and what a machine's debugger,
/// tracer and security modules show.
const MASKED: [&str; 18] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/fs/pstore",
    "/sys/fs/selinux",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
];

/// Where the machine's own devices of the network are.
const DEVICES_OF_MACHINE: [&str; 2] = ["/sys/class/net", "/sys/devices/virtual/net"];

impl RootBuilder {
    /// `/proc`, `/sys` and `/dev`.
    pub(super) fn kernel(&mut self, order: &LaunchSpec) -> RootResult<()> {
        self.proc(order)?;
        self.sys(order)?;
        if order.walls.privileged {
            let dev = self.place(Path::new("/dev"), true)?;
            return at("/dev", rustix::mount::mount_bind_recursive("/dev", link(&dev)));
        }
        self.devices()?;
        for path in READ_ONLY {
            self.close(Path::new(path))?;
        }
        for path in MASKED {
            self.mask(Path::new(path))?;
        }
        Ok(())
    }

    /// The node's, or with a network of its own one that shows its devices (N6).
    fn sys(&mut self, order: &LaunchSpec) -> RootResult<()> {
        const GROUPS: &str = "/sys/fs/cgroup";
        let sys = self.place(Path::new("/sys"), true)?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let own = order.walls.network != NetworkOf::Machine;
        if own && rustix::mount::mount("sysfs", link(&sys), "sysfs", flags, c"").is_ok() {
            if let Ok(groups) = self.open(Path::new(GROUPS)) {
                at(GROUPS, rustix::mount::mount_bind_recursive(GROUPS, link(&groups)))?;
            }
        } else {
            at("/sys", rustix::mount::mount_bind_recursive("/sys", link(&sys)))?;
            if own {
                // Where parts of it are hidden from this node itself, it shows nobody a whole one.
                for path in DEVICES_OF_MACHINE {
                    self.mask(Path::new(path))?;
                }
            }
        }
        at("/sys", self.restrict(Path::new("/sys"), Restrict::CLOSED))
    }

    fn proc(&mut self, order: &LaunchSpec) -> RootResult<()> {
        let place = self.place(Path::new("/proc"), true)?;
        if order.walls.pid || order.walls.pid_of.is_some() {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            return at("/proc", rustix::mount::mount("proc", link(&place), "proc", flags, c""));
        }
        at("/proc", rustix::mount::mount_bind_recursive("/proc", link(&place)))
    }

    fn devices(&mut self) -> RootResult<()> {
        let dev = self.place(Path::new("/dev"), true)?;
        at("/dev", self.fresh(&dev, "mode=0755,size=64k"))?;
        let dev = at("/dev", self.open(Path::new("/dev")))?;
        for name in DEVICES {
            let from = Path::new("/dev").join(name);
            if from.exists() {
                let place = at(name, file_in(&dev, name.as_ref()))?;
                at(name, rustix::mount::mount_bind(&from, link(&place)))?;
            }
        }
        for (name, target) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
            ("ptmx", "pts/ptmx"),
        ] {
            at(name, rustix::fs::symlinkat(target, &dev, name))?;
        }
        for (name, kind, options) in [
            ("pts", "devpts", c"newinstance,ptmxmode=0666,mode=0620"),
            ("shm", "tmpfs", c"mode=1777,size=64m"),
            ("mqueue", "mqueue", c""),
        ] {
            let place = at(name, folder_in(&dev, name.as_ref()))?;
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            let flags = if name == "pts" { flags & !MountFlags::NODEV } else { flags };
            let done = rustix::mount::mount(name, link(&place), kind, flags, options);
            // A kernel without message queues still runs nearly everything.
            if name != "mqueue" {
                at(name, done)?;
            }
        }
        Ok(())
    }

    /// Makes a part of the kernel's settings read-only.
    fn close(&self, path: &Path) -> RootResult<()> {
        let Ok(place) = self.open(path) else { return Ok(()) };
        at(path.display(), rustix::mount::mount_bind(link(&place), link(&place)))?;
        at(path.display(), self.restrict(path, Restrict::READ_ONLY))
    }

    /// Puts nothing in the place of something; what is not there needs no mask, and a mask that
    /// cannot be put on is an error.
    fn mask(&self, path: &Path) -> RootResult<()> {
        let place = match self.open(path) {
            Ok(place) => place,
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {
                return Ok(());
            }
            // A folder that cannot be entered shows nothing of what is below it.
            Err(error) if error.raw_os_error() == Some(Errno::ACCESS.raw_os_error()) => {
                return Ok(());
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let seen = at(path.display(), rustix::fs::fstat(&place))?;
        if seen.st_mode & 0o170_000 == 0o040_000 {
            at(path.display(), self.fresh(&place, "mode=0555,size=4k"))?;
            return at(path.display(), self.restrict(path, Restrict::CLOSED));
        }
        at(path.display(), rustix::mount::mount_bind("/dev/null", link(&place)))
    }
}
